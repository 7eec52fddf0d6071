"use strict";
// Starts the page: plotly, the drawings, the theme, the hints of tables that scroll, and printing.
(async () => {
  if (!(await loadPlotly())) return;
  const studies = JSON.parse(document.getElementById("data").textContent);
  const kinds = { ".curves": curves, ".sensitivity": sensitivity, ".profile": profile, ".tuning": tuning };
  for (const [kind, draw] of Object.entries(kinds)) {
    document.querySelectorAll(kind).forEach((box) => draw(box, studies[box.dataset.study]));
  }
  const signs = () => document.querySelectorAll(".judged [data-look]").forEach((sign) => {
    const style = studies[sign.closest(".judged").dataset.study].methods[sign.dataset.look];
    sign.replaceChildren(...(style ? [swatch(style)] : []));
  });
  signs();
  redraws.push(signs);
  // a drawing that was folded away has the size of nothing
  document.querySelectorAll("details:has(.plot)").forEach((box) => box.addEventListener("toggle", () => {
    if (box.open) box.querySelectorAll(".plot").forEach((plot) => Plotly.Plots.resize(plot));
  }));
  const again = () => redraws.forEach((redraw) => redraw());

  startTheme(again);

  // a table that is wider than its place says so
  const hint = (box) => box.classList.toggle("more", box.scrollWidth - box.clientWidth - box.scrollLeft > 2);
  const wide = [...document.querySelectorAll(".wide")];
  const sized = new ResizeObserver((seen) => seen.forEach((one) => hint(one.target)));
  wide.forEach((box) => { sized.observe(box); box.addEventListener("scroll", () => hint(box), { passive: true }); hint(box); });

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
