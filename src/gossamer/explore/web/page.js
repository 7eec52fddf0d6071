"use strict";
// The page of `gossamer explore`: its sliders ask the server, and the newest answer is drawn.
const given = JSON.parse(document.getElementById("data").textContent);
const at = { network: given.networks[0], agents: given.agents, heterogeneity: given.heterogeneity, bias: given.bias };
const byId = (id) => document.getElementById(id);
const page = Array.from(crypto.getRandomValues(new Uint32Array(4)), (word) => word.toString(36)).join("-");
const LATE = 300; // milliseconds from which on a newer question does not wait for the answer to an older one
let cards = [], number = 0, flight = null, begun = 0, wanted = false, answer = null, asked = [];

// --- questions: one is answered at a time, the newest ---------------------------------------------------------------------

async function post(path, question, signal) {
  let reply;
  try {
    const headers = { "Content-Type": "application/json" };
    reply = await fetch(path, { method: "POST", headers, body: JSON.stringify(question), signal });
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Error("The server does not answer. Is gossamer explore still running?");
  }
  const found = await reply.json();
  if (!reply.ok) throw new Error(found.error);
  return found;
}

function ask() {
  if (flight && performance.now() - begun < LATE) wanted = true;
  else send();
}

async function send() {
  const mine = (number += 1), chosen = [...cards];
  const question = { page, number: mine, ...at, algorithm: chosen.map((card) => card.table) };
  if (flight) flight.abort();
  flight = new AbortController();
  begun = performance.now();
  wanted = false;
  document.body.classList.add("waiting");
  try {
    const found = await post("/answer", question, flight.signal);
    if (mine !== number) return;
    [answer, asked] = [found, chosen];
    fail("");
    draw();
    say(performance.now() - begun);
  } catch (error) {
    if (mine !== number) return;
    fail(error.message);
  }
  flight = null;
  document.body.classList.remove("waiting");
  if (wanted) send();
  else theory(question, chosen, mine);
}

async function theory(question, chosen, mine) {
  const limits = await post("/theory", question).catch(() => []);
  if (mine === number) chosen.forEach((card, k) => card.limit(limits[k] || null));
}

function fail(text) {
  byId("error").textContent = text;
  byId("error").hidden = !text;
}

function say(milliseconds) {
  const compiled = answer.compiled ? `${answer.compiled} programs were compiled` : "nothing was compiled";
  const [whole, computing] = [milliseconds, 1000 * answer.seconds].map((time) => Math.round(time).toLocaleString("en"));
  byId("status").textContent = `Drawn ${whole} ms after the question, ${computing} ms of it computing; ${compiled}.`;
  Object.assign(document.body.dataset, { drawn: number, ms: milliseconds.toFixed(1), compiled: answer.compiled });
}

// --- controls -------------------------------------------------------------------------------------------------------------

function slider(title, name, range, value, changed) {
  const { low, high, log, whole } = range;
  const share = (of) => (log ? Math.log(Math.max(of, low) / low) / Math.log(high / low) : (of - low) / (high - low));
  const value_at = (part) => {
    const exact = log ? low * (high / low) ** part : low + (high - low) * part;
    return whole ? Math.round(exact) : Number(exact.toPrecision(3));
  };
  const bar = element("input", { type: "range", min: 0, max: 1000, ariaLabel: `${name}, slider`, name, autocomplete: "off" });
  const exact = element("input", { type: "number", step: "any", value, ariaLabel: name, autocomplete: "off" });
  const set = (to) => { bar.value = 1000 * share(to); bar.ariaValueText = String(to); };
  bar.addEventListener("input", () => {
    exact.value = value_at(bar.value / 1000);
    bar.ariaValueText = exact.value;
    if (!whole) changed(Number(exact.value));
  });
  // another whole number is another program to compile, so that it waits until the slider is let go
  if (whole) bar.addEventListener("change", () => changed(Number(exact.value)));
  exact.addEventListener("change", () => {
    if (exact.value === "") return;
    set(Number(exact.value));
    changed(Number(exact.value));
  });
  set(value);
  return { share, box: element("div", { className: "slider" }, element("label", {}, element("span", { textContent: title }), exact), bar) };
}

