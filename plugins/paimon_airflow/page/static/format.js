// Figures for people.

const UNITS = ["B", "KB", "MB", "GB", "TB", "PB", "EB"];

/** "4.2 GB"; powers of 1024, as everywhere in Caretaker. */
export function bytes(value) {
  if (value === null || value === undefined) return "–";
  let size = Math.abs(value);
  let unit = 0;
  while (size >= 1023.5 && unit < UNITS.length - 1) {
    size /= 1024;
    unit += 1;
  }
  const digits = unit === 0 || size >= 99.5 ? 0 : 1;
  return `${value < 0 ? "−" : ""}${size.toFixed(digits)} ${UNITS[unit]}`;
}

/** "12,345". */
export function count(value) {
  if (value === null || value === undefined) return "–";
  return Math.round(value).toLocaleString("en-US").replace("-", "−");
}

/** "1 file", "12 files". */
export function counted(value, one) {
  return `${count(value)} ${Math.abs(value) === 1 ? one : `${one}s`}`;
}

/** "3.4". */
export function decimal(value, digits = 1) {
  return value === null || value === undefined ? "–" : value.toFixed(digits);
}

/** "12 %". */
export function percent(share) {
  return share === null || share === undefined ? "–" : `${Math.round(share * 100)} %`;
}

/** "340 ms", "4.2 s", "12 min", "3.5 h", "12 d". */
export function duration(seconds) {
  if (seconds === null || seconds === undefined) return "–";
  const value = Math.abs(seconds);
  if (value < 1) return `${Math.round(value * 1000)} ms`;
  if (value < 60) return `${value.toFixed(value < 10 ? 1 : 0)} s`;
  if (value < 3600) return `${Math.round(value / 60)} min`;
  if (value < 172800) return `${(value / 3600).toFixed(value < 36000 ? 1 : 0)} h`;
  return `${Math.round(value / 86400)} d`;
}

/** "5 min ago", "in 3 h"; both in milliseconds since the epoch. */
export function relative(at, now) {
  if (at === null || at === undefined) return "–";
  const seconds = (now - at) / 1000;
  if (Math.abs(seconds) < 45) return "now";
  const text = seconds < 0 && seconds > -60 ? "1 min" : duration(Math.abs(seconds) < 60 ? 60 : seconds);
  return seconds < 0 ? `in ${text}` : `${text} ago`;
}

/** "2026-11-22 15:04", in the browser's zone. */
export function moment(at) {
  if (at === null || at === undefined) return "–";
  const d = new Date(at);
  const two = (n) => String(n).padStart(2, "0");
  return `${d.getFullYear()}-${two(d.getMonth() + 1)}-${two(d.getDate())} ${two(d.getHours())}:${two(d.getMinutes())}`;
}

/** "Nov 22" or "15:04", whichever tells more over this span. */
export function tick(at, span) {
  const d = new Date(at);
  const two = (n) => String(n).padStart(2, "0");
  if (span > 2 * 86400000) return d.toLocaleDateString("en-US", { month: "short", day: "numeric" });
  if (span > 10 * 60000) return `${two(d.getHours())}:${two(d.getMinutes())}`;
  return `${two(d.getHours())}:${two(d.getMinutes())}:${two(d.getSeconds())}`;
}

/** "expire snapshots" of "expire_snapshots". */
export function words(name) {
  return String(name).replaceAll("_", " ");
}

/** The argument that chooses the partition of this folder: "dt=a%2Fb/hr=1" is "dt=a/b,hr=1". */
export function partitionArgument(name) {
  const plain = (text) => text.replace(/%([0-9A-Fa-f]{2})/g, (_, code) => String.fromCharCode(parseInt(code, 16)));
  return name.split("/").map((part) => plain(part).replace(/[,;]/g, "\\$&")).join(",");
}
