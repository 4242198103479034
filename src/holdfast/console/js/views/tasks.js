/** Background tasks, newest first: by queue, status and error; chosen ones are rerun, cancelled or promoted in bulk. */
/** @import { Context } from "../main.js" */
/** @import { Execution } from "../types.js" */
import * as api from "../api.js";
import { el } from "../dom.js";
import { chip, idLink } from "../kit/chip.js";
import { Pages } from "../kit/pages.js";
import { onChanges } from "../live.js";
import { link, place } from "../router.js";
import { mayAct } from "../session.js";
import { said } from "../text.js";
import { now, when } from "../time.js";
import { OF_TASKS } from "../words.js";
import { bulkBar } from "./bulk.js";
import { below, gist, took } from "./executions.js";
import { filters, wanted } from "./filters.js";

/** @param {Context} context */
export async function view({ main, signal, title }) {
  title("Background tasks");
  main.classList.add("full");
  const query = place().query;
  const head = filters(query, { statuses: OF_TASKS, nameLabel: "task", queueLabel: "Only of this queue" }, () => { void pages.reload(); void count(); });
  const statuses = () => (query.get("status") ?? "").split(",").filter(Boolean);
  /** @type {Pages<Execution>} */
  const pages = new Pages({
    label: "Background tasks",
    key: (row) => row.id,
    href: (row) => link(["tasks", row.id]),
    selectable: mayAct(),
    onSelect: () => bar.draw(),
    columns: [
      { title: "Status", class: "w-status", cell: (row) => chip(row.status) },
      { title: "Id", class: "w-id", cell: (row) => idLink(row.id, "tasks"), below },
      { title: "Task", class: "w-mid mid", cell: (row) => said(row.name ?? "", { max: 80, title: true }) },
      { title: "Queue", class: "w-mid wide", cell: (row) => (row.queue ? el("a", { href: link(["queues", row.queue]) }, said(row.queue, { max: 60 })) : null) },
      { title: "About", class: "mid", cell: gist },
      { title: "Attempts", class: "w-num num wide", cell: (row) => String(row.attempts ?? 0) },
      { title: "Sent", class: "w-ago mid", cell: (row) => when(row.createdAt, "ago") },
      { title: "Took", class: "w-short num wide", cell: took },
    ],
  }, {
    noun: "task",
    nothing: "No background task is stored yet. Send one with task.send(...), or from \u201cStart\u201d.",
    filtered: () => query.size > 0,
    page: async (paging, stop) => {
      const { version: _, ...asked } = wanted(query);
      const found = await api.tasks.find({ ...asked, ...paging }, stop);
      return { rows: found.tasks, ...(found.cursor && { cursor: found.cursor }) };
    },
    one: (id) => api.tasks.get(id),
    fits: (row) => !statuses().length || statuses().includes(row.status),
    order: (row) => row.createdAt,
    touched: (changes) => (changes.executions.size ? [...changes.executions.values()].filter((each) => each[1] !== "execution").map((each) => each[0]) : null),
  }, signal);
  const bar = bulkBar("tasks", pages, query);
  let counted = 0;
  let timer = 0;
  const count = async () => {
    counted = now();
    const { status, ...rest } = wanted(query);
    head.counts((await api.counts(rest).catch(() => ({}))).tasks ?? {});
  };
  onChanges(signal, (changes) => {
    if (!changes.all && !changes.executions.size) return;
    clearTimeout(timer);
    timer = setTimeout(() => { if (!signal.aborted) void count(); }, Math.max(0, counted + 2_000 - now()));
  });
  main.append(el("div", { class: "head" }, el("h1", { text: "Background tasks" }), mayAct() ? el("div", { class: "actions" }, el("a", { class: "button", href: link(["start"]) }, "Send one")) : null), head.element, pages.element, bar.element);
  await Promise.all([pages.reload(), count()]);
}
