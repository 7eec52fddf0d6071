"use strict";
// The costs of methods until their mean curve reaches a target, which the reader moves, and stays there. The first
// target shown is a value that every method holds throughout its last quarter, at least half way down.

// the marks between which a curve comes to a goal for good; null if it never does
function arrival(values, goal, sign) {
  const known = values.map((value, k) => [value, k]).filter(([value]) => value !== null);
  const beyond = known.findLastIndex(([value]) => sign * value > sign * goal);
  if (beyond === known.length - 1) return null;
  return beyond < 0 ? [known[0][1], known[0][1]] : [known[beyond][1], known[beyond + 1][1]];
}

const DENSE = 0.02; // marks that are closer than this share are as good as one

// a price between two marks is an interval; rounds are whole, and other prices have three digits
function price([low, high], whole) {
  const digits = whole ? { maximumFractionDigits: 0 } : { maximumSignificantDigits: 3 };
  const [before, after] = [low, high].map((value) => value.toLocaleString("en", digits));
  return before === after || high - low < DENSE * high ? after : `${before}–${after}`;
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
      const marks = bands[k] && !one.method.diverged ? arrival(bands[k].mean, goal, sign) : null;
      return study.axes.map((_, x) => (marks === null || !one.method.x[x] ? null : marks.map((mark) => along(one.method, x)[mark])));
    });
    const best = study.axes.map((_, x) => Math.min(...costs.map((row) => row[x]).filter((cost) => cost !== null).map((cost) => cost[1])));
    // those that may have come before the first one's mark are not told apart from it
    const first = ([low, high], x) => low < best[x] || high === best[x];
    body.replaceChildren(...series.map((one, k) => element("tr", {},
      element("td", { className: "with-sign" }, element("span", { className: "sign" }, swatch(one.style)), " ", element("span", { textContent: one.style.label })),
      ...costs[k].map((cost, x) => {
        const never = one.method.diverged ? "diverged" : "not reached";
        const cell = element("td", { className: "num", textContent: cost === null ? never : price(cost, x === 0) });
        if (cost !== null && first(cost, x) && series.length > 1) cell.classList.add("best");
        if (cost === null) cell.classList.add("never");
        return cell;
      }))));
  }

  slider.addEventListener("input", () => { slider.dataset.moved = ""; fill(); });
  return (series, metric, log) => { current = { series, metric, log }; fill(); };
}
