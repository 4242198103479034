/** Keys: `/` search, `j` `k` rows, `g` and a letter for a view, `?` this list. Nothing is caught while one types. */
import { el, part } from "./dom.js";
import { VIEWS } from "./frame.js";
import { tell } from "./kit/dialog.js";
import { go, link } from "./router.js";

const PREFIX_MS = 5_000; // a busy page may take a second for each key

export function bindKeys() {
  let prefixed = -Infinity;
  document.addEventListener("keydown", (event) => {
    const target = /** @type {HTMLElement} */ (event.target);
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    if (target.closest('input:not([type="checkbox"], [type="radio"]), textarea, select, dialog, [contenteditable]')) {
      if (event.key === "Escape" && target.id === "find") target.blur();
      return;
    }
    if (performance.now() - prefixed < PREFIX_MS) {
      prefixed = -Infinity;
      const chosen = VIEWS.find((each) => each[2] === event.key);
      if (chosen) { event.preventDefault(); go(link([chosen[0]])); }
      return;
    }
    if (event.key === "g") prefixed = performance.now();
    else if (event.key === "?") showKeys();
    else if (event.key === "/") {
      const search = /** @type {HTMLElement | null} */ (document.querySelector("main [data-search]")) ?? part("find");
      search.focus();
    } else if (["j", "k", "x", "Enter"].includes(event.key) && (target === document.body || target.id === "main" || event.key !== "Enter" && target.closest("main .rows"))) {
      const rows = document.querySelector("main .scroll");
      if (!rows) return;
      /** @type {HTMLElement} */ (rows).focus({ preventScroll: true });
      rows.dispatchEvent(new KeyboardEvent("keydown", { key: event.key, bubbles: false }));
    } else return;
    event.preventDefault();
  });
}

export function showKeys() {
  /** @type {[string[], string][]} */
  const keys = [
    [["/"], "search"], [["j"], "next row"], [["k"], "row before"], [["Enter"], "open the row"], [["x"], "select the row"],
    ...VIEWS.map(([, word, key]) => /** @type {[string[], string]} */ ([["g", key], word])),
    [["Esc"], "close a dialog"], [["?"], "these keys"],
  ];
  tell("Keys", el("table", { class: "keys" }, el("caption", { class: "visually-hidden", text: "Keys and what they do" }),
    el("tbody", {}, keys.map(([each, what]) => el("tr", {}, el("th", { scope: "row" }, each.flatMap((key) => [el("kbd", { text: key }), " "])), el("td", { text: what }))))));
}
