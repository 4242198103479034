/** What an execution was told, what it emits and publishes, and how far it is; kept in step while the page is open. */
/** @import { Execution } from "../types.js" */
import * as api from "../api.js";
import { el, fill } from "../dom.js";
import { chip } from "../kit/chip.js";
import { inline, json } from "../kit/json.js";
import { panel } from "../kit/panel.js";
import { empty, present, problem } from "../kit/states.js";
import { renew } from "../renew.js";
import { plural, said, visible } from "../text.js";
import { when } from "../time.js";

const PAGE = 200;
const ELEMENTS_MAX = 2_000; // of one stream, kept on the page

/** @param {string} id @param {AbortSignal} signal */
export function conversations(id, signal) {
  /** @type {() => Promise<void>} */
  let again = async () => {};
  const board = el("div", { class: "board" });
  let board_text = "";

  const readBoard = async () => {
    const found = await api.executions.published(id).catch(() => null);
    if (!found || signal.aborted) return;
    const text = JSON.stringify(found.published);
    if (text === board_text) return;
    board_text = text;
    renew(board, found.published.length ? panel("Published", { flush: true }, el("table", {}, el("caption", { class: "visually-hidden", text: "Published values" }), el("tbody", {}, found.published.map((/** @type {any} */ each) =>
      el("tr", { "data-key": each.name }, el("th", { scope: "row", class: "w-name" }, said(each.name, { max: 80 })), el("td", {}, json(each.value, `Published ${each.name}`)), el("td", { class: "w-time" }, when(each.publishedAt, "ago"))))))) : null);
  };
  void readBoard();

  return {
    refresh: async () => { await Promise.all([again(), readBoard()]); },

    /** Progress bars and published values, above the rest. @param {Execution} it @param {(operation: string) => string} nameOf */
    published(it, nameOf) { const bars = progress(it.progress, nameOf); return bars ? [bars, board] : [board]; },

    /** @param {HTMLElement} box */
    messages(box) {
      again = () => present(box, () => api.executions.messages(id, { limit: PAGE }), (found) => {
        if (!found.messages.length) return empty("It has no messages. They come from app.tell, app.ask, or \u201cTell\u201d above.");
        return el("div", { class: "tall scroll", tabindex: 0, role: "region", "aria-label": "Messages" }, el("table", { class: "rows" }, el("caption", { class: "visually-hidden", text: "Messages" }),
          el("thead", {}, el("tr", {}, ["#", "Sent", "State", "Message", "Answer"].map((text, index) => el("th", { scope: "col", class: ["w-num", "w-time", "w-status", "", "w-id"][index] ?? "", text })))),
          el("tbody", {}, found.messages.map(message))));
      }, signal);
      void again();
    },

    /** @param {HTMLElement} box */
    streams(box) {
      /** @type {Map<string, {after: number, list: HTMLElement, foot: HTMLElement}>} */
      const shown = new Map();
      const list = el("div", { class: "grid" });
      again = async () => {
        try {
          const { streams } = await api.executions.streams(id);
          if (signal.aborted || again === null) return;
          const names = Object.keys(streams);
          if (!names.length) { fill(box, empty("It emits nothing. Streams come from hf.emit in the workflow, its steps and tasks.")); return; }
          if (!list.isConnected) fill(box, list);
          for (const name of names) if (!shown.has(name)) shown.set(name, streamPanel(list, name));
          await Promise.all([...shown].map(([name, stream]) => readStream(id, name, stream)));
        } catch (error) {
          if (!signal.aborted) fill(box, problem(error, () => void again()));
        }
      };
      void again();
    },
  };
}

/** @param {any} each */
function message(each) {
  const state = each.setAside ? "failed" : each.read ? "completed" : "pending";
  const word = each.setAside ? "set aside" : each.read ? (each.question ? "answered" : "read") : "unread";
  return el("tr", { "data-key": each.number },
    el("td", { text: String(each.number) }), el("td", {}, when(each.sentAt)), el("td", {}, chip(each.question && each.answer?.state === "pending" ? "pending" : state, each.question && each.answer?.state === "pending" ? "question" : word)),
    el("td", {}, inline(each.value, { max: 300, title: true })),
    el("td", {}, each.answer && each.answer.state !== "pending" ? inline(each.answer.value, { max: 200, title: true }) : each.setAside ? inline(each.setAside.value?.message ?? each.setAside.value ?? "", { class: "bad", max: 200, title: true, plain: true }) : null));
}

/** @param {HTMLElement} parent @param {string} name */
function streamPanel(parent, name) {
  const list = el("ol", { class: "stream of-max", tabindex: 0, "aria-label": `Stream ${name}` });
  const foot = el("span", { class: "muted" });
  parent.append(el("section", { class: "panel half", "aria-label": `Stream ${name}` }, el("header", {}, el("h2", {}, said(name, { max: 80 })), el("span", { class: "more" }, foot)), el("div", { class: "body" }, list)));
  return { after: 0, list, foot };
}

/** Append what is new. @param {string} id @param {string} name @param {{after: number, list: HTMLElement, foot: HTMLElement}} stream */
async function readStream(id, name, stream) {
  for (;;) {
    const page = await api.executions.stream(id, name, { after: stream.after, limit: PAGE });
    const isAtEnd = stream.list.scrollTop + stream.list.clientHeight >= stream.list.scrollHeight - 30;
    for (const each of page.elements) {
      if (each.number <= stream.after) continue;
      stream.after = each.number;
      stream.list.append(el("li", { "data-number": each.number }, el("span", { class: "muted num", text: String(each.number) }), inline(each.value, { max: 1000, plain: true }),
        Number(each.attempt ?? 1) > 1 ? el("span", { class: "muted", text: ` attempt ${each.attempt}` }) : null));
    }
    while (stream.list.childElementCount > ELEMENTS_MAX) stream.list.firstElementChild?.remove();
    if (isAtEnd) stream.list.scrollTop = stream.list.scrollHeight;
    stream.foot.textContent = `${plural(page.count, "element")}${page.over ? ", over" : ""}`;
    if (!page.elements.length || stream.after >= page.count) return;
  }
}

/** Bars for what steps and tasks have told of their progress. @param {any} found @param {(operation: string) => string} [nameOf] */
export function progress(found, nameOf) {
  /** @type {any[]} */
  const all = found === undefined || found === null ? [] : Array.isArray(found) ? found : [found];
  if (!all.length) return null;
  return panel("Progress", {}, el("ul", { class: "stack" }, all.map((each) => {
    const { step, fraction, at, fields } = each;
    const share = Math.max(0, Math.min(1, fraction ?? 0));
    return el("li", { class: "line" }, step ? said(nameOf?.(step) || step, { max: 80, title: true }) : null,
      fraction === undefined ? null : el("progress", { max: 1, value: share, "aria-label": `Progress of ${visible((nameOf?.(step) || step || "").slice(0, 80))}` }), fraction === undefined ? null : el("span", { text: `${Math.floor(share * 100)} %` }),
      Object.keys(fields ?? {}).length ? said(Object.entries(fields).map(([key, value]) => `${key} ${typeof value === "object" ? JSON.stringify(value) : value}`).join(", "), { class: "muted", max: 200 }) : null, at ? when(at, "ago") : null);
  })));
}
