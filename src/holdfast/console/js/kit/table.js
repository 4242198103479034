/**
 * A table of any length: only the rows in sight exist. Real `table` markup, so screen readers find rows and
 * columns; `aria-rowcount` says how many there are.
 *
 * 1. All rows of a table are equally high (`--row`), so the position of each is known without drawing it.
 * 2. A row keeps its element while it is in sight; what changed in its record is written into it in place.
 * 3. Nothing moves under the pointer: while it moves over the rows, and for `HOLD_MS` afterwards, rows are written in
 *    place, and those that come or go wait. A list that was scrolled stays where it is, and says how many are new above.
 * 4. The keyboard moves one marked row (j, k, Enter, x); the scroll area itself can be focused.
 */
import { el } from "../dom.js";
import { renew, update } from "../renew.js";
import { plural } from "../text.js";

const SPARE = 12; // rows drawn above and below those in sight
const HOLD_MS = 1_000;

/**
 * @template T
 * @typedef {object} Column
 * @property {string} title
 * @property {(row: T) => Node | string | null} cell
 * @property {string} [class] `wide` and `mid` columns vanish on narrow screens
 * @property {string} [means] what it shows, where the title does not say it
 * @property {(row: T) => Node | null} [below] shown below the cell on narrow screens, for what is in columns that vanished
 */

/**
 * @template T
 * @typedef {object} Options
 * @property {string} label
 * @property {Column<T>[]} columns
 * @property {(row: T) => string} key
 * @property {(row: T) => string} [href]
 * @property {() => void} [onEnd] the last rows came into sight
 * @property {boolean} [selectable]
 * @property {() => void} [onSelect]
 */

/** @template T */
export class Table {
  /** @param {Options<T>} options */
  constructor(options) {
    this.options = options;
    /** @type {T[]} */
    this.rows = [];
    /** @type {Map<string, {record: T, element: HTMLTableRowElement}>} */
    this.drawn = new Map();
    /** @type {Set<string>} */
    this.selected = new Set();
    /** @type {string | null} */
    this.marked = null;
    this.total = -1;
    this.first = 0;
    this.last = 0;
    this.frame = 0;
    this.newer = 0; // rows that came above those in sight
    this.isPressed = false;
    this.heldUntil = 0;
    this.pointer = "";
    this.timer = 0;
    /** @type {(() => void) | null} */
    this.later = null; // what waits until the pointer rests
    this.above = el("tr", { class: "spacer", "aria-hidden": "true" }, el("td"));
    this.below = /** @type {HTMLTableRowElement} */ (this.above.cloneNode(true));
    this.body = el("tbody", {
      onpointermove: (/** @type {PointerEvent} */ event) => this.hold(event), onpointerdown: (/** @type {PointerEvent} */ event) => { this.isPressed = true; this.hold(event); },
      onpointerup: () => { this.isPressed = false; }, onpointercancel: () => { this.isPressed = false; }, onpointerleave: () => { this.isPressed = false; this.release(); },
    });
    this.all = el("input", { type: "checkbox", disabled: true, "aria-label": "Select all rows that are loaded", onchange: () => this.selectAll(this.all.checked) });
    this.table = el("table", { class: "rows", "aria-label": options.label },
      el("thead", {}, el("tr", {},
        options.selectable ? el("th", { class: "pick", scope: "col" }, this.all) : null,
        options.columns.map((column) => el("th", { scope: "col", class: column.class ?? null, text: column.title, title: column.means ?? null })))),
      this.body);
    this.foot = el("div", { class: "foot muted" });
    this.note = el("div", { class: "newer", hidden: true }, el("button", { class: "primary small", type: "button", onclick: () => { this.element.scrollTop = 0; this.element.focus(); } }));
    this.element = el("div", { class: `scroll fill ${options.columns.some((column) => column.below) ? "has-below" : ""}`, tabindex: 0, role: "region", "aria-label": options.label, onscroll: () => this.schedule(), onkeydown: (/** @type {KeyboardEvent} */ event) => this.key(event) }, this.note, this.table, this.foot);
    this.observer = new ResizeObserver(() => this.schedule());
    this.observer.observe(this.element);
  }

