"use strict";
// Draws the curves and the tuning grids from the page's data. Text from data reaches the page by textContent, and
// plotly, which takes tags in text for markup, by plain().
(async () => {
  // plotly is in the page, packed; its script runs because the page's policy names its hash
  const packed = Uint8Array.from(atob(document.getElementById("plotly").textContent), (letter) => letter.charCodeAt(0));
  try {
    const text = new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"))).text();
    document.head.append(element("script", { textContent: await text }));
  } catch (error) {
    for (const plot of document.querySelectorAll(".plot")) plot.textContent = `This browser cannot draw here: ${error.message}`;
    return;
  }
  const studies = JSON.parse(document.getElementById("data").textContent);
  const entities = { "&": "&amp;", "<": "&lt;", ">": "&gt;" };
  const plain = (text) => String(text).replace(/[&<>]/g, (letter) => entities[letter]);
  const short = (number) => (number === null ? "–" : Number(number.toPrecision(4)).toString());
  const font = { family: "system-ui, -apple-system, 'Segoe UI', Roboto, Arial, sans-serif", size: 13, color: "#1a1a1a" };
  // only these buttons: plotly's others would send the data to a server, or save a picture without the legend
  const config = { responsive: true, displaylogo: false, showTips: false, plotlyServerURL: "",
    modeBarButtons: [["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]] };
  const axis = { gridcolor: "#e6e9ec", zeroline: false, linecolor: "#9aa1a9", ticks: "outside", tickcolor: "#9aa1a9",
    automargin: true, exponentformat: "power" };
  const plots = [];

  function element(name, attributes, ...children) {
    const made = document.createElement(name);
    Object.assign(made, attributes);
    made.append(...children);
    return made;
  }

  function swatch(color, dash) {
    const space = "http://www.w3.org/2000/svg";
    const svg = document.createElementNS(space, "svg"), line = document.createElementNS(space, "line");
    const strokes = { solid: "", dash: "7 4", dashdot: "7 3 2 3", dot: "2 3" };
    const given = { x1: 0, x2: 28, y1: 5, y2: 5, stroke: color, "stroke-width": 3, "stroke-dasharray": strokes[dash] };
    for (const [key, value] of Object.entries(given)) line.setAttribute(key, value);
    svg.setAttribute("viewBox", "0 0 28 10");
    svg.setAttribute("aria-hidden", "true");
    svg.append(line);
    return svg;
  }

  // --- curves -------------------------------------------------------------------------------------------------------

  function traces(method, style, x, band, log, shown) {
    const keep = [], rounds = method.x[0], paid = method.x[x] || [];
    const xs = Array.isArray(paid) ? paid : rounds.map((round) => paid.start + paid.each * round);
    band.mean.forEach((mean, k) => { if (mean !== null && xs[k] !== null && xs[k] !== undefined) keep.push(k); });
    const at = keep.map((k) => xs[k]), mean = keep.map((k) => band.mean[k]);
    const edge = (sign) => keep.map((k) => {
      const wide = band.wide[k];
      if (wide === null) return band.mean[k];
      return log ? band.mean[k] * wide ** sign : band.mean[k] + sign * wide;
    });
    const low = edge(-1), high = edge(1);
    const said = keep.map((k, i) => (low[i] === high[i] ? "" : ` [${short(low[i])}, ${short(high[i])}]`));
    const name = plain(style.label), visible = shown, meta = { diverged: method.diverged };
    return [
      { type: "scatter", mode: "lines", x: at.concat([...at].reverse()), y: high.concat([...low].reverse()), fill: "toself",
        fillcolor: style.color + "30", line: { width: 0 }, hoverinfo: "skip", showlegend: false, name, visible, meta },
      { type: "scatter", mode: at.length > 1 ? "lines" : "markers", x: at, y: mean, name, visible, meta, customdata: said,
        line: { color: style.color, dash: style.dash, width: 2 }, marker: { color: style.color },
        hovertemplate: "%{fullData.name}: %{y:.4~g}%{customdata}<extra></extra>" },
    ];
  }

  // methods that diverged do not set the range, where others are shown; a double click shows all of them
  function fitted(data, log) {
    const shown = data.filter((trace) => trace.visible), calm = shown.filter((trace) => !trace.meta.diverged);
    let low = Infinity, high = -Infinity;
    for (const trace of calm.length ? calm : shown) {
      for (const y of trace.y) {
        const value = log ? Math.log10(y) : y;
        if (Number.isFinite(value)) { low = Math.min(low, value); high = Math.max(high, value); }
      }
    }
    if (low > high) return {};
    const pad = (high - low || Math.abs(high) || 1) * 0.06, span = high - low;
    const range = calm.length && calm.length < shown.length ? { range: [low - pad, high + pad] } : {};
    if (!log) return range;
    const minor = { ticks: "outside", ticklen: 3, tickcolor: "#9aa1a9", dtick: span < 6 ? "D1" : 1 };
    return { ...range, dtick: span < 1.2 ? "D2" : Math.ceil(span / 8), minor };
  }

  function curves(box, study) {
    const pick = (name) => box.querySelector(`[name=${name}]`);
    const metric = pick("metric"), x = pick("x"), log = pick("log"), variant = pick("variant");
    const legend = box.querySelector(".legend"), plot = box.querySelector(".plot");
    const rows = study.methods.map((style) => {
      const tick = element("input", { type: "checkbox", checked: true });
      const note = element("small"), lost = element("small", { className: "lost" });
      const text = element("span", {}, element("span", { textContent: style.label }), " ", note, " ", lost);
      const label = element("label", {}, tick, swatch(style.color, style.dash), text);
      legend.append(label);
      tick.addEventListener("change", draw);
      return { tick, note, lost, label };
    });
    for (const [title, checked] of [["all", true], ["none", false]]) {
      const button = element("button", { type: "button", textContent: title });
      button.addEventListener("click", () => { rows.forEach((row) => { row.tick.checked = checked; }); draw(); });
      legend.append(button);
    }

    function draw() {
      const m = study.metrics[metric.value], logarithmic = log.checked;
      const methods = study.variants[variant ? variant.value : 0].methods;
      let data = [];
      study.methods.forEach((style, k) => {
        const method = methods[k], row = rows[k], band = method && method.bands[metric.value][logarithmic ? 1 : 0];
        row.label.hidden = !method;
        if (!method) return;
        row.note.textContent = style.label.endsWith(`(${method.setting})`) ? "" : method.setting;
        row.lost.textContent = method.diverged ? `${method.diverged} of ${method.seeds} seeds diverged` : "";
        if (band) data = data.concat(traces(method, style, x.value, band, logarithmic, row.tick.checked));
      });
      const empty = !data.some((trace) => trace.visible && trace.x.length);
      const why = logarithmic ? "Nothing here is above zero, or no method is chosen." : "Nothing was measured, or no method is chosen.";
      Plotly.react(plot, data, {
        font, showlegend: false, margin: { l: 70, r: 15, t: 15, b: 50 }, hovermode: Number(x.value) === 0 ? "x unified" : "closest",
        xaxis: { ...axis, title: { text: plain(study.axes[x.value]) }, rangemode: "tozero", exponentformat: "SI" },
        yaxis: { ...axis, title: { text: plain(m.title) }, type: logarithmic ? "log" : "linear", ...fitted(data, logarithmic) },
        annotations: empty ? [{ text: why, showarrow: false, xref: "paper", yref: "paper", x: 0.5, y: 0.5 }] : [],
        hoverlabel: { align: "left", namelength: -1 },
      }, config);
    }

    metric.addEventListener("change", () => { log.checked = study.metrics[metric.value].log; draw(); });
    for (const input of [x, log, variant]) if (input) input.addEventListener("change", draw);
    log.checked = study.metrics[metric.value].log;
    draw();
    plots.push(plot);
  }

  // --- tuning -------------------------------------------------------------------------------------------------------

  const wideRange = (values) => Math.min(...values) > 0 && Math.max(...values) / Math.min(...values) > 20;

  function told(one) {
    const lines = [plain(one.setting), one.diverged ? `diverged for ${one.diverged} seed${one.diverged > 1 ? "s" : ""}`
      : `criterion ${short(one.value)}`];
    if (one.extension) lines.push(`added by extension ${one.extension} of the grid`);
    if (one.chosen) lines.push("<b>chosen</b>");
    return lines.join("<br>");
  }

  // an axis' tick tells the extension that added it, if all of its settings were
  function ticks(names, grid, key) {
    return names.map((name, k) => {
      const least = Math.min(...grid.settings.filter((one) => one[key] === k).map((one) => one.extension));
      return plain(name) + (least > 0 && Number.isFinite(least) ? ` (+${least})` : "");
    });
  }

  function marks(grid, symbol, keep, place, style) {
    const found = grid.settings.filter(keep);
    return { type: "scatter", mode: "markers", x: found.map((one) => place(one)[0]), y: found.map((one) => place(one)[1]),
      text: found.map(told), hovertemplate: "%{text}<extra></extra>", name: symbol, marker: style };
  }

  const cross = { symbol: "x-thin", size: 11, line: { width: 2, color: "#9c2a00" } };
  const star = { symbol: "star", size: 17, color: "#fff", line: { width: 1.5, color: "#000" } };

  function heat(grid) {
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
      { type: "heatmap", z: lost, colorscale: [[0, "#dfe2e6"], [1, "#dfe2e6"]], showscale: false, name: "lost", ...hover },
      marks(grid, "diverged", (one) => one.value === null, place, cross),
      marks(grid, "chosen", (one) => one.chosen, place, star),
    ], { xaxis: { ...count(grid.columns, "column"), title: { text: plain(grid.across) } },
      yaxis: { ...count(grid.lines, "line"), title: { text: plain(grid.up) } } }];
  }

  function line(grid) {
    const at = (one) => (grid.numbers ? grid.numbers[one.column] : one.column);
    const good = grid.settings.filter((one) => one.value !== null).sort((a, b) => at(a) - at(b));
    const values = good.map((one) => one.value), log = values.length > 0 && wideRange(values);
    const top = values.length ? Math.max(...values) : 1;
    const place = (one) => [at(one), one.value === null ? top : one.value];
    const dots = { size: 8, color: good.map((one) => (one.extension ? "#fff" : "#0072B2")), line: { width: 2, color: "#0072B2" } };
    const across = grid.numbers ? { type: "log" } : {};
    return [[
      { type: "scatter", mode: "lines+markers", x: good.map(at), y: values, text: good.map(told), name: "criterion",
        hovertemplate: "%{text}<extra></extra>", line: { color: "#0072B2" }, marker: dots },
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
      const [data, layout] = !grid ? [[], {}] : grid.lines.length > 1 ? heat(grid) : line(grid);
      const annotations = grid ? [] : [{ text: "Not tuned in this variant.", showarrow: false, xref: "paper", yref: "paper", x: 0.5, y: 0.5 }];
      Plotly.react(plot, data, { font, showlegend: false, margin: { l: 70, r: 15, t: 15, b: 50 }, hovermode: "closest",
        hoverlabel: { align: "left" }, annotations, ...layout }, config);
    }
    for (const input of [variant, algorithm]) if (input) input.addEventListener("change", draw);
    draw();
    plots.push(plot);
  }

  document.querySelectorAll(".curves").forEach((box) => curves(box, studies[box.dataset.study]));
  document.querySelectorAll(".tuning").forEach((box) => tuning(box, studies[box.dataset.study]));

  // paper is narrower than the window, and nothing can be opened on it
  const folded = [...document.querySelectorAll("details:not(.long)")];
  let opened = [];
  window.addEventListener("beforeprint", () => {
    opened = folded.filter((one) => !one.open);
    opened.forEach((one) => { one.open = true; });
    plots.forEach((plot) => Plotly.relayout(plot, { width: Math.min(660, plot.clientWidth), autosize: false }));
  });
  window.addEventListener("afterprint", () => {
    opened.forEach((one) => { one.open = false; });
    plots.forEach((plot) => Plotly.relayout(plot, { width: null, autosize: true }));
  });
})();
