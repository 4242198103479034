/**
 * Bring what is shown up to date in place. Whatever stays the same keeps its element, so a click, the focus, a scroll
 * position, a selected text and an open fold outlive the change.
 *
 * 1. Children are matched by their key (`data-key`, `data-action`, the words of a button), others by tag, in order.
 * 2. A part that keeps state of its own names what it was made from (`seal`). Made from the same it stays as it is;
 *    made from something else it is replaced.
 * 3. What a reader did stays: what is typed, ticked, unfolded or scrolled. An element with `data-own` keeps its children.
 * 4. A kept element takes over the handlers of the fresh one, so they know the newest record. Then it hears `renew`.
 */
import { adoptHandlers, append, handlerOf } from "./dom.js";

/** @typedef {import("./dom.js").Child} Child */

/** @type {WeakMap<Node, string>} */
const seals = new WeakMap();

/** @template {Element} T @param {T} element @param {unknown} madeFrom @returns {T} */
export function seal(element, madeFrom) {
  seals.set(element, JSON.stringify(madeFrom) ?? "");
  return element;
}

/**
 * Make an element hold these children.
 * @param {Element} parent
 * @param {...(Child | Child[])} children
 */
export function renew(parent, ...children) {
  if (!parent.hasChildNodes()) { append(parent, ...children); return; }
  const wanted = children.flat().filter((each) => each !== null && each !== undefined && each !== false);
  match(parent, wanted.map((each) => (each instanceof Node ? each : document.createTextNode(String(each)))));
}

/** @param {Node} node */
function keyOf(node) {
  if (!(node instanceof Element)) return undefined;
  const key = node.getAttribute("data-key") ?? node.getAttribute("data-action") ?? (node.localName === "button" ? node.textContent : null);
  return key === null ? undefined : `${node.localName} ${key}`;
}

/** @param {Node} old @param {Node} fresh */
const isAlike = (old, fresh) => old.nodeName === fresh.nodeName && seals.get(old) === seals.get(fresh);

/** @param {Element} parent @param {Node[]} wanted */
function match(parent, wanted) {
  /** @type {Map<string, Node>} */
  const keyed = new Map();
  /** @type {Node[]} */
  const others = [];
  const staying = new Set(wanted);
  for (const child of parent.childNodes) {
    if (staying.has(child)) continue;
    const key = keyOf(child);
    if (key === undefined || keyed.has(key)) others.push(child);
    else keyed.set(key, child);
  }
  const result = wanted.map((fresh) => {
    if (fresh.parentNode === parent) return fresh;
    const key = keyOf(fresh);
    let old = key === undefined ? undefined : keyed.get(key);
    if (old && key !== undefined && isAlike(old, fresh)) keyed.delete(key);
    else if (key === undefined) {
      const at = others.findIndex((each) => keyOf(each) === undefined && isAlike(each, fresh));
      old = at < 0 ? undefined : others.splice(at, 1)[0];
    } else old = undefined;
    if (!old) return fresh;
    update(old, fresh);
    return old;
  });
  const kept = new Set(result);
  for (const child of [...parent.childNodes]) if (!kept.has(child)) child.remove();
  let at = parent.firstChild;
  for (const child of result) {
    if (child === at) at = at.nextSibling;
    else parent.insertBefore(child, at);
  }
}

/** Make one node what another is. Both have the same name. @param {Node} old @param {Node} fresh */
export function update(old, fresh) {
  if (seals.has(old)) return;
  if (!(old instanceof Element && fresh instanceof Element)) {
    if (old.nodeValue !== fresh.nodeValue) old.nodeValue = fresh.nodeValue;
    return;
  }
  for (const { name, value } of fresh.attributes) {
    if (name !== "style" && name !== "open" && old.getAttribute(name) !== value) old.setAttribute(name, value);
  }
  for (const { name } of [...old.attributes]) {
    if (!fresh.hasAttribute(name) && name !== "style" && name !== "open" && !(name === "title" && isLazy(old))) old.removeAttribute(name);
  }
  const styled = /** @type {HTMLElement} */ (old);
  const { cssText } = /** @type {HTMLElement} */ (fresh).style;
  if (styled.style.cssText !== cssText) styled.style.cssText = cssText; // an attribute would be against the policy
  adoptHandlers(old, fresh);
  if (!old.hasAttribute("data-own")) match(old, [...fresh.childNodes]);
  handlerOf(old, "renew")?.(old);
}

/** Whether its tooltip is made when somebody points at it (`time.js`, `timeline.js`). @param {Element} element */
const isLazy = (element) => element.hasAttribute("data-at") || element.hasAttribute("data-lazy");
