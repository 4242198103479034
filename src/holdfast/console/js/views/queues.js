/** Queues: how much waits and since when, what of the limits is used; pause and resume. */
/** @import { Context } from "../main.js" */
/** @import { Queue } from "../types.js" */
import * as api from "../api.js";
import { el } from "../dom.js";
import { chip } from "../kit/chip.js";
import { meter } from "../kit/panel.js";
import { Pages } from "../kit/pages.js";
import { link, place, amend } from "../router.js";
import { count, said } from "../text.js";
import { span, when } from "../time.js";

/** @param {any} rate */
export const rateWords = (rate) => (rate ? `${count(rate.count)} in ${span(rate.perMs)}` : "");

/** @param {Queue} row */
export function limitCell(row) {
  const used = (row.claimed ?? 0) + (row.running ?? 0);
  if (row.concurrency) return meter(used, row.concurrency);
  return el("span", { class: "muted", text: rateWords(row.rate) || "no limit" });
}

/** @param {Context} context */
export async function view({ main, signal, title }) {
  title("Queues");
  main.classList.add("full");
  const query = place().query;
  const search = el("input", { type: "search", "data-search": "", placeholder: "name begins with\u2026", "aria-label": "Only queues whose name begins with", value: query.get("prefix") ?? "", oninput: () => { if (search.value) query.set("prefix", search.value); else query.delete("prefix"); amend(query); void pages.reload(); } });
  /** @type {Pages<Queue>} */
  const pages = new Pages({
    label: "Queues", key: (row) => row.name, href: (row) => link(["queues", row.name]),
    columns: [
      { title: "Queue", class: "w-id", cell: (row) => el("a", { href: link(["queues", row.name]) }, said(row.name, { max: 120 })) },
      { title: "State", class: "w-status", cell: (row) => chip(row.paused ? "paused" : "active") },
      { title: "Waiting", class: "w-num num", cell: (row) => count(row.pending ?? 0) },
      { title: "Delayed", class: "w-num num mid", cell: (row) => count(row.delayed ?? 0) },
      { title: "Running", class: "w-num num", cell: (row) => count((row.running ?? 0) + (row.claimed ?? 0)) },
      { title: "Oldest", class: "w-time wide", cell: (row) => (row.oldestAt ? when(row.oldestAt, "ago") : el("span", { class: "muted", text: "\u2013" })) },
      { title: "At a time", class: "w-name mid", cell: limitCell },
      { title: "Rate", class: "wide", cell: (row) => rateWords(row.rate) },
      { title: "Fair", class: "w-short wide", cell: (row) => (row.fair ? "by key" : "") },
    ],
  }, {
    noun: "queue", nothing: "There is no queue yet. One appears when a task is sent to it, or when limits are set.",
    filtered: () => query.size > 0,
    page: async (paging) => { const found = await api.queues.find({ prefix: query.get("prefix"), ...paging }); return { rows: found.queues, ...(found.cursor && { cursor: found.cursor }) }; },
    touched: (changes) => (changes.queues.size || [...changes.executions.values()].some((each) => each[1] === "task") ? [] : null),
  }, signal);
  main.append(el("div", { class: "head" }, el("h1", { text: "Queues" })), el("div", { class: "filters" }, search), pages.element);
  await pages.reload();
}
