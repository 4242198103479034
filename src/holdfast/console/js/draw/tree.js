/**
 * The call tree: an execution, what it asked for, and the same for every execution that it called. Branches are
 * read when they are opened.
 */
/** @import { Row } from "../types.js" */
import { el, fill } from "../dom.js";
import { chip } from "../kit/chip.js";
import { problem } from "../kit/states.js";
import { icon } from "../icons.js";
import { link } from "../router.js";
import { count, said } from "../text.js";
import { duration, when } from "../time.js";

const BATCH = 100;

/**
 * @param {{id: string, name: string, state: string, startedAt: number, endedAt?: number | undefined}} root
 * @param {Row[]} rows
 * @param {(row: Row) => Promise<Row[]>} read
 */
export function tree(root, rows, read) {
  const box = el("ul", { role: "group" });
  spread(box, rows, read, 0, 2);
  return el("ul", { class: "tree", role: "tree", "aria-label": "Call tree" },
    el("li", { role: "treeitem", "aria-expanded": "true", "aria-level": 1, "aria-selected": "false" }, line("executions", root.name, root.id, root.state, root.startedAt, root.endedAt, 0), box));
}

/** @param {HTMLElement} box @param {Row[]} rows @param {(row: Row) => Promise<Row[]>} read @param {number} from @param {number} level */
function spread(box, rows, read, from, level) {
  for (const row of rows.slice(from, from + BATCH)) box.append(item(row, read, level));
  const left = rows.length - from - BATCH;
  if (left > 0) {
    const more = el("li", { role: "none" }, el("button", { class: "link", type: "button", text: `${count(left)} more`, onclick: () => { more.remove(); spread(box, rows, read, from + BATCH, level); } }));
    box.append(more);
  }
  if (!rows.length) box.append(el("li", { role: "treeitem", class: "muted", "aria-level": level, "aria-selected": "false", text: "It has recorded nothing." }));
}

/** @param {Row} row @param {(row: Row) => Promise<Row[]>} read @param {number} level */
function item(row, read, level) {
  const { child } = row;
  const label = line(row.kind, row.name || row.kind, child ?? row.id, row.state, row.startedAt, row.endedAt, row.attempts ?? 0);
  if (child === undefined) return el("li", { role: "treeitem", "aria-level": level, "aria-selected": "false" }, el("span", { class: "fold" }), label);
  const inner = el("ul", { role: "group", hidden: true });
  const fold = el("button", { class: "icon fold", type: "button", "aria-label": "Unfold", onclick: async () => {
    inner.hidden = !inner.hidden;
    entry.setAttribute("aria-expanded", String(!inner.hidden));
    fold.setAttribute("aria-label", inner.hidden ? "Unfold" : "Fold");
    fill(fold, icon(inner.hidden ? "right" : "down"));
    if (inner.hidden || inner.childElementCount) return;
    try { spread(inner, await read(row), read, 0, level + 1); } catch (error) { fill(inner, problem(error)); }
  } }, icon("right"));
  const entry = el("li", { role: "treeitem", "aria-expanded": "false", "aria-level": level, "aria-selected": "false" }, fold, label, inner);
  return entry;
}

/** @param {string} kind @param {string} name @param {string} id @param {string} state @param {number} began @param {number | undefined} ended @param {number} attempts */
function line(kind, name, id, state, began, ended, attempts) {
  const leads = kind === "executions" || kind === "call" || kind === "start";
  return el("span", { class: "tree-line" }, icon(kind), said(name, { class: "strong", max: 80 }), chip(state),
    el("span", { class: "muted", text: ended === undefined ? "" : duration(ended - began) }), attempts > 1 ? el("span", { class: "muted", text: `${attempts} attempts` }) : null,
    leads ? el("a", { class: "mono muted", href: link(["executions", id]) }, said(id, { max: 80 })) : el("span", { class: "mono muted" }, said(id, { max: 80 })), when(began));
}
