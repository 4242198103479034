/** The audit log: who changed what, newest first. */
/** @import { Context } from "../main.js" */
import * as api from "../api.js";
import { el } from "../dom.js";
import { chip } from "../kit/chip.js";
import { Pages } from "../kit/pages.js";
import { amend, link, place } from "../router.js";
import { brief, said } from "../text.js";
import { when } from "../time.js";

/** @typedef {{id: string, at: number, who?: string, method: string, path: string, target?: string, about?: string, body?: any, outcome?: string, status?: number, code?: string}} Entry */

const PAGES = new Set(["executions", "tasks", "queues", "schedules", "promises"]);

/** What was changed, as a link to its page where it has one. @param {Entry} row */
function target(row) {
  const words = said(row.target ?? "", { class: "mono", max: 120, title: true });
  const [, , view = ""] = (row.path ?? "").split("/");
  return row.target && PAGES.has(view) ? el("a", { href: link([view, row.target]) }, words) : words;
}

/** @param {Entry} row */
const outcome = (row) => (row.outcome === "refused" ? brief(`refused ${row.code ?? ""}`, 30) : row.outcome === "asked" ? "outcome unknown" : "done");

/** @param {Context} context */
export async function view({ main, signal, title }) {
  title("Audit log");
  main.classList.add("full");
  const query = place().query;
  const who = el("input", { type: "search", "data-search": "", placeholder: "who", "aria-label": "Only changes by", value: query.get("who") ?? "", onchange: () => { if (who.value) query.set("who", who.value); else query.delete("who"); amend(query); void pages.reload(); } });
  /** @type {Pages<Entry>} */
  const pages = new Pages({
    label: "Audit log", key: (row) => String(row.id),
    columns: [
      { title: "When", class: "w-time", cell: (row) => when(row.at) },
      { title: "Who", class: "w-mid mid", cell: (row) => said(row.who ?? "anybody", { max: 80 }) },
      { title: "What", class: "w-id", cell: (row) => said(row.about ?? `${row.method} ${row.path}`, { max: 160, title: true }), below: (row) => el("span", {}, target(row), said(` \u00b7 ${row.who ?? "anybody"} \u00b7 ${outcome(row)}`, { max: 120 })) },
      { title: "To", class: "w-id mid", cell: target },
      { title: "With", class: "wide", cell: (row) => (row.body && Object.keys(row.body).length ? said(JSON.stringify(row.body), { class: "mono muted", max: 160, title: true }) : null) },
      { title: "Outcome", class: "w-status mid", cell: (row) => chip(row.outcome === "done" ? "completed" : row.outcome === "refused" ? "failed" : "pending", outcome(row)) },
    ],
  }, {
    noun: "change", nothing: "Nobody has changed anything through the management API yet.",
    filtered: () => query.size > 0,
    page: async (paging) => { const found = await api.audit({ who: query.get("who"), ...paging }); return { rows: found.entries, ...(found.cursor && { cursor: found.cursor }) }; },
    order: (row) => row.at,
    touched: () => [],
  }, signal);
  main.append(el("div", { class: "head" }, el("h1", { text: "Audit log" })), el("div", { class: "filters" }, who), pages.element);
  await pages.reload();
}
