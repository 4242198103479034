/** Executions, newest first: filtered, live, without end; chosen ones are changed in bulk. */
/** @import { Context } from "../main.js" */
/** @import { Execution } from "../types.js" */
import * as api from "../api.js";
import { el } from "../dom.js";
import { chip, givenTags, idLink, tag } from "../kit/chip.js";
import { Pages } from "../kit/pages.js";
import { onChanges } from "../live.js";
import { link, place } from "../router.js";
import { mayAct } from "../session.js";
import { said } from "../text.js";
import { duration, now, when } from "../time.js";
import { ENDED, OF_EXECUTIONS, TAKEN, waitWords } from "../words.js";
import { bulkBar } from "./bulk.js";
import { untakenWords } from "./execution_obstacle.js";
import { filters, wanted } from "./filters.js";

const COUNT_EVERY_MS = 4_000; // while changes never pause

/** @param {Execution} row */
export function took(row) {
  if (ENDED.has(row.status)) return el("span", { class: "num", text: row.settledAt === undefined ? "" : duration(row.settledAt - row.createdAt) });
  return when(row.createdAt, "for");
}

/** What it waits for or failed with, in a few words. @param {Execution} row */
function about(row) {
  const error = row.error ?? row.failure?.message;
  if (ENDED.has(row.status) || row.status === "halted") return [row.code, error].filter(Boolean).join(": ");
  if (row.waits?.[0]) return waitWords(row.waits[0]) + (row.waits.length > 1 ? `, and ${row.waits.length - 1} more` : "");
  return row.status === "pending" || row.status === "waiting" ? untakenWords(row) : "";
}

/** Since when there is it, its name and what it waits for, on one line. @param {Execution} row */
export const below = (row) => el("span", {}, when(row.createdAt, "ago"), " \u00b7 ", said([row.name, about(row)].filter(Boolean).join(" \u00b7 "), { max: 160 }));

/** The same, or else its tags. @param {Execution} row */
export function gist(row) {
  const words = about(row);
  if (words) return said(words, { class: ENDED.has(row.status) || row.status === "halted" ? "bad" : "muted", title: true, max: 160 });
  return el("span", { class: "line one" }, givenTags(row.tags).slice(0, 4).map(([name, value]) => tag(name, value, link(["executions"], { tag: `${name}:${value}` }))));
}

/** @param {Context} context */
export async function view({ main, signal, title }) {
  title("Executions");
  main.classList.add("full");
  const query = place().query;
  const head = filters(query, { statuses: OF_EXECUTIONS, nameLabel: "workflow", queueLabel: "Only of this queue or group of workers", hasVersions: true }, () => { void pages.reload(); void count(); });
  const statuses = () => (query.get("status") ?? "").split(",").filter(Boolean);
  /** @type {Pages<Execution>} */
  const pages = new Pages({
    label: "Executions",
    key: (row) => row.id,
    href: (row) => link(["executions", row.id]),
    selectable: mayAct(),
    onSelect: () => bar.draw(),
    columns: [
      { title: "Status", class: "w-status", cell: (row) => chip(row.status) },
      { title: "Id", class: "w-id", cell: (row) => idLink(row.id), below },
      { title: "Workflow", class: "w-name mid", cell: (row) => said(row.name ?? "", { max: 80, title: true }) },
      { title: "About", class: "mid", cell: gist },
      { title: "Attempts", means: TAKEN, class: "w-num num wide", cell: (row) => String(row.attempts ?? 0) },
      { title: "Started", class: "w-ago mid", cell: (row) => when(row.createdAt, "ago") },
      { title: "Took", class: "w-short num wide", cell: took },
    ],
  }, {
    noun: "execution",
    nothing: "No execution is stored yet. Start one from \u201cStart\u201d, or with app.start(...).",
    filtered: () => query.size > 0,
    page: async (paging, stop) => {
      const found = await api.executions.find({ ...wanted(query), ...paging }, stop);
      return { rows: found.executions, ...(found.cursor && { cursor: found.cursor }) };
    },
    one: (id) => api.executions.get(id),
    fits: (row) => (!statuses().length || statuses().includes(row.status)) && (!query.get("version") || String(row.call?.version ?? "") === query.get("version")),
    order: (row) => row.createdAt,
    touched: (changes) => (changes.executions.size ? [...changes.executions.values()].filter((each) => each[1] !== "task").map((each) => each[0]) : null),
  }, signal);
  const bar = bulkBar("executions", pages, query);
  let counted = 0;
  let timer = 0;
  const count = async () => {
    counted = now();
    const { status, version, ...rest } = wanted(query); // counts are of all versions
    head.counts(version ? {} : (await api.counts(rest).catch(() => ({}))).executions ?? {});
  };
  onChanges(signal, (changes) => {
    if (!changes.all && !changes.executions.size) return;
    clearTimeout(timer);
    timer = setTimeout(() => { if (!signal.aborted) void count(); }, Math.max(0, counted + COUNT_EVERY_MS - now()));
  });
  main.append(
    el("div", { class: "head" }, el("h1", { text: "Executions" }), mayAct() ? el("div", { class: "actions" }, el("a", { class: "button", href: link(["start"]) }, "Start one")) : null),
    head.element, pages.element, bar.element);
  await Promise.all([pages.reload(), count()]);
}
