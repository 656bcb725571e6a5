// The list of all tables: sorted, filtered and searched by the server, drawn here.

import { get, page, tablePage } from "./api.js";
import { bar, colorBands, spark } from "./charts.js";
import { append, fill, h } from "./dom.js";
import { bytes, count, counted, decimal, moment, relative, words } from "./format.js";
import { addKey, go, load, placeChoice, shell, showError } from "./shell.js";

const PAGE_ROWS = 100;
const COLUMNS = [
  ["score", "Health", "num"],
  ["table", "Table", ""],
  [null, "Worst reason", "reason"],
  ["bytes", "Data", "num"],
  ["files", "Files", "num"],
  ["runs", "Runs", "num"],
  ["held_bytes", "Held back", "num"],
  ["last", "Last maintenance", ""],
  ["next", "Next", ""],
  ["owner", "Owner", ""],
];
const TITLES = {
  score: "Health score, 0 to 100",
  runs: "The most sorted runs that hold one key",
  held_bytes: "Bytes that only snapshots beyond the retention, tags and branches hold",
  last: "The newest run that changed the table",
  next: "What the scheduler does next",
};
const DOWN_FIRST = new Set(["bytes", "files", "runs", "held_bytes", "last"]);

const state = { warehouse: "", branch: "", search: "", color: "", owner: "", criterion: "", sort: "score", descending: "" };
for (const [name, value] of new URLSearchParams(location.search)) if (name in state) state[name] = value;

const place = h("span", {});
const main = shell("Lake", place);
const tiles = h("section", { class: "tiles", "aria-label": "Totals" });
const search = h("input", {
  type: "search", class: "search", placeholder: "Search table, owner, reason", "aria-label": "Search (/)",
  value: state.search, autocomplete: "off", spellcheck: "false", on: { input: () => later({ search: search.value }) },
});
const colors = h("div", { class: "segments", role: "group", "aria-label": "Health" });
const owner = h("select", { "aria-label": "Owner", on: { change: () => change({ owner: owner.value }) } });
const criterion = h("select", { "aria-label": "Worst reason", on: { change: () => change({ criterion: criterion.value }) } });
const found = h("span", { class: "found", "aria-live": "polite" });
const head = h("tr", {});
const body = h("tbody", {});
const list = h("table", { class: "lake" }, h("thead", {}, head), body);
const foot = h("div", { class: "foot" });
append(main, [
  tiles,
  h("div", { class: "filters" }, search, colors, owner, criterion, h("span", { class: "spring" }), found),
  h("div", { class: "scroll" }, list),
  foot,
]);

let timer = 0;
let request = new AbortController();
let shown = 0;
let last = null;

function later(changes) {
  clearTimeout(timer);
  timer = setTimeout(() => change(changes), 150);
}

function change(changes) {
  Object.assign(state, changes);
  const kept = Object.entries(state).filter(([name, value]) => value && !(name === "sort" && value === "score"));
  const query = new URLSearchParams(kept).toString();
  history.replaceState(null, "", query ? `?${query}` : location.pathname);
  return refresh();
}

async function refresh(more = false) {
  request.abort();
  request = new AbortController();
  try {
    const offset = more ? shown : 0;
    const answer = await get("lake", { ...state, offset: offset || "", limit: PAGE_ROWS }, request.signal);
    last = answer;
    if (!more) {
      body.replaceChildren();
      shown = 0;
    }
    drawFilters(answer);
    drawHead();
    drawRows(answer);
  } catch (error) {
    showError(foot, error, "The list");
  }
}

function drawFilters(answer) {
  fill(place, placeChoice(answer.places, answer.warehouse, answer.branch, (p) => {
    change({ warehouse: p.warehouse, branch: p.branch, owner: "", criterion: "" });
    drawTotals();
  }));
  if (!answer.totals) return;
  const t = answer.totals;
  const unknown = t.tables - t.green - t.yellow - t.red;
  const choice = (value, text, number) =>
    h(
      "button",
      { type: "button", class: value, "aria-pressed": String(state.color === value), on: { click: () => change({ color: value }) } },
      text, h("b", {}, count(number)),
    );
  fill(colors, choice("", "All", t.tables), choice("red", "Red", t.red), choice("yellow", "Yellow", t.yellow),
    choice("green", "Green", t.green), unknown ? choice("unknown", "Not measured", unknown) : null);
  options(owner, "All owners", answer.owners, state.owner, (v) => (v === "-" ? "no owner" : v));
  options(criterion, "All reasons", answer.criteria, state.criterion, words);
  fill(found, counted(answer.matches, "table"));
}

