// What maintenance did: by day, by job, by table; what failed; predictions.

import { get, tablePage } from "./api.js";
import { bar, dayBars, legend, predictionChart } from "./charts.js";
import { append, fill, h } from "./dom.js";
import { bytes, count, counted, duration, moment, percent, relative, words } from "./format.js";
import { addKey, airflowLink, go, shell, showError } from "./shell.js";

const PERIODS = [[1, "24 hours"], [7, "7 days"], [28, "28 days"]];
const asked = new URLSearchParams(location.search);
const state = { warehouse: asked.get("warehouse") || "", days: Number(asked.get("days")) || 7 };

const place = h("span", {});
const main = shell("Runs", place);
const period = h("div", { class: "segments", role: "group", "aria-label": "Period" });
const tiles = h("section", { class: "tiles even", "aria-label": "Totals" });
const cards = h("div", { class: "cards" });
append(main, [h("div", { class: "filters" }, period), tiles, cards]);

function change(changes) {
  Object.assign(state, changes);
  const query = new URLSearchParams(Object.entries(state).filter(([, v]) => v)).toString();
  history.replaceState(null, "", `?${query}`);
  refresh();
}

async function refresh() {
  fill(period, PERIODS.map(([days, text]) => h("button", { type: "button", "aria-pressed": String(days === state.days), on: { click: () => change({ days }) } }, text)));
  try {
    draw(await get("runs", { warehouse: state.warehouse, days: state.days }));
  } catch (error) {
    fill(tiles);
    showError(cards, error, "Runs");
  }
}

function draw(found) {
  const warehouses = [...new Set(found.places.map((p) => p.warehouse))];
  fill(place, warehouses.length < 2 ? h("span", { class: "place" }, warehouses[0] || "") : h("select", { class: "place", "aria-label": "Warehouse", on: { change: (e) => change({ warehouse: e.target.value }) } },
    h("option", { value: "" }, "All warehouses"), warehouses.map((w) => h("option", { value: w, selected: w === state.warehouse }, w))));
  const t = found.total;
  const tile = (title, figure, note) => h("div", { class: "tile plain" }, h("h3", {}, title), h("p", { class: "figure" }, figure), h("small", {}, note));
  fill(tiles,
    tile("Runs", count(t.runs), `${counted(found.tables_changed, "table")}, ${count(t.failed)} failed`),
    tile("Time", duration(t.seconds), t.runs ? `${duration(t.seconds / t.runs)} a run` : ""),
    tile("Read and written", bytes(t.bytes_rewritten), t.seconds ? `${bytes(t.bytes_rewritten / t.seconds)} a second` : ""),
    tile("Files", t.files_fewer > 0 ? `−${count(t.files_fewer)}` : count(-t.files_fewer || 0), `of ${count(t.files_before)} that the runs changed`),
    tile("Freed", bytes(t.bytes_freed), "deleted from the store"),
    tile("Prediction error", percent(found.median_error), found.p90_error === null ? (found.predictions.length ? "no past runs to learn from" : "no predicted run") : `median; 90th percentile ${percent(found.p90_error)}`));
  const open = found.failures.filter((f) => !f.solved_at);
  fill(cards,
    card("What failed, and what to do", "wide", open.length ? `${count(open.length)} open, ${count(found.failures.length - open.length)} solved since` : "", failures(found)),
    card("Time by day", "wide below", "", found.by_day.length ? dayBars(found.by_day, found.since, found.now, Math.max(340, (cards.clientWidth * (innerWidth > 1180 ? 2 : 3)) / 3 - 40)) : h("p", { class: "quiet" }, "No run in this period.")),
    card("Predicted and measured", "narrow tall", counted(found.predictions.length, "run"), found.predictions.length
      ? [predictionChart(found.predictions, (p) => go(tablePage(p, p.warehouse))), legend(["near", "within 35 % of the measured time"], ["far", "further off"], ["first", "without past runs of the job"])]
      : h("p", { class: "quiet" }, "The scheduler predicts the time of its runs; there were none in this period.")),
    card("By job", "half", "", works(found.by_job, (w) => words(w.name))),
    card("By table", "half", found.tables_changed > found.by_table.length ? `the ${found.by_table.length} that took the most time` : "", works(found.by_table, (w) => h("a", { href: tablePage({ table: w.name, branch: "main" }, w.warehouse), title: w.warehouse }, w.name))));
}

function card(title, kind, note, ...content) {
  return h("section", { class: `card ${kind}`, "aria-label": title }, h("header", {}, h("h2", {}, title), h("small", {}, note)), content);
}

function failures(found) {
  if (!found.failures.length) return h("p", { class: "fine" }, "Nothing failed.");
  return h("ul", { class: "failures" }, found.failures.slice(0, 30).map((f) => {
    const r = f.newest;
    const [dag, ...rest] = r.actor.split(" ");
    return h("li", { class: f.solved_at ? "solved" : "open" },
      h("i", { class: "dot" }),
      h("div", {}, h("b", {}, words(r.job)), " on ", h("a", { href: tablePage(r, r.warehouse), title: r.warehouse }, r.table),
        h("small", {}, r.branch === "main" ? "" : ` branch ${r.branch},`, ` ${words(r.status)}${f.times > 1 ? `, ${count(f.times)} times` : ""}${r.error_type ? `, ${r.error_type}` : ""}`)),
      h("span", { class: "when", title: moment(r.at_millis) }, relative(r.at_millis, found.now)),
      h("p", {}, r.error || ""),
      f.solved_at ? h("p", {}, `Succeeded ${relative(f.solved_at, found.now)}.`) : r.next_step ? h("p", { class: "todo" }, "→ ", r.next_step) : null,
      r.origin === "airflow" && rest.length ? h("p", {}, airflowLink(`dags/${encodeURIComponent(dag)}/runs/${encodeURIComponent(rest.join(" "))}`, "the run in Airflow")) : null);
  }));
}

function works(list, name) {
  if (!list.length) return h("p", { class: "quiet" }, "No run in this period.");
  const most = Math.max(...list.map((w) => w.seconds), 0.001);
  const th = (text, kind = "num") => h("th", { scope: "col", class: kind }, text);
  return h("div", { class: "scroll" }, h("table", { class: "works" },
    h("thead", {}, h("tr", {}, th("Name", ""), th("Runs"), th("Failed"), th("Time"), th("", "share"), th("Read + written"), th("Files fewer"), th("Bytes fewer"), th("Freed"))),
    h("tbody", {}, list.map((w) => h("tr", {}, h("td", { class: "name" }, name(w)), h("td", { class: "num" }, count(w.runs)),
      h("td", { class: "num" }, w.failed ? h("b", { class: "bad" }, count(w.failed)) : h("span", { class: "quiet" }, "0")),
      h("td", { class: "num" }, duration(w.seconds)), h("td", { class: "share" }, bar(w.seconds / most)),
      h("td", { class: "num" }, bytes(w.bytes_rewritten)), h("td", { class: "num" }, count(w.files_fewer)), h("td", { class: "num" }, bytes(w.bytes_fewer)), h("td", { class: "num" }, bytes(w.bytes_freed)))))));
}

addKey("1", "the last 24 hours", () => change({ days: 1 }));
addKey("2", "the last 7 days", () => change({ days: 7 }));
addKey("3", "the last 28 days", () => change({ days: 28 }));
addKey("r", "reload", refresh);
refresh();
