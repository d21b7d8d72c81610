// What makes the page pleasant: theme, time zone, copying, keys, and figures that renew themselves. The page works without it.
"use strict";
(() => {
  const root = document.documentElement, body = document.body, head = document.querySelector(".top");
  const all = (selector, within = document) => [...within.querySelectorAll(selector)];
  // What is sticky stays below the head, which has two lines where one is not enough. A phone's menu begins with the page one is on.
  new ResizeObserver(() => root.style.setProperty("--top", (getComputedStyle(head).position === "sticky" ? head.offsetHeight : 0) + "px")).observe(head);
  document.querySelector(".menu [aria-current]")?.scrollIntoView({ block: "nearest", inline: "center" });
  const store = { get: (k) => { try { return localStorage.getItem(k) || ""; } catch { return ""; } }, set: (k, v) => { try { localStorage.setItem(k, v); } catch { /* it is only not kept */ } } };

  // A choice is a button that goes through its values, each with the words for it, and keeps the last.
  const choice = (selector, key, values, apply) => {
    const button = document.querySelector(selector), names = Object.keys(values);
    const show = () => {
      const value = store.get(key) in values ? store.get(key) : "";
      button.textContent = values[value];
      apply(value);
    };
    button.hidden = false;
    button.addEventListener("click", () => { store.set(key, names[(names.indexOf(store.get(key)) + 1) % names.length]); show(); });
    show();
  };
  choice(".theme", "theme", { "": "Theme: system", light: "Theme: light", dark: "Theme: dark" }, (v) => { if (v) root.dataset.theme = v; else delete root.dataset.theme; });

  // Times come as UTC, most of them relative; the other form is in the title.
  const local = new Intl.DateTimeFormat("sv-SE", { dateStyle: "short", timeStyle: "medium" });
  const span = (s) => (s < 60 ? Math.floor(s) + "s" : s < 3600 ? Math.floor(s / 60) + "m" : s < 172800 ? Math.floor(s / 3600) + "h" : Math.floor(s / 86400) + "d");
  const ago = (s) => (s < 0 ? "in " + span(-s) : s < 1 ? "now" : span(s) + " ago");
  const times = () => {
    const how = store.get("times");
    for (const time of all("time[datetime]")) {
      time.dataset.sent ??= time.textContent;
      time.dataset.seen ??= performance.now();
      const at = new Date(time.dateTime);
      const relative = "age" in time.dataset ? ago(Number(time.dataset.age) + (performance.now() - time.dataset.seen) / 1000) : time.dataset.sent;
      time.textContent = how === "local" ? local.format(at) : how === "utc" ? at.toISOString().slice(0, 19).replace("T", " ") : relative;
      time.title = relative + ", " + time.dateTime + ", here " + local.format(at);
    }
  };
  choice(".times", "times", { "": "Times: relative", local: "Times: local", utc: "Times: UTC" }, times);

  document.addEventListener("click", async (event) => {
    const button = event.target.closest(".copy");
    if (!button) return;
    await navigator.clipboard.writeText("link" in button.dataset ? new URL(button.dataset.link, location.href).href : button.previousElementSibling.textContent);
    const words = button.textContent;
    button.textContent = "Copied";
    setTimeout(() => { button.textContent = words; }, 1500);
  });
  if (navigator.clipboard) for (const button of all(".copy")) button.hidden = false;

  const help = document.querySelector(".help"), keysOn = document.querySelector(".keys-on");
  keysOn.checked = store.get("keys") !== "off";
  keysOn.addEventListener("change", () => store.set("keys", keysOn.checked ? "" : "off"));
  const step = (by) => {
    const list = all("main .rows tbody tr").filter((row) => row.querySelector("a"));
    const here = list.findIndex((row) => row.contains(document.activeElement));
    const row = list[Math.min(Math.max(here + by, 0), list.length - 1)];
    if (row) (row.querySelector("td[data-main] a") || row.querySelector("a")).focus();
  };
  const keys = {
    "/": () => document.querySelector(".search input")?.focus(),
    "?": () => help.showModal(),
    j: () => step(1), k: () => step(-1),
    x: () => document.activeElement.closest("tr")?.querySelector("input[type=checkbox]")?.click(),
    n: () => document.querySelector(".newer a")?.click(),
  };
  let g = false;
  document.addEventListener("keydown", (event) => {
    if (!keysOn.checked || event.ctrlKey || event.metaKey || event.altKey || document.querySelector("dialog[open]") || event.target.closest("input:not([type=checkbox]), select, textarea")) return;
    const page = g && document.querySelector(`.menu a[data-key="${CSS.escape(event.key)}"]`);
    if (page) page.click();
    else if (!g && event.key in keys) { event.preventDefault(); keys[event.key](); }
    g = event.key === "g" && !g;
  });

  // What is open is asked again while a person looks. What holds the focus, the pointer on a row or a button, a selection or something open is left alone.
  const ask = (path, v) => {
    const to = new URL(location.href);
    to.pathname = body.dataset.base + "/parts" + path;
    to.hash = "";
    to.searchParams.set("v", v);
    return fetch(to);
  };
  // The pill tells what the page is worth: whether it is asked again, and how old the oldest part of it is.
  const pause = document.querySelector(".pause"), pill = document.querySelector(".pill");
  let paused = false, watched = false, lost = "", current = performance.now();
  const state = () => {
    if (!pill) return;
    const old = document.querySelector("[data-since]");
    const since = lost || (old && old.dataset.since.slice(11, 19) + " UTC");
    const word = since ? "Disconnected since " + since : paused ? "Paused" : watched ? "Live" : "Read";
    const [said, age] = pill.children;
    if (said.textContent !== word) said.textContent = word;
    age.textContent = since ? "" : " · " + Math.floor((performance.now() - current) / 1000) + " s";
    pill.classList.toggle("bad", !!since);
    pill.classList.toggle("paused", paused && !since);
    body.classList.toggle("stale", !!since);
  };
  setInterval(() => { state(); if (!store.get("times")) times(); }, 1000);
  state();
  pause?.addEventListener("click", () => { paused = !paused; pause.textContent = paused ? "Resume updates" : "Pause updates"; state(); });
  // look asks once. It is false where a part was left as it was, which keeps the age of the page.
  const watch = (every, look) => {
    watched = true;
    pause.hidden = false;
    state();
    const again = async () => {
      if (!paused && !document.hidden) {
        try {
          if ((await look()) !== false) current = performance.now();
          lost = "";
        } catch { lost ||= new Date().toISOString().slice(11, 19) + " UTC"; }
        state();
      }
      setTimeout(again, every);
    };
    setTimeout(again, every);
  };
  const answered = (answer) => { if (!answer.ok || answer.redirected) throw new Error("answered " + answer.status); return answer.status !== 204; };
  const held = (part) => !getSelection().isCollapsed || document.querySelector("dialog[open]") || part.querySelector("details[open]") || part.contains(document.activeElement) || part.querySelector("tr:hover, .area:hover, a:hover, summary:hover, button:hover");

  let version = "";
  if ("live" in body.dataset) watch(Number(body.dataset.live), async () => {
    const answer = await ask(location.pathname.slice(body.dataset.base.length), version);
    if (!answered(answer)) return true;
    const next = new DOMParser().parseFromString(await answer.text(), "text/html");
    // Another program answers than the one this page is of.
    if (next.querySelector("script").getAttribute("src") !== document.querySelector("script").getAttribute("src")) return location.reload();
    const fresh = all("[data-part]", next);
    let whole = true;
    all("[data-part]").forEach((part, i) => {
      if (!fresh[i] || fresh[i].outerHTML === part.outerHTML) return;
      if (held(part)) whole = false;
      else part.replaceWith(fresh[i]);
    });
    if (whole) version = answer.headers.get("Outboxctl-Version") || "";
    times();
    return whole;
  });

  // A list never moves by itself: it says how many rows came since it was read.
  const newer = document.querySelector(".newer");
  if (newer) watch(Number(newer.dataset.newer), async () => {
    const answer = await ask("/newer" + location.pathname.slice(body.dataset.base.length), newer.dataset.read);
    if (!answered(answer)) return;
    newer.querySelector("a").textContent = await answer.text();
    newer.hidden = false;
  });
})();
