/** One background task: its state, its attempts with their errors, and rerun, cancel, run now. */
/** @import { Context } from "../main.js" */
/** @import { Execution } from "../types.js" */
import * as api from "../api.js";
import { el } from "../dom.js";
import { chip, givenTags, tag } from "../kit/chip.js";
import { askFirst } from "../kit/dialog.js";
import { json } from "../kit/json.js";
import { showOne } from "../kit/one.js";
import { facts, panel } from "../kit/panel.js";
import { lookOnly } from "../kit/states.js";
import { go, link } from "../router.js";
import { mayAct } from "../session.js";
import { block, said } from "../text.js";
import { duration, when } from "../time.js";
import { ENDED, OPEN } from "../words.js";
import { progress } from "./execution_conversations.js";
import { failurePanel } from "./execution_failure.js";
import { attemptWords } from "./execution_obstacle.js";
import { waitingPanel } from "./execution_waiting.js";

/** @param {Context} context */
export async function view(context) {
  const id = context.path[0] ?? "";
  context.title(id);
  await showOne(context, () => api.tasks.get(id), draw, (changes) => changes.executions.has(id), (it) => OPEN.has(it.status));
}

/** @param {Execution} it @param {() => void} again */
function draw(it, again) {
  const job = it.job ?? {};
  const over = ENDED.has(it.status);
  const given = givenTags(it.tags);
  const call = it.call ?? {};
  return el("div", { class: "stack" },
    el("div", { class: "head" }, el("h1", { class: "mono" }, said(it.id, { max: 200 })), chip(it.status),
      el("div", { class: "actions" }, mayAct() ? buttons(it, again) : lookOnly())),
    facts([
      ["Task", el("a", { href: link(["tasks"], { name: it.name ?? "" }) }, said(it.name ?? "", { max: 120 }))],
      ["Queue", el("a", { href: link(["queues", it.queue ?? job.queue ?? "default"]) }, said(it.queue ?? job.queue ?? "", { max: 80 }))],
      ["Sent", when(job.sentAt ?? it.createdAt)],
      ["May start", job.enqueuedAt && job.enqueuedAt !== job.sentAt ? when(job.enqueuedAt) : null],
      ["Began", job.startedAt ? when(job.startedAt) : null],
      [over ? "Took" : "For", over && it.settledAt !== undefined ? duration(it.settledAt - it.createdAt) : when(it.since, "for")],
      ["Attempts", String(it.attempts ?? 0)],
      ["Next try", job.nextRetryAt ? when(job.nextRetryAt, "ago") : null],
      ["Priority", job.priority ? String(job.priority) : null],
      ["Key", job.key ? said(job.key, { max: 80 }) : null],
      ["Unique", job.unique ? said(job.unique, { max: 80 }) : null],
      ["Worker", it.worker ?? job.claimedBy ? said(it.worker ?? job.claimedBy, { class: "mono", max: 80 }) : null],
      ["Good until", job.goodUntil ? when(job.goodUntil) : null],
    ]),
    given.length ? el("div", { class: "line" }, given.map(([name, value]) => tag(name, value, link(["tasks"], { tag: `${name}:${value}` })))) : null,
    over ? null : waitingPanel(it, again),
    progress(it.progress),
    el("div", { class: "grid" },
      panel("Input", { flush: true, class: "half" }, json("input" in call ? call.input : Object.keys(call.kwargs ?? {}).length ? { args: call.args, kwargs: call.kwargs } : call.args, "Input")),
      it.status === "completed" ? panel("Result", { flush: true, class: "half" }, json(it.result ?? null, "Result")) : failurePanel(it)),
    panel("Attempts", { flush: true }, attempts(job.attempts ?? [], it.failure?.message)),
    ...tracebacks(job.attempts ?? []),
    el("details", {}, el("summary", { text: "Raw JSON" }), json(it, "Task as JSON")));
}

/** `last`: what the last one said, which is the error of the task; the record has it of those before. @param {any[]} all @param {any} last */
function attempts(all, last) {
  if (!all.length) return el("p", { class: "empty", text: "No attempt has ended yet." });
  return el("table", { class: "rows" }, el("caption", { class: "visually-hidden", text: "Attempts" }),
    el("thead", {}, el("tr", {}, [["#", "w-num"], ["Outcome", "w-status"], ["Began", "w-time mid"], ["Took", "w-short num mid"], ["Worker", "w-mid mid"], ["Error", ""]].map(([text, style]) => el("th", { scope: "col", class: style ?? "", text: text ?? "" })))),
    el("tbody", {}, all.map((each, at) => el("tr", {}, el("td", { text: String(each.number) }), el("td", {}, chip(each.outcome === "COMPLETED" ? "completed" : "failed", each.outcome === "COMPLETED" ? "completed" : each.willRetry ? "failed, retried" : "failed")),
      el("td", { class: "mid" }, when(each.startedAt)), el("td", { class: "num mid", text: duration(each.finishedAt - each.startedAt) }), el("td", { class: "mid" }, said(each.pid ?? "", { class: "mono", max: 60 })), el("td", {}, said(attemptWords(at < all.length - 1 ? each : { error: last, ...each }), { class: "bad", max: 400, title: true }))))));
}

/** Of the attempts that another one followed; that of the last is the error of the task. @param {any[]} all */
const tracebacks = (all) => all.filter((each) => each.traceback).map((each) => el("details", { "data-key": each.number }, el("summary", { text: `Traceback of attempt ${each.number}` }), block(each.traceback)));

/** @param {Execution} it @param {() => void} again */
function buttons(it, again) {
  const parts = ["tasks", it.id];
  const over = ENDED.has(it.status);
  const named = () => el("p", { class: "mono" }, said(it.id, { max: 200 }));
  return [
    it.status === "waiting" || (it.status === "pending" && it.job?.["nextRetryAt"]) ? el("button", { type: "button", "data-action": "promote", text: "Run now\u2026", onclick: () => askFirst({ title: "Run this task now?", about: [named(), "It may start at once. Its delay, or the wait before its next attempt, is skipped."], action: "Run it now", change: () => ({ method: "POST", parts: [...parts, "promote"] }), done: "It may start now.", then: again }) }) : null,
    over && it.status !== "completed" ? el("button", { class: "primary", type: "button", "data-action": "rerun", text: "Rerun\u2026", onclick: () => askFirst({ title: "Send this task again?", about: [named(), "The same call is sent again under a new id. This record stays."], action: "Rerun", change: () => ({ method: "POST", parts: [...parts, "rerun"] }), done: "It was sent again.", then: (answer) => go(link(["tasks", answer.id])) }) }) : null,
    !over ? el("button", { class: "danger", type: "button", "data-action": "cancel", text: "Cancel\u2026", onclick: () => {
      const force = el("input", { type: "checkbox", checked: it.status === "running" });
      askFirst({ title: "Cancel this task?", about: [named(), "It ends as cancelled and is not retried."], form: el("label", {}, force, " also if it is running: its worker stops it"), action: "Cancel it", danger: true, change: () => ({ method: "POST", parts: [...parts, "cancel"], body: force.checked ? { force: true } : {} }), done: "It was cancelled.", then: again });
    } }) : null,
  ];
}
