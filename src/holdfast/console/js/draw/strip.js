/** All of a timeline in one strip, on a canvas; a stretch of it is chosen by dragging. */
/** @import { Row } from "../types.js" */
/** @import { Scale } from "./scale.js" */
import { el } from "../dom.js";

const HEIGHT = 34;
const COLOURS = /** @type {Record<string, string>} */ ({ completed: "--good-fill", failed: "--bad-fill", running: "--busy-fill", cancelled: "--off-fill", timed_out: "--bad-fill" });

/** What does something; the other kinds of operations wait. */
export const PERFORMS = new Set(["step", "transact", "call", "start", "task"]);

/** Since when a step waits for its next attempt. @param {Row} row */
export const restsSince = (row) => (row.resumesAt === undefined ? undefined : row.failures?.at(-1)?.at);

export class Strip {
  /** @param {(from: number, to: number) => void} onChoose */
  constructor(onChoose) {
    this.onChoose = onChoose;
    this.canvas = el("canvas", { class: "tl-strip", "aria-hidden": "true" });
    this.window = el("div", { class: "tl-window" });
    this.element = el("div", { class: "tl-strip-box", title: "Drag to zoom, double-click for all", onpointerdown: (/** @type {PointerEvent} */ event) => this.drag(event), ondblclick: () => onChoose(0, 1) }, this.canvas, this.window);
    this.redraw = () => {};
    this.onPreferences = () => this.redraw();
    addEventListener("preferences", this.onPreferences);
  }

  dispose() { removeEventListener("preferences", this.onPreferences); }

  /** @param {Row[]} rows @param {Scale} scale @param {{from: number, to: number}} zoom @param {number} end */
  draw(rows, scale, zoom, end) {
    this.redraw = () => this.paint(rows, scale, end);
    this.redraw();
    this.window.style.left = `${100 * zoom.from}%`;
    this.window.style.width = `${100 * (zoom.to - zoom.from)}%`;
    this.window.hidden = zoom.from === 0 && zoom.to === 1;
  }

  /** @param {Row[]} rows @param {Scale} scale @param {number} end */
  paint(rows, scale, end) {
    const width = this.element.clientWidth;
    if (!width) return;
    const density = devicePixelRatio || 1;
    this.canvas.width = width * density;
    this.canvas.height = HEIGHT * density;
    const context = this.canvas.getContext("2d");
    if (!context) return;
    context.scale(density, density);
    const styles = getComputedStyle(document.documentElement);
    const colour = (/** @type {string} */ name) => styles.getPropertyValue(name);
    const found = Object.fromEntries(Object.entries(COLOURS).map(([state, name]) => [state, colour(name)]));
    const rest = colour("--rest-fill");
    const height = Math.max(1, Math.min(4, HEIGHT / Math.max(1, rows.length)));
    rows.forEach((row, index) => {
      const from = scale.place(row.startedAt) * width;
      const to = scale.place(row.endedAt ?? (row.state === "running" ? end : row.startedAt)) * width;
      const rests = restsSince(row);
      const waits = !PERFORMS.has(row.kind) || rests !== undefined;
      const y = (index / rows.length) * (HEIGHT - height);
      context.fillStyle = waits && row.state !== "failed" ? rest : found[row.state] ?? rest;
      context.fillRect(from, y, Math.max(1, to - from), height);
      if (rests === undefined) return;
      context.fillStyle = found["failed"] ?? rest; // its attempts so far
      context.fillRect(from, y, Math.max(1, scale.place(rests) * width - from), height);
    });
    context.fillStyle = colour("--edge-strong");
    for (const each of scale.breaks) {
      for (let y = 0; y < HEIGHT; y += 5) context.fillRect(((each.at + each.until) / 2) * width, y, 1, 3);
    }
  }

  /** @param {PointerEvent} event */
  drag(event) {
    if (event.button !== 0) return;
    const box = this.element.getBoundingClientRect();
    const share = (/** @type {PointerEvent} */ each) => Math.max(0, Math.min(1, (each.clientX - box.left) / box.width));
    const start = share(event);
    this.element.setPointerCapture(event.pointerId);
    const move = (/** @type {PointerEvent} */ each) => {
      const at = share(each);
      this.window.hidden = false;
      this.window.style.left = `${100 * Math.min(start, at)}%`;
      this.window.style.width = `${100 * Math.abs(at - start)}%`;
    };
    const done = (/** @type {PointerEvent} */ each) => {
      this.element.removeEventListener("pointermove", move);
      const at = share(each);
      if (Math.abs(at - start) > 0.005) this.onChoose(Math.min(start, at), Math.max(start, at));
    };
    this.element.addEventListener("pointermove", move);
    this.element.addEventListener("pointerup", done, { once: true });
  }
}