  /** @param {T[]} rows @param {{total?: number, foot?: Node | string | null}} [more] */
  set(rows, more = {}) {
    this.later = null;
    if (this.isHeld && !this.isLonger(rows)) {
      this.later = () => this.set(rows, more);
      const fresh = new Map(rows.map((row) => [this.options.key(row), row]));
      this.rows = this.rows.map((row) => fresh.get(this.options.key(row)) ?? row);
      this.draw();
      return;
    }
    const scrollTop = this.staying(rows);
    this.rows = rows;
    this.total = more.total ?? rows.length;
    this.table.setAttribute("aria-rowcount", String(this.total < 0 ? -1 : this.total + 1));
    renew(this.foot, more.foot ?? null);
    if (this.selected.size) {
      const there = new Set(rows.map(this.options.key));
      const before = this.selected.size;
      for (const key of this.selected) if (!there.has(key)) this.selected.delete(key);
      if (this.selected.size !== before) this.options.onSelect?.();
    }
    this.draw(scrollTop);
  }

  /** The pointer is about to do something here. @param {PointerEvent} event */
  hold(event) {
    const at = `${event.clientX} ${event.clientY} ${this.isPressed}`;
    if (at === this.pointer) return; // the browser says so by itself when rows move
    this.pointer = at;
    this.heldUntil = performance.now() + HOLD_MS;
    this.timer ||= setTimeout(() => this.look(), HOLD_MS);
  }

  get isHeld() { return this.isPressed || performance.now() < this.heldUntil; }

  look() {
    this.timer = this.isHeld ? setTimeout(() => this.look(), Math.max(50, this.heldUntil - performance.now())) : 0;
    if (!this.timer) this.later?.();
  }

  release() {
    this.heldUntil = 0;
    this.later?.();
  }

  /** Whether these are the rows that are shown, and perhaps more behind them. @param {T[]} rows */
  isLonger(rows) {
    const { key } = this.options;
    return this.rows.length <= rows.length && this.rows.every((row, index) => key(row) === key(/** @type {T} */ (rows[index])));
  }

  /** Where to scroll so that the first row in sight stays where it is. @param {T[]} rows */
  staying(rows) {
    const { height } = this;
    const { scrollTop } = this.element;
    const { key } = this.options;
    const first = Math.floor(scrollTop / height);
    const top = scrollTop < height ? undefined : this.rows[first];
    const at = top === undefined ? -1 : rows.findIndex((row) => key(row) === key(top));
    if (at < 0) return scrollTop;
    this.newer = Math.max(0, this.newer + at - first);
    return scrollTop + (at - first) * height;
  }

  get height() { return Number.parseFloat(getComputedStyle(this.element).getPropertyValue("--row")) || 30; }

  schedule() {
    this.frame ||= requestAnimationFrame(() => { this.frame = 0; this.draw(); });
  }

  draw(scrollTop = this.element.scrollTop) {
    const height = this.height;
    const { clientHeight } = this.element;
    if (scrollTop < height) this.newer = 0;
    this.note.hidden = this.newer === 0;
    if (this.newer) renew(/** @type {Element} */ (this.note.firstElementChild), `${plural(this.newer, "new row")} above`);
    const { size } = this.selected;
    this.all.disabled = this.rows.length === 0;
    this.all.checked = size > 0 && size >= this.rows.length;
    this.all.indeterminate = size > 0 && size < this.rows.length;
    this.first = Math.max(0, Math.floor(scrollTop / height) - SPARE);
    this.last = Math.min(this.rows.length, Math.ceil((scrollTop + (clientHeight || 600)) / height) + SPARE);
    this.first = Math.min(this.first, this.last);
    /** @type {Map<string, {record: T, element: HTMLTableRowElement}>} */
    const next = new Map();
    const elements = [];
    for (let index = this.first; index < this.last; index += 1) {
      const record = /** @type {T} */ (this.rows[index]);
      const key = this.options.key(record);
      const there = this.drawn.get(key);
      const element = there?.element ?? this.row(record, key);
      if (there && there.record !== record) update(element, this.row(record, key));
      element.setAttribute("aria-rowindex", String(index + 2));
      this.decorate(element, key);
      next.set(key, { record, element });
      elements.push(element);
    }
    this.drawn = next;
    pad(this.above, this.first * height);
    pad(this.below, (this.rows.length - this.last) * height);
    place(this.body, [...(this.first ? [this.above] : []), ...elements, ...(this.last < this.rows.length ? [this.below] : [])]);
    if (this.element.scrollTop !== scrollTop) this.element.scrollTop = scrollTop;
    if (this.last >= this.rows.length - SPARE) this.options.onEnd?.();
  }

