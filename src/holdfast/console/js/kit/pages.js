/**
 * A list that the server gives by pages, kept in step with what changes, in a virtual table.
 *
 * 1. More is read when the end comes into sight, so a list has no end but the last record.
 * 2. On a change the first page is read again and takes the place of what it covers; rows further down that
 *    changed and are in sight are read one by one.
 * 3. What is read anew is written into the rows that are there (`table.js` says when rows may move).
 * 4. What changes while the first page is read is read behind it.
 * 5. Of two readings that overlap, the older is dropped.
 */
/** @import { Changes } from "../types.js" */
import { el, fill } from "../dom.js";
import { everything, onChanges } from "../live.js";
import { onlyOwn } from "../session.js";
import { count, plural } from "../text.js";
import { empty, problem } from "./states.js";
import { Table } from "./table.js";

const PAGE = 60;
const SINGLE_MAX = 20;

/**
 * @template T
 * @typedef {object} Source
 * @property {(query: {limit: number, cursor?: string}, signal: AbortSignal) => Promise<{rows: T[], cursor?: string}>} page
 * @property {(key: string) => Promise<T>} [one]
 * @property {(row: T) => boolean} [fits] whether a row that was read by itself still belongs here
 * @property {(row: T) => number} [order] newest first
 * @property {(changes: Changes) => Iterable<string> | null} touched the keys that changed; null: nothing here
 * @property {string} noun
 * @property {string} nothing said when there is nothing
 * @property {() => boolean} [filtered]
 */

/** @template T */
export class Pages {
  /** @param {import("./table.js").Options<T>} options @param {Source<T>} source @param {AbortSignal} signal */
  constructor(options, source, signal) {
    this.source = source;
    this.signal = signal;
    this.table = new Table({ ...options, onEnd: () => void this.more() });
    /** @type {T[]} */
    this.rows = [];
    /** @type {string | undefined} */
    this.cursor = undefined;
    this.reading = 0;
    this.isMore = false;
    this.isRead = false;
    this.isBehind = false; // something changed while the first page was read
    this.element = this.table.element;
    signal.addEventListener("abort", () => this.table.observer.disconnect());
    onChanges(signal, (changes) => this.changed(changes));
  }

  /** Read from the beginning. */
  async reload() {
    const reading = ++this.reading;
    const slow = setTimeout(() => { if (!this.isRead) fill(this.table.foot, "Loading\u2026"); }, 200);
    try {
      const page = await this.source.page({ limit: PAGE }, this.signal);
      if (reading !== this.reading || this.signal.aborted) return;
      this.rows = page.rows;
      this.cursor = page.cursor;
      this.isRead = true;
      this.element.scrollTop = 0;
      this.draw();
      if (page.rows.length < PAGE / 2) void this.more();
      if (this.isBehind) { this.isBehind = false; void this.changed(everything()).catch(() => {}); }
    } catch (error) {
      if (!this.signal.aborted && reading === this.reading) { this.rows = []; this.table.set([], { foot: problem(error, () => void this.reload()) }); }
    } finally {
      clearTimeout(slow);
    }
  }

  async more() {
    if (!this.cursor || this.isMore) return;
    this.isMore = true;
    const reading = this.reading;
    let found = 0;
    try {
      // A short page with a cursor is no end: a search looks at a bounded number of records at a time.
      for (let pages = 0; pages < 50 && this.cursor && found < PAGE; pages += 1) {
        const page = await this.source.page({ limit: PAGE, cursor: this.cursor }, this.signal);
        if (reading !== this.reading || this.signal.aborted) return;
        const there = new Set(this.rows.map(this.table.options.key));
        const fresh = page.rows.filter((row) => !there.has(this.table.options.key(row)));
        this.rows = this.rows.concat(fresh);
        this.cursor = page.cursor;
        found += fresh.length;
        this.draw();
      }
    } catch (error) {
      if (!this.signal.aborted) this.table.set(this.rows, { foot: problem(error, () => void this.more()) });
    } finally {
      this.isMore = false;
    }
  }

  /** @param {Changes} changes */
  async changed(changes) {
    const touched = changes.all ? [] : this.source.touched(changes);
    if (touched === null) return;
    if (!this.isRead) { this.isBehind = true; return; }
    const reading = this.reading;
    const keyOf = this.table.options.key;
    const page = await this.source.page({ limit: PAGE }, this.signal);
    if (reading !== this.reading || this.signal.aborted) return;
    const before = new Map(this.rows.map((row) => [keyOf(row), row]));
    const fresh = page.rows.map((row) => same(before.get(keyOf(row)), row));
    const keys = new Set(fresh.map(keyOf));
    const { order } = this.source;
    const end = fresh.length && page.cursor && order ? order(/** @type {T} */ (fresh.at(-1))) : page.cursor ? Infinity : -Infinity; // a page that found nothing covers nothing
    let rest = page.cursor && order && this.rows.length > fresh.length ? this.rows.filter((row) => order(row) <= end && !keys.has(keyOf(row))) : [];
    if (!rest.length) this.cursor = page.cursor;
    if (rest.length && this.source.one) {
      const visible = new Set(this.rows.slice(this.table.first, this.table.last).map(keyOf));
      const wanted = (changes.all ? [...visible] : [...touched].filter((key) => visible.has(key))).filter((key) => !keys.has(key)).slice(0, SINGLE_MAX);
      const { one, fits } = this.source;
      const found = new Map(await Promise.all(wanted.map(async (key) => /** @type {const} */ ([key, await one(key).catch(() => null)]))));
      if (reading !== this.reading || this.signal.aborted) return;
      rest = rest.flatMap((row) => {
        const again = found.get(keyOf(row));
        return again === undefined ? [row] : again && (!fits || fits(again)) ? [same(row, again)] : [];
      });
    }
    this.rows = fresh.concat(rest);
    this.draw();
  }

  draw() {
    const { rows } = this;
    const { source } = this;
    const done = !this.cursor;
    const note = rows.length ? (done ? `${plural(rows.length, source.noun)}, all of them.` : `${count(rows.length)} loaded; more follow as you scroll.`) : null;
    const none = !rows.length && done
      ? source.filtered?.() ? empty(`No ${source.noun} matches these filters.`, el("a", { href: location.hash.split("?")[0] ?? "#", text: "Show all" })) : empty(source.nothing, onlyOwn())
      : !rows.length ? el("span", { text: "Searching further back\u2026" }) : note;
    this.table.set(rows, { total: done ? rows.length : -1, foot: none });
  }
}

/** The old object where nothing changed, so that its row is not drawn again. @template T @param {T | undefined} old @param {T} fresh */
function same(old, fresh) {
  return old !== undefined && JSON.stringify(old) === JSON.stringify(fresh) ? old : fresh;
}
