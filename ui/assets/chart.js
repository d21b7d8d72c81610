// A reading under the pointer: the moment, and what each line of the chart is there. The table of the page says the same.
"use strict";
document.addEventListener("pointermove", (event) => {
  const over = event.target.closest?.(".plot .area");
  for (const line of document.querySelectorAll(".plot i:not([hidden])")) if (!over?.contains(line)) { line.hidden = true; line.closest(".plot").querySelector("output").textContent = ""; }
  if (!over) return;
  const plot = over.closest(".plot"), steps = plot.dataset.readings.split(";"), box = over.getBoundingClientRect();
  const last = Math.max(steps.length - 1, 1), i = Math.max(0, Math.min(steps.length - 1, Math.round((last * (event.clientX - box.left)) / box.width)));
  const names = plot.dataset.names.split("|");
  const said = steps[i].split("|").map((v, n) => (v ? names[n] + " " + v : "")).filter(Boolean).join(", ") || "nothing";
  plot.querySelector("output").textContent = new Date((Number(plot.dataset.from) + i * plot.dataset.step) * 1000).toISOString().slice(5, 16).replace("T", " ") + " UTC: " + said;
  const line = over.querySelector("i");
  line.hidden = false;
  line.style.left = (100 * i) / last + "%";
});
