// What makes choosing pleasant: tick all rows of a page, and see how many are ticked. The forms work without it.
"use strict";
(() => {
  // The field that an error names is selected where its payload is edited.
  const text = document.querySelector("textarea[data-mark]");
  const at = text ? text.value.indexOf(`"${text.dataset.mark}"`) : -1;
  if (at >= 0) { text.focus(); text.setSelectionRange(at, text.value.indexOf("\n", at)); }
  const boxes = () => [...document.querySelectorAll("input[name=ids][form=pick]")];
  const all = document.querySelector("[data-all]");
  const form = document.getElementById("pick");
  if (!form) return;
  const said = form.querySelector("[data-ticked]");
  const show = () => {
    const ticked = boxes().filter((b) => b.checked).length;
    said.hidden = false;
    said.textContent = ticked === 0 ? "none selected" : ticked + " selected";
    for (const button of form.querySelectorAll("button")) button.disabled = ticked === 0;
    if (all) { all.checked = ticked > 0 && ticked === boxes().length; all.indeterminate = ticked > 0 && !all.checked; }
  };
  if (all) {
    all.hidden = false;
    all.addEventListener("change", () => { for (const b of boxes()) b.checked = all.checked; show(); });
  }
  document.addEventListener("change", (event) => { if (event.target.matches("input[name=ids][form=pick]")) show(); });
  addEventListener("pageshow", show);
  show();
})();
