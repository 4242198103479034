/** The filters above a list of executions or background tasks. They live in the URL, so a link shows the same. */
import { el, fill, fresh } from "../dom.js";
import { icon } from "../icons.js";
import { amend } from "../router.js";
import { count } from "../text.js";
import { asField, fromField, now } from "../time.js";
import { STATUSES } from "../words.js";

const TYPING_MS = 250;
const RANGES = /** @type {const} */ ([["", "any time"], ["15m", "last 15 minutes"], ["1h", "last hour"], ["24h", "last 24 hours"], ["7d", "last 7 days"], ["between", "between\u2026"]]);
const UNITS = /** @type {Record<string, number>} */ ({ m: 60_000, h: 3_600_000, d: 86_400_000 });

/** @param {string} text "15m" */
function spanMs(text) { return Number.parseInt(text, 10) * (UNITS[text.at(-1) ?? ""] ?? 0); }

/** What the server is asked with. @param {URLSearchParams} query */
export function wanted(query) {
  const range = query.get("range");
  const text = (/** @type {string} */ name) => query.get(name) || undefined;
  return {
    status: text("status"), name: text("name"), version: text("version"), queue: text("queue"), error: text("error"), prefix: text("prefix"), tag: query.getAll("tag"),
    since: range && range !== "between" ? Math.round((now() - spanMs(range)) / 1000) * 1000 : text("since"), until: text("until"),
  };
}

/**
 * @param {URLSearchParams} query changed in place
 * @param {{statuses: string[], nameLabel: string, queueLabel: string, hasVersions?: boolean}} options
 * @param {() => void} onChange
 */
export function filters(query, options, onChange) {
  const changed = () => { amend(query); onChange(); };
  let timer = 0;
  /** @param {string} name @param {string} label @param {string} [placeholder] @param {import("../dom.js").Props} [more] */
  const text = (name, label, placeholder = label, more = {}) => {
    const input = el("input", { type: "search", placeholder, "aria-label": label, title: label, value: query.get(name) ?? "", autocomplete: "off", spellcheck: "false", ...more, oninput: () => {
      clearTimeout(timer);
      timer = setTimeout(() => { put(query, name, input.value.trim()); changed(); }, TYPING_MS);
    } });
    return input;
  };
  const tagInput = el("input", { type: "search", placeholder: "tag name:value", "aria-label": "Only with this tag, name:value", autocomplete: "off", spellcheck: "false", title: "Press Enter to add a tag", onkeydown: (/** @type {KeyboardEvent} */ event) => {
    if (event.key !== "Enter" || !tagInput.value.includes(":")) return;
    query.append("tag", tagInput.value.trim());
    tagInput.value = "";
    drawTags();
    changed();
  } });
  const tags = el("span", { class: "line" });
  const drawTags = () => fill(tags, query.getAll("tag").map((each) => el("button", { class: "pill", type: "button", "aria-pressed": "true", "aria-label": `Remove the tag ${each.slice(0, 80)}`, onclick: () => {
    const rest = query.getAll("tag").filter((other) => other !== each);
    query.delete("tag");
    for (const other of rest) query.append("tag", other);
    drawTags();
    changed();
  } }, el("bdi", { text: each.slice(0, 60) }), icon("close"))));
  drawTags();
  const range = el("select", { "aria-label": "Created", onchange: () => {
    put(query, "range", range.value);
    between.hidden = range.value !== "between";
    if (between.hidden) for (const each of ["since", "until"]) query.delete(each);
    changed();
  } }, RANGES.map(([value, word]) => el("option", { value, text: word, selected: (query.get("range") ?? "") === value })));
  /** A field for one end of a stretch of time, as local time or UTC, whichever the page shows. @param {string} name @param {string} label */
  const end = (name, label) => {
    const input = el("input", { type: "datetime-local", "aria-label": label, title: label, value: query.get(name) ? asField(Number(query.get(name))) : "", onchange: () => { put(query, name, fromField(input.value)); changed(); } });
    return input;
  };
  const between = el("span", { class: "line", hidden: query.get("range") !== "between" }, end("since", "Created from"), end("until", "Created before"));
  /** @type {Map<string, {button: HTMLElement, figure: HTMLElement}>} */
  const pills = new Map();
  const chosen = () => new Set((query.get("status") ?? "").split(",").filter(Boolean));
  for (const status of options.statuses) {
    const figure = el("span", { class: "figure" });
    const button = el("button", { class: "pill", type: "button", id: fresh("pill"), "data-status": status, onclick: () => {
      const now = chosen();
      if (now.has(status)) now.delete(status);
      else now.add(status);
      put(query, "status", options.statuses.filter((each) => now.has(each)).join(","));
      drawPills();
      changed();
    } }, icon(status), STATUSES[status]?.word ?? status, figure);
    pills.set(status, { button, figure });
  }
  const drawPills = () => { const now = chosen(); for (const [status, { button }] of pills) button.setAttribute("aria-pressed", String(now.has(status))); };
  drawPills();
  const element = el("div", { class: "stack tight" },
    el("div", { class: "filters" },
      text("prefix", "Only ids that begin with", "id begins with\u2026", { "data-search": "" }), text("name", options.nameLabel), options.hasVersions ? text("version", "Only of this version", "version", { class: "narrow", inputmode: "numeric" }) : null, text("error", "Failed with this code or error class", "error"), text("queue", options.queueLabel, "queue"), tagInput, range, between, tags),
    el("div", { class: "filters", role: "group", "aria-label": "Status" }, [...pills.values()].map((each) => each.button)));
  return {
    element,
    /** @param {{counts?: Record<string, number>, more?: string[]}} found */
    counts(found) {
      for (const [status, { figure }] of pills) {
        const number = found.counts?.[status];
        figure.textContent = number === undefined ? "" : count(number) + (found.more?.includes(status) ? "+" : "");
      }
    },
  };
}

/** @param {URLSearchParams} query @param {string} name @param {string} value */
function put(query, name, value) {
  if (value) query.set(name, value);
  else query.delete(name);
}
