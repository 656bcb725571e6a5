// One table: health, files, snapshots, plan, runs, schema.

import { get, page } from "./api.js";
import { bar, legend, scoreChart } from "./charts.js";
import { append, fill, h, outside } from "./dom.js";
import { bytes, count, counted, decimal, duration, moment, partitionArgument, relative, words } from "./format.js";
import { bucketPictures } from "./picture.js";
import { addKey, airflowLink, go, load, shell, showError } from "./shell.js";
import { holders, retentionSentence, timeline } from "./timeline.js";
import { openForm } from "./trigger.js";

const asked = new URLSearchParams(location.search);
const named = { warehouse: asked.get("warehouse"), table: asked.get("table"), branch: asked.get("branch") || "main" };
const FIRST_JOBS = ["compact", "expire_snapshots", "maintain"];
const MORE_JOBS = ["compact_manifest", "expire_partitions", "expire_tags", "expire_consumers", "rescale", "sort_compact", "analyze", "create_tag", "rollback", "repair", "remove_orphan_files"];
const PLANNED = ["compact", "maintain", "expire_snapshots", "expire_partitions", "expire_tags", "expire_consumers", "compact_manifest"];

const main = shell("Table");
document.title = `${named.table} – Caretaker`;
const head = h("div", { class: "headline" });
const cards = h("div", { class: "cards" });
append(main, [head, cards]);
const session = get("session");
let answer = null;

function card(title, kind, note, ...tools) {
  const content = h("div", {}, h("p", { class: "loading" }, "Loading…"));
  const element = h("section", { class: `card ${kind}`, "aria-label": title },
    h("header", {}, h("h2", {}, title), h("small", {}, note || ""), tools), content);
  cards.append(element);
  return content;
}

async function start() {
  fill(head, h("h1", {}, named.table || "no table"));
  try {
    answer = await get("table", named);
  } catch (error) {
    showError(cards, error, named.table);
    return;
  }
  drawHead();
  drawHealth();
  drawScores();
  drawFiles();
  drawSnapshots();
  drawPlan();
  drawRuns();
  drawSchema();
}

function drawHead() {
  const { row, now } = answer;
  const dot = row.table.indexOf(".");
  const actions = h("div", { class: "actions" });
  fill(head,
    h("span", { class: `badge ${row.color || "unknown"}`, title: "health score, 0 to 100" }, row.score === null ? "?" : row.score),
    h("h1", {}, h("span", { class: "db" }, row.table.slice(0, dot + 1)), row.table.slice(dot + 1),
      row.branch === "main" ? null : h("span", { class: "quiet" }, ` branch ${row.branch}`)),
    h("span", { class: "spring" }), actions,
    h("p", { class: "facts" },
      fact(bytes(row.bytes), `in ${counted(row.files, "file")}`),
      fact(count(row.row_count), `${row.row_count === 1 ? "row" : "rows"} before merging`),
      fact(decimal(row.amplification, 2), "read amplification"),
      fact(bytes(row.held_bytes), "held back"),
      fact(row.owner || "no owner", ""),
      h("span", { title: moment(row.at_millis) }, `measured ${relative(row.at_millis, now)}`),
      h("span", {}, named.warehouse)),
  );
  session.then(({ jobs }) => drawActions(actions, jobs), () => fill(actions));
}

function fact(figure, text) {
  return h("span", {}, h("b", {}, figure), ` ${text}`);
}

function drawActions(element, jobs) {
  const by = new Map(jobs.map((j) => [j.job, j]));
  const button = (name) => by.has(name) ? h("button", { type: "button", title: by.get(name).summary, on: { click: () => run(name) } }, words(name)) : null;
  const more = h("select", { "aria-label": "More jobs" }, h("option", { value: "" }, "More…"),
    MORE_JOBS.filter((n) => by.has(n)).map((n) => h("option", { value: n }, words(n))));
  more.addEventListener("change", () => {
    if (more.value) run(more.value);
    more.value = "";
  });
  fill(element, FIRST_JOBS.map(button), more);
}

async function run(job, more = {}) {
  const { jobs } = await session;
  const access = jobs.find((j) => j.job === job);
  const values = { warehouse: named.warehouse, tables: [named.table], ...more };
  if (named.branch !== "main") values.branch = named.branch;
  if (access) await openForm(access, values);
}

