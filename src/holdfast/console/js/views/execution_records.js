/** The tabs that show what an execution has recorded: timeline, steps as a table, call tree, log. */
/** @import { Execution, Row } from "../types.js" */
/** @import { Records } from "./records.js" */
import * as api from "../api.js";
import { el, fill } from "../dom.js";
import { Timeline } from "../draw/timeline.js";
import { Tree } from "../draw/tree.js";
import { icon } from "../icons.js";
import { chip } from "../kit/chip.js";
import { json } from "../kit/json.js";
import { empty, problem } from "../kit/states.js";
import { Table } from "../kit/table.js";
import { mayAct } from "../session.js";
import { said } from "../text.js";
import { duration, when } from "../time.js";
import { ENDED } from "../words.js";
import { fork } from "./actions.js";
import { eventsOf, readRecords } from "./records.js";

/** `onRead` is told when the records were read anew. @param {string} id @param {AbortSignal} signal @param {() => Execution} current @param {() => void} onRead */
export function records(id, signal, current, onRead) {
  /** @type {Records} */
  let found = { rows: [], claims: [] };
  /** @type {(() => void) | null} */
  let draw = null;
  /** @type {unknown} */
  let failed = null;
  let isRead = false;
  let reading = false;
  let stale = false;
  const readChild = async (/** @type {Row} */ row) => (await readRecords(row.child ?? row.id)).rows;
  const read = async () => {
    if (reading) { stale = true; return; }
    reading = true;
    try {
      const first = !isRead;
      await readRecords(id, (records) => { if (first || !records.rows.length) { found = { ...records }; draw?.(); } else found = { ...records }; }, () => signal.aborted);
      isRead = true;
      failed = null;
    } catch (error) {
      failed = error;
    } finally {
      reading = false;
    }
    if (!signal.aborted) { draw?.(); onRead(); }
    if (stale && !signal.aborted) { stale = false; await read(); }
  };
  const ready = read();
  /** @type {Timeline | null} */
  let line = null;
  const timer = setInterval(() => line?.tick(), 1_000);
  signal.addEventListener("abort", () => { clearInterval(timer); line?.dispose(); });

  /** @param {HTMLElement} box */
  const guard = (box) => {
    if (failed) { fill(box, problem(failed, () => void read())); return true; }
    if (isRead && !found.rows.length && !found.claims.length) { fill(box, empty("It has recorded nothing yet: no step, no sleep, no call.")); return true; }
    return false;
  };

  return {
    ready,
    refresh: read,
    all: () => found.rows,
    /** What its worker is doing now. */
    running: () => found.rows.filter((row) => row.endedAt === undefined && row.state === "running" && row.kind === "step" && !row.resumesAt),
    /** @param {string} operation */
    nameOf: (operation) => found.rows.find((row) => row.id === operation)?.name ?? "",
    /** @param {HTMLElement} box */
    timeline(box) {
      const detail = el("div");
      line?.dispose();
      const shown = new Timeline({ onOpen: readChild, onChoose: (row) => void one(row, detail, current, found.rows) });
      line = shown;
      draw = () => {
        if (guard(box)) return;
        if (!shown.element.isConnected) fill(box, shown.element, detail);
        const it = current();
        const ends = found.rows.map((row) => row.endedAt ?? row.startedAt);
        shown.set({ from: it.createdAt, to: it.settledAt ?? ends.reduce((most, each) => Math.max(most, each), it.createdAt + 1), rows: found.rows, claims: found.claims, isOver: ENDED.has(it.status) });
      };
      draw();
    },
    /** @param {HTMLElement} box */
    steps(box) {
      /** @type {Table<Row>} */
      const table = new Table({
        label: "Operations", key: (row) => row.id,
        columns: [
          { title: "Operation", class: "w-name", cell: (row) => el("span", { class: "line one" }, icon(row.kind), said(row.name || row.kind, { max: 120, title: true })) },
          { title: "Kind", class: "w-short mid", cell: (row) => said(row.kind, { max: 40 }) },
          { title: "State", class: "w-status", cell: (row) => (row.resumesAt ? chip("waiting", "next try") : chip(row.state)) },
          { title: "Id", class: "w-id mid", cell: (row) => el("span", { class: "mono" }, said(row.id, { max: 120 })) },
          { title: "Began", class: "w-time mid", cell: (row) => when(row.startedAt) },
          { title: "Took", class: "w-short num", cell: (row) => (row.endedAt === undefined ? when(row.startedAt, "for") : duration(row.endedAt - row.startedAt)) },
          { title: "Attempts", class: "w-num num wide", cell: (row) => String(row.attempts ?? "") },
          { title: "Worker", class: "w-mid wide", cell: (row) => said(row.worker ?? "", { max: 60, class: "mono" }) },
          { title: "Error", class: "wide", cell: (row) => said(row.error ?? row.code ?? row.failures?.at(-1)?.message ?? "", { max: 160, class: "bad", title: true }) },
        ],
      });
      signal.addEventListener("abort", () => table.observer.disconnect());
      draw = () => {
        if (guard(box)) return;
        if (!table.element.isConnected) fill(box, el("div", { class: "tall" }, table.element));
        table.set(found.rows);
      };
      draw();
    },
    /** @param {HTMLElement} box */
    tree(box) {
      const shown = new Tree(readChild);
      draw = () => {
        if (guard(box)) return;
        const it = current();
        if (!shown.element.isConnected) fill(box, shown.element);
        shown.set({ id: it.id, name: it.name ?? it.id, state: it.status, startedAt: it.createdAt, endedAt: it.settledAt }, found.rows);
      };
      draw();
    },
    /** @param {HTMLElement} box */
    log(box) {
      /** @type {Table<{at: number, kind: string, words: string, what: string, key: string}>} */
      const table = new Table({
        label: "Log of events", key: (row) => row.key,
        columns: [
          { title: "When", class: "w-time", cell: (row) => when(row.at) },
          { title: "After", class: "w-short num mid", cell: (row) => `+${duration(row.at - current().createdAt)}` },
          { title: "What", class: "w-id", cell: (row) => el("span", { class: "line one" }, icon(row.kind), el("span", { class: "text", text: row.words })) },
          { title: "Detail", cell: (row) => said(row.what, { max: 300, title: true }) },
        ],
      });
      signal.addEventListener("abort", () => table.observer.disconnect());
      draw = () => {
        if (guard(box)) return;
        if (!table.element.isConnected) fill(box, el("div", { class: "tall" }, table.element));
        table.set(eventsOf(current(), found).map((each, index) => ({ ...each, key: `${index} ${each.at} ${each.words}` })));
      };
      draw();
    },
  };
}

