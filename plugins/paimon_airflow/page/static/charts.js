// Small charts in SVG; colors come from the style sheet.

import { h, s } from "./dom.js";
import { bytes, count, duration, moment, tick } from "./format.js";

/** A line over time without axes; `values` may hold nulls. */
export function spark(values, { width = 120, height = 28, label = "" } = {}) {
  const known = values.filter((v) => v !== null);
  const box = s("svg", {
    class: "spark", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img",
    "aria-label": label,
  });
  if (known.length < 2) return box;
  const low = Math.min(...known);
  const span = Math.max(...known) - low || Math.abs(low) || 1;
  const x = (i) => (i / (values.length - 1)) * width;
  const y = (v) => height - 3 - ((v - low) / span) * (height - 6);
  const points = values.map((v, i) => (v === null ? null : `${x(i).toFixed(1)} ${y(v).toFixed(1)}`));
  const line = points.filter(Boolean).map((p, i) => `${i ? "L" : "M"}${p}`).join("");
  box.append(
    s("path", { class: "area", d: `${line}L${width} ${height}L0 ${height}Z` }),
    s("path", { class: "line", d: line }),
  );
  return box;
}

/** Green, yellow and red over time, stacked. */
export function colorBands(points, { width = 600, height = 64 } = {}) {
  const box = s("svg", {
    class: "bands", viewBox: `0 0 ${width} ${height}`, preserveAspectRatio: "none", role: "img",
    "aria-label": "green, yellow and red tables over time",
  });
  if (points.length < 2) return box;
  const x = (i) => (i / (points.length - 1)) * width;
  const levels = points.map((p) => {
    const all = Math.max(1, p.green + p.yellow + p.red);
    return [0, p.red / all, (p.red + p.yellow) / all, 1];
  });
  ["red", "yellow", "green"].forEach((name, band) => {
    const at = (i, edge) => `${x(i).toFixed(1)} ${(height - levels[i][band + edge] * height).toFixed(1)}`;
    const up = points.map((_, i) => at(i, 1));
    const down = points.map((_, i) => at(i, 0)).reverse();
    box.append(s("path", { class: `band ${name}`, d: `M${[...up, ...down].join("L")}Z` }));
  });
  return box;
}

/** A horizontal bar for a share of the largest. */
export function bar(share, kind = "") {
  const width = Math.max(0, Math.min(1, share || 0)) * 100;
  return s(
    "svg",
    { class: `bar ${kind}`, viewBox: "0 0 100 6", preserveAspectRatio: "none", "aria-hidden": "true" },
    s("rect", { class: "track", width: 100, height: 6 }),
    s("rect", { class: "value", width: width.toFixed(1), height: 6 }),
  );
}

/** The score over time, on bands of the three colors. */
export function scoreChart(points) {
  const width = 460;
  const height = 120;
  const left = 26;
  const bottom = 18;
  const box = s("svg", {
    class: "chart scores", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "score over time",
  });
  const ordered = [...points].reverse();
  const first = ordered[0].at_millis;
  const span = ordered[ordered.length - 1].at_millis - first || 1;
  const x = (at) => left + ((at - first) / span) * (width - left - 8);
  const y = (score) => 6 + (1 - score / 100) * (height - bottom - 6);
  for (const [from, to, name] of [[80, 100, "green"], [50, 80, "yellow"], [0, 50, "red"]]) {
    box.append(
      s("rect", { class: `zone ${name}`, x: left, y: y(to), width: width - left - 8, height: y(from) - y(to) }),
      s("text", { class: "axis", x: left - 5, y: y(from) + 4, "text-anchor": "end" }, from),
    );
  }
  const d = ordered.map((p, i) => `${i ? "L" : "M"}${x(p.at_millis).toFixed(1)} ${y(p.score).toFixed(1)}`);
  box.append(s("path", { class: "line", d: d.join("") }));
  for (const p of ordered) {
    const kind = p.score >= 80 ? "green" : p.score >= 50 ? "yellow" : "red";
    box.append(
      s("circle", { class: `point ${kind}`, cx: x(p.at_millis), cy: y(p.score), r: 3 },
        s("title", {}, `${p.score} at ${moment(p.at_millis)}`)),
    );
  }
  const last = first + (ordered.length > 1 ? span : 0);
  box.append(
    s("text", { class: "axis", x: left, y: height - 4 }, tick(first, span)),
    ordered.length > 1
      ? s("text", { class: "axis", x: width - 8, y: height - 4, "text-anchor": "end" }, tick(last, span))
      : s("g"),
  );
  return box;
}

