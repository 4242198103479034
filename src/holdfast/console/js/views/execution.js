/** One execution: what it is, what it waits for and since when, what it did, and what can be done about it. */
/** @import { Context } from "../main.js" */
/** @import { Execution } from "../types.js" */
import * as api from "../api.js";
import { el, fill } from "../dom.js";
import { chip, givenTags, idLink, tag } from "../kit/chip.js";
import { json } from "../kit/json.js";
import { facts, panel, tabs } from "../kit/panel.js";
import { lookOnly, problem } from "../kit/states.js";
import { current, onChanges } from "../live.js";
import { renew } from "../renew.js";
import { amend, link, place } from "../router.js";
import { mayAct } from "../session.js";
import { said } from "../text.js";
import { duration, isMeant, when } from "../time.js";
import { ENDED, OPEN, TAKEN } from "../words.js";
import { actions } from "./actions.js";
import { conversations } from "./execution_conversations.js";
import { failurePanel } from "./execution_failure.js";
import { history } from "./execution_history.js";
import { records } from "./execution_records.js";
import { calledBy, waitingPanel } from "./execution_waiting.js";

const SLOW_MS = 10_000; // what becomes of time alone: workers that fall silent, places that become free

/** @param {Context} context */
export async function view({ path, main, signal, title }) {
  const id = path[0] ?? "";
  title(id);
  /** @type {Execution} */
  let it;
  try {
    it = await api.executions.get(id);
  } catch (error) {
    if (!signal.aborted) fill(main, el("h1", { class: "mono" }, said(id, { max: 200 })), problem(error, () => location.reload()));
    return;
  }
  if (it.kind === "task") { location.replace(link(["tasks", id])); return; }
  const head = el("div", { class: "stack" });
  const below = el("div", { class: "stack" });
  const again = () => void refresh(true);
  const rows = records(id, signal, () => it, () => draw());
  const talk = conversations(id, signal);
  const parts = tabs([
    { id: "timeline", title: "Timeline", draw: (box) => rows.timeline(box) },
    { id: "steps", title: "Steps", draw: (box) => rows.steps(box) },
    { id: "tree", title: "Call tree", draw: (box) => rows.tree(box) },
    { id: "messages", title: "Messages", draw: (box) => talk.messages(box) },
    { id: "streams", title: "Streams", draw: (box) => talk.streams(box) },
    { id: "log", title: "Log", draw: (box) => rows.log(box) },
    { id: "raw", title: "Raw JSON", draw: (box) => { fill(box, json(it, "Execution as JSON"), history(id)); } },
  ], place().query.get("tab") ?? "timeline", (chosen) => {
    const { query } = place();
    if ((query.get("tab") ?? "timeline") === chosen) return;
    query.set("tab", chosen);
    amend(query);
  });
  let text = "";
  /** @type {Map<string, Execution>} */
  let called = new Map();
  const draw = () => {
    const running = rows.running();
    const next = JSON.stringify([it, running, [...called]]);
    if (next === text) return;
    text = next;
    renew(head, header(it, again, rows.all), waitingPanel(it, again, running, called), ...talk.published(it, rows.nameOf));
    renew(below, payloads(it));
  };
  const refresh = async (/** @type {boolean} */ all) => {
    it = await api.executions.get(id);
    if (signal.aborted) return;
    draw();
    await Promise.all([readCalled(), ...(all ? [rows.refresh(), talk.refresh()] : [])]);
  };
  const readCalled = async () => {
    called = await calledBy(it, (each) => api.executions.get(each).catch(() => null));
    if (!signal.aborted) draw();
  };
  main.append(head, below, parts.element);
  draw();
  void readCalled();
  const mine = (/** @type {string} */ each) => each === id || called.has(each) || each.startsWith(`${id}:`) || each.startsWith(`${id}.`);
  onChanges(signal, async (changes) => {
    const own = changes.all || [...changes.executions.keys()].some(mine) || [...changes.promises].some(mine);
    const told = changes.all || changes.streams.has(id);
    if (own) await refresh(true);
    else if (told) await talk.refresh();
  });
  const timer = setInterval(() => { if (!document.hidden && current() !== "paused" && OPEN.has(it.status)) void refresh(false).catch(() => {}); }, SLOW_MS);
  signal.addEventListener("abort", () => clearInterval(timer));
  await rows.ready;
}

/** @param {Execution} it @param {() => void} again @param {() => import("../types.js").Row[]} rows */
function header(it, again, rows) {
  const over = ENDED.has(it.status);
  const given = givenTags(it.tags);
  const parent = it.parent ?? (it.tags["resonate:parent"] !== it.id ? it.tags["resonate:parent"] : undefined);
  return el("div", { class: "stack" },
    el("div", { class: "head" },
      el("h1", { class: "mono" }, said(it.id, { max: 200 })), chip(it.status),
      it.status === "suspended" || it.status === "halted" || it.status === "waiting" ? el("span", { class: "muted" }, "for ", when(it.since, "for")) : null,
      el("div", { class: "actions" }, mayAct() ? actions(it, again, rows) : lookOnly())),
    facts([
      ["Workflow", el("a", { href: link(["executions"], { name: it.name ?? "" }) }, said(it.name ?? "", { max: 120 }))],
      ["Version", it.call?.version === undefined || it.call.version === null ? null : it.call.version ? String(it.call.version) : "the newest"],
      ["Started", when(it.createdAt)],
      [over ? "Took" : "Age", over && it.settledAt !== undefined ? duration(it.settledAt - it.createdAt) : when(it.createdAt, "for")],
      over ? ["Ended", when(it.settledAt)] : null,
      ["Attempts", String(it.attempts ?? 0), TAKEN],
      it.generation ? ["Generation", String(it.generation)] : null,
      it.crashes ? ["Crashes", String(it.crashes)] : null,
      it.worker ? ["Worker", el("a", { href: link(["workers"]), class: "mono" }, said(it.worker, { max: 80 }))] : null,
      it.queue ? ["Queue", el("a", { href: link(["queues", it.queue]) }, said(it.queue, { max: 80 }))] : ["Group", said(it.group ?? "", { max: 80 })],
      isMeant(it.timeoutAt) ? ["Deadline", when(it.timeoutAt)] : null,
      parent ? ["Called by", idLink(parent)] : null,
    ]),
    given.length ? el("div", { class: "line", role: "group", "aria-label": "Tags" }, given.map(([name, value]) => tag(name, value, link(["executions"], { tag: `${name}:${value}` })))) : null);
}

/** @param {Execution} it */
function payloads(it) {
  const call = it.call ?? {};
  const input = "input" in call ? call.input : Object.keys(call.kwargs ?? {}).length ? { args: call.args, kwargs: call.kwargs } : call.args;
  return el("div", { class: "grid" },
    panel("Input", { flush: true, class: "half" }, json(input, "Input")),
    it.status === "completed" ? panel("Result", { flush: true, class: "half" }, json(it.result ?? null, "Result")) : failurePanel(it));
}
