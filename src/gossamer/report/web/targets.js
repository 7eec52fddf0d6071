"use strict";
// What methods pay until their mean curve has come to a target, which the reader moves, and stays there.
// At first it is one that all of them kept in their last quarter, but at least half way.

// where a curve comes to a goal for good, as a place between its points; null if it never does
function arrival(values, goal, sign) {
  const known = values.map((value, k) => [value, k]).filter(([value]) => value !== null);
  const beyond = known.findLastIndex(([value]) => sign * value > sign * goal);
  if (beyond === known.length - 1) return null;
  if (beyond < 0) return known[0][1];
  const [before, k] = known[beyond], [after, next] = known[beyond + 1];
  return k + ((next - k) * (goal - before)) / (after - before);
}

function between(values, place) {
  const k = Math.floor(place), share = place - k;
  return share ? values[k] + share * (values[k + 1] - values[k]) : values[k];
}

function targets(box, study) {
  const slider = box.querySelector("input"), told = box.querySelector("output"), body = box.querySelector("tbody");
  let current = null;

  function fill() {
    const { series, metric, log } = current, { better, title } = study.metrics[metric], sign = better === "lower" ? 1 : -1;
    const bands = series.map((one) => one.method.bands[metric][log ? 1 : 0]);
    const calm = bands.filter((band, k) => band && !series[k].method.diverged).map((band) => band.mean.filter((value) => value !== null));
    const full = calm.filter((values) => values.length);
    if (!full.length) { body.replaceChildren(); told.textContent = "–"; return; }
    const scale = log ? Math.log : (value) => value, undo = log ? Math.exp : (value) => value;
    const start = scale(Math.max(...full.map((values) => sign * values[0])) * sign);
    const end = scale(Math.min(...full.map((values) => Math.min(...values.slice(-3).map((value) => sign * value)))) * sign);
    if (slider.dataset.moved === undefined) {
      const late = full.flatMap((values) => values.slice(-Math.max(1, Math.floor(values.length / 4))).map((value) => sign * value));
      const share = (scale(sign * Math.max(...late)) - start) / (end - start);
      slider.value = Math.max(slider.max / 2, Math.floor(slider.max * (share - 0.02)));
    }
    const goal = undo(start + (slider.value / slider.max) * (end - start));
    told.textContent = `${title} ${sign > 0 ? "≤" : "≥"} ${short(goal)}`;
    const costs = series.map((one, k) => {
      const place = bands[k] && !one.method.diverged ? arrival(bands[k].mean, goal, sign) : null;
      return study.axes.map((_, x) => (place === null || !one.method.x[x] ? null : between(along(one.method, x), place)));
    });
    const best = study.axes.map((_, x) => Math.min(...costs.map((row) => row[x]).filter((cost) => cost !== null)));
    body.replaceChildren(...series.map((one, k) => element("tr", {},
      element("td", { className: "with-sign" }, element("span", { className: "sign" }, swatch(one.style)), " ", element("span", { textContent: one.style.label })),
      ...costs[k].map((cost, x) => {
        const never = one.method.diverged ? "diverged" : "not reached";
        const cell = element("td", { className: "num", textContent: cost === null ? never : cost.toLocaleString("en", { maximumSignificantDigits: 3 }) });
        if (cost !== null && cost === best[x] && series.length > 1) cell.classList.add("best");
        if (cost === null) cell.classList.add("never");
        return cell;
      }))));
  }

  slider.addEventListener("input", () => { slider.dataset.moved = ""; fill(); });
  return (series, metric, log) => { current = { series, metric, log }; fill(); };
}
