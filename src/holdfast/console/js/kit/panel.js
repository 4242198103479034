/** A titled part of a page; a list of facts; tabs. */
import { el, fill, fresh } from "../dom.js";

/** @param {string} title @param {{more?: Node | null, flush?: boolean, class?: string}} options @param {...(Node | null)} content */
export function panel(title, options, ...content) {
  const id = fresh("panel");
  return el("section", { class: `panel ${options.class ?? ""}`, "data-key": title, "aria-labelledby": id },
    el("header", {}, el("h2", { id, text: title }), options.more ? el("span", { class: "more" }, options.more) : null),
    el("div", { class: `body ${options.flush ? "flush" : ""}` }, ...content));
}

/** Name, value, and where the name does not say it what it means. @param {([string, Node | string | null | undefined, string?] | null | undefined | false)[]} entries those without a value are left out */
export function facts(entries) {
  const there = entries.filter((each) => Array.isArray(each) && each[1] !== null && each[1] !== undefined && each[1] !== "");
  return el("dl", { class: "facts" }, /** @type {[string, Node | string, string?][]} */ (there).map(([name, value, means]) => el("div", { "data-key": name }, el("dt", { text: name, title: means ?? null, class: means ? "explained" : null }), el("dd", {}, value))));
}

/**
 * @param {{id: string, title: string, badge?: string, draw: (panel: HTMLElement) => void}[]} all
 * @param {string} chosen
 * @param {(id: string) => void} onChoose
 */
export function tabs(all, chosen, onChoose) {
  const body = el("div", { role: "tabpanel", class: "tabpanel", tabindex: 0 });
  const bar = el("div", { role: "tablist", class: "tabs", "aria-label": "Parts" });
  body.id = fresh("tabpanel");
  const buttons = all.map((each) => el("button", {
    role: "tab", type: "button", id: fresh("tab"), "aria-controls": body.id, "data-tab": each.id, onclick: () => choose(each.id), onkeydown: (/** @type {KeyboardEvent} */ event) => step(event),
  }, each.title, each.badge ? el("span", { class: "badge", text: each.badge }) : null));
  /** @param {string} id */
  const choose = (id) => {
    all.forEach((each, index) => {
      const button = /** @type {HTMLButtonElement} */ (buttons[index]);
      const is = each.id === id;
      button.setAttribute("aria-selected", String(is));
      button.tabIndex = is ? 0 : -1;
      if (is) { body.setAttribute("aria-labelledby", button.id); fill(body); each.draw(body); }
    });
    onChoose(id);
  };
  /** @param {KeyboardEvent} event */
  const step = (event) => {
    const by = event.key === "ArrowRight" ? 1 : event.key === "ArrowLeft" ? -1 : 0;
    if (!by) return;
    const at = buttons.indexOf(/** @type {HTMLButtonElement} */ (event.target));
    const next = /** @type {HTMLButtonElement} */ (buttons[(at + by + buttons.length) % buttons.length]);
    next.focus();
    next.click();
  };
  bar.append(...buttons);
  choose(all.some((each) => each.id === chosen) ? chosen : /** @type {any} */ (all[0]).id);
  return { element: el("div", { class: "stack tabbed" }, bar, body), choose, bar };
}

/** How much of a limit is used. @param {number} used @param {number} most */
export function meter(used, most) {
  const bar = el("i");
  bar.style.width = `${Math.min(100, most ? (100 * used) / most : 0)}%`;
  return el("span", { class: "nowrap" }, el("span", { class: `meter ${used >= most ? "is-full" : ""}`, "aria-hidden": "true" }, bar), ` ${used} of ${most}`);
}
