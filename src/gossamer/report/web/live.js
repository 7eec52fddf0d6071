"use strict";
// The view of a run that goes on: asks its own server whether there is more, and then loads the page again as it was.
function live(again) {
  const now = document.body.dataset.live;
  if (now === undefined) return;
  const inputs = () => [...document.querySelectorAll("main select, main input")].filter((input) => !input.closest(".legend"));
  const kept = JSON.parse(sessionStorage.getItem("gossamer") || "null");
  if (kept) {
    inputs().forEach((input, k) => {
      const was = kept.inputs[k];
      if (!was || was.name !== input.name) return;
      if (input.type === "checkbox" || input.type === "radio") input.checked = was.checked;
      else if (input.type === "range" && was.moved === undefined) return;
      else if (input.tagName !== "SELECT" || [...input.options].some((option) => option.value === was.value)) {
        input.value = was.value;
        if (was.moved !== undefined) input.dataset.moved = "";
      }
    });
    again();
    scrollTo(0, kept.y);
  }
  const timer = setInterval(async () => {
    try {
      const state = await (await fetch("state", { cache: "no-store" })).json();
      if (state.mark === now) return;
    } catch {
      clearInterval(timer); // the server has stopped: what is shown stays
      document.getElementById("live").textContent = "The server has stopped; this page stays as it was.";
      return;
    }
    const state = inputs().map(({ name, value, checked, dataset }) => ({ name, value, checked, moved: dataset.moved }));
    sessionStorage.setItem("gossamer", JSON.stringify({ inputs: state, y: scrollY }));
    clearInterval(timer);
    location.reload();
  }, 2000);
}