function options(select, all, counts, chosen, text) {
  const entries = Object.entries(counts);
  select.hidden = entries.length < 2 && !chosen;
  fill(select, h("option", { value: "" }, all), entries.map(([value, number]) =>
    h("option", { value, selected: value === chosen }, `${text(value)} (${number})`)));
}

function drawHead() {
  fill(head, COLUMNS.map(([sort, text, kind]) => {
    if (!sort) return h("th", { scope: "col", class: kind }, text);
    const on = state.sort === sort;
    const down = Boolean(state.descending);
    const click = () => change(on ? { descending: down ? "" : "true" } : { sort, descending: DOWN_FIRST.has(sort) ? "true" : "" });
    return h(
      "th",
      { scope: "col", class: kind, "aria-sort": on ? (down ? "descending" : "ascending") : null },
      h("button", { type: "button", title: TITLES[sort] || `Sort by ${text.toLowerCase()}`, on: { click } },
        text, h("i", { class: "arrow", "aria-hidden": "true" }, on ? (down ? "↓" : "↑") : "")),
    );
  }));
}

function drawRows(answer) {
  if (!answer.warehouse) {
    fill(foot, h("div", { class: "empty" }, h("h2", {}, "No table was measured yet"),
      h("p", {}, "Run the scheduler, or measure all tables once:"),
      h("pre", {}, "caretaker schedule '*.*' -w WAREHOUSE\ncaretaker health '*.*' -w WAREHOUSE --save")));
    return;
  }
  for (const row of answer.tables) body.append(line(row, answer));
  shown += answer.tables.length;
  if (!answer.totals.tables) {
    fill(foot, h("p", { class: "empty" }, `No table of ${answer.warehouse} was measured${answer.branch === "main" ? "" : ` on the branch ${answer.branch}`}. `,
      h("a", { href: page("") }, "Show the lake that was measured last")));
  } else if (!answer.matches) {
    fill(foot, h("p", { class: "empty" }, "No table matches. ",
      h("button", { class: "link", type: "button", on: { click: clear } }, "Clear the filters")));
  } else if (shown < answer.matches) {
    fill(foot, h("button", { type: "button", on: { click: () => refresh(true) } },
      `Show ${count(Math.min(PAGE_ROWS, answer.matches - shown))} more of ${count(answer.matches - shown)}`));
  } else fill(foot);
}

function clear() {
  search.value = "";
  change({ search: "", color: "", owner: "", criterion: "" });
}

function line(row, answer) {
  const dot = row.table.indexOf(".");
  const address = tablePage(row, answer.warehouse);
  const old = answer.now - row.at_millis > 86400000;
  const held = row.bytes ? row.held_bytes / row.bytes : 0;
  return h(
    "tr",
    { class: old ? "old" : null, "data-href": address, on: { click: (e) => e.target.closest("a") || go(address) } },
    h("td", { class: "num health" }, badge(row)),
    h("td", { class: "name" }, h("a", { href: address }, h("span", { class: "db" }, row.table.slice(0, dot + 1)), row.table.slice(dot + 1))),
    h("td", { class: "reason", title: row.error || row.reason || "" }, row.error || row.reason || h("span", { class: "quiet" }, "healthy")),
    h("td", { class: "num", "data-label": "Data" }, bytes(row.bytes)),
    h("td", { class: "num", "data-label": "Files" }, count(row.files)),
    h("td", { class: "num", "data-label": "Runs" }, count(row.runs)),
    h("td", { class: "num held", "data-label": "Held back" }, row.held_bytes ? bytes(row.held_bytes) : "–", row.held_bytes ? bar(held, held > 1 ? "hot" : "") : null),
    h("td", { class: "when", "data-label": "Last", title: row.last_at ? moment(row.last_at) : "" },
      row.last_at ? [h("span", {}, relative(row.last_at, answer.now)), " ", h("small", {}, words(row.last_job))] : h("span", { class: "quiet" }, "never")),
    h("td", { class: "when next", "data-label": "Next", title: row.next_reason || "" }, next(row, answer.now)),
    h("td", { class: "owner", "data-label": "Owner", title: row.owner || "" }, row.owner || h("span", { class: "quiet" }, "–")),
  );
}

