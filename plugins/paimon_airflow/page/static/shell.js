// What all pages share: the header, the theme, keys, messages, links into Airflow.

import { page, ROOT } from "./api.js";
import { append, fill, h } from "./dom.js";

const embedded = window.parent !== window;
const keys = new Map();

/** Makes the page: header with tabs, and an empty main part, which is returned. */
export function shell(current, ...tools) {
  followTheme();
  const tab = (name, path, key) =>
    h(
      "a",
      { href: page(path), "aria-current": current === name ? "page" : null, title: `${name} (g ${key})` },
      name,
    );
  const main = h("main", { id: "main", tabindex: "-1" });
  document.title = `${current} – Caretaker`;
  document.body.replaceChildren(
    h("a", { class: "skip", href: "#main" }, "Skip to the content"),
    h(
      "header",
      { class: "top" },
      h("span", { class: "brand" }, mark(), h("span", {}, "Caretaker")),
      h("nav", { "aria-label": "Pages" }, tab("Lake", "", "l"), tab("Runs", "runs", "r")),
      h("span", { class: "spring" }),
      tools,
      h("button", { class: "ghost help", title: "Keys (?)", on: { click: showKeys } }, "?"),
    ),
    main,
  );
  addKey("g l", "go to the lake", () => go(page("")));
  addKey("g r", "go to the runs", () => go(page("runs")));
  addKey("?", "show the keys", showKeys);
  document.addEventListener("keydown", onKey);
  return main;
}

function mark() {
  const dots = ["ok", "ok", "mid"].map((c) => h("i", { class: `dot ${c}` }));
  return h("span", { class: "mark", "aria-hidden": "true" }, dots);
}

/** Adds a key, or two after each other ("g l"). */
export function addKey(sequence, text, act) {
  keys.set(sequence, { text, act });
}

let waiting = "";
let waitingUntil = 0;

function onKey(event) {
  if (event.ctrlKey || event.metaKey || event.altKey || event.defaultPrevented) return;
  const inField = /^(INPUT|SELECT|TEXTAREA)$/.test(event.target.tagName);
  if (document.querySelector("dialog[open]")) return;
  if (inField) {
    if (event.key === "Escape") event.target.blur();
    return;
  }
  const now = Date.now();
  const sequence = waiting && now < waitingUntil ? `${waiting} ${event.key}` : event.key;
  waiting = "";
  const known = keys.get(sequence) || keys.get(event.key);
  if (known) {
    event.preventDefault();
    known.act();
  } else if ([...keys.keys()].some((k) => k.startsWith(`${event.key} `))) {
    waiting = event.key;
    waitingUntil = now + 1200;
  }
}

function showKeys() {
  const rows = [...keys].map(([key, { text }]) =>
    h("tr", {}, h("td", {}, key.split(" ").map((k) => h("kbd", {}, k))), h("td", {}, text)),
  );
  openDialog("Keys", h("table", { class: "keys" }, h("tbody", {}, rows)));
}

/** Opens a dialog with a title; returns it.  Escape and the button close it. */
export function openDialog(title, ...content) {
  const dialog = h("dialog", { "aria-label": title });
  const close = () => dialog.close();
  append(dialog, [
    h(
      "div",
      { class: "dialog-head" },
      h("h2", {}, title),
      h("button", { class: "ghost", type: "button", title: "Close (Esc)", on: { click: close } }, "✕"),
    ),
    h("div", { class: "dialog-body" }, content),
  ]);
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", (event) => {
    if (event.target === dialog) close();
  });
  document.body.append(dialog);
  dialog.showModal();
  return dialog;
}

/** Opens a page of this plugin. */
export function go(address) {
  location.assign(address);
}

/** A link to a page of Airflow; inside its shell it changes the shell, not the frame. */
export function airflowLink(path, text, props = {}) {
  const address = `${ROOT}/${path}`;
  const open = (event) => {
    if (!embedded || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    openInShell(address);
  };
  return h("a", { ...props, href: address, on: { click: open } }, text);
}

function openInShell(address) {
  // The frame is sandboxed: it cannot navigate the shell, but the shell's own router can.
  const outer = window.parent;
  outer.history.pushState({}, "", address);
  outer.dispatchEvent(new outer.PopStateEvent("popstate", { state: outer.history.state }));
}

function followTheme() {
  let outer = null;
  try {
    outer = embedded ? window.parent.document.documentElement : null;
  } catch {
    return;
  }
  if (outer === null) return;
  const apply = () => {
    const dark = outer.classList.contains("dark");
    const light = outer.classList.contains("light");
    if (dark || light) document.documentElement.dataset.theme = dark ? "dark" : "light";
  };
  apply();
  new MutationObserver(apply).observe(outer, { attributes: true, attributeFilter: ["class"] });
}

/** Shows an error with its next step in this element. */
export function showError(element, error, what = "") {
  if (error.name === "AbortError") return;
  fill(
    element,
    h(
      "div",
      { class: "problem", role: "alert" },
      h("strong", {}, what ? `${what}: ` : ""),
      h("span", {}, error.message),
      error.next ? h("span", { class: "next" }, error.next) : null,
    ),
  );
}

/** A part of a page that loads on its own: shows that it loads, then what `make` returns, or the error. */
export async function load(element, promise, make, what = "") {
  if (!element.firstChild) fill(element, h("p", { class: "loading" }, "Loading…"));
  try {
    const found = await promise;
    fill(element, await make(found));
  } catch (error) {
    showError(element, error, what);
  }
}

/** A choice of warehouse and branch; none if there is only one. */
export function placeChoice(places, warehouse, branch, change) {
  if (places.length < 2) {
    return h("span", { class: "place", title: warehouse || "" }, warehouse || "");
  }
  const several = new Set(places.map((p) => p.branch)).size > 1;
  const options = places.map((p, number) =>
    h(
      "option",
      { value: String(number), selected: p.warehouse === warehouse && p.branch === branch },
      several ? `${p.warehouse} (${p.branch})` : p.warehouse,
    ),
  );
  return h(
    "select",
    { class: "place", "aria-label": "Warehouse", on: { change: (e) => change(places[Number(e.target.value)]) } },
    options,
  );
}
