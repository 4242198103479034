/** Counts over time: columns for what ended, a line for what was started, and the same as a table. */
import { el, svg } from "../dom.js";
import { renew } from "../renew.js";
import { count } from "../text.js";
import { full, minute } from "../time.js";

const WIDTH = 720;
const HEIGHT = 130;
const LEFT = 34;
const BOTTOM = 18;

/** @typedef {{name: string, tone: string, values: number[], line?: boolean}} Series */

/** @param {{since: number, bucketMs: number, series: Series[], label: string}} options */
export function chart({ since, bucketMs, series, label }) {
  const buckets = Math.max(0, ...series.map((each) => each.values.length));
  const columns = series.filter((each) => !each.line);
  const sums = Array.from({ length: buckets }, (_, at) => columns.reduce((sum, each) => sum + (each.values[at] ?? 0), 0));
  const lines = series.filter((each) => each.line);
  const most = Math.max(1, ...sums, ...lines.flatMap((each) => each.values));
  const top = nice(most);
  const wide = (WIDTH - LEFT) / Math.max(1, buckets);
  const y = (/** @type {number} */ value) => 6 + (HEIGHT - BOTTOM - 6) * (1 - value / top);
  const drawing = svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, class: "chart", role: "img", "aria-label": label });
  for (const share of [0, 0.5, 1]) {
    drawing.append(svg("line", { x1: LEFT, x2: WIDTH, y1: y(top * share), y2: y(top * share), class: "chart-grid" }),
      svg("text", { x: LEFT - 6, y: y(top * share) + 3.5, class: "chart-text", "text-anchor": "end" }, short(top * share)));
  }
  for (let at = 0; at < buckets; at += 1) {
    let from = 0;
    const group = svg("g", {}, svg("title", {}, `${full(since + at * bucketMs).split("\n")[0]}\n${series.map((each) => `${each.name} ${count(each.values[at] ?? 0)}`).join(", ")}`));
    group.append(svg("rect", { x: LEFT + at * wide, y: 0, width: wide, height: HEIGHT - BOTTOM, class: "chart-hit" }));
    for (const each of columns) {
      const value = each.values[at] ?? 0;
      if (!value) continue;
      group.append(svg("rect", { x: LEFT + at * wide + wide * 0.12, width: Math.max(1, wide * 0.76), y: y(from + value), height: Math.max(0.8, y(from) - y(from + value)), class: `chart-bar tone-${each.tone}` }));
      from += value;
    }
    drawing.append(group);
  }
  for (const each of lines) {
    const points = each.values.map((value, at) => `${(LEFT + (at + 0.5) * wide).toFixed(1)},${y(value).toFixed(1)}`).join(" ");
    drawing.append(svg("polyline", { points, class: `chart-line tone-${each.tone}` }));
  }
  const marks = Math.min(6, buckets);
  for (let mark = 0; mark < marks; mark += 1) {
    const at = Math.floor((mark * buckets) / marks);
    drawing.append(svg("text", { x: LEFT + at * wide, y: HEIGHT - 4, class: "chart-text" }, minute(since + at * bucketMs)));
  }
  const legend = el("div", { class: "legend" }, series.map((each) => el("span", { class: `tone-${each.tone}` }, el("i", { class: each.line ? "as-line" : "" }), `${each.name} ${count(each.values.reduce((sum, value) => sum + value, 0))}`)));
  return el("figure", { class: "figure" }, legend, drawing, table(since, bucketMs, series, label));
}

/** @param {number} since @param {number} bucketMs @param {Series[]} series @param {string} label */
function table(since, bucketMs, series, label) {
  const isOpen = (/** @type {Element} */ details) => /** @type {HTMLDetailsElement} */ (details).open;
  const draw = (/** @type {Element} */ details) => {
    const box = details.lastElementChild;
    if (!box || !isOpen(details)) return;
    const buckets = series[0]?.values.length ?? 0;
    const rows = Array.from({ length: buckets }, (_, at) => el("tr", { "data-key": since + at * bucketMs }, el("th", { scope: "row", text: minute(since + at * bucketMs) }), series.map((each) => el("td", { class: "num", text: count(each.values[at] ?? 0) }))));
    renew(box, el("table", {}, el("caption", { class: "visually-hidden", text: label }), el("thead", {}, el("tr", {}, el("th", { scope: "col", text: "from" }), series.map((each) => el("th", { scope: "col", class: "num", text: each.name })))), el("tbody", {}, rows)));
  };
  const details = el("details", { class: "as-table", ontoggle: (/** @type {Event} */ event) => draw(/** @type {Element} */ (event.currentTarget)), onrenew: draw },
    el("summary", { text: "As a table" }), el("div", { class: "of-max", tabindex: 0, role: "region", "aria-label": label, "data-own": true }));
  return details;
}

/** The next 1, 2 or 5 with zeros. @param {number} value */
function nice(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  const step = [1, 2, 5, 10].find((each) => each * power >= value) ?? 10;
  return Math.max(2, step * power);
}

/** @param {number} value */
const short = (value) => (value >= 1e6 ? `${value / 1e6}M` : value >= 1e3 ? `${value / 1e3}k` : String(Math.round(value * 10) / 10));
