// Snapshots in their order, with the times below, and what refers to them.

import { h, s } from "./dom.js";
import { bytes, count, counted, duration, moment, tick, words } from "./format.js";

const LEFT = 12;
const RIGHT = 16;
const LANE = 20;
const MOST_LANES = 14;

/** The picture for the answer of `table/snapshots`, drawn for this many pixels. */
export function timeline(answer, width) {
  const dots = answer.snapshots;
  if (!dots.length) return h("p", { class: "quiet" }, "The table has no snapshot.");
  const place = new Map(dots.map((d, i) => [d.id, i]));
  const x = (i) => LEFT + (dots.length === 1 ? 0.5 : i / (dots.length - 1)) * (width - LEFT - RIGHT);
  const at = (id) => {
    if (place.has(id)) return x(place.get(id));
    return id > dots[dots.length - 1].id ? width - RIGHT + 8 : LEFT - 8;
  };
  const marks = answer.marks.slice(0, MOST_LANES);
  const rail = 16;
  const height = rail + 32 + marks.length * LANE;
  const box = s("svg", { class: "timeline", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "snapshots, tags, branches and consumers" });
  const beyond = dots.filter((d) => d.beyond);
  if (beyond.length) {
    const end = x(place.get(beyond[beyond.length - 1].id)) + 5;
    box.append(s("rect", { class: "beyond", x: 0, y: 0, width: end, height: rail + 12, rx: 3 }, s("title", {}, "beyond the retention")));
  }
  box.append(s("line", { class: "rail", x1: 0, x2: width, y1: rail, y2: rail }));
  const size = Math.max(2, Math.min(4.5, (width / dots.length) * 0.4));
  for (const d of dots) {
    const text = `snapshot ${d.id}, ${d.kind.toLowerCase()} by ${d.user}, ${moment(d.at_millis)}, ` +
      `${d.delta_rows === null ? "" : `${d.delta_rows > 0 ? "+" : ""}${count(d.delta_rows)} rows, `}schema ${d.schema_id}`;
    box.append(s("circle", { class: `dot ${d.kind}`, cx: x(place.get(d.id)), cy: rail, r: size }, s("title", {}, text)));
  }
  const span = dots[dots.length - 1].at_millis - dots[0].at_millis;
  const ticks = Math.min(6, dots.length, Math.max(2, Math.floor(width / 100)));
  for (let i = 0; i < ticks; i += 1) {
    const d = dots[Math.round((i * (dots.length - 1)) / Math.max(1, ticks - 1))];
    const anchor = i === 0 ? "start" : i === ticks - 1 && ticks > 1 ? "end" : "middle";
    box.append(s("text", { class: "axis", x: i === 0 ? 2 : anchor === "end" ? width - 2 : x(place.get(d.id)), y: rail + 22, "text-anchor": anchor },
      `${d.id} · ${tick(d.at_millis, span)}`));
  }
  marks.forEach((mark, lane) => {
    const y = rail + 44 + lane * LANE;
    const from = at(mark.snapshot);
    const blocks = mark.kind === "consumer" && mark.name === answer.blocked_by;
    const kind = blocks ? "blocks" : mark.kind;
    box.append(s("line", { class: "stem", x1: from, x2: from, y1: rail + 5, y2: y }));
    if (mark.kind === "consumer") {
      box.append(s("line", { class: `hold ${kind}`, x1: from, x2: width - RIGHT, y1: y, y2: y }));
    }
    const right = from > width * 0.6;
    box.append(
      s("circle", { class: kind, cx: from, cy: y, r: 4 }),
      s("text", { class: "flag", x: right ? from - 8 : from + 8, y: mark.kind === "consumer" ? y - 5 : y + 4, "text-anchor": right ? "end" : "start" }, says(mark)),
    );
  });
  return box;
}

function says(mark) {
  const name = mark.name.length > 60 ? `${mark.name.slice(0, 59)}…` : mark.name;
  if (mark.kind === "consumer") return `consumer ${name} reads from ${mark.snapshot}`;
  const until = mark.until_millis ? `, until ${moment(mark.until_millis)}` : "";
  return mark.kind === "tag" ? `tag ${name}${until}` : `branch ${name}, newest snapshot ${mark.snapshot}`;
}

/** One sentence: how many snapshots exceed the retention, and who keeps them. */
export function retentionSentence(answer, table) {
  const rule = `Retention: ${duration(answer.time_retained_millis / 1000)}, at least ${count(answer.num_retained_min)}` +
    `${answer.num_retained_max === null ? "" : ` and at most ${count(answer.num_retained_max)}`} snapshots. `;
  if (!answer.beyond) return h("p", { class: "says" }, rule, h("span", { class: "fine" }, "No snapshot exceeds it."));
  const held = answer.blocked_by
    ? [" Consumer ", h("b", {}, answer.blocked_by), ` keeps ${count(answer.blocked)} of them.`]
    : [" The next expiry removes them."];
  return h(
    "p",
    { class: "says bad" },
    rule, h("b", {}, `${counted(answer.beyond, "snapshot")} of ${count(answer.count)} exceed it`), ".", held,
    table.beyond_bytes ? ` Only they need ${bytes(table.beyond_bytes)}.` : "",
  );
}

/** What holds files back, as a table; nothing without holders. */
export function holders(table) {
  const rows = [...table.holders].sort((a, b) => b.bytes - a.bytes).slice(0, 12);
  if (!rows.length) return null;
  return h("table", {}, h("thead", {}, h("tr", {}, h("th", { scope: "col" }, "Held back by"), h("th", { scope: "col", class: "num" }, "Snapshots"), h("th", { scope: "col", class: "num" }, "Bytes"))),
    h("tbody", {}, rows.map((one) => h("tr", {}, h("td", {}, words(one.kind), " ", h("b", {}, one.name)), h("td", { class: "num" }, count(one.snapshots)), h("td", { class: "num" }, bytes(one.bytes))))));
}