function addMethod(one) {
  const sign = element("span", { className: "sign" }), state = element("p", { className: "state" });
  const remove = element("button", { type: "button", textContent: "×", title: `Remove ${one.label}`, ariaLabel: `Remove ${one.label}` });
  const box = element("section", { className: "card" }, element("header", {}, sign, element("b", { textContent: one.label }), remove));
  const card = { label: one.label, table: structuredClone(one.table), sign, state, limit: () => {} };
  for (const range of one.sliders) {
    const made = slider(range.symbol, `${one.label}: ${range.key}`, range, range.value, (value) => { card.table[range.key] = value; ask(); });
    box.append(made.box);
    if (range.key === "eta") card.limit = strip(made, card);
  }
  remove.addEventListener("click", () => {
    cards = cards.filter((other) => other !== card);
    box.remove();
    ask();
  });
  box.append(state);
  byId("methods").append(box);
  cards.push(card);
}

// below a step size: what Theorem 1 covers, what is stable, and what is not
function strip({ box, share }, card) {
  const bar = element("div", { className: "strip", role: "img" }), text = element("small");
  box.append(bar, text);
  return (limit) => {
    bar.removeAttribute("style");
    text.textContent = limit && limit.why ? `No stable step size is known: ${limit.why}` : "";
    text.classList.remove("lost");
    if (!limit || limit.why) return;
    const end = (eta) => 100 * Math.min(1, Math.max(0, eta > 0 ? share(eta) : 0));
    const [covered, stable] = [end(limit.covered), end(limit.stable)];
    bar.style.background = `linear-gradient(90deg, var(--good) 0 ${covered}%, var(--region) ${covered}% ${stable}%, var(--bad) ${stable}% 100%)`;
    const high = card.table.eta > limit.stable;
    const stable_below = `Quadratics of curvature L = ${short(limit.smoothness)} are stable below η = ${short(limit.stable)}.`;
    text.textContent = `${high ? "Step size too large? " : ""}${stable_below} ${limit.proved}`;
    text.classList.toggle("lost", high);
    bar.ariaLabel = text.textContent;
  };
}

function addWorld() {
  const world = byId("world"), bounds = given.bias === null ? 0 : given.bias;
  const network = element("select", { name: "network", autocomplete: "off" }, ...given.networks.map((name) => element("option", { textContent: name })));
  network.addEventListener("change", () => { at.network = network.value; ask(); });
  world.append(element("label", { className: "choose" }, "graph", network));
  const put = (title, key, range) => {
    if (at[key] === null && key !== "bias") return;
    world.append(slider(title, key, range, at[key] || 0, (value) => { at[key] = value; ask(); }).box);
  };
  put("agents n", "agents", { low: 2, high: Math.min(given.most_agents, Math.max(64, given.agents)), whole: true });
  put("heterogeneity, share sorted by label", "heterogeneity", { low: 0, high: 1 });
  put("bias, its mean μ", "bias", { low: Math.min(0, 5 * bounds), high: Math.max(0.01, 5 * bounds) });
}

// --- drawing --------------------------------------------------------------------------------------------------------------

function draw() {
  const { ink, soft, layout, axis, narrow } = look(), metric = given.metrics[byId("metric").value], log = byId("log").checked;
  const series = answer.methods.map((one, k) => ({ style: { ...one, label: asked[k].label }, card: asked[k],
    method: { ...one, x: [one.rounds], diverged: one.diverged >= 0 ? 1 : 0, ended: one.diverged >= 0 ? "diverged" : null } }));
  let data = [];
  series.forEach((one, k) => {
    const values = one.method.values && one.method.values[metric.key];
    one.card.sign.replaceChildren(swatch(one.style));
    mark(one, metric, values);
    if (!values) return;
    const mean = values.map((value) => (log && !(value > 0) ? null : value));
    data = data.concat(traces(one, 0, { mean, wide: mean.map(() => null) }, log, k, true));
  });
  const of = metric.key === "grad_norm_sq" ? predicted(series, series.map(() => true), ink) : { levels: [], shapes: [], notes: [] };
  const notes = of.notes.map((text) => ({ text, showarrow: false, xref: "paper", x: 0, xanchor: "left", yref: "paper", y: 1,
    yanchor: "bottom", font: { size: narrow ? 11 : 12, color: ink } }));
  const nothing = !data.some((trace) => trace.x.length);
  Plotly.react(byId("curves"), data, {
    ...layout, hovermode: "x unified", shapes: nothing ? [] : of.shapes,
    xaxis: { ...axis, title: { text: "rounds" }, range: [0, 1.02 * given.steps], exponentformat: "SI" },
    yaxis: { ...axis, title: { text: plain(metric.title), standoff: 8 }, type: log ? "log" : "linear", ...fitted(data, of.levels, log, soft) },
    annotations: nothing ? empty("Nothing of this criterion was measured.") : notes,
  }, config);
  drawAgents(series);
  byId("spec").textContent = answer.spec;
  byId("save").disabled = false;
}

