/**
 * A JSON value, folded and searchable. Folds are drawn when they are opened, long lists a hundred at a time, so
 * a megabyte costs no more than what is looked at.
 */
import { el, fill } from "../dom.js";
import { decode } from "../api.js";
import { icon } from "../icons.js";
import { seal } from "../renew.js";
import { session } from "../session.js";
import { bytes, count, plural, said, visible } from "../text.js";
import { toast, toastProblem } from "./toast.js";

const OPEN_DEPTH = 2;
const OPEN_ENTRIES = 30;
const BATCH = 100;
const TEXT_MAX = 600;
const HITS_MAX = 500;

/** @param {any} value */
const isBranch = (value) => value !== null && typeof value === "object";

/** What a codec has written stands in an object of its own. @param {any} value */
const isEncoded = (value) => isBranch(value) && typeof value.encoded === "string" && Object.keys(value).length === 1;

/** A value on one line of a list; a text of a stream as it is. @param {any} value @param {{max?: number, class?: string, title?: boolean, plain?: boolean}} [options] */
export function inline(value, { plain, ...options } = {}) {
  if (isEncoded(value)) return encoded(value.encoded);
  return said(plain && typeof value === "string" ? value : JSON.stringify(value), { ...options, class: `mono ${options.class ?? ""}` });
}

/** @param {any} value @param {string} label */
export function json(value, label) {
  const tree = el("div", { class: "json", tabindex: 0, role: "group", "aria-label": label });
  const found = el("span", { class: "muted" });
  const search = el("input", { type: "search", placeholder: "Search in here", "aria-label": `Search in ${label}`, oninput: () => look() });
  const look = () => {
    const wanted = search.value.toLowerCase();
    /** @type {Set<any>} */
    const open = new Set();
    const hits = wanted ? find(value, wanted, open) : 0;
    found.textContent = wanted ? (hits >= HITS_MAX ? `${HITS_MAX} or more found` : `${plural(hits, "match", "matches")}`) : "";
    fill(tree, node(null, value, 0, { wanted, open }));
  };
  const text = () => JSON.stringify(value, null, 2) ?? "undefined";
  const copy = el("button", { class: "icon small", type: "button", title: "Copy as JSON", "aria-label": `Copy ${label} as JSON`, onclick: () => navigator.clipboard.writeText(text()).then(() => toast("Copied."), toastProblem) }, icon("copy"));
  fill(tree, node(null, value, 0, { wanted: "", open: new Set() }));
  const size = weight(value);
  return seal(el("div", { class: "json-box" },
    el("div", { class: "tools" }, size > 300 ? search : null, found, size > 5000 ? el("span", { class: "muted", text: `about ${bytes(size)}` }) : null, copy), tree), [label, value]);
}

/** Roughly how long it is, without writing it all. @param {any} value @returns {number} */
function weight(value) {
  let sum = 0;
  const stack = [value];
  while (stack.length && sum < 5_000_000) {
    const each = stack.pop();
    if (typeof each === "string") sum += each.length + 2;
    else if (isBranch(each)) for (const [key, inner] of Object.entries(each)) { sum += key.length + 4; stack.push(inner); }
    else sum += 5;
  }
  return sum;
}

/** Which branches lead to a match. @param {any} value @param {string} wanted @param {Set<any>} open @returns {number} */
function find(value, wanted, open) {
  let hits = 0;
  const visit = (/** @type {any} */ each) => {
    if (hits >= HITS_MAX) return false;
    if (!isBranch(each)) {
      const is = String(each).toLowerCase().includes(wanted);
      if (is) hits += 1;
      return is;
    }
    let any = false;
    for (const [key, inner] of Object.entries(each)) {
      const named = !Array.isArray(each) && key.toLowerCase().includes(wanted);
      if (named) hits += 1;
      if (visit(inner) || named) any = true;
    }
    if (any) open.add(each);
    return any;
  };
  visit(value);
  return hits;
}

