// The files of a bucket as a picture.  Primary-key tables: one lane for each sorted run, across the key
// range; files that overlap in keys are in different lanes.  Append tables: one column for each file.

import { h, s } from "./dom.js";
import { bytes, count, counted, moment } from "./format.js";

const WIDTH = 320;
const LEFT = 24;
const MOST_HEIGHT = 210;

/** All buckets of the answer of `table/files`; `tell` shows the words about the file under the pointer. */
export function bucketPictures(answer, tell) {
  return h("div", { class: "buckets" }, answer.buckets.map((bucket) => onePicture(bucket, answer, tell)));
}

function onePicture(bucket, answer, tell) {
  const many = answer.primary_key && bucket.runs >= answer.run_trigger;
  const bad = answer.primary_key && bucket.runs >= answer.run_trigger * 2;
  const badge = answer.primary_key
    ? h("span", { class: `badge ${bad ? "red" : many ? "yellow" : "green"}`, title: `trigger ${answer.run_trigger}` }, counted(bucket.runs, "run"))
    : null;
  return h(
    "section",
    { class: "bucket" },
    h("h3", {}, h("b", {}, bucket.bucket < 0 ? "postponed" : `bucket ${bucket.bucket}`),
      counted(bucket.files, "file"), " · ", bytes(bucket.bytes), h("span", { class: "spring" }), badge),
    answer.primary_key ? lanes(bucket, tell) : columns(bucket, answer.target_bytes, tell),
    bucket.left_out ? h("small", {}, `${count(bucket.left_out)} smaller files are not drawn`) : null,
  );
}

/** Files of level 0 one above the other where their keys overlap, then one lane for each level. */
function lanes(bucket, tell) {
  const levels = [...new Set(bucket.boxes.map((b) => b.level))].sort((a, b) => a - b);
  const rows = [];
  for (const level of levels) {
    const files = bucket.boxes.filter((b) => b.level === level).sort((a, b) => a.low - b.low || a.high - b.high);
    for (const lane of packed(files)) rows.push({ level, files: lane });
  }
  const row = Math.max(2, Math.min(13, MOST_HEIGHT / Math.max(1, rows.length)));
  const height = Math.max(26, rows.length * row + 4);
  const box = s("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": `files of bucket ${bucket.bucket} by level and key` });
  const most = Math.max(1, ...bucket.boxes.map((b) => b.bytes));
  const scale = (WIDTH - LEFT - 4) / Math.max(1, bucket.keys);
  const top = levels[levels.length - 1];
  let before = null;
  rows.forEach(({ level, files }, number) => {
    const y = 2 + number * row;
    if (level !== before) {
      box.append(s("text", { class: "lane", x: 3, y: Math.max(9, y + Math.min(row, 11) - 1.5) }, `L${level}`));
      before = level;
    }
    for (const file of files) {
      const kind = level === 0 ? "l0" : level === top ? "top" : "lower";
      const rect = s("rect", {
        class: `box ${kind}`, x: LEFT + file.low * scale, y, rx: 1,
        width: Math.max(2.5, (file.high - file.low + 1) * scale - 0.6), height: Math.max(1.4, row - 1.2),
      }, s("title", {}, words(file)));
      rect.style.opacity = String(0.4 + 0.6 * (Math.log(1 + file.bytes) / Math.log(1 + most)) ** 2);
      listen(rect, file, tell);
      box.append(rect);
    }
  });
  return box;
}

/** The fewest lanes whose files do not overlap. */
function packed(files) {
  const found = [];
  for (const file of files) {
    const lane = found.find((one) => one[one.length - 1].high < file.low);
    if (lane) lane.push(file);
    else found.push([file]);
  }
  return found;
}

/** One column for each file, oldest first; the height is the size, the dashed line the target size. */
function columns(bucket, target, tell) {
  const height = 96;
  const most = Math.max(...bucket.boxes.map((b) => b.bytes), 1);
  const ceiling = Math.max(most * 1.1, Math.min(target * 1.1, most * 40));
  const size = (value) => Math.max(1.5, Math.sqrt(value / ceiling) * (height - 8));
  const box = s("svg", { viewBox: `0 0 ${WIDTH} ${height}`, role: "img", "aria-label": `files of bucket ${bucket.bucket} by age and size` });
  const wide = (WIDTH - 8) / Math.max(1, bucket.keys);
  for (const file of bucket.boxes) {
    const rect = s("rect", {
      class: `box ${file.bytes * 10 < target * 7 ? "l0" : "top"}`, x: 4 + file.low * wide, y: height - 2 - size(file.bytes),
      width: Math.max(0.8, Math.min(26, wide - 0.5)), height: size(file.bytes),
    }, s("title", {}, words(file)));
    listen(rect, file, tell);
    box.append(rect);
  }
  if (target <= ceiling) {
    const y = height - 2 - size(target);
    box.append(s("line", { class: "target", x1: 0, x2: WIDTH, y1: y, y2: y }));
  }
  return box;
}

function listen(rect, file, tell) {
  rect.addEventListener("pointerenter", () => tell(words(file)));
}

function words(file) {
  const keys = file.first_key || file.last_key ? `, keys ${file.first_key} to ${file.last_key}` : "";
  const deletes = file.delete_rows ? `, ${counted(file.delete_rows, "delete")}` : "";
  const made = file.created_millis ? `, made ${moment(file.created_millis)}` : "";
  return `${file.name}: level ${file.level}, ${bytes(file.bytes)}, ${counted(file.rows, "row")}${deletes}${keys}${made}`;
}
