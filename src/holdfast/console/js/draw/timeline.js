/**
 * The timeline of an execution: a bar for each step, attempt, sleep, wait and child; claims, crashes, takeovers.
 *
 * 1. Only the rows in sight exist, so ten thousand steps cost what forty do. The strip above shows all of them.
 * 2. The zoom is a stretch of the strip; gaps are compressed by `Scale`.
 * 3. Rows are a list with text for screen readers; the same rows are a table under "Steps".
 * 4. A row in sight keeps its element, so that what runs can grow each second under the pointer.
 * 5. While it scrolls, the rows in sight are drawn first and the spare ones around them in the next frame. Tooltips are made
 *    when somebody points at a bar. So no frame is long.
 */
/** @import { Row, Claim } from "../types.js" */
import { el, handlerOf } from "../dom.js";
import { icon } from "../icons.js";
import { renew, update } from "../renew.js";
import { brief, visible } from "../text.js";
import { duration, full, moment, now } from "../time.js";
import { Scale, ticks } from "./scale.js";
import { PERFORMS, Strip, restsSince } from "./strip.js";

const ROW = 24;
const SPARE = 10;
const SHORT_CALL_MS = 10_000; // a longer call may be a gap: whoever is called waits, too
const CALLS = new Set(["call", "start"]);

/** @typedef {{from: number, to: number, rows: Row[], claims: Claim[], isOver: boolean}} Model */
/** @typedef {{row: Row, depth: number, isOpen: boolean, canOpen: boolean}} Line */

export class Timeline {
  /** @param {{onOpen: (row: Row) => Promise<Row[]>, onChoose: (row: Row) => void}} options */
  constructor(options) {
    this.options = options;
    /** @type {Model} */
    this.model = { from: 0, to: 1, rows: [], claims: [], isOver: true };
    /** @type {Line[]} */
    this.lines = [];
    /** @type {Map<string, Row[]>} */
    this.opened = new Map();
    this.compress = true;
    this.zoom = { from: 0, to: 1 };
    this.scale = new Scale({ from: 0, to: 1 }, [], false);
    /** @type {Map<string, {line: Line, index: number, element: HTMLElement}>} */
    this.drawn = new Map();
    this.frame = 0;
    /** @type {string | null} */
    this.chosen = null;
    this.strip = new Strip((from, to) => this.zoomTo(from, to));
    this.axis = el("div", { class: "tl-axis", "aria-hidden": "true" });
    this.marks = el("div", { class: "tl-marks", "aria-hidden": "true" });
    this.lane = el("div", { class: "tl-lane" });
    this.list = el("ol", { class: "tl-list", "aria-label": "Operations in time" });
    this.scroll = el("div", { class: "tl-scroll", tabindex: 0, role: "region", "aria-label": "Timeline", onscroll: () => this.schedule(), onkeydown: (/** @type {KeyboardEvent} */ event) => this.key(event), onwheel: (/** @type {WheelEvent} */ event) => this.wheel(event) }, this.list);
    const squeeze = el("input", { type: "checkbox", checked: true, onchange: () => { this.compress = squeeze.checked; this.rescale(); } });
    this.about = el("span", { class: "muted" });
    this.element = el("div", { class: "timeline" },
      el("div", { class: "tl-tools" },
        el("button", { class: "small", type: "button", "aria-label": "Zoom in", title: "Zoom in (+)", text: "+", onclick: () => this.magnify(0.5) }),
        el("button", { class: "small", type: "button", "aria-label": "Zoom out", title: "Zoom out (-)", text: "\u2212", onclick: () => this.magnify(2) }),
        el("button", { class: "small", type: "button", title: "Show all (0)", text: "All", onclick: () => this.zoomTo(0, 1) }),
        el("label", {}, squeeze, " compress long gaps"), this.about),
      el("div", { class: "tl-head" }, el("div", { class: "tl-label" }), el("div", { class: "tl-track" }, this.strip.element)),
      el("div", { class: "tl-head" }, el("div", { class: "tl-label muted", text: "" }), el("div", { class: "tl-track tl-axis-box" }, this.axis)),
      el("div", { class: "tl-head tl-workers" }, el("div", { class: "tl-label muted", text: "held by" }), el("div", { class: "tl-track" }, this.lane)),
      el("div", { class: "tl-body" }, this.scroll, el("div", { class: "tl-over" }, el("div", { class: "tl-label" }), el("div", { class: "tl-track" }, this.marks))));
    this.element.addEventListener("pointerover", ({ target }) => {
      const title = target instanceof Element ? handlerOf(target, "tooltip") : undefined;
      if (title) title(target);
    });
    this.observer = new ResizeObserver(() => { this.align(); this.redraw(); });
    this.observer.observe(this.scroll);
  }

