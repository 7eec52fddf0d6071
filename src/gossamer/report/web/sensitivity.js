"use strict";
// What methods end at by step size, with the stable ranges below; and how often each is near the best of a study.

function sensitivity(box, study) {
  const variant = box.querySelector("[name=steps-variant]"), plot = box.querySelector(".plot");
  function draw() {
    const one = study.steps[variant ? variant.value : 0], { layout, axis, ink } = look(), data = [];
    const all = one.methods.flatMap((method) => method.mean), log = one.log || wideRange(all);
    const some = one.methods.some((method) => method.stable), foot = some ? Math.min(0.3, 0.055 * one.methods.length + 0.02) : 0;
    one.methods.forEach((method, k) => {
      const color = colorOf(method), name = plain(method.label), { eta, mean, low, high, stable } = method;
      data.push({ type: "scatter", mode: "lines", x: eta.concat([...eta].reverse()), y: high.concat([...low].reverse()),
        fill: "toself", fillcolor: translucent(color, 0.15), line: { width: 0 }, hoverinfo: "skip", name });
      data.push({ type: "scatter", mode: "lines+markers", x: eta, y: mean, name, line: { color, width: 1.5, dash: method.dash },
        marker: { color, symbol: method.marker, size: 7 }, hovertemplate: "%{fullData.name}: %{y:.4~g} at η = %{x:.3~g}<extra></extra>" });
      if (!stable) return;
      const within = eta.map((value, i) => (value >= stable[0] && value <= stable[1] ? mean[i] : null));
      data.push({ type: "scatter", mode: "lines", x: eta, y: within, line: { color, width: 5 }, opacity: 0.55, hoverinfo: "skip", name });
      data.push({ type: "scatter", mode: "lines+markers", x: stable, y: [k, k], yaxis: "y2", name, line: { color: translucent(color, 0.6), width: 9 },
        marker: { color, symbol: "line-ns", size: 10, line: { color, width: 2 } },
        hovertemplate: `%{fullData.name}: stable from η = ${short(stable[0])} to ${short(stable[1])}<extra></extra>` });
    });
    const below = { ...axis, domain: [0, foot], range: [one.methods.length - 0.5, -0.5], showgrid: false, showticklabels: false, ticks: "" };
    const note = { text: "stable step sizes", showarrow: false, xref: "paper", yref: "paper", x: 0, xanchor: "left", y: foot, yanchor: "bottom",
      font: { size: 11, color: ink } };
    Plotly.react(plot, data, { ...layout, hovermode: "closest", annotations: some ? [note] : [],
      xaxis: { ...axis, type: "log", title: { text: "step size η" }, anchor: some ? "y2" : "y" },
      yaxis: { ...axis, type: log ? "log" : "linear", title: { text: plain(one.title) }, domain: [some ? foot + 0.06 : 0, 1] },
      ...(some ? { yaxis2: below } : {}),
    }, config);
    box.querySelector(".key").replaceChildren(...one.methods.map((method) =>
      element("span", {}, element("span", { className: "sign" }, swatch(method)), " ", element("span", { textContent: method.label }))));
  }
  if (variant) variant.addEventListener("change", draw);
  draw();
  plots.push(plot);
  redraws.push(draw);
}

function profile(box, study) {
  const plot = box.querySelector(".plot"), given = study.profile;
  function draw() {
    const { layout, axis } = look();
    const data = given.methods.map((method) => ({ type: "scatter", mode: "lines+markers", x: given.factors, y: method.shares,
      name: plain(method.label), line: { color: colorOf(method), dash: method.dash, shape: "hv" },
      marker: { color: colorOf(method), symbol: method.marker, size: 7 },
      hovertemplate: "%{fullData.name}: within %{x:.3~g} times the best in %{y:.0%}<extra></extra>" }));
    Plotly.react(plot, data, { ...layout, hovermode: "closest",
      xaxis: { ...axis, type: "log", title: { text: "τ: at most so many times the best" } },
      yaxis: { ...axis, range: [-0.03, 1.05], tickformat: ".0%", title: { text: "share of variants" } },
    }, config);
    box.querySelector(".key").replaceChildren(...given.methods.map((method) =>
      element("span", {}, element("span", { className: "sign" }, swatch(method)), " ", element("span", { textContent: method.label }))));
  }
  draw();
  plots.push(plot);
  redraws.push(draw);
}
