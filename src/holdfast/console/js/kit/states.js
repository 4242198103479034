/**
 * What is shown where there is nothing to show: loading, empty, an error. Each is a sentence.
 *
 * What takes under 200 ms shows no sign of loading.
 */
import { el, fill } from "../dom.js";
import { Problem } from "../api.js";
import { icon } from "../icons.js";
import { renew } from "../renew.js";
import { brief, visible } from "../text.js";

const PATIENCE_MS = 200;

/** @param {string} sentence @param {...(Node | string | null)} more */
export function empty(sentence, ...more) {
  return el("div", { class: "empty" }, el("p", { text: sentence }), ...more);
}

/** In the place of buttons. */
export const lookOnly = () => el("span", { class: "muted", text: "Your token may look, and change nothing." });

/** @param {unknown} error @param {() => void} [again] */
export function problem(error, again) {
  const known = error instanceof Problem ? error : null;
  const what = known ? known.message : `The page met an error of its own: ${error instanceof Error ? error.message : error}`;
  const hint = known?.hint || (known ? "Try again; the log of the server may say more." : "Reload the page. If it happens again, please report it.");
  return el("div", { class: "problem", role: "alert" },
    icon("failed"),
    el("div", { class: "stack grow" },
      el("p", { class: "what", text: brief(what, 1000) }),
      el("p", { class: "hint", text: visible(hint) }),
      known?.problems.length ? el("ul", {}, known.problems.map((each) => el("li", { class: "mono text", text: brief(`${each.path}: ${each.problem}`, 500) }))) : null),
    known?.code ? el("code", { class: "muted", text: known.code }) : null,
    again ? el("button", { type: "button", text: "Try again", onclick: again }) : null);
}

/**
 * Fill `target` with what `load` gives, in place where it was filled before; until then, after a while, a word that it is loading.
 * @template T
 * @param {Element} target
 * @param {() => Promise<T>} load
 * @param {(found: T) => Node | Node[]} show
 * @param {AbortSignal} [signal]
 */
export async function present(target, load, show, signal) {
  const timer = target.childElementCount ? 0 : setTimeout(() => { if (!target.childElementCount) fill(target, el("p", { class: "loading muted", text: "Loading\u2026" })); }, PATIENCE_MS);
  try {
    const found = await load();
    clearTimeout(timer);
    if (signal?.aborted) return;
    renew(target, show(found));
  } catch (error) {
    clearTimeout(timer);
    if (signal?.aborted) return;
    fill(target, problem(error, () => { target.replaceChildren(); void present(target, load, show, signal); }));
  }
}
