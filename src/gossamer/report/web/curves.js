"use strict";
// The curves of a study: methods in one variant, or one method in all variants.

// the marks of curves that end before the last round, and what the legend says of them
const ends = {
  diverged: { symbol: "x-thin", text: "the curve ends at ×" }, reached: { symbol: "star", text: "★ target reached" },
  stopped: { symbol: "line-ns", text: "| stopped" },
};

const MARKS = 9; // about the markers of a curve

function along(method, x) {
  const rounds = method.x[0], paid = method.x[x] || [];
  return Array.isArray(paid) ? paid : rounds.map((round) => paid.start + paid.each * round);
}

function traces(one, x, band, log, number, shown) {
  const keep = [], method = one.method, xs = along(method, x), color = colorOf(one.style);
  band.mean.forEach((mean, k) => { if (mean !== null && xs[k] !== null && xs[k] !== undefined) keep.push(k); });
  const at = keep.map((k) => xs[k]), mean = keep.map((k) => band.mean[k]);
  const edge = (sign) => keep.map((k) => {
    const wide = band.wide[k];
    if (wide === null) return band.mean[k];
    return log ? band.mean[k] * wide ** sign : band.mean[k] + sign * wide;
  });
  const low = edge(-1), high = edge(1);
  const said = keep.map((k, i) => (low[i] === high[i] ? "" : ` [${short(low[i])}, ${short(high[i])}]`));
  const name = plain(one.style.label), visible = shown, meta = { diverged: method.diverged };
  const each = Math.max(1, Math.floor(at.length / MARKS)), first = Math.floor((number * each) / 4) % each;
  const marked = at.map((_, k) => k).filter((k) => k % each === first);
  return [
    { type: "scatter", mode: "lines", x: at.concat([...at].reverse()), y: high.concat([...low].reverse()), fill: "toself",
      fillcolor: translucent(color, 0.17), line: { width: 0 }, hoverinfo: "skip", showlegend: false, name, visible, meta },
    { type: "scatter", mode: "markers", x: marked.map((k) => at[k]), y: marked.map((k) => mean[k]), hoverinfo: "skip", name,
      visible, meta, marker: { color, symbol: one.style.marker, size: 8 } },
    { type: "scatter", mode: at.length > 1 ? "lines" : "markers", x: at, y: mean, name, visible, meta, customdata: said,
      line: { color, dash: one.style.dash, width: 2 }, marker: { color },
      hovertemplate: "%{fullData.name}: %{y:.4~g}%{customdata}<extra></extra>" },
    ...(method.ended && at.length ? [{ type: "scatter", mode: "markers", x: at.slice(-1), y: mean.slice(-1), hoverinfo: "skip", name, visible,
      meta, marker: { color, symbol: ends[method.ended].symbol, size: 13, line: { color, width: 2 } } }] : []),
  ];
}

// methods that diverged do not set the range, where others are shown; a double click shows all of them
function fitted(data, floors, log, soft) {
  const shown = data.filter((trace) => trace.visible), calm = shown.filter((trace) => !trace.meta.diverged);
  const used = calm.length ? calm : shown, values = floors.concat(...used.map((trace) => trace.y));
  let low = Infinity, high = -Infinity;
  for (const y of values) {
    const value = log ? Math.log10(y) : y;
    if (Number.isFinite(value)) { low = Math.min(low, value); high = Math.max(high, value); }
  }
  if (low > high) return {};
  const pad = (high - low || Math.abs(high) || 1) * 0.06, span = high - low;
  const range = floors.length || (calm.length && calm.length < shown.length) ? { range: [low - pad, high + pad] } : {};
  if (!log) return range;
  const minor = { ticks: "outside", ticklen: 3, tickcolor: soft, dtick: span < 6 ? "D1" : 1 };
  return { ...range, dtick: span < 1.2 ? "D2" : Math.ceil(span / 8), minor };
}

// the level that a bias predicts: one line with its name, or one for each curve in its colour
function predicted(series, ticked, ink) {
  const known = series.filter((one, k) => ticked[k] && one.method.floor);
  const levels = [...new Set(known.map((one) => one.method.floor))];
  const line = (level, color) => ({ type: "line", xref: "paper", x0: 0, x1: 1, y0: level, y1: level,
    line: { color, width: 1.5, dash: "1px,3px" } });
  if (levels.length > 1) return { levels, shapes: known.map((one) => line(one.method.floor, colorOf(one.style))), notes: [] };
  const notes = levels.map((level) => `⋯ predicted floor ‖ē‖² = ${short(level)}`);
  return { levels, shapes: levels.map((level) => line(level, ink)), notes };
}