/** Seconds of each day as bars. */
export function dayBars(days, since, now, width) {
  const height = 130;
  const bottom = 18;
  const top = 16;
  const DAY = 86400000;
  const first = Math.floor(since / DAY) * DAY;
  const number = Math.max(1, Math.floor(now / DAY) - first / DAY + 1);
  const by = new Map(days.map((d) => [d.at_millis, d]));
  const most = Math.max(1, ...days.map((d) => d.seconds));
  const step = width / number;
  const box = s("svg", {
    class: "chart days", viewBox: `0 0 ${width} ${height}`, role: "img", "aria-label": "time spent by day",
  });
  for (let i = 0; i < number; i += 1) {
    const at = first + i * DAY;
    const day = by.get(at);
    const size = day ? (day.seconds / most) * (height - bottom - top) : 0;
    const x = i * step + step * 0.12;
    const wide = step * 0.76;
    if (day) {
      const text = `${new Date(at).toISOString().slice(0, 10)}: ${count(day.runs)} runs, ` +
        `${duration(day.seconds)}, ${bytes(day.bytes_rewritten)} read and written, ${count(day.failed)} failed`;
      box.append(
        s("rect", { class: "value", x, y: height - bottom - size, width: wide, height: size, rx: 1.5 },
          s("title", {}, text)),
      );
      if (day.failed) {
        const part = Math.max(2, (size * day.failed) / day.runs);
        box.append(s("rect", { class: "failed", x, y: height - bottom - part, width: wide, height: part },
          s("title", {}, text)));
      }
      if (number <= 14) {
        box.append(s("text", { class: "axis strong", x: x + wide / 2, y: height - bottom - size - 4,
          "text-anchor": "middle" }, duration(day.seconds)));
      }
    } else {
      box.append(s("rect", { class: "track", x, y: height - bottom - 1, width: wide, height: 1 }));
    }
    if (number <= 14 || i % 7 === 0) {
      box.append(s("text", { class: "axis", x: x + wide / 2, y: height - 4, "text-anchor": "middle" },
        new Date(at).toLocaleDateString("en-US", { month: "short", day: "numeric", timeZone: "UTC" })));
    }
  }
  return box;
}

/**
 * Predicted against measured seconds on logarithmic axes; the diagonal is a perfect prediction.
 * Circles without a filling are runs that were predicted without past runs of their job.
 */
export function predictionChart(points, open) {
  const size = 300;
  const left = 40;
  const bottom = 30;
  const values = points.flatMap((p) => [p.predicted_seconds, p.seconds]).filter((v) => v > 0);
  const low = Math.floor(Math.log10(Math.min(0.1, ...values)));
  const high = Math.max(low + 1, Math.ceil(Math.log10(Math.max(1, ...values))));
  const scale = (v) => (Math.log10(Math.max(v, 10 ** low)) - low) / (high - low);
  const x = (v) => left + scale(v) * (size - left - 10);
  const y = (v) => size - bottom - scale(v) * (size - bottom - 10);
  const box = s("svg", {
    class: "chart scatter", viewBox: `0 0 ${size} ${size}`, role: "img",
    "aria-label": "predicted against measured seconds",
  });
  const clamp = (v) => Math.min(10 ** high, Math.max(10 ** low, v));
  const near = [];
  for (const [factor, back] of [[1.35, false], [1 / 1.35, true]]) {
    const ends = [10 ** low, 10 ** high].map((v) => `${x(clamp(v)).toFixed(1)} ${y(clamp(v * factor)).toFixed(1)}`);
    near.push(...(back ? ends.reverse() : ends));
  }
  box.append(s("path", { class: "near", d: `M${near.join("L")}Z` },
    s("title", {}, "within 35 % of the measured time")));
  for (let power = low; power <= high; power += 1) {
    const v = 10 ** power;
    const text = duration(v);
    box.append(
      s("line", { class: "grid", x1: x(v), x2: x(v), y1: 10, y2: size - bottom }),
      s("line", { class: "grid", x1: left, x2: size - 10, y1: y(v), y2: y(v) }),
      s("text", { class: "axis", x: x(v), y: size - bottom + 13, "text-anchor": "middle" }, text),
      s("text", { class: "axis", x: left - 5, y: y(v) + 3, "text-anchor": "end" }, text),
    );
  }
  box.append(
    s("line", { class: "ideal", x1: x(10 ** low), y1: y(10 ** low), x2: x(10 ** high), y2: y(10 ** high) }),
    s("text", { class: "axis", x: (size + left) / 2, y: size - 3, "text-anchor": "middle" }, "measured"),
    s("text", { class: "axis", x: left + 5, y: 21 }, "predicted"),
  );
  for (const p of points) {
    const off = Math.abs(p.predicted_seconds - p.seconds) / Math.max(0.01, p.seconds);
    const kind = p.past_runs === 0 ? "point first" : off <= 0.35 ? "point" : "point far";
    const dot = s("circle", { class: kind, cx: x(p.seconds), cy: y(p.predicted_seconds), r: 3 },
      s("title", {}, `${p.table} ${p.job}: predicted ${duration(p.predicted_seconds)}, measured ${duration(p.seconds)}${p.past_runs === 0 ? "; without past runs of the job" : ""}`));
    dot.addEventListener("click", () => open(p));
    box.append(dot);
  }
  return box;
}

/** A legend: entries of a class and a text. */
export function legend(...entries) {
  return h("p", { class: "legend" }, entries.map(([kind, text]) => h("span", {}, h("i", { class: `key ${kind}` }), text)));
}
