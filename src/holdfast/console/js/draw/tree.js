/**
 * The call tree: an execution, what it asked for, and the same for every execution that it called. Branches are
 * read when they are opened, and stay open when the tree is drawn anew.
 */
/** @import { Row } from "../types.js" */
import { el } from "../dom.js";
import { chip } from "../kit/chip.js";
import { problem } from "../kit/states.js";
import { icon } from "../icons.js";
import { renew } from "../renew.js";
import { link } from "../router.js";
import { count, said } from "../text.js";
import { duration, when } from "../time.js";

const BATCH = 100;

/** @typedef {{id: string, name: string, state: string, startedAt: number, endedAt?: number | undefined}} Root */
/** @typedef {{rows?: Row[], error?: unknown}} Branch what was read of an open one; nothing yet, or why not */

export class Tree {
  /** @param {(row: Row) => Promise<Row[]>} read */
  constructor(read) {
    this.read = read;
    this.element = el("ul", { class: "tree", role: "tree", "aria-label": "Call tree" });
    /** @type {Map<string, Branch>} */
    this.open = new Map();
    /** @type {Map<string, number>} */
    this.shown = new Map(); // how many rows of a branch
    /** @type {Root} */
    this.root = { id: "", name: "", state: "", startedAt: 0 };
    /** @type {Row[]} */
    this.rows = [];
  }

  /** @param {Root} root @param {Row[]} rows */
  set(root, rows) {
    this.root = root;
    this.rows = rows;
    this.draw();
  }

  draw() {
    const { root } = this;
    renew(this.element, el("li", { role: "treeitem", "aria-expanded": "true", "aria-level": 1, "aria-selected": "false" },
      line("executions", root.name, root.id, root.state, root.startedAt, root.endedAt, 0), el("ul", { role: "group" }, this.items(root.id, this.rows, 2))));
  }

  /** @param {string} id of the branch @param {Row[]} rows @param {number} level @returns {HTMLElement[]} */
  items(id, rows, level) {
    const most = this.shown.get(id) ?? BATCH;
    const found = rows.slice(0, most).map((row) => this.item(row, level));
    if (rows.length > most) found.push(el("li", { role: "none", "data-key": "more" }, el("button", { class: "link", type: "button", text: `${count(rows.length - most)} more`, onclick: () => { this.shown.set(id, most + BATCH); this.draw(); } })));
    if (!rows.length) found.push(el("li", { role: "treeitem", class: "muted", "aria-level": level, "aria-selected": "false", text: "It has recorded nothing." }));
    return found;
  }

  /** @param {Row} row @param {number} level */
  item(row, level) {
    const { child } = row;
    const label = line(row.kind, row.name || row.kind, child ?? row.id, row.state, row.startedAt, row.endedAt, row.attempts ?? 0);
    if (child === undefined) return el("li", { role: "treeitem", "data-key": row.id, "aria-level": level, "aria-selected": "false" }, el("span", { class: "fold" }), label);
    const branch = this.open.get(row.id);
    const fold = el("button", { class: "icon fold", type: "button", "data-action": "fold", "aria-label": branch ? "Fold" : "Unfold", onclick: () => void this.toggle(row) }, icon(branch ? "down" : "right"));
    const inner = branch?.rows ? this.items(row.id, branch.rows, level + 1) : branch?.error ? [el("li", { role: "none" }, problem(branch.error))] : [];
    return el("li", { role: "treeitem", "data-key": row.id, "aria-expanded": String(branch !== undefined), "aria-level": level, "aria-selected": "false" }, fold, label, inner.length ? el("ul", { role: "group" }, inner) : null);
  }

  /** @param {Row} row */
  async toggle(row) {
    if (this.open.delete(row.id)) { this.draw(); return; }
    /** @type {Branch} */
    const branch = {};
    this.open.set(row.id, branch);
    try { branch.rows = await this.read(row); } catch (error) { branch.error = error; }
    this.draw();
  }
}

/** @param {string} kind @param {string} name @param {string} id @param {string} state @param {number} began @param {number | undefined} ended @param {number} attempts */
function line(kind, name, id, state, began, ended, attempts) {
  const leads = kind === "executions" || kind === "call" || kind === "start";
  return el("span", { class: "tree-line" }, icon(kind), said(name, { class: "strong", max: 80 }), chip(state),
    el("span", { class: "muted", text: ended === undefined ? "" : duration(ended - began) }), attempts > 1 ? el("span", { class: "muted", text: `${attempts} attempts` }) : null,
    leads ? el("a", { class: "mono muted", href: link(["executions", id]) }, said(id, { max: 80 })) : el("span", { class: "mono muted" }, said(id, { max: 80 })), when(began));
}