  dispose() { this.observer.disconnect(); this.strip.dispose(); cancelAnimationFrame(this.frame); }

  /** What stands above the rows ends where they end: some scrollbars take room. */
  align() { this.element.style.setProperty("--gutter", `${this.scroll.offsetWidth - this.scroll.clientWidth}px`); }

  /** @param {Model} model */
  set(model) {
    this.model = model;
    this.rescale();
  }

  /** Time has passed: what runs grows. */
  tick() { if (!this.model.isOver) this.rescale(); }

  rescale() {
    const { model } = this;
    const to = model.isOver ? model.to : Math.max(model.to, now());
    const all = [...model.rows, ...[...this.opened.values()].flat()];
    const isBusy = (/** @type {Row} */ row) => PERFORMS.has(row.kind) && (!CALLS.has(row.kind) || (row.endedAt ?? to) - row.startedAt < SHORT_CALL_MS);
    const busy = all.filter(isBusy).map((row) => ({ from: row.startedAt, to: row.endedAt ?? to }));
    this.scale = new Scale({ from: model.from, to }, busy, this.compress);
    this.end = to;
    this.flatten();
    this.redraw();
  }

  end = 1;

  flatten() {
    /** @type {Line[]} */
    const lines = [];
    const visit = (/** @type {Row[]} */ rows, /** @type {number} */ depth) => {
      for (const row of rows) {
        const inner = this.opened.get(row.id);
        lines.push({ row, depth, isOpen: inner !== undefined, canOpen: row.child !== undefined && depth < 8 });
        if (inner) visit(inner, depth + 1);
      }
    };
    visit(this.model.rows, 0);
    this.lines = lines;
    this.list.style.height = `${lines.length * ROW}px`;
  }

  schedule() { this.frame ||= requestAnimationFrame(() => this.scrolled()); }

  /** The rows in sight now, the spare ones when nothing has moved since. */
  scrolled() {
    const { scrollTop } = this.scroll;
    this.drawRows(false, 0);
    this.frame = requestAnimationFrame(() => {
      this.frame = 0;
      if (this.scroll.scrollTop === scrollTop) this.drawRows(false);
      else this.schedule();
    });
  }

  redraw() {
    this.strip.draw(this.lines.map((each) => each.row), this.scale, this.zoom, this.end);
    this.drawAxis();
    this.drawLane();
    this.drawRows(true);
    const breaks = this.scale.breaks.length;
    this.about.textContent = `${duration(this.end - this.model.from)} in all${breaks ? `, ${breaks === 1 ? "one gap" : `${breaks} gaps`} compressed` : ""}`;
  }

  /** The share of the track at which an instant is. @param {number} instant */
  at(instant) { return (this.scale.place(instant) - this.zoom.from) / (this.zoom.to - this.zoom.from); }

  /** @param {boolean} anew @param {number} [spare] */
  drawRows(anew, spare = SPARE) {
    const { scrollTop, clientHeight } = this.scroll;
    const first = Math.max(0, Math.floor(scrollTop / ROW) - spare);
    const last = Math.min(this.lines.length, Math.ceil((scrollTop + (clientHeight || 480)) / ROW) + spare);
    const wanted = new Map();
    for (let index = first; index < last; index += 1) {
      const line = /** @type {Line} */ (this.lines[index]);
      wanted.set(`${line.depth} ${line.row.id}`, { line, index });
    }
    for (const [key, { element }] of this.drawn) if (!wanted.has(key)) { element.remove(); this.drawn.delete(key); }
    const fresh = document.createDocumentFragment();
    for (const [key, { line, index }] of wanted) {
      const there = this.drawn.get(key);
      if (there && !anew && there.index === index) continue;
      const element = there?.element ?? this.row(line, index);
      if (there) update(element, this.row(line, index));
      else fresh.append(element);
      this.drawn.set(key, { line, index, element });
    }
    this.list.append(fresh);
  }

  /** @param {Line} line @param {number} index */
  row(line, index) {
    const { row } = line;
    const until = row.endedAt ?? (row.state === "running" ? this.end : row.startedAt);
    const took = row.endedAt === undefined ? "still going on" : duration(row.endedAt - row.startedAt);
    const indent = el("span", { class: "tl-indent" });
    indent.style.width = `${line.depth * 14}px`;
    const fold = line.canOpen
      ? el("button", { class: "icon tl-fold", type: "button", "aria-expanded": line.isOpen, "aria-label": `${line.isOpen ? "Fold" : "Unfold"} ${brief(row.name || row.kind, 60)}`, onclick: () => void this.toggle(row) }, icon(line.isOpen ? "down" : "right"))
      : el("span", { class: "tl-fold" });
    const name = el("button", { class: "link tl-name", type: "button", title: visible(`${row.kind} ${row.name}\n${row.id}`.slice(0, 600)), onclick: () => this.choose(row) }, icon(row.kind), el("bdi", { text: brief(row.name || row.kind, 80) }));
    const track = el("div", { class: "tl-track" }, this.bars(row, until));
    const item = el("li", { class: `tl-row ${row.id === this.chosen ? "chosen" : ""}`, "data-id": row.id },
      el("div", { class: "tl-label" }, indent, fold, name, el("span", { class: "visually-hidden", text: `${row.kind}, ${row.state}, ${took}, began ${moment(row.startedAt)}` })), track);
    item.style.top = `${index * ROW}px`;
    return item;
  }

