/** All of it at a glance: counts, rates, failures, the oldest that waits, queues, workers, schedules, the node. */
/** @import { Context } from "../main.js" */
import * as api from "../api.js";
import { el } from "../dom.js";
import { chart } from "../draw/chart.js";
import { chip, idLink } from "../kit/chip.js";
import { facts, panel } from "../kit/panel.js";
import { empty, present } from "../kit/states.js";
import { current, onChanges } from "../live.js";
import { renew } from "../renew.js";
import { link } from "../router.js";
import { bytes, count, said } from "../text.js";
import { duration, rough, when } from "../time.js";
import { OF_EXECUTIONS, OF_TASKS, STATUSES, waitWords } from "../words.js";
import { untakenWords } from "./execution_obstacle.js";

const EVERY_MS = 1_000;
const SLOW_MS = 10_000; // what becomes of time alone: leases, workers that fall silent, work that nobody takes
const APART = "These are counted for the whole server. A token for a prefix does not see them.";
const RANGES = /** @type {const} */ ([[60, "last hour"], [360, "last 6 hours"], [1440, "last day"]]);

/** @param {Context} context */
export async function view({ main, signal, title, query }) {
  title("Overview");
  let minutes = Number(query.get("minutes")) || 60;
  const box = el("div", { class: "stack" });
  const range = el("select", { "aria-label": "Over which time", onchange: () => { minutes = Number(range.value); void read(); } }, RANGES.map(([value, word]) => el("option", { value, text: word, selected: value === minutes })));
  main.append(el("div", { class: "head" }, el("h1", { text: "Overview" }), el("div", { class: "actions" }, range)), box);
  let drawn = "";
  let last = 0;
  const read = () => {
    last = performance.now();
    return present(box, () => api.overview({ minutes, buckets: 60 }), (found) => draw(found), signal);
  };
  const refresh = async () => {
    if (performance.now() - last < EVERY_MS) await new Promise((done) => setTimeout(done, EVERY_MS - (performance.now() - last)));
    if (signal.aborted) return;
    last = performance.now();
    const found = await api.overview({ minutes, buckets: 60 });
    const { now: _, ...rest } = found;
    const text = JSON.stringify(rest);
    if (signal.aborted || text === drawn) return;
    drawn = text;
    renew(box, draw(found));
  };
  onChanges(signal, refresh);
  const timer = setInterval(() => { if (!document.hidden && current() !== "paused") void refresh().catch(() => {}); }, SLOW_MS);
  signal.addEventListener("abort", () => clearInterval(timer));
  await read();
}

/** @param {any} found */
function draw(found) {
  const rates = found.rates ?? {};
  return el("div", { class: "stack" },
    attention(found.problems ?? []),
    figures(found.counts ?? {}),
    el("div", { class: "grid" },
      panel("Waiting longest", { class: "half", flush: true, more: el("a", { href: link(["executions"], { status: "pending,waiting,suspended,halted" }), text: "all that wait" }) }, waiting(found.oldest ?? [])),
      panel("Failures", { class: "half", flush: true, more: el("a", { href: link(["executions"], { status: "failed,timed_out" }), text: "all that failed" }) }, found.failures ? failures(found.failures) : empty(APART)),
      panel("Started and ended", { class: "two-thirds" }, rates.bucketMs ? chart({
        since: rates.since, bucketMs: rates.bucketMs, label: "Executions that were started, completed and failed over time",
        series: [
          { name: "completed", tone: "good", values: rates.completed ?? [] }, { name: "failed", tone: "bad", values: plus(rates.failed, rates.timedOut) },
          { name: "cancelled", tone: "off", values: rates.cancelled ?? [] }, { name: "started", tone: "busy", values: rates.started ?? [], line: true },
        ],
      }) : empty(APART), rates.tasks?.completed ? el("div", {}, el("h3", { text: "Background tasks" }), chart({
        since: rates.since, bucketMs: rates.bucketMs, label: "Background tasks that were sent, completed and failed over time",
        series: [{ name: "completed", tone: "good", values: rates.tasks.completed ?? [] }, { name: "failed", tone: "bad", values: rates.tasks.failed ?? [] }, { name: "sent", tone: "busy", values: rates.tasks.started ?? [], line: true }],
      })) : null),
      panel("Node", { class: "third" }, node(found.node ?? {}, found.workers ?? {})),
      panel("Queues", { class: "half", flush: true, more: el("a", { href: link(["queues"]), text: "all queues" }) }, queues(found.queues ?? [])),
      panel("Schedules due next", { class: "half", flush: true, more: el("a", { href: link(["schedules"]), text: "all schedules" }) }, schedules(found.schedules ?? []))));
}