function drawHealth() {
  const content = card("Health", "wide", answer.partitions.some((p) => p.name) ? `${counted(answer.unhealthy_partitions, "partition")} with a reason` : "");
  const { row, reasons, partitions } = answer;
  if (row.error) {
    fill(content, h("div", { class: "problem" }, h("strong", {}, "It cannot be measured: "), row.error));
    return;
  }
  const line = (r) => h("li", {},
    h("span", { class: "points", title: "points that this alone costs" }, `−${Math.round(r.points)}`),
    h("p", {}, r.text),
    r.job ? h("button", { type: "button", on: { click: () => run(r.job, r.job === "compact" ? { strategy: "full" } : {}) } }, words(r.job)) : h("span", {}),
    bar(r.points / 60, r.points >= 30 ? "hot" : r.points >= 12 ? "warm" : ""));
  const sick = partitions.filter((p) => p.name);
  fill(content,
    reasons.length ? h("ul", { class: "reasons" }, reasons.map(line)) : h("p", { class: "fine" }, "Nothing costs a point."),
    sick.length ? h("details", { open: sick.length <= 6 },
      h("summary", {}, `Partitions, the least healthy first`),
      h("table", {}, h("tbody", {}, sick.slice(0, 50).map((p) => h("tr", {},
        h("td", {}, h("span", { class: `badge ${p.color}` }, p.score)),
        h("td", {}, p.name),
        h("td", { class: "reason" }, p.reasons.length ? p.reasons[0].text : ""),
        h("td", { class: "num" }, h("button", { type: "button", on: { click: () => run("compact", { strategy: "full", partitions: [partitionArgument(p.name)] }) } }, "compact")),
      ))))) : null);
}

function drawScores() {
  const content = card("Score over time", "narrow", "");
  const { scores, consumers, now } = answer;
  const behind = consumers.filter((c) => c.snapshots);
  fill(content,
    scores.length ? scoreChart(scores) : h("p", { class: "quiet" }, "The next round stores the first score."),
    behind.length ? h("table", {}, h("tbody", {}, behind.slice(0, 8).map((c) => h("tr", {},
      h("td", {}, "consumer ", h("b", {}, c.id)),
      h("td", { class: "num" }, `${counted(c.snapshots, "snapshot")} behind`),
      h("td", { class: "num" }, c.since ? relative(c.since, now) : "–"))))) : null);
}

function drawFiles() {
  const choice = h("select", { "aria-label": "Partition", hidden: true });
  const content = card("Files by bucket and level", "", "", choice);
  const detail = h("p", { class: "detail", "aria-live": "polite" });
  const tell = (text) => fill(detail, text);
  const show = (partition) => load(content, get("table/files", { ...named, partition }), (found) => {
    choice.hidden = found.partitions.length < 2;
    fill(choice, found.partitions.map((p) => h("option", { value: p.name, selected: p.name === found.partition }, `${p.name} (${counted(p.files, "file")}, ${bytes(p.bytes)})`)));
    if (!found.buckets.length) return h("p", { class: "quiet" }, "The table has no files.");
    tell("Point at a file to see its size and its keys.");
    return [
      bucketPictures(found, tell),
      found.more_buckets ? h("p", { class: "quiet" }, `${counted(found.more_buckets, "bucket")} with fewer files are not drawn`) : null,
      found.primary_key
        ? legend(["l0", "level 0"], ["l1", "levels between"], ["l5", "highest level"])
        : legend(["l0", "below 70 % of the target size"], ["l5", "large enough"], ["target", `target size ${bytes(found.target_bytes)}`]),
      h("p", { class: "quiet" }, found.primary_key
        ? "One lane for each sorted run, from the first key to the last; darker is larger. A read merges all lanes that hold a key."
        : "One column for each file, the oldest on the left; the height is its size."),
      detail,
    ];
  }, "Files");
  choice.addEventListener("change", () => show(choice.value));
  show(null);
}

function drawSnapshots() {
  const content = card("Snapshots", "", "");
  load(content, get("table/snapshots", named), (found) => [
    retentionSentence(found, answer),
    h("div", { class: "scroll-x" }, timeline(found, Math.max(560, content.clientWidth))),
    legend(["append", "append"], ["compact", "compact"], ["overwrite", "overwrite"], ["analyze", "analyze"], ["beyond", "beyond the retention"]),
    found.left_out ? h("p", { class: "quiet" }, `${counted(found.left_out, "older snapshot")} not drawn`) : null,
    found.more_marks ? h("p", { class: "quiet" }, `${counted(found.more_marks, "older mark")} not drawn`) : null,
    holders(answer),
  ], "Snapshots");
}