  /** @param {Row} row @param {number} until */
  bars(row, until) {
    const rests = restsSince(row);
    const found = [this.bar(`tl-bar kind-${PERFORMS.has(row.kind) ? "work" : "wait"} state-${rests === undefined ? row.state : "failed"}`, row.startedAt, rests ?? until, () => `${row.kind} ${row.name}\n${row.state}, ${row.endedAt === undefined ? "since" : "took"} ${duration(until - row.startedAt)}${(row.attempts ?? 0) > 1 ? `, ${row.attempts} attempts` : ""}${row.worker ? `\non ${row.worker}` : ""}${row.error ? `\n${row.error}` : ""}\n${full(row.startedAt)}`)];
    if (rests !== undefined) found.push(this.bar("tl-bar kind-wait state-running", rests, until, () => `waits for the next attempt at ${row.name}\nat ${full(row.resumesAt ?? 0)}`));
    for (const each of row.failures ?? []) {
      if (each.at !== undefined) found.push(this.bar("tl-attempt", each.at, each.at, () => `attempt ${each.number ?? each.attempt ?? ""} failed${each.code ? ` with ${each.code}` : ""}\n${each.message ?? each.error ?? ""}`));
    }
    const [bar] = found;
    if (bar) {
      const label = el("span", { class: "tl-took", "aria-hidden": "true", text: row.endedAt === undefined && row.state === "running" ? duration(until - row.startedAt) : duration(until - row.startedAt) + ((row.attempts ?? 0) > 1 ? ` \u00b7 ${row.attempts}\u00d7` : "") });
      const end = this.at(until);
      if (end >= 0 && end < 0.86) label.style.left = `calc(${(100 * end).toFixed(3)}% + 6px)`;
      else if (this.at(row.startedAt) > 0.1 && end >= 0.86) { label.style.right = `calc(${(100 * (1 - Math.min(1, this.at(row.startedAt)))).toFixed(3)}% + 6px)`; }
      else label.classList.add("inside");
      found.push(label);
    }
    return found.filter((each) => each !== null);
  }

  /** @param {string} style @param {number} from @param {number} to @param {() => string} title */
  bar(style, from, to, title) {
    const left = Math.max(-0.01, this.at(from));
    const right = Math.min(1.01, this.at(to));
    if (right < 0 || left > 1) return null;
    const bar = el("span", { class: style, "data-lazy": true, ontooltip: (/** @type {Element} */ shown) => shown.setAttribute("title", visible(title().slice(0, 2000))) });
    bar.style.left = `${(100 * left).toFixed(3)}%`;
    bar.style.width = `${Math.max(0, 100 * (right - left)).toFixed(3)}%`;
    return bar;
  }

  drawAxis() {
    const from = this.scale.instant(this.zoom.from);
    const to = this.scale.instant(this.zoom.to);
    const wanted = Math.max(2, Math.floor((this.axis.clientWidth || 720) / 96));
    // Round instants where time runs evenly; even distances where gaps are compressed.
    const even = Array.from({ length: wanted }, (_, index) => this.scale.instant(this.zoom.from + ((this.zoom.to - this.zoom.from) * index) / wanted));
    const shown = [];
    const isShort = to - from < 120_000;
    const origin = isShort ? this.model.from : 0;
    const round = ticks(from - origin, to - origin, wanted).found.map((each) => each + origin);
    for (const instant of this.scale.breaks.length ? even : round) {
      const at = this.at(instant);
      if (at < 0 || at > 0.95) continue;
      const text = el("span", { text: isShort ? `+${duration(instant - this.model.from)}` : moment(instant) });
      text.style.left = `${(100 * at).toFixed(3)}%`;
      shown.push(text);
    }
    renew(this.axis, shown);
    const marks = [];
    for (const each of moments(this.model.claims)) {
      const at = this.at(each.at);
      if (at < 0 || at > 1) continue;
      const mark = el("span", { class: `tl-mark is-${each.kind}` });
      mark.style.left = `${100 * at}%`;
      marks.push(mark);
    }
    for (const each of this.scale.breaks) {
      const left = (each.at - this.zoom.from) / (this.zoom.to - this.zoom.from);
      const right = (each.until - this.zoom.from) / (this.zoom.to - this.zoom.from);
      if (right < 0 || left > 1) continue;
      const gap = el("span", { class: "tl-gap" }, el("span", { text: `\u22ef ${duration(each.to - each.from)}` }));
      gap.style.left = `${100 * Math.max(0, left)}%`;
      gap.style.width = `${100 * (Math.min(1, right) - Math.max(0, left))}%`;
      marks.push(gap);
    }
    renew(this.marks, marks);
  }