/** @typedef {{wanted: string, open: Set<any>}} Search */

/** @param {string | null} key @param {any} value @param {number} depth @param {Search} search @returns {HTMLElement} */
function node(key, value, depth, search) {
  const name = key === null ? [] : [el("span", { class: "key" }, ...marked(key, search.wanted)), ": "];
  if (isEncoded(value)) return el("div", {}, ...name, encoded(value.encoded));
  if (!isBranch(value)) return el("div", {}, ...name, leaf(value, search.wanted));
  const entries = Array.isArray(value) ? value.length : Object.keys(value).length;
  const [left, right] = Array.isArray(value) ? ["[", "]"] : ["{", "}"];
  if (!entries) return el("div", {}, ...name, `${left}${right}`);
  const inner = el("div", { class: "inner" });
  const isOpen = search.open.has(value) || (!search.wanted && depth < OPEN_DEPTH && entries <= OPEN_ENTRIES);
  const details = el("details", { open: isOpen },
    el("summary", {}, ...name, left, el("span", { class: "muted", text: ` ${plural(entries, Array.isArray(value) ? "item" : "field")} ` }), right), inner);
  const draw = () => { if (!inner.childElementCount) more(inner, value, 0, depth, search); };
  if (isOpen) draw();
  details.addEventListener("toggle", draw);
  return details;
}

/** @param {HTMLElement} inner @param {any} value @param {number} from @param {number} depth @param {Search} search */
function more(inner, value, from, depth, search) {
  const list = Array.isArray(value);
  const keys = list ? null : Object.keys(value);
  const all = keys ? keys.length : value.length;
  const to = Math.min(all, from + BATCH);
  for (let index = from; index < to; index += 1) {
    const key = keys ? /** @type {string} */ (keys[index]) : String(index);
    inner.append(node(key, value[key], depth + 1, search));
  }
  if (to < all) {
    const button = el("button", { class: "link", type: "button", text: `${count(all - to)} more`, onclick: () => { button.remove(); more(inner, value, to, depth, search); } });
    inner.append(button);
  }
}

/** @param {any} value @param {string} wanted */
function leaf(value, wanted) {
  if (typeof value !== "string") return el("span", { class: `leaf-${typeof value}` }, ...marked(String(value), wanted));
  const whole = value.length <= TEXT_MAX;
  const element = el("bdi", { class: "leaf-string" }, "\u201c", ...marked(whole ? value : value.slice(0, TEXT_MAX), wanted), whole ? "\u201d" : "\u2026");
  if (whole) return element;
  const button = el("button", { class: "link", type: "button", text: ` Show all ${count(value.length)} characters`, onclick: () => { fill(element, "\u201c", visible(value), "\u201d"); button.remove(); } });
  return el("span", {}, element, button);
}

/** @param {string} text @param {string} wanted @returns {(Node | string)[]} */
function marked(text, wanted) {
  const at = wanted ? text.toLowerCase().indexOf(wanted) : -1;
  if (at < 0) return [visible(text)];
  return [visible(text.slice(0, at)), el("mark", { text: visible(text.slice(at, at + wanted.length)) }), visible(text.slice(at + wanted.length))];
}

/** What a codec has written: the node cannot read it, and neither can this page without the user's endpoint. @param {string} text */
function encoded(text) {
  const box = el("span", { class: "encoded" }, el("span", { class: "chip tone-off" }, icon("lock"), el("span", { text: "encoded" })),
    el("span", { class: "muted", text: ` ${bytes(text.length)}, written by a codec ` }));
  const url = session().codecUrl;
  if (!url) return el("span", {}, box, el("span", { class: "muted", text: "(the server has no codec_url to ask)" }));
  const button = el("button", { class: "small", type: "button", text: "Decode", onclick: async () => {
    try { fill(box, json(await decode(url, text), "Decoded value")); button.remove(); } catch (error) { toastProblem(error); }
  } });
  return el("span", {}, box, button);
}