/** What one operation gave, below the timeline. @param {Row} row @param {HTMLElement} box @param {() => Execution} current @param {Row[]} rows */
async function one(row, box, current, rows) {
  const took = row.endedAt === undefined ? null : duration(row.endedAt - row.startedAt);
  const value = el("div", { class: "muted", text: "" });
  fill(box, el("section", { class: "panel", "aria-label": "Operation" },
    el("header", {}, icon(row.kind), el("h2", {}, said(row.name || row.kind, { max: 120 })), chip(row.state), took ? el("span", { class: "muted", text: took }) : null, el("span", { class: "mono muted" }, said(row.id, { max: 120 })),
      mayAct() ? el("span", { class: "more" }, el("button", { class: "small", type: "button", text: "Fork before this\u2026", onclick: () => fork(current(), row, rows) })) : null),
    el("div", { class: "body stack" },
      row.worker ? el("p", { class: "muted" }, "on ", said(row.worker, { class: "mono", max: 80 }), (row.attempts ?? 0) > 1 ? `, ${row.attempts} attempts` : "") : null,
      row.failures?.length ? el("ul", { class: "stack tight", "aria-label": "Attempts that failed" }, row.failures.map((each) => el("li", {}, `attempt ${each.attempt ?? ""} failed `, when(each.at), " ", said(`${each.code ?? ""} ${each.message ?? ""}`, { class: "bad", max: 500 })))) : null,
      row.resumesAt ? el("p", {}, "the next attempt is due ", when(row.resumesAt, "ago")) : null, value)));
  box.scrollIntoView({ block: "nearest" });
  try {
    const promise = await api.promises.get(row.id);
    fill(value, row.endedAt === undefined ? "It is not over yet." : json(promise.value, "Result"));
  } catch (error) {
    fill(value, problem(error));
  }
}
