/** What an execution waits for: which promise, timer, message, lock, limit, retry or lease; since when; the line of code. */
/** @import { Execution, Row, Wait } from "../types.js" */
import { el } from "../dom.js";
import { icon } from "../icons.js";
import { chip, idLink } from "../kit/chip.js";
import { panel } from "../kit/panel.js";
import { mayAct } from "../session.js";
import { said } from "../text.js";
import { when } from "../time.js";
import { WAITS, kindOf } from "../words.js";
import { canSettle, reject, settle, tell } from "./actions.js";
import { lost, untaken } from "./execution_obstacle.js";

const STEPS_SHOWN = 5;

/**
 * `running`: the steps that its worker performs; `called`: the executions that it waits for, and those that they wait for, by id.
 * @param {Execution} it @param {() => void} again @param {Row[]} [running] @param {Map<string, Execution>} [called]
 */
export function waitingPanel(it, again, running = [], called = new Map()) {
  const waits = it.waits ?? [];
  if (waits.length) return panel("Waiting for", { class: "waiting" }, el("ul", { class: "waits" }, waits.map((wait) => line(it, wait, again, called))));
  if (it.status === "running" && it.worker) return panel("Running", { class: "waiting is-running" }, el("ul", { class: "waits" }, driven(it, running)));
  const sentence = told(it);
  return sentence ? panel("Waiting for", { class: "waiting" }, el("ul", { class: "waits" }, sentence)) : null;
}

/** Why one is halted, and what to do first. @type {Record<string, string>} */
const HALTED = {
  HF5101: "Its code has changed since its steps were recorded. Deploy code that matches (hf.patched keeps both ways), then resume it; or fork it before the step that differs.",
  HF1408: "Its worker died, or could not run it, again and again. Repair the cause, then resume it.",
};

/** One that no worker drives, and that waits for no promise. @param {Execution} it */
function told(it) {
  if (it.status === "pending" || it.status === "waiting") {
    const { what, why, todo } = untaken(it);
    return el("li", {}, icon(it.obstacle ? it.obstacle.kind : it.status === "pending" ? "workers" : "waiting"), el("div", { class: "grow" },
      el("div", {}, el("strong", { text: what }), it.status === "waiting" ? el("span", {}, ", due ", when(it.dueAt, "ago"), " (", when(it.dueAt), ")") : null),
      why.length ? el("div", {}, why) : null, todo ? el("div", { text: todo }) : null, el("div", { class: "muted" }, "since ", when(it.since), " (", when(it.since, "for"), ")")));
  }
  if (it.status === "halted") {
    return el("li", {}, icon("halted"), el("div", { class: "grow" }, el("div", {}, el("strong", { text: "somebody to resume it" })),
      it.error ? el("div", {}, said(it.error, { class: "bad", max: 2000 })) : null,
      el("div", {}, HALTED[it.code ?? ""] ?? "It continues where it was when you resume it.", it.code ? el("span", { class: "muted" }, " Code ", el("code", {}, said(it.code, { max: 120 }))) : null),
      el("div", { class: "muted" }, "since ", when(it.since), " (", when(it.since, "for"), ")")));
  }
  return null;
}

/** One that a worker drives: what runs there, and what happens if that worker dies. @param {Execution} it @param {Row[]} running */
function driven(it, running) {
  return el("li", {}, icon("running"), el("div", { class: "grow" },
    running.slice(0, STEPS_SHOWN).map((row) => el("div", {}, "the step ", el("strong", {}, said(row.name, { max: 120 })), " since ", when(row.startedAt), " (", when(row.startedAt, "for"), ")", (row.attempts ?? 0) > 1 ? `, attempt ${row.attempts}` : "")),
    running.length > STEPS_SHOWN ? el("div", { text: `and ${running.length - STEPS_SHOWN} more` }) : null,
    el("div", { class: running.length ? "muted" : "" }, "on the worker ", said(it.worker ?? "", { class: "mono", max: 80 }), " since ", when(it.since), " (", when(it.since, "for"), ")", it.workerSeenAt && !it.obstacle ? el("span", {}, ", which was last heard of ", when(it.workerSeenAt, "ago")) : null),
    lost(it) ?? (it.dueAt ? el("div", { class: "muted" }, "If that worker dies, another takes over when its lease lapses, ", when(it.dueAt, "ago"), ".") : null)));
}

