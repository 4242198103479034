/** Short notes at the edge of the page: what was done, or why not. They go by themselves; errors stay longer, answers until they are closed. */
import { el, part } from "../dom.js";
import { Problem } from "../api.js";
import { icon } from "../icons.js";
import { visible } from "../text.js";

const STAY_MS = 5_000;
const STAY_BAD_MS = 15_000;
const TOASTS_MAX = 4;

/** @param {string} text @param {"good" | "bad"} [tone] @param {Node} [more] what somebody asked for */
export function toast(text, tone = "good", more) {
  const box = part("toasts");
  let timer = 0;
  const stay = () => { clearTimeout(timer); if (!more) timer = setTimeout(() => note.remove(), tone === "good" ? STAY_MS : STAY_BAD_MS); };
  const note = el("div", { class: `toast tone-${tone}`, onpointerenter: () => clearTimeout(timer), onpointerleave: stay },
    icon(tone === "good" ? "completed" : "failed"),
    el("div", { class: "grow stack tight" }, el("span", { class: "text", text: visible(text.slice(0, 600)) }), more ?? null),
    el("button", { class: "icon small", type: "button", "aria-label": "Close this note", onclick: () => note.remove() }, icon("close")));
  box.append(note);
  while (box.childElementCount > TOASTS_MAX) box.firstElementChild?.remove();
  stay();
}

/** @param {unknown} error */
export function toastProblem(error) {
  if (error instanceof DOMException && error.name === "AbortError") return;
  const hint = error instanceof Problem && error.hint ? ` \u2013 ${error.hint}` : "";
  toast(`${error instanceof Error ? error.message : error}${hint}`, "bad");
}

/** Said to screen readers only. @param {string} text */
export function announce(text) { part("announcer").textContent = text; }
