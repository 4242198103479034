/**
 * A form made from a JSON schema (2020-12, as msgspec and pydantic write it), and the value that was filled in.
 *
 * What a form cannot express is written as JSON instead; the reader may always choose that. Nothing is sent that
 * the schema plainly refuses (a missing field, a number that is none); the server decides.
 */
/** @import { Schema } from "../types.js" */
import { el, fill, fresh } from "../dom.js";
import { visible } from "../text.js";
import { FormError } from "./dialog.js";

const DEPTH_MAX = 6;

/** @typedef {{element: HTMLElement, read: () => any}} Input `read` gives `undefined` for a field that is left out */

/** @param {Schema} schema @param {Schema} root @returns {Schema} */
function resolve(schema, root) {
  let found = schema;
  for (let hops = 0; hops < 20 && typeof found?.$ref === "string"; hops += 1) {
    const path = found.$ref.replace(/^#\//, "").split("/").map((/** @type {string} */ each) => each.replaceAll("~1", "/").replaceAll("~0", "~"));
    /** @type {any} */
    let at = root;
    for (const each of path) at = at?.[each];
    if (!at) return {};
    const { $ref: _, ...more } = found;
    found = { ...at, ...more };
  }
  return found ?? {};
}

/**
 * A form for a value, with a switch to write JSON by hand.
 * @param {Schema | undefined} schema
 * @param {{label: string, value?: any}} options
 * @returns {Input}
 */
export function form(schema, options) {
  const root = schema ?? {};
  const isKnown = schema !== undefined && Object.keys(schema).length > 0;
  let byHand = !isKnown;
  let current = byHand ? written(options.label, options.value) : input(root, root, options.label, options.value, 0);
  const box = el("div", { class: "form-body" }, current.element);
  const swap = el("button", { class: "link small", type: "button", text: "Write it as JSON", onclick: () => {
    /** @type {any} */
    let value;
    try { value = current.read(); } catch { value = undefined; }
    byHand = !byHand;
    current = byHand ? written(options.label, value) : input(root, root, options.label, value, 0);
    fill(box, current.element);
    swap.textContent = byHand ? "Fill in a form" : "Write it as JSON";
  } });
  return { element: el("div", { class: "form" }, box, isKnown ? swap : null), read: () => current.read() };
}

/** @param {string} label @param {any} value @returns {Input} */
function written(label, value) {
  const id = fresh("json");
  const area = el("textarea", { id, rows: value !== undefined && JSON.stringify(value, null, 2).split("\n").length > 4 ? 10 : 4, spellcheck: "false" });
  area.value = value === undefined ? "null" : JSON.stringify(value, null, 2);
  const read = () => {
    try {
      return area.value.trim() === "" ? null : JSON.parse(area.value);
    } catch (error) {
      throw new FormError(`${label} is not JSON: ${error instanceof Error ? error.message : error}`);
    }
  };
  return { element: el("div", { class: "field" }, el("label", { for: id, text: `${visible(label)} (JSON)` }), area), read };
}

/** @param {Schema} given @param {Schema} root @param {string} label @param {any} value @param {number} depth @returns {Input} */
function input(given, root, label, value, depth) {
  const schema = resolve(given, root);
  const start = value === undefined ? schema.default : value;
  const choices = schema.anyOf ?? schema.oneOf;
  if (depth > DEPTH_MAX) return written(label, start);
  if ("const" in schema) return { element: el("div", { hidden: true }), read: () => schema.const };
  if (Array.isArray(schema.enum)) return select(schema, label, start);
  if (Array.isArray(choices)) return choice(choices.map((each) => resolve(each, root)), schema, root, label, start, depth);
  if (Array.isArray(schema.type)) return choice(schema.type.map((/** @type {string} */ type) => ({ ...schema, type })), schema, root, label, start, depth);
  switch (schema.type) {
    case "boolean": return yesOrNo(schema, label, start);
    case "integer": case "number": return number(schema, label, start);
    case "string": return line(schema, label, start);
    case "null": return { element: el("div", { class: "muted", text: `${visible(label)}: nothing` }), read: () => null };
    case "array": return list(schema, root, label, start, depth);
    case "object": return schema.properties ? object(schema, root, label, start, depth) : written(label, start ?? {});
    default: return written(label, start);
  }
}

/** @param {Schema} schema */
const hintOf = (schema) => schema.description ?? bounds(schema);

/** @param {Schema} schema */
function bounds(schema) {
  const said = [];
  if (schema.minimum !== undefined) said.push(`at least ${schema.minimum}`);
  if (schema.exclusiveMinimum !== undefined) said.push(`more than ${schema.exclusiveMinimum}`);
  if (schema.maximum !== undefined) said.push(`at most ${schema.maximum}`);
  if (schema.exclusiveMaximum !== undefined) said.push(`less than ${schema.exclusiveMaximum}`);
  if (schema.minLength) said.push(`at least ${schema.minLength} characters`);
  if (schema.maxLength !== undefined) said.push(`at most ${schema.maxLength} characters`);
  if (schema.pattern) said.push(`like ${schema.pattern}`);
  return said.join(", ");
}

/** @param {string} label @param {HTMLElement} control @param {string} [hint] */
function labelled(label, control, hint) {
  control.id ||= fresh("field");
  const hintId = hint ? fresh("hint") : null;
  if (hintId) control.setAttribute("aria-describedby", hintId);
  return el("div", { class: "field" }, el("label", { for: control.id, text: visible(label) }), control, hintId ? el("p", { class: "hint muted", id: hintId, text: visible(hint) }) : null);
}

/** @param {Schema} schema @param {string} label @param {any} start @returns {Input} */
function yesOrNo(schema, label, start) {
  const name = fresh("choice");
  /** @param {boolean} value @param {string} word */
  const option = (value, word) => {
    const radio = el("input", { type: "radio", name, value: String(value), checked: start === value });
    return el("label", { class: "option" }, radio, ` ${word}`);
  };
  const element = el("fieldset", { class: "field" }, el("legend", { text: visible(label) }), el("div", { class: "line" }, option(true, "yes"), option(false, "no")),
    hintOf(schema) ? el("p", { class: "hint muted", text: visible(hintOf(schema)) }) : null);
  return { element, read: () => {
    const chosen = /** @type {HTMLInputElement | null} */ (element.querySelector("input:checked"));
    if (!chosen) throw new FormError(`${label}: choose yes or no`);
    return chosen.value === "true";
  } };
}

/** @param {Schema} schema @param {string} label @param {any} start @returns {Input} */
function number(schema, label, start) {
  const whole = schema.type === "integer";
  const control = el("input", { type: "text", inputmode: whole ? "numeric" : "decimal", value: start ?? "", autocomplete: "off" });
  return { element: labelled(label, control, hintOf(schema)), read: () => {
    const text = control.value.trim();
    const value = Number(text);
    if (text === "" || !Number.isFinite(value) || (whole && !Number.isInteger(value))) throw new FormError(`${label}: expected ${whole ? "a whole number" : "a number"}, got \u201c${text}\u201d`);
    if (value < (schema.minimum ?? -Infinity) || value > (schema.maximum ?? Infinity)) throw new FormError(`${label}: expected ${bounds(schema)}, got ${text}`);
    return value;
  } };
}

/** @type {Record<string, string>} */
const FORMATS = { "date-time": "such as 2026-03-01T12:00:00Z", date: "such as 2026-03-01", time: "such as 12:00:00", duration: "such as PT5M", uuid: "a UUID", uri: "a URL", email: "an e-mail address", decimal: "such as 12.50" };

/** @param {Schema} schema @param {string} label @param {any} start @returns {Input} */
function line(schema, label, start) {
  const long = typeof start === "string" && (start.length > 80 || start.includes("\n"));
  const control = long ? el("textarea", { rows: 4 }) : el("input", { type: "text", autocomplete: "off", spellcheck: "false" });
  control.value = start ?? "";
  return { element: labelled(label, control, hintOf(schema) || FORMATS[schema.format] || ""), read: () => {
    const text = control.value;
    if (text.length < (schema.minLength ?? 0) || text.length > (schema.maxLength ?? Infinity)) throw new FormError(`${label}: expected ${bounds(schema)}`);
    return text;
  } };
}

/** @param {Schema} schema @param {string} label @param {any} start @returns {Input} */
function select(schema, label, start) {
  const control = el("select", {}, el("option", { value: "", text: "choose\u2026" }),
    schema.enum.map((/** @type {any} */ value, /** @type {number} */ index) => el("option", { value: index, text: visible(typeof value === "string" ? value : JSON.stringify(value)), selected: start === value })));
  return { element: labelled(label, control, hintOf(schema)), read: () => {
    if (control.value === "") throw new FormError(`${label}: choose one`);
    return schema.enum[Number(control.value)];
  } };
}

/** @param {Schema} schema @param {Schema} root */
function nameOf(schema, root) {
  const known = resolve(schema, root);
  if (known.type === "null") return "nothing";
  const tagged = Object.values(known.properties ?? {}).map((each) => resolve(/** @type {Schema} */ (each), root)).find((each) => Array.isArray(each.enum) ? each.enum.length === 1 : "const" in each);
  return known.title ?? tagged?.const ?? tagged?.enum?.[0] ?? known.format ?? (known.enum ? "one of a list" : known.type) ?? "any JSON";
}

/** @param {Schema} schema @param {any} value @param {Schema} root */
function fits(schema, value, root) {
  const known = resolve(schema, root);
  const type = value === null ? "null" : Array.isArray(value) ? "array" : typeof value;
  if (known.enum) return known.enum.includes(value);
  if ("const" in known) return known.const === value;
  if (known.type === "integer") return Number.isInteger(value);
  if (known.type !== undefined && known.type !== type) return false;
  return type !== "object" || (known.required ?? []).every((/** @type {string} */ name) => name in value && fits(known.properties?.[name] ?? {}, value[name], root));
}

/** @param {Schema[]} choices @param {Schema} schema @param {Schema} root @param {string} label @param {any} start @param {number} depth @returns {Input} */
function choice(choices, schema, root, label, start, depth) {
  if (choices.length === 1) return input({ ...choices[0], ...(schema.description && { description: schema.description }) }, root, label, start, depth);
  let at = start === undefined ? 0 : Math.max(0, choices.findIndex((each) => fits(each, start, root)));
  /** @param {number} index @param {any} value */
  const inner = (index, value) => input(choices[index] ?? {}, root, label, value, depth + 1);
  let current = inner(at, start);
  const box = el("div", {}, current.element);
  const control = el("select", { onchange: () => { at = Number(control.value); current = inner(at, undefined); fill(box, current.element); } },
    choices.map((each, index) => el("option", { value: index, text: visible(nameOf(each, root)), selected: index === at })));
  return { element: el("div", { class: "choice" }, labelled(`${label} is`, control), box), read: () => current.read() };
}

/** @param {Schema} schema @param {Schema} root @param {string} label @param {any} start @param {number} depth @returns {Input} */
function list(schema, root, label, start, depth) {
  if (schema.prefixItems || !schema.items) return written(label, start ?? []);
  /** @type {{input: Input, row: HTMLElement}[]} */
  const items = [];
  const rows = el("div", { class: "stack" });
  /** @param {any} value */
  const add = (value) => {
    const made = input(schema.items, root, `${label} ${items.length + 1}`, value, depth + 1);
    const item = { input: made, row: el("div", { class: "item" }, made.element, el("button", { class: "small", type: "button", text: "Remove", onclick: () => { items.splice(items.indexOf(item), 1); item.row.remove(); } })) };
    items.push(item);
    rows.append(item.row);
  };
  for (const each of Array.isArray(start) ? start.slice(0, 50) : []) add(each);
  const element = el("fieldset", { class: "group" }, el("legend", { text: visible(label) }), rows, el("button", { class: "small", type: "button", text: "Add one", onclick: () => add(undefined) }));
  return { element, read: () => items.map((each) => each.input.read()) };
}

/** @param {Schema} schema @param {Schema} root @param {string} label @param {any} start @param {number} depth @returns {Input} */
function object(schema, root, label, start, depth) {
  const required = new Set(schema.required ?? []);
  const fields = Object.entries(schema.properties).map(([name, each]) => {
    const property = /** @type {Schema} */ (each);
    const given = start && typeof start === "object" ? start[name] : undefined;
    return required.has(name) ? { name, ...input(property, root, name, given, depth + 1) } : optional(property, root, name, given, depth);
  });
  const element = depth === 0 && !label ? el("div", { class: "stack" }) : el("fieldset", { class: "group" }, el("legend", { text: visible(label) }));
  element.append(...fields.map((each) => each.element));
  if (!fields.length) element.append(el("p", { class: "muted", text: "It takes no arguments." }));
  return { element, read: () => {
    /** @type {Record<string, any>} */
    const value = {};
    for (const each of fields) {
      const found = each.read();
      if (found !== undefined) value[each.name] = found;
    }
    return value;
  } };
}

/** A field that may be left out: it is asked for when it is ticked. @param {Schema} property @param {Schema} root @param {string} name @param {any} given @param {number} depth */
function optional(property, root, name, given, depth) {
  const known = resolve(property, root);
  const made = input(property, root, name, given, depth + 1);
  const inner = el("div", { hidden: given === undefined }, made.element);
  const tick = el("input", { type: "checkbox", checked: given !== undefined, onchange: () => { inner.hidden = !tick.checked; } });
  const without = "default" in known ? `without it: ${JSON.stringify(known.default)}` : "may be left out";
  return { name, element: el("div", { class: "optional" }, el("label", {}, tick, ` ${visible(name)} `, el("span", { class: "muted", text: visible(without) })), inner), read: () => (tick.checked ? made.read() : undefined) };
}
