/**
 * Making elements. Everything becomes text or an attribute; no markup is ever parsed.
 *
 * 1. Text is set by `textContent` only, so what users wrote cannot become an element.
 * 2. A link leads into this page (`#...`) or to a download made here (`blob:`), never elsewhere.
 * 3. An element has one handler of each kind, which can be exchanged: so it may stay when what it shows is renewed.
 * 4. Styles that depend on data are set on `element.style`, which a strict Content-Security-Policy allows.
 */

/** @typedef {Node | string | number | null | undefined | false} Child */
/** @typedef {Record<string, string | number | boolean | null | undefined | ((event: any) => void)>} Props */

/**
 * @template {keyof HTMLElementTagNameMap} K
 * @param {K} tag
 * @param {Props} [props]
 * @param {...(Child | Child[])} children
 * @returns {HTMLElementTagNameMap[K]}
 */
export function el(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) set(element, name, value);
  append(element, ...children);
  return element;
}

/**
 * @param {Element} element
 * @param {string} name
 * @param {Props[string]} value
 */
function set(element, name, value) {
  if (value === null || value === undefined || value === false) return;
  if (typeof value === "function") {
    handle(element, name.replace(/^on/, ""), value);
  } else if (name === "text") {
    element.textContent = String(value);
  } else if (name === "href" && !/^(#|blob:)/.test(String(value))) {
    throw new Error("links lead into this page");
  } else if (name === "style" || name.startsWith("on") || name === "srcdoc") {
    throw new Error(`${name} is not set from here`);
  } else {
    element.setAttribute(name, value === true ? "" : String(value));
  }
}

/** @typedef {(event: any) => void} Handler */
/** @type {WeakMap<Element, Map<string, Handler | undefined>>} */
const handlers = new WeakMap();

/** @param {Element} element @param {string} name @param {Handler | undefined} handler */
function handle(element, name, handler) {
  const own = handlers.get(element) ?? new Map();
  handlers.set(element, own);
  if (!own.has(name)) element.addEventListener(name, (event) => own.get(name)?.(event));
  own.set(name, handler);
}

/** The handler of an element, by the name of its event. @param {Element} element @param {string} name */
export const handlerOf = (element, name) => handlers.get(element)?.get(name);

/** Let an element do from now on what another one would have done, and nothing else. @param {Element} element @param {Element} other */
export function adoptHandlers(element, other) {
  for (const name of handlers.get(element)?.keys() ?? []) handle(element, name, handlerOf(other, name));
  for (const [name, handler] of handlers.get(other) ?? []) handle(element, name, handler);
}

/**
 * @param {Element} parent
 * @param {...(Child | Child[])} children
 */
export function append(parent, ...children) {
  for (const child of children.flat()) {
    if (child === null || child === undefined || child === false) continue;
    parent.append(child instanceof Node ? child : String(child));
  }
}

/**
 * Replace what an element holds.
 * @param {Element} parent
 * @param {...(Child | Child[])} children
 */
export function fill(parent, ...children) {
  parent.replaceChildren();
  append(parent, ...children);
}

const SVG = "http://www.w3.org/2000/svg";

/**
 * @template {keyof SVGElementTagNameMap} K
 * @param {K} tag
 * @param {Record<string, string | number>} [attributes]
 * @param {...Child} children
 * @returns {SVGElementTagNameMap[K]}
 */
export function svg(tag, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, String(value));
  append(element, ...children);
  return element;
}

/**
 * The element with this id in index.html.
 * @param {string} id
 */
export function part(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`index.html has no #${id}`);
  return found;
}

let names = 0;

/** An id that no other element of the page has. @param {string} what */
export const fresh = (what) => `${what}-${++names}`;