  /** @param {T} record @param {string} key */
  row(record, key) {
    const row = el("tr", { "data-key": key, onclick: (/** @type {MouseEvent} */ event) => this.click(event, record, key) });
    if (this.options.selectable) {
      row.append(el("td", { class: "pick" }, el("input", { type: "checkbox", "aria-label": `Select ${key.slice(0, 80)}`, onchange: (/** @type {Event} */ event) => this.select(key, /** @type {HTMLInputElement} */ (event.target).checked) })));
    }
    for (const column of this.options.columns) {
      const content = column.cell(record);
      row.append(el("td", { class: column.class ?? null }, content, column.below ? el("div", { class: "below" }, column.below(record)) : null));
    }
    return row;
  }

  /** @param {HTMLTableRowElement} element @param {string} key */
  decorate(element, key) {
    element.classList.toggle("marked", key === this.marked);
    element.classList.toggle("selected", this.selected.has(key));
    const box = /** @type {HTMLInputElement | null} */ (element.querySelector("td.pick input"));
    if (box) box.checked = this.selected.has(key);
  }

  /** @param {MouseEvent} event @param {T} record @param {string} key */
  click(event, record, key) {
    if (/** @type {Element} */ (event.target).closest("a, button, input")) return;
    this.mark(key);
    if (this.options.href && !getSelection()?.toString()) location.hash = this.options.href(record);
  }

  /** @param {string} key @param {boolean} on */
  select(key, on) {
    if (on) this.selected.add(key);
    else this.selected.delete(key);
    this.options.onSelect?.();
    this.draw();
  }

  /** @param {boolean} on */
  selectAll(on) {
    this.selected = new Set(on ? this.rows.map(this.options.key) : []);
    this.options.onSelect?.();
    this.draw();
  }

  clearSelection() { this.selectAll(false); }

  /** @param {string} key */
  mark(key) { this.marked = key; this.draw(); }

  /** @param {number} by */
  move(by) {
    if (!this.rows.length) return;
    const at = this.rows.findIndex((row) => this.options.key(row) === this.marked);
    const to = Math.max(0, Math.min(this.rows.length - 1, at < 0 ? 0 : at + by));
    this.marked = this.options.key(/** @type {T} */ (this.rows[to]));
    const { height } = this;
    const top = to * height;
    if (top < this.element.scrollTop) this.element.scrollTop = top;
    if (top + 2 * height > this.element.scrollTop + this.element.clientHeight) this.element.scrollTop = top + 2 * height - this.element.clientHeight;
    this.draw();
  }

  /** @param {KeyboardEvent} event */
  key(event) {
    const moves = /** @type {Record<string, number>} */ ({ j: 1, k: -1, ArrowDown: 1, ArrowUp: -1 });
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (event.target !== this.element && event.target !== document.body && !(event.target instanceof HTMLTableRowElement)) return;
    const record = this.rows.find((row) => this.options.key(row) === this.marked);
    if (event.key in moves) this.move(moves[event.key] ?? 0);
    else if (event.key === "Enter" && record && this.options.href) location.hash = this.options.href(record);
    else if (event.key === "x" && this.marked && this.options.selectable) this.select(this.marked, !this.selected.has(this.marked));
    else return;
    event.preventDefault();
  }
}

/** @param {HTMLTableRowElement} spacer @param {number} height */
function pad(spacer, height) {
  /** @type {HTMLElement} */ (spacer.firstElementChild).style.height = `${height}px`;
}

/** Put exactly these children in this order, touching only what differs. @param {Element} parent @param {Element[]} children */
function place(parent, children) {
  const wanted = new Set(children);
  for (const child of [...parent.children]) if (!wanted.has(child)) child.remove();
  let at = parent.firstElementChild;
  for (const child of children) {
    if (child === at) at = at.nextElementSibling;
    else parent.insertBefore(child, at);
  }
}
