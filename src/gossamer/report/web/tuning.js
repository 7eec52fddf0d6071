"use strict";
// The settings that a tuning tried, of one method: a heat map of two hyper-parameters, or a line of one.

const wideRange = (values) => Math.min(...values) > 0 && Math.max(...values) / Math.min(...values) > 20;

function told(one) {
  const lines = [plain(one.setting), one.diverged ? `diverged for ${one.diverged} seed${one.diverged > 1 ? "s" : ""}`
    : `criterion ${one.between ?? short(one.value)}`];
  if (one.stage) lines.push(`tried in stage ${one.stage + 1}`);
  if (one.chosen) lines.push("<b>chosen</b>");
  return lines.join("<br>");
}

// an axis' tick tells the stage that added it, if all of its settings were
function ticks(names, grid, key) {
  return names.map((name, k) => {
    const least = Math.min(...grid.settings.filter((one) => one[key] === k).map((one) => one.stage));
    return plain(name) + (least > 0 && Number.isFinite(least) ? ` (+${least})` : "");
  });
}

function marks(grid, symbol, keep, place, style) {
  const found = grid.settings.filter(keep);
  return { type: "scatter", mode: "markers", x: found.map((one) => place(one)[0]), y: found.map((one) => place(one)[1]),
    text: found.map(told), hovertemplate: "%{text}<extra></extra>", name: symbol, marker: style };
}

const cross = { symbol: "x-thin", size: 11, line: { width: 2, color: "#d2451e" } };
const star = { symbol: "star", size: 17, color: "#fff", line: { width: 1.5, color: "#000" } };

function heat(grid, axis) {
  const blank = () => grid.lines.map(() => grid.columns.map(() => null));
  const z = blank(), lost = blank(), text = grid.lines.map(() => grid.columns.map(() => ""));
  const known = grid.settings.filter((one) => one.value !== null).map((one) => one.value).sort((a, b) => a - b);
  // bad settings would take all the colours: the worst quarter shares one
  const most = known[Math.ceil(0.75 * (known.length - 1))], log = known.length > 0 && wideRange([known[0], most]);
  const scale = (value) => (log ? Math.log10(value) : value), clipped = most < known[known.length - 1];
  const colors = most > known[0] ? { zmin: scale(known[0]), zmax: scale(most) } : {};
  for (const one of grid.settings) {
    if (one.value === null) lost[one.line][one.column] = 0;
    else z[one.line][one.column] = scale(one.value);
    text[one.line][one.column] = told(one);
  }
  const place = (one) => [one.column, one.line];
  const hover = { text, hovertemplate: "%{text}<extra></extra>", hoverongaps: false, xgap: 2, ygap: 2 };
  const title = (log ? "log₁₀ criterion" : "criterion") + (clipped ? ", clipped" : "");
  const bar = { thickness: 12, outlinewidth: 0, title: { text: title, side: "right" } };
  const count = (names, key) => ({ ...axis, tickvals: names.map((_, k) => k), ticktext: ticks(names, grid, key),
    showgrid: false, range: [-0.5, names.length - 0.5] });
  return [[
    { type: "heatmap", z, colorscale: "Cividis", colorbar: bar, name: "criterion", ...colors, ...hover },
    { type: "heatmap", z: lost, colorscale: [[0, "#8d959d55"], [1, "#8d959d55"]], showscale: false, name: "lost", ...hover },
    marks(grid, "diverged", (one) => one.value === null, place, cross),
    marks(grid, "chosen", (one) => one.chosen, place, star),
  ], { xaxis: { ...count(grid.columns, "column"), title: { text: plain(grid.across) } },
    yaxis: { ...count(grid.lines, "line"), title: { text: plain(grid.up) } } }];
}

function line(grid, axis, page) {
  const at = (one) => (grid.numbers ? grid.numbers[one.column] : one.column);
  const good = grid.settings.filter((one) => one.value !== null).sort((a, b) => at(a) - at(b));
  const values = good.map((one) => one.value), log = values.length > 0 && wideRange(values);
  const top = values.length ? Math.max(...values) : 1;
  const place = (one) => [at(one), one.value === null ? top : one.value];
  const dots = { size: 8, color: good.map((one) => (one.stage ? page : "#3a8fc4")), line: { width: 2, color: "#3a8fc4" } };
  const across = grid.numbers ? { type: "log" } : {};
  return [[
    { type: "scatter", mode: "lines+markers", x: good.map(at), y: values, text: good.map(told), name: "criterion",
      hovertemplate: "%{text}<extra></extra>", line: { color: "#3a8fc4" }, marker: dots },
    marks(grid, "diverged", (one) => one.value === null, place, cross),
    marks(grid, "chosen", (one) => one.chosen, place, { ...star, color: "#E69F00" }),
  ], { xaxis: { ...axis, ...across, tickvals: grid.columns.map((_, k) => (grid.numbers ? grid.numbers[k] : k)),
    ticktext: ticks(grid.columns, grid, "column"), title: { text: plain(grid.across) } },
  yaxis: { ...axis, type: log ? "log" : "linear", title: { text: "criterion" } } }];
}

function tuning(box, study) {
  const variant = box.querySelector("[name=tuned-variant]"), algorithm = box.querySelector("[name=tuned-method]");
  const plot = box.querySelector(".plot"), unique = (key) => [...new Set(study.tuning.map((grid) => grid[key]))];
  function draw() {
    const where = unique("variant")[variant ? variant.value : 0], which = unique("algorithm")[algorithm.value];
    const grid = study.tuning.find((one) => one.variant === where && one.algorithm === which);
    const { axis, page, layout } = look();
    const [data, own] = !grid ? [[], {}] : grid.lines.length > 1 ? heat(grid, axis) : line(grid, axis, page);
    const annotations = grid ? [] : empty("Not tuned in this variant.");
    Plotly.react(plot, data, { ...layout, hovermode: "closest", annotations, ...own }, config);
  }
  for (const input of [variant, algorithm]) if (input) input.addEventListener("change", draw);
  draw();
  plots.push(plot);
  redraws.push(draw);
}