/** What each kind of problem means, and what to do. @type {Record<string, {word: string, status: string, todo: string}>} */
const PROBLEMS = {
  stuck: { word: "stuck", status: "halted", todo: "Its worker keeps crashing. Find out why, then resume it." },
  halted: { word: "halted", status: "halted", todo: "It does not run until you resume it." },
  crashing: { word: "crashing", status: "failed", todo: "Its worker died, and it has recorded nothing new since. Read the worker's log." },
  refused: { word: "cannot run", status: "failed", todo: "Its workers cannot run it. Repair the cause; it is tried again by itself." },
  unserved: { word: "no worker", status: "pending", todo: "Start a worker for it." },
  paused: { word: "paused", status: "paused", todo: "Nothing in it starts until you resume the queue." },
  orphan: { word: "orphan", status: "lost", todo: "No running worker declares what it starts. Deploy a worker that does, or delete the schedule." },
};

/** What somebody should look at. @param {any[]} rows */
function attention(rows) {
  if (!rows.length) return null;
  return panel("Needs attention", { class: "attention", flush: true }, el("table", { class: "rows plain" }, el("caption", { class: "visually-hidden", text: "Needs attention" }),
    el("thead", {}, el("tr", {}, [["What", "w-kind"], ["Which", "w-id"], ["Why, and what to do", "mid"], ["Since", "num w-time"]].map(([text, style]) => el("th", { scope: "col", class: style ?? "", text: text ?? "" })))),
    el("tbody", {}, rows.map(problemRow))));
}

/** @param {any} row */
function problemRow(row) {
  const { word, status, todo } = PROBLEMS[row.kind === "crashing" && row.error ? "refused" : row.kind] ?? { word: row.kind, status: "failed", todo: "" };
  const which = row.id ? idLink(row.id)
    : row.queue ? el("span", {}, "queue ", el("a", { href: link(["queues", row.queue]) }, said(row.queue, { max: 80 })), `, ${count(row.pending)} waiting`)
      : row.schedule ? el("span", {}, "schedule ", el("a", { href: link(["schedules", row.schedule]) }, said(row.schedule, { max: 80 })), " of ", said(row.name, { max: 80 }))
        : el("span", {}, "group ", el("a", { href: link(["executions"], { queue: row.group, status: "pending" }) }, said(row.group ?? "", { max: 80 })), `, ${count(row.pending)} waiting`);
  const more = row.more && row.id ? el("a", { href: link(["executions"], { status: status === "halted" ? "halted" : "pending,waiting,running" }), text: " and more" }) : row.more ? " and more" : null;
  return el("tr", { "data-key": `${row.kind} ${row.id ?? row.queue ?? row.schedule ?? row.group}` }, el("td", {}, chip(status, word)), el("td", {}, which, more),
    el("td", { class: "mid why" }, row.error ? el("div", {}, said(row.error, { max: 300, title: true })) : null, el("div", { class: "muted", text: row.crashes && !row.error ? `${row.crashes === 1 ? "Once" : `${row.crashes} times`}. ${todo}` : todo })),
    el("td", { class: "num w-time" }, row.since ? when(row.since, "ago") : row.dueAt ? when(row.dueAt, "ago") : "\u2013"));
}

/** @param {number[] | undefined} a @param {number[] | undefined} b */
const plus = (a = [], b = []) => a.map((value, at) => value + (b[at] ?? 0));

/** @param {any} counts */
function figures(counts) {
  /** @param {string} noun @param {string} word @param {string[]} statuses */
  const group = (noun, word, statuses) => {
    const found = counts[noun]?.counts ?? {};
    const more = counts[noun]?.more ?? [];
    return el("section", { class: "figures", "aria-label": `${word} by status` }, el("h2", { text: word }),
      el("ul", {}, statuses.map((status) => el("li", {}, el("a", { class: `figure-link tone-${STATUSES[status]?.tone ?? "off"} ${found[status] ? "" : "is-none"}`, href: link([noun], { status }) },
        el("span", { class: "number", text: count(found[status] ?? 0) + (more.includes(status) ? "+" : "") }), chip(status))))));
  };
  return el("div", { class: "stack tight" }, group("executions", "Executions", OF_EXECUTIONS), group("tasks", "Background tasks", OF_TASKS));
}