  drawLane() {
    const found = [];
    for (const [at, claim] of this.model.claims.entries()) {
      const lapsed = claim.end === "lapsed";
      const bar = this.bar(`tl-claim ${lapsed ? "is-lapsed" : ""} ${this.model.claims[at - 1]?.end === "lapsed" ? "is-takeover" : ""}`, claim.at, claim.until ?? this.end, () => `held by ${claim.worker ?? "a worker"}\n${claim.end ?? "still held"} after ${duration((claim.until ?? this.end) - claim.at)}\n${full(claim.at)}`);
      if (bar) { bar.append(el("bdi", { text: brief(claim.worker ?? "", 60) })); found.push(bar); }
    }
    for (const each of moments(this.model.claims)) {
      const at = this.at(each.at);
      if (at < 0 || at > 1) continue;
      const flag = el("span", { class: `tl-flag is-${each.kind}`, title: visible(`${each.words}\n${full(each.at)}`) }, icon(each.kind === "crash" ? "crash" : "call"), el("span", { class: "visually-hidden", text: `${each.words} at ${moment(each.at)}` }));
      flag.style.left = each.kind === "crash" ? `max(18px, ${100 * at}%)` : `min(${100 * at}%, calc(100% - 18px))`;
      found.push(flag);
    }
    renew(this.lane, found);
    /** @type {HTMLElement} */ (this.lane.closest(".tl-workers")).hidden = this.model.claims.length === 0;
  }

  /** @param {Row} row */
  async toggle(row) {
    if (this.opened.has(row.id)) this.opened.delete(row.id);
    else this.opened.set(row.id, await this.options.onOpen(row));
    this.rescale();
  }

  /** @param {Row} row */
  choose(row) {
    this.chosen = row.id;
    this.drawRows(true);
    this.options.onChoose(row);
  }

  /** @param {number} from @param {number} to */
  zoomTo(from, to) {
    const width = Math.max(1e-6, Math.min(1, to - from));
    const start = Math.max(0, Math.min(1 - width, from));
    this.zoom = { from: start, to: start + width };
    this.redraw();
  }

  /** @param {number} by @param {number} [around] */
  magnify(by, around = 0.5) {
    const width = this.zoom.to - this.zoom.from;
    const middle = this.zoom.from + width * around;
    this.zoomTo(middle - width * by * around, middle + width * by * (1 - around));
  }

  /** @param {WheelEvent} event */
  wheel(event) {
    if (!event.ctrlKey && !event.shiftKey) return;
    event.preventDefault();
    if (event.ctrlKey) { this.magnify(event.deltaY > 0 ? 1.25 : 0.8, 0.5); return; }
    const by = (this.zoom.to - this.zoom.from) * Math.sign(event.deltaY || event.deltaX) * 0.1;
    this.zoomTo(this.zoom.from + by, this.zoom.to + by);
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const width = this.zoom.to - this.zoom.from;
    if (event.key === "+" || event.key === "=") this.magnify(0.5);
    else if (event.key === "-") this.magnify(2);
    else if (event.key === "0") this.zoomTo(0, 1);
    else if (event.key === "ArrowLeft") this.zoomTo(this.zoom.from - width * 0.2, this.zoom.to - width * 0.2);
    else if (event.key === "ArrowRight") this.zoomTo(this.zoom.from + width * 0.2, this.zoom.to + width * 0.2);
    else return;
    event.preventDefault();
  }
}

/** When a worker was lost, and when another took over. @param {Claim[]} claims */
export function moments(claims) {
  /** @type {{kind: "crash" | "takeover", at: number, words: string}[]} */
  const found = [];
  claims.forEach((claim, index) => {
    if (claim.end === "lapsed" && claim.until !== undefined) found.push({ kind: "crash", at: claim.until, words: `The lease of ${brief(claim.worker ?? "a worker", 60)} lapsed: it died or lost its connection` });
    const before = claims[index - 1];
    if (before && before.end === "lapsed") found.push({ kind: "takeover", at: claim.at, words: `${brief(claim.worker ?? "A worker", 60)} took over` });
  });
  return found;
}
