"use strict";
// What all drawings share. Text from data reaches the page by textContent, and plotly, which takes tags in text for
// markup, by plain().
const entities = { "&": "&amp;", "<": "&lt;", ">": "&gt;" };
const plain = (text) => String(text).replace(/[&<>]/g, (letter) => entities[letter]);
const short = (number) => (number === null ? "–" : Number(number.toPrecision(4)).toString());
const space = "http://www.w3.org/2000/svg";
const plots = [], redraws = [];

// only these buttons: plotly's others would send the data to a server, or save a picture without the legend
const config = { responsive: true, displaylogo: false, showTips: false, plotlyServerURL: "",
  modeBarButtons: [["zoom2d", "pan2d", "zoomIn2d", "zoomOut2d", "resetScale2d"]] };

function element(name, attributes, ...children) {
  const made = document.createElement(name);
  Object.assign(made, attributes);
  made.append(...children);
  return made;
}

function drawn(name, attributes, ...children) {
  const made = document.createElementNS(space, name);
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  made.append(...children);
  return made;
}

// --- the theme --------------------------------------------------------------------------------------------------------

function paint(name) {
  const probe = element("span", {});
  probe.style.color = `var(--${name})`;
  document.body.append(probe);
  const color = getComputedStyle(probe).color;
  probe.remove();
  return color;
}

function isDark() {
  const chosen = document.documentElement.dataset.theme;
  return chosen ? chosen === "dark" : matchMedia("(prefers-color-scheme: dark)").matches;
}

const colorOf = (style) => (isDark() ? style.dark : style.color);

function translucent(color, share) {
  return color + Math.round(255 * share).toString(16).padStart(2, "0");
}

function startTheme(again) {
  const button = document.getElementById("theme");
  button.hidden = false;
  button.addEventListener("click", () => {
    document.documentElement.dataset.theme = isDark() ? "light" : "dark";
    again();
  });
  matchMedia("(prefers-color-scheme: dark)").addEventListener("change", again);
}

// plotly is in the page, packed; its script runs because the page's policy names its hash
async function loadPlotly() {
  const packed = Uint8Array.from(atob(document.getElementById("plotly").textContent), (letter) => letter.charCodeAt(0));
  try {
    const text = new Response(new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate"))).text();
    document.head.append(element("script", { textContent: await text }));
    return true;
  } catch (error) {
    for (const plot of document.querySelectorAll(".plot")) plot.textContent = `This browser cannot draw here: ${error.message}`;
    return false;
  }
}

function look() {
  const ink = paint("ink"), line = paint("line"), soft = paint("soft"), page = paint("page"), narrow = innerWidth < 600;
  return {
    ink, page, soft, narrow,
    layout: {
      font: { family: "system-ui, -apple-system, 'Segoe UI', Roboto, Arial, sans-serif", size: narrow ? 11 : 13, color: ink },
      paper_bgcolor: "rgba(0,0,0,0)", plot_bgcolor: "rgba(0,0,0,0)", showlegend: false,
      // plotly's buttons are in the margin above, off the curves
      margin: narrow ? { l: 48, r: 6, t: 34, b: 44 } : { l: 70, r: 15, t: 34, b: 50 },
      hoverlabel: { align: "left", namelength: -1, bgcolor: page, bordercolor: line, font: { color: ink } },
      modebar: { color: soft, activecolor: ink, bgcolor: "rgba(0,0,0,0)" },
    },
    axis: { gridcolor: line, zeroline: false, linecolor: soft, ticks: "outside", tickcolor: soft, automargin: true,
      exponentformat: "power" },
  };
}

function empty(text) {
  return [{ text, showarrow: false, xref: "paper", yref: "paper", x: 0.5, y: 0.5 }];
}

// --- the signs of the legends -----------------------------------------------------------------------------------------

const strokes = { solid: "", dash: "7 4", dashdot: "7 3 2 3", dot: "2 3" };
const shapes = {
  circle: "M18 6a4 4 0 1 1-8 0a4 4 0 1 1 8 0z", square: "M10.5 2.5h7v7h-7z", diamond: "M14 1.2l4.8 4.8l-4.8 4.8l-4.8-4.8z",
  "triangle-up": "M14 1.5l4.4 8h-8.8z", "triangle-down": "M14 10.5l4.4-8h-8.8z",
  cross: "M12.6 1.6h2.8v3h3v2.8h-3v3h-2.8v-3h-3v-2.8h3z", x: "M10.5 4l2-2l1.5 1.5l1.5-1.5l2 2l-1.5 2l1.5 2l-2 2l-1.5-1.5l-1.5 1.5l-2-2l1.5-2z",
  pentagon: "M14 1.5l4.5 3.300l-1.700 5.200h-5.600l-1.700-5.200z",
};

function swatch(style) {
  const color = colorOf(style);
  const line = drawn("line", { x1: 0, x2: 28, y1: 6, y2: 6, stroke: color, "stroke-width": 2.5, "stroke-dasharray": strokes[style.dash] });
  return drawn("svg", { viewBox: "0 0 28 12", "aria-hidden": "true" }, line, drawn("path", { d: shapes[style.marker], fill: color }));
}