/** When it ends by itself. @param {string} kind @param {Wait} wait */
function until(kind, wait) {
  const at = wait.resumesAt || wait.dueAt;
  if (!at) return null;
  return el("span", {}, kind === "retry" || kind === "sleep" ? ", due " : ", times out ", when(at, "ago"), " (", when(at), ")");
}

/** @param {Execution} it @param {Wait} wait @param {() => void} again @param {Map<string, Execution>} called @returns {HTMLElement} */
function line(it, wait, again, called) {
  const { kind, name } = kindOf(wait);
  const where = wait.file ? `${wait.file}:${wait.line ?? 0}${wait.function ? `, in ${wait.function}` : ""}` : "";
  const since = wait.since || it.since;
  const child = called.get(wait.id);
  return el("li", { "data-key": wait.id }, icon(kind),
    el("div", { class: "grow" },
      el("div", {}, el("strong", { text: WAITS[kind] ?? kind }), " ", name ? el("span", {}, said(name, { max: 120 }), " ") : null, idLink(wait.id, kind === "call" ? "executions" : "promises"), until(kind, wait), child ? el("span", {}, " ", chip(child.status)) : null),
      wait.heldBy ? el("div", {}, "held by ", idLink(wait.heldBy), wait.heldSince ? el("span", {}, " since ", when(wait.heldSince), " (", when(wait.heldSince, "for"), ")") : null) : null,
      wait.attempts ? el("div", {}, said(`tried ${wait.attempts === 1 ? "once" : `${wait.attempts} times`}${wait.error ? `; the last error: ${wait.error}` : ""}`, { class: "bad", max: 400 })) : null,
      el("div", { class: "muted" }, "since ", when(since), " (", when(since, "for"), ")", where ? el("span", {}, " at ", el("code", {}, said(where, { max: 300 }))) : null),
      child ? inner(child, again, called) : null),
    mayAct() && canSettle(wait) ? el("div", { class: "line" },
      el("button", { class: "primary", type: "button", text: "Settle\u2026", onclick: () => settle({ ...wait, title: name || undefined }, again) }),
      el("button", { type: "button", text: "Reject\u2026", onclick: () => reject(wait, again) })) : null,
    mayAct() && MESSAGES.has(kind) ? el("button", { class: "primary", type: "button", text: "Send it one\u2026", onclick: () => tell(it, false) }) : null);
}

const MESSAGES = new Set(["message", "receive"]);
const CALLED_MAX = 5;

/** What an execution that it called waits for in turn. @param {Execution} child @param {() => void} again @param {Map<string, Execution>} called @returns {HTMLElement | null} */
function inner(child, again, called) {
  const waits = child.waits ?? [];
  const content = waits.length ? waits.slice(0, CALLED_MAX).map((wait) => line(child, wait, again, called)) : child.status === "running" && child.worker ? driven(child, []) : told(child);
  return content ? el("ul", { class: "waits inner", "aria-label": "What that one waits for" }, content) : null;
}

/** The executions that it waits for, and those that they wait for: the first of each, a few deep. @param {Execution} it @param {(id: string) => Promise<Execution | null>} read */
export async function calledBy(it, read) {
  /** @type {Map<string, Execution>} */
  const found = new Map();
  const coming = callsOf(it);
  for (let id = coming.shift(); id !== undefined && found.size < CALLED_MAX; id = coming.shift()) {
    const child = found.has(id) ? null : await read(id);
    if (!child) continue;
    found.set(id, child);
    coming.push(...callsOf(child));
  }
  return found;
}

/** @param {Execution} it */
const callsOf = (it) => (it.waits ?? []).filter((wait) => kindOf(wait).kind === "call").map((wait) => wait.id);
