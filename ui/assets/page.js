// What makes the page pleasant: the theme, copying, keys, and figures that renew themselves. The page works without it.
"use strict";
(() => {
  const root = document.documentElement;
  const body = document.body;
  const store = { get: (k) => { try { return localStorage.getItem(k); } catch { return null; } }, set: (k, v) => { try { localStorage.setItem(k, v); } catch { /* it is only not kept */ } } };

  const themes = ["", "light", "dark"];
  const apply = (t) => { if (t) root.dataset.theme = t; else delete root.dataset.theme; };
  apply(store.get("theme") || "");
  const theme = document.querySelector(".theme");
  theme.hidden = false;
  theme.addEventListener("click", () => {
    const next = themes[(themes.indexOf(root.dataset.theme || "") + 1) % themes.length];
    store.set("theme", next);
    apply(next);
    theme.title = "Theme: " + (next || "as the system");
  });

  for (const button of document.querySelectorAll(".copy")) {
    if (!navigator.clipboard) break;
    button.hidden = false;
    button.addEventListener("click", async () => {
      await navigator.clipboard.writeText(button.previousElementSibling.textContent);
      button.textContent = "Copied";
      setTimeout(() => { button.textContent = "Copy"; }, 1500);
    });
  }

  const goto = { o: 0, c: 1, d: 2, e: 3, r: 4, t: 5, a: 6 };
  let g = false;
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || event.target.closest("input, select, textarea")) return;
    if (event.key === "/") {
      event.preventDefault();
      document.querySelector(".search input").focus();
    } else if (g && event.key in goto) {
      document.querySelectorAll(".menu a")[goto[event.key]].click();
    }
    g = event.key === "g";
  });

  // A live page is asked again while it is looked at. What holds the focus or a selection is left alone.
  if (!("live" in body.dataset)) return;
  const pause = document.querySelector(".pause");
  let paused = false;
  pause.hidden = false;
  pause.addEventListener("click", () => { paused = !paused; pause.textContent = paused ? "Go on" : "Pause"; });
  const busy = () => paused || document.hidden || !getSelection().isCollapsed || document.activeElement.closest("[data-part]");
  const renew = async () => {
    if (!busy()) {
      try {
        const answer = await fetch(location.href, { headers: { Accept: "text/html" } });
        const next = new DOMParser().parseFromString(await answer.text(), "text/html");
        for (const where of ["[data-part]", ".foot span", ".menu"]) {
          const from = next.querySelector(where);
          const to = document.querySelector(where);
          if (answer.ok && from && to && !busy() && from.innerHTML !== to.innerHTML) to.replaceWith(from);
        }
        if (answer.ok && !document.querySelector("[data-part]") && next.querySelector("[data-part]")) location.reload();
      } catch { /* the next one may succeed */ }
    }
    setTimeout(renew, 5000);
  };
  setTimeout(renew, 2000);
})();
