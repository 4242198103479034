/**
 * What users wrote, as it is shown: control characters and those that turn the direction of writing are made
 * visible, and what is very long is cut, with a note of how long it is.
 */
import { el } from "./dom.js";
import { seal } from "./renew.js";

export const SHOWN_MAX = 400;

// C0 controls (other than tab and line feed), DEL, C1 controls, bidirectional and invisible formatting.
const HIDDEN = /[\u0000-\u0008\u000b-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb]|[\ud800-\udbff](?![\udc00-\udfff])|(?<![\ud800-\udbff])[\udc00-\udfff]/g;

/** @param {string} found */
function name(found) {
  const code = found.charCodeAt(0);
  if (code < 0x20) return String.fromCharCode(0x2400 + code);
  return code === 0x7f ? "\u2421" : `\u27e8U+${code.toString(16).toUpperCase().padStart(4, "0")}\u27e9`;
}

/** @param {unknown} text */
export const visible = (text) => String(text).replace(HIDDEN, name);

/** On one line, and not longer than `max`. @param {unknown} text @param {number} [max] */
export function brief(text, max = SHOWN_MAX) {
  const whole = String(text);
  const head = whole.length > max ? `${whole.slice(0, max)}\u2026` : whole;
  return visible(head).replace(/[\n\t]+/g, " ");
}

/**
 * A text of a user in an element of its own, so that its direction of writing stays inside.
 * @param {unknown} text
 * @param {{class?: string, max?: number, title?: boolean}} [options]
 */
export function said(text, options = {}) {
  const short = brief(text, options.max);
  const long = options.title ? visible(String(text).slice(0, 2000)) : null;
  return el("bdi", { class: `text ${options.class ?? ""}`, text: short, title: long });
}

/** Several lines, such as a traceback; more than `max` characters are shown on request. @param {unknown} text @param {number} [max] */
export function block(text, max = 20_000) {
  const whole = String(text);
  const pre = el("pre", { class: "text block", text: visible(whole.slice(0, max)), tabindex: 0, role: "group", "aria-label": "text" });
  if (whole.length <= max) return seal(pre, whole);
  const more = el("button", {
    class: "link", type: "button", text: `Show all ${count(whole.length)} characters`,
    onclick: () => { pre.textContent = visible(whole); more.remove(); },
  });
  return seal(el("div", {}, pre, more), whole);
}

/** "1,234,567". The browser's own way takes 20 ms the first time, while the page is being opened. @param {number} value */
export const count = (value) => String(Math.round(value)).replace(/\B(?=(?:\d{3})+$)/g, ",");

/** "1 step", "2 steps". @param {number} number @param {string} noun @param {string} [many] */
export const plural = (number, noun, many = `${noun}s`) => `${count(number)} ${number === 1 ? noun : many}`;

/** @param {number} bytes */
export function bytes(bytes) {
  const units = ["B", "KB", "MB", "GB", "TB"];
  let unit = 0;
  let value = bytes;
  while (value >= 1000 && unit < units.length - 1) { value /= 1000; unit += 1; }
  return `${value >= 100 || unit === 0 ? Math.round(value) : value.toFixed(1)} ${units[unit]}`;
}