function badge(row) {
  const kind = row.color || "unknown";
  const text = row.score === null ? "?" : String(row.score);
  return h("span", { class: `badge ${kind}`, title: row.score === null ? "not measured" : `${kind}, ${decimal(row.amplification)} times the reads of an ideal layout` }, text);
}

function next(row, now) {
  if (row.next_action === "run") return [h("b", {}, words(row.next_job)), " now"];
  if (row.next_action === "later") return [h("b", {}, words(row.next_job)), " ", h("small", {}, !row.next_at_millis ? "waits" : row.next_at_millis <= now ? "next round" : relative(row.next_at_millis, now))];
  if (row.next_action === "propose") return [h("b", {}, words(row.next_job)), " ", h("small", {}, "proposed")];
  if (row.next_at_millis) return h("small", {}, row.next_at_millis <= now ? "look next round" : `look ${relative(row.next_at_millis, now)}`);
  return h("span", { class: "quiet" }, "–");
}

async function drawTotals() {
  await first;
  if (!last || !last.totals) return;
  const draw = ({ points }) => {
    const t = last.totals;
    const series = (name) => points.map((p) => p[name]);
    const lone = points.length < 2;
    const tile = (title, figure, note, chart) => h("div", { class: "tile" }, h("h3", {}, title), h("p", { class: "figure" }, figure, note ? h("small", {}, note) : null), lone ? null : chart);
    const sum = t.green + t.yellow + t.red || 1;
    return [
      h("div", { class: "tile wide" }, h("h3", {}, "Tables"),
        h("p", { class: "figure" }, count(t.tables),
          h("span", { class: "shares" }, ["red", "yellow", "green"].map((k) => h("span", { class: k }, h("i", { class: `dot ${k}` }), count(t[k]))))),
        points.length > 1 ? colorBands(points) : h("div", { class: "spread", role: "img", "aria-label": "shares of colors" }, ["red", "yellow", "green"].map((k) => share(k, t[k] / sum)))),
      tile("Data", bytes(t.bytes), "", spark(series("bytes"), { label: "bytes, 7 days" })),
      tile("Files", count(t.files), "", spark(series("files"), { label: "files, 7 days" })),
      tile("Read amplification", decimal(t.amplification, 2), "ideal 1", spark(series("amplification"), { label: "read amplification, 7 days" })),
      tile("Held back", bytes(t.held_bytes), t.bytes ? `${Math.round((100 * t.held_bytes) / t.bytes)} % of data` : "", spark(series("held_bytes"), { label: "bytes held back, 7 days" })),
    ];
  };
  await load(tiles, get("totals", { warehouse: last.warehouse, branch: last.branch, days: 7 }), draw, "Totals");
}

function share(kind, part) {
  const one = h("i", { class: kind });
  one.style.flexGrow = String(part);
  return one;
}

function step(by) {
  const links = [...body.querySelectorAll("td.name a")];
  const at = links.indexOf(document.activeElement);
  const to = links[Math.max(0, Math.min(links.length - 1, at + by))];
  if (to) to.focus();
}

addKey("/", "search", () => search.focus());
addKey("j", "next table", () => step(1));
addKey("k", "previous table", () => step(-1));
addKey("Enter", "open the table", () => document.activeElement.closest("a") && document.activeElement.click());
addKey("0", "all tables", () => change({ color: "" }));
addKey("1", "red tables", () => change({ color: "red" }));
addKey("2", "yellow tables", () => change({ color: "yellow" }));
addKey("3", "green tables", () => change({ color: "green" }));
addKey("r", "reload", () => { refresh(); drawTotals(); });
search.addEventListener("keydown", (event) => {
  if (event.key === "ArrowDown" || event.key === "Enter") {
    event.preventDefault();
    step(1);
  }
});

const first = refresh();
drawTotals();
setInterval(() => document.hidden || shown > PAGE_ROWS || (refresh(), drawTotals()), 60000);