// the end of a method, in its card
function mark({ card, method }, metric, values) {
  const last = (values || []).findLast((value) => value !== null), floor = metric.key === "grad_norm_sq" && method.floor;
  const ended = last === undefined ? "not measured" : `ends at ${short(last)}${floor ? `, ${short(last / floor)} × the floor` : ""}`;
  card.state.classList.toggle("lost", Boolean(method.error || method.diverged));
  const round = method.rounds && method.rounds.at(-1);
  card.state.textContent = method.error || (method.diverged ? `Diverged in round ${round.toLocaleString("en")}: take a smaller step size.` : ended);
}

function drawAgents(series) {
  const most = Math.max(0, ...series.flatMap(({ method }) => method.apart || []));
  byId("most").textContent = `${short(most)}, the largest`;
  byId("graphs").replaceChildren(...series.filter(({ method }) => !method.error).map(({ card, style, method }) => {
    const figure = element("figure", { innerHTML: answer.network.svg }); // drawn by the server, which escapes names
    const dots = [...figure.querySelectorAll("circle")];
    dots.forEach((dot, k) => {
      const apart = method.apart && method.apart[k];
      dot.setAttribute("r", Math.max(Number(dot.getAttribute("r")), Math.min(10, 190 / dots.length)));
      if (apart === null) return;
      dot.style.fill = `color-mix(in oklab, var(--apart) ${most ? (100 * apart) / most : 0}%, var(--agree))`;
      dot.querySelector("title").append(`, ‖xᵢ − x̄‖ = ${short(apart)}`);
    });
    const sign = element("span", { className: "sign" }, swatch(style));
    const lost = method.apart ? "" : ", diverged";
    figure.append(element("figcaption", {}, sign, `${card.label}${lost}`));
    return figure;
  }));
}

// --- the start ------------------------------------------------------------------------------------------------------------

(async () => {
  if (!(await loadPlotly())) return;
  document.querySelector(".lead").textContent =
    `Move a number, and ${given.steps.toLocaleString("en")} rounds are run again: ${given.problem}, seed ${given.seed}.`;
  const metric = byId("metric"), add = byId("add");
  metric.append(...given.metrics.map((one, k) => element("option", { value: k, textContent: one.title })));
  metric.value = given.metrics.findIndex((one) => one.key === "grad_norm_sq");
  byId("log").checked = true;
  metric.addEventListener("change", () => { byId("log").checked = given.metrics[metric.value].log; if (answer) draw(); });
  byId("log").addEventListener("change", () => { if (answer) draw(); });
  add.append(element("option", { value: "", textContent: "…" }), ...given.others.map((one, k) => element("option", { value: k, textContent: one.label })));
  add.addEventListener("change", () => {
    if (add.value !== "") { addMethod(given.others[add.value]); ask(); }
    add.value = "";
  });
  byId("save").addEventListener("click", () => {
    const link = element("a", { href: URL.createObjectURL(new Blob([answer.spec])), download: "explored.toml" });
    link.click();
    setTimeout(() => URL.revokeObjectURL(link.href), 1000);
  });
  startTheme(() => { if (answer) draw(); });
  given.methods.forEach(addMethod);
  addWorld();
  send();
})();