// what can be looked at: every variant, and every method that several variants have
function viewsOf(study) {
  const views = study.variants.map((variant) => ({
    title: variant.label,
    series: study.methods.map((style, k) => ({ style, method: variant.methods[k] })).filter((one) => one.method),
  }));
  if (study.variants.length < 2) return views;
  study.methods.forEach((style, k) => {
    const series = study.variants.filter((variant) => variant.methods[k]).map((variant) => ({ style: variant, method: variant.methods[k] }));
    if (series.length > 1) views.push({ title: `all variants: ${style.label}`, series });
  });
  return views;
}

function curves(box, study) {
  const pick = (name) => box.querySelector(`[name=${name}]`);
  const metric = pick("metric"), log = pick("log"), view = pick("variant"), axes = [...box.querySelectorAll("[data-axis]")];
  const legend = box.querySelector(".legend"), plot = box.querySelector(".plot"), views = viewsOf(study);
  const hidden = new Set(), goal = targets(box.querySelector(".targets"), study);
  let rows = [], listed = null;

  function list(series) {
    if (listed === series) return;
    listed = series;
    legend.replaceChildren();
    rows = series.map((one) => {
      const tick = element("input", { type: "checkbox", checked: !hidden.has(one.style.label) });
      const note = element("small"), lost = element("small", { className: "lost" }), sign = element("span", { className: "sign" });
      const text = element("span", {}, element("span", { textContent: one.style.label }), " ", note, " ", lost);
      legend.append(element("label", {}, tick, sign, text));
      tick.addEventListener("change", () => { hidden[tick.checked ? "delete" : "add"](one.style.label); draw(); });
      return { tick, note, lost, sign };
    });
    const both = element("span", { className: "both" });
    for (const [title, checked] of [["all", true], ["none", false]]) {
      const button = element("button", { type: "button", textContent: title });
      button.addEventListener("click", () => {
        series.forEach((one, k) => { rows[k].tick.checked = checked; hidden[checked ? "delete" : "add"](one.style.label); });
        draw();
      });
      both.append(button);
    }
    legend.append(both);
  }

  function draw() {
    const m = study.metrics[metric.value], logarithmic = log.checked, { ink, soft, layout, axis, narrow } = look();
    const series = views[view ? view.value : 0].series, x = Number(axes.find((one) => one.checked).value);
    list(series);
    const same = new Set(series.map((one) => one.method.setting)).size < 2 && series.length > 1;
    let data = [];
    series.forEach((one, k) => {
      const { method, style } = one, row = rows[k], band = method.bands[metric.value][logarithmic ? 1 : 0];
      row.sign.replaceChildren(swatch(style));
      row.note.textContent = same || style.label.endsWith(`(${method.setting})`) ? "" : method.setting;
      const lost = method.diverged ? `${method.diverged} of ${method.seeds} seeds diverged` : "";
      row.lost.textContent = [lost, method.ended ? ends[method.ended].text : ""].filter(Boolean).join("; ");
      if (band) data = data.concat(traces(one, x, band, logarithmic, k, row.tick.checked));
    });
    const floor = m.key === "grad_norm_sq" ? predicted(series, rows.map((row) => row.tick.checked), ink) : { levels: [], shapes: [], notes: [] };
    // above the curves on the left, because plotly's buttons are on the right
    const notes = floor.notes.map((text) => ({ text, showarrow: false, xref: "paper", x: 0, xanchor: "left", yref: "paper", y: 1,
      yanchor: "bottom", font: { size: narrow ? 11 : 12, color: ink } }));
    const nothing = !data.some((trace) => trace.visible && trace.x.length);
    const why = logarithmic ? "Nothing here is above zero, or no method is chosen." : "Nothing was measured, or no method is chosen.";
    Plotly.react(plot, data, {
      ...layout, hovermode: x === 0 ? "x unified" : "closest", shapes: nothing ? [] : floor.shapes,
      xaxis: { ...axis, title: { text: plain(study.axes[x].title) }, rangemode: "tozero", exponentformat: "SI" },
      yaxis: { ...axis, title: { text: plain(m.title), standoff: 8 }, type: logarithmic ? "log" : "linear",
        ...fitted(data, floor.levels, logarithmic, soft) },
      annotations: nothing ? empty(why) : notes,
    }, config);
    goal(series.filter((_, k) => rows[k].tick.checked), Number(metric.value), logarithmic);
  }

  metric.addEventListener("change", () => { log.checked = study.metrics[metric.value].log; draw(); });
  for (const input of [...axes, log, view]) if (input) input.addEventListener("change", draw);
  metric.value = study.first.metric;
  if (view) view.value = study.first.view;
  log.checked = study.metrics[metric.value].log;
  draw();
  plots.push(plot);
  redraws.push(() => { listed = null; draw(); });
}