/** @param {any} node @param {any} workers */
function node(node, workers) {
  const groupSize = node.groupSize ?? node.commitMs?.groupSize;
  return el("div", { class: "stack" },
    el("div", { class: "line" }, node.healthy === false ? chip("failed", "not healthy") : node.healthy ? chip("completed", "healthy") : null),
    facts([
      ["Workers", el("a", { href: link(["workers"]) }, `${count(workers.running ?? 0)} running${workers.draining ? `, ${workers.draining} draining` : ""}${workers.lost ? `, ${workers.lost} lost` : ""}`)],
      ["Commit, p50 / p99", node.commitMs?.p50 !== undefined ? `${duration(node.commitMs.p50)} / ${duration(node.commitMs.p99 ?? node.commitMs.p50)}` : null],
      ["Requests a commit", groupSize !== undefined ? String(Math.round(groupSize * 10) / 10) : null],
      ["Commits", node.commits !== undefined ? count(node.commits) : null],
      ["Requests that wait", node.queued !== undefined ? count(node.queued) : null],
      ["Database", node.dbBytes !== undefined ? bytes(node.dbBytes) : null],
      ["Disk free", node.diskFreeBytes !== undefined ? bytes(node.diskFreeBytes) : null],
      ["Store", node.store ?? null],
      ["Up for", node.uptimeMs !== undefined ? rough(node.uptimeMs) : null],
      ["Node", node.name ? said(node.name, { max: 60 }) : null],
      ["Version", node.version ?? null],
    ]));
}

/** @param {string} label @param {string[]} heads @param {Node[]} rows */
const table = (label, heads, rows) => el("table", { class: "rows plain" }, el("caption", { class: "visually-hidden", text: label }), el("thead", {}, el("tr", {}, heads.map((text, index) => el("th", { scope: "col", class: text === "Due" ? "num w-time" : index && /^(since|depth|oldest|count|last)$/i.test(text) ? "num w-ago" : text === "Execution" ? "w-half" : "", text })))), el("tbody", {}, rows));

/** @param {any[]} rows */
function waiting(rows) {
  if (!rows.length) return empty("Nothing is waiting.");
  return table("Executions that wait longest", ["Execution", "Waits for", "Since"], rows.map((row) => el("tr", { "data-key": row.id },
    el("td", {}, el("span", { class: "line one" }, chip(row.status), idLink(row.id, row.kind === "task" ? "tasks" : "executions"))),
    el("td", {}, said(row.waits?.[0] ? waitWords(row.waits[0]) : untakenWords(row), { class: "muted", max: 120, title: true })),
    el("td", { class: "num" }, when(row.since, "ago")))));
}

/** @type {Record<string, string>} */
const FAILED = { task: "failed,expired", execution: "failed,timed_out" };

/** @param {any} found */
function failures(found) {
  const byName = found.byName ?? [];
  const byCode = found.byCode ?? [];
  if (!byName.length && !byCode.length) return empty("Nothing has failed in this time.");
  return el("div", {},
    table("Failures by workflow", ["Workflow or task", "Count", "Last"], byName.slice(0, 6).map((/** @type {any} */ each) => el("tr", { "data-key": `${each.kind} ${each.name}` }, el("td", {}, el("a", { href: link([each.kind === "task" ? "tasks" : "executions"], { name: each.name, status: FAILED[each.kind] }) }, said(each.name, { max: 80 }))), el("td", { class: "num", text: count(each.count) }), el("td", { class: "num" }, when(each.last, "ago"))))),
    table("Failures by error", ["Error", "Count", "Last"], byCode.slice(0, 6).map((/** @type {any} */ each) => el("tr", { "data-key": `${each.kind} ${each.code}` }, el("td", {}, el("a", { class: "bad", href: link([each.kind === "task" ? "tasks" : "executions"], each.code in STATUSES ? { status: each.code } : { error: each.code, status: FAILED[each.kind] }) }, said(each.code, { max: 80 }))), el("td", { class: "num", text: count(each.count) }), el("td", { class: "num" }, when(each.last, "ago"))))));
}

/** @param {any[]} rows */
function queues(rows) {
  if (!rows.length) return empty("No queue holds anything. Queues appear when a task is sent, or limits are set.");
  return table("Queues", ["Queue", "Depth", "Oldest"], rows.slice(0, 8).map((row) => el("tr", { "data-key": row.name }, el("td", {}, el("span", { class: "line one" }, el("a", { href: link(["queues", row.name]) }, said(row.name, { max: 80 })), row.paused ? chip("paused") : null)), el("td", { class: "num", text: count(row.pending ?? 0) }), el("td", { class: "num" }, row.oldestAt ? when(row.oldestAt, "ago") : "\u2013"))));
}

/** @param {any[]} rows */
function schedules(rows) {
  if (!rows.length) return empty("There is no schedule. They come from @app.schedule or app.schedules.create.");
  return table("Schedules due next", ["Schedule", "Cron", "Due"], rows.slice(0, 8).map((row) => el("tr", { "data-key": row.id }, el("td", {}, el("a", { href: link(["schedules", row.id]) }, said(row.id, { max: 80 }))), el("td", {}, el("code", {}, said(row.cron ?? "", { max: 60 }))), el("td", { class: "num" }, when(row.nextRunAt, "ago")))));
}
