/** Schedules: when they run, in words and as cron, what they run, and the next run of each. */
/** @import { Context } from "../main.js" */
/** @import { Schedule } from "../types.js" */
import * as api from "../api.js";
import { cronWords } from "../cron.js";
import { el } from "../dom.js";
import { chip } from "../kit/chip.js";
import { Pages } from "../kit/pages.js";
import { amend, link, place } from "../router.js";
import { mayAct } from "../session.js";
import { said } from "../text.js";
import { when } from "../time.js";
import { edit } from "./schedule.js";

/** @param {Schedule} row */
const wordsOf = (row) => row.words ?? (cronWords(row.cron) || row.cron);

/** @param {Context} context */
export async function view({ main, signal, title }) {
  title("Schedules");
  main.classList.add("full");
  const query = place().query;
  const search = el("input", { type: "search", "data-search": "", placeholder: "id begins with\u2026", "aria-label": "Only ids that begin with", value: query.get("prefix") ?? "", oninput: () => { if (search.value) query.set("prefix", search.value); else query.delete("prefix"); amend(query); void pages.reload(); } });
  /** @type {Pages<Schedule>} */
  const pages = new Pages({
    label: "Schedules", key: (row) => row.id, href: (row) => link(["schedules", row.id]),
    columns: [
      { title: "Schedule", class: "w-name", cell: (row) => el("a", { href: link(["schedules", row.id]) }, said(row.id, { max: 120 })), below: (row) => said(`${wordsOf(row)}${row["pausedAt"] ? ", paused" : ""}`, { max: 120 }) },
      { title: "State", class: "w-status mid", cell: (row) => chip(row["pausedAt"] ? "paused" : "active") },
      { title: "When", class: "mid", cell: (row) => said(wordsOf(row), { max: 120, title: true }) },
      { title: "Cron", class: "w-mid mid", cell: (row) => el("code", {}, said(row.cron, { max: 60 })) },
      { title: "Zone", class: "w-mid wide", cell: (row) => said(row.timezone ?? "UTC", { max: 40 }) },
      { title: "Runs", class: "w-name wide", cell: (row) => said(row.call?.workflow ?? "", { max: 80 }) },
      { title: "Last", class: "w-ago wide", cell: (row) => (row.lastRunAt ? when(row.lastRunAt, "ago") : el("span", { class: "muted", text: "never" })) },
      { title: "Next", class: "w-time", cell: (row) => (row["pausedAt"] ? el("span", { class: "muted", text: "paused" }) : when(row.nextRunAt, "ago")) },
    ],
  }, {
    noun: "schedule", nothing: "There is no schedule. They come from @app.schedule, app.schedules.create, or \u201cCreate one\u201d.",
    filtered: () => query.size > 0,
    page: async (paging) => { const found = await api.schedules.find({ prefix: query.get("prefix"), ...paging }); return { rows: found.schedules, ...(found.cursor && { cursor: found.cursor }) }; },
    touched: (changes) => (changes.schedules.size ? [...changes.schedules] : null),
  }, signal);
  main.append(el("div", { class: "head" }, el("h1", { text: "Schedules" }), mayAct() ? el("div", { class: "actions" }, el("button", { type: "button", text: "Create one\u2026", onclick: () => edit(null, () => void pages.reload()) })) : null), el("div", { class: "filters" }, search), pages.element);
  await pages.reload();
}
