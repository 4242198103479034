/** What an execution waits for: which promise, timer, message, lock, limit, retry or lease; since when; the line of code. */
/** @import { Execution, Row, Wait } from "../types.js" */
import { el } from "../dom.js";
import { icon } from "../icons.js";
import { idLink } from "../kit/chip.js";
import { panel } from "../kit/panel.js";
import { link } from "../router.js";
import { mayAct } from "../session.js";
import { said } from "../text.js";
import { when } from "../time.js";
import { WAITS, WAITS_SHORT } from "../words.js";
import { canSettle, reject, settle } from "./actions.js";

const STEPS_SHOWN = 5;

/** @param {Execution} it @param {() => void} again @param {Row[]} [running] the steps that its worker performs */
export function waitingPanel(it, again, running = []) {
  const waits = it.waits ?? [];
  if (waits.length) return panel("Waiting for", { class: "waiting" }, el("ul", { class: "waits" }, waits.map((wait) => line(it, wait, again))));
  if (it.status === "running" && it.worker) return panel("Running", { class: "waiting" }, el("ul", { class: "waits" }, driven(it, running)));
  const sentence = told(it);
  return sentence ? panel("Waiting for", { class: "waiting" }, el("ul", { class: "waits" }, sentence)) : null;
}

/** One that no worker drives, and that waits for no promise. @param {Execution} it */
function told(it) {
  if (it.status === "pending") {
    return el("li", {}, icon("workers"), el("div", { class: "grow" }, el("strong", { text: "a free worker" }), " of ", it.queue ? el("a", { href: link(["queues", it.queue]) }, "queue ", said(it.queue, { max: 80 })) : el("span", {}, "group ", said(it.group ?? "default", { max: 80 })),
      el("div", { class: "muted" }, "since ", when(it.since), " (", when(it.since, "for"), "). Nobody has taken it: check that a worker of that group runs, and the limits of its queue.")));
  }
  if (it.status === "waiting") {
    return el("li", {}, icon("waiting"), el("div", { class: "grow" }, el("strong", { text: it.error ? "the next attempt" : "its start time" }), ", ", when(it.dueAt, "ago"),
      el("div", { class: "muted" }, "since ", when(it.since), it.error ? said(`. The last error: ${it.error}`, { max: 400 }) : "")));
  }
  if (it.status === "halted") {
    return el("li", {}, icon("halted"), el("div", { class: "grow" }, el("strong", { text: "somebody to resume it" }), " since ", when(it.since), it.error ? el("div", {}, said(it.error, { class: "muted", max: 400 })) : null));
  }
  return null;
}

/** One that a worker drives: what runs there, and what happens if that worker dies. @param {Execution} it @param {Row[]} running */
function driven(it, running) {
  return el("li", {}, icon("running"), el("div", { class: "grow" },
    running.slice(0, STEPS_SHOWN).map((row) => el("div", {}, "the step ", el("strong", {}, said(row.name, { max: 120 })), " since ", when(row.startedAt), " (", when(row.startedAt, "for"), ")", (row.attempts ?? 0) > 1 ? `, attempt ${row.attempts}` : "")),
    running.length > STEPS_SHOWN ? el("div", { text: `and ${running.length - STEPS_SHOWN} more` }) : null,
    el("div", { class: running.length ? "muted" : "" }, "on the worker ", said(it.worker ?? "", { class: "mono", max: 80 }), " since ", when(it.since), " (", when(it.since, "for"), ")"),
    it.dueAt ? el("div", { class: "muted" }, "If that worker dies, another takes over when its lease lapses, ", when(it.dueAt, "ago"), ".") : null));
}

/** Which kind of wait it is, and of what: `lock printer-3`, `call pay`, `message 4`. @param {Wait} wait */
export function kindOf(wait) {
  const [kind = "", ...name] = (wait.what || "promise").split(" ");
  return { kind: wait.resumesAt ? "retry" : kind, name: `${kind === "message" ? "number " : ""}${name.join(" ")}` };
}

/** The same in a few words, for a list. @param {Wait} wait */
export function waitWords(wait) {
  const { kind, name } = kindOf(wait);
  return `${WAITS_SHORT[kind] ?? kind} ${name}${wait.error ? `: ${wait.error}` : ""}`;
}

/** When it ends by itself. @param {string} kind @param {Wait} wait */
function until(kind, wait) {
  const at = wait.resumesAt || wait.dueAt;
  if (!at) return null;
  return el("span", {}, kind === "retry" || kind === "sleep" ? ", due " : ", times out ", when(at, "ago"), " (", when(at), ")");
}

/** @param {Execution} it @param {Wait} wait @param {() => void} again */
function line(it, wait, again) {
  const { kind, name } = kindOf(wait);
  const where = wait.file ? `${wait.file}:${wait.line ?? 0}${wait.function ? `, in ${wait.function}` : ""}` : "";
  const since = wait.since || it.since;
  return el("li", { "data-key": wait.id }, icon(kind),
    el("div", { class: "grow" },
      el("div", {}, el("strong", { text: WAITS[kind] ?? kind }), " ", name ? el("span", {}, said(name, { max: 120 }), " ") : null, idLink(wait.id, kind === "call" ? "executions" : "promises"), until(kind, wait)),
      wait.heldBy ? el("div", {}, "held by ", idLink(wait.heldBy), wait.heldSince ? el("span", {}, " since ", when(wait.heldSince), " (", when(wait.heldSince, "for"), ")") : null) : null,
      wait.attempts ? el("div", {}, said(`tried ${wait.attempts === 1 ? "once" : `${wait.attempts} times`}${wait.error ? `; the last error: ${wait.error}` : ""}`, { class: "bad", max: 400 })) : null,
      el("div", { class: "muted" }, "since ", when(since), " (", when(since, "for"), ")", where ? el("span", {}, " at ", el("code", {}, said(where, { max: 300 }))) : null)),
    mayAct() && canSettle(wait) ? el("div", { class: "line" },
      el("button", { class: "primary", type: "button", text: "Settle\u2026", onclick: () => settle({ ...wait, title: name || undefined }, again) }),
      el("button", { type: "button", text: "Reject\u2026", onclick: () => reject(wait, again) })) : null);
}