function drawPlan() {
  const job = h("select", { "aria-label": "Job" }, PLANNED.map((name) => h("option", { value: name }, words(name))), h("option", { value: "compact full" }, "compact (full)"));
  const suggested = answer.row.next_job || (answer.reasons.find((r) => r.job) || {}).job;
  if (PLANNED.includes(suggested)) job.value = suggested;
  const button = h("button", { type: "button", title: "Plan it now, without changing anything (p)" }, "Plan it now");
  const content = card("What is next", "half", "a dry run changes nothing", job, button);
  const plan = h("div", {});
  const lines = answer.decisions.map((d) => h("li", {},
    h("span", { class: "action", title: moment(d.at_millis) }, relative(d.at_millis, answer.now)),
    h("div", {}, h("b", {}, d.job ? `${d.action} ${words(d.job)}` : d.action), ": ", d.reason,
      h("div", {}, h("small", {}, d.job && d.action !== "no" ? `predicted ${duration(d.predicted_seconds)}` : "",
        d.seconds ? `, took ${duration(d.seconds)}` : "",
        d.status ? `, ${words(d.status)}` : "",
        d.score_after !== null && d.score_after !== undefined ? `, score ${d.score_before} → ${d.score_after}` : "")))));
  fill(content, plan, h("ul", { class: "decisions" }, lines.length ? lines : h("li", {}, h("span", {}), "The scheduler has not decided about this table yet.")));
  const show = async () => {
    button.disabled = true;
    const full = job.value === "compact full";
    const name = full ? "compact" : job.value;
    await load(plan, get("table/plan", { ...named, job: name, full: full ? "true" : "" }), (found) => h("div", { class: "plan mono", tabindex: "0" },
      found.lines.length ? found.lines.join("\n") : "nothing to do", found.left_out ? `\n… ${counted(found.left_out, "more line")}` : ""), `Plan of ${words(name)}`);
    button.disabled = false;
  };
  button.addEventListener("click", show);
  addKey("p", "plan the chosen job", show);
}

function drawRuns() {
  const content = card("Runs", "half", answer.runs.length ? "newest first" : "");
  if (!answer.runs.length) {
    fill(content, h("p", { class: "quiet" }, "No job has run on this table yet."));
    return;
  }
  const th = (text, kind = "") => h("th", { scope: "col", class: kind }, text);
  fill(content, h("div", { class: "scroll" }, h("table", {},
    h("thead", {}, h("tr", {}, th("When"), th("Job"), th("Outcome"), th("Files", "num"), th("Bytes", "num"), th("Time", "num"))),
    h("tbody", {}, answer.runs.map(runLine)))));
}

function runLine(r) {
  const [dag, ...rest] = r.actor.split(" ");
  const link = r.origin === "airflow" && rest.length
    ? airflowLink(`dags/${encodeURIComponent(dag)}/runs/${encodeURIComponent(rest.join(" "))}`, words(r.job), { title: r.actor })
    : h("span", { title: r.actor }, words(r.job));
  return h("tr", {},
    h("td", { class: "when", title: moment(r.at_millis) }, relative(r.at_millis, answer.now)),
    h("td", {}, link, r.part_of ? h("small", {}, ` in ${words(r.part_of)}`) : null, sparkLink(r)),
    h("td", {}, h("span", { class: `status ${r.status}`, title: r.error || "" }, words(r.status))),
    h("td", { class: "num change" }, change(r.files_before, r.files_after, count)),
    h("td", { class: "num change" }, r.bytes_freed === null ? change(r.bytes_before, r.bytes_after, bytes) : `${bytes(r.bytes_freed)} freed`),
    h("td", { class: "num" }, duration(r.seconds)));
}

function sparkLink(r) {
  if (!r.application_id) return null;
  return h("small", {}, " ", r.application_url ? outside(r.application_url, "Spark UI", r.application_id) : h("span", { title: r.application_id }, "Spark"));
}

function change(before, after, text) {
  if (before === null && after === null) return h("span", { class: "quiet" }, "–");
  return [text(before || 0), h("i", {}, "→"), text(after || 0)];
}

function drawSchema() {
  const content = card("Columns, options, schema history", "", "");
  load(content, get("table/schemas", named), (found) => {
    const unknown = new Set(found.unknown_options);
    return [
      found.comment ? h("p", { class: "says" }, found.comment) : null,
      h("h3", {}, counted(found.options.length, "option")),
      h("dl", { class: "options" }, found.options.map(([key, value]) => h("div", {},
        h("dt", {}, key, unknown.has(key) ? h("span", { class: "warn", title: "Paimon has no such option, and ignores it" }, " unknown") : null), h("dd", { class: "mono" }, value)))),
      h("details", {}, h("summary", {}, counted(found.columns.length, "column")),
        h("dl", { class: "options" }, found.columns.map((c) => h("div", {}, h("dt", {}, c.name, c.key ? h("small", {}, ` ${c.key} key`) : null), h("dd", { class: "mono" }, c.type, c.comment ? h("small", {}, ` ${c.comment}`) : null))))),
      h("details", { open: found.schemas.length > 1 }, h("summary", {}, counted(found.schemas.length + found.left_out, "schema")),
        h("ul", { class: "schemas" }, found.schemas.map((one) => h("li", {}, h("span", { class: "id" }, one.id),
          h("div", {}, one.changes.length ? one.changes.map((c) => h("div", {}, c)) : h("div", { class: "quiet" }, "no change of columns or options"), h("small", {}, moment(one.at_millis))))))),
    ];
  }, "Schemas");
}

addKey("c", "compact this table", () => run("compact"));
addKey("m", "maintain this table", () => run("maintain"));
addKey("u", "back to the lake", () => go(page("", { warehouse: named.warehouse, branch: named.branch === "main" ? "" : named.branch })));
start();
