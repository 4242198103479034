/** What can be done to an execution, each asked first in words. */
/** @import { Execution, Wait, Row } from "../types.js" */
import { el, fill, fresh } from "../dom.js";
import { json } from "../kit/json.js";
import { FormError, askFirst, field } from "../kit/dialog.js";
import { form } from "../kit/form.js";
import { toast } from "../kit/toast.js";
import { go, link } from "../router.js";
import { brief, said } from "../text.js";
import { ENDED } from "../words.js";
import { signatureOf, valuesOf } from "./signature.js";

/** @param {string} id @returns {HTMLElement} */
const idOf = (id) => el("p", {}, el("span", { class: "mono" }, said(id, { max: 200 })));

/** `rows`: what it has recorded so far. @param {Execution} it @param {() => void} again @param {() => Row[]} rows */
export function actions(it, again, rows) {
  const over = ENDED.has(it.status);
  const parts = ["executions", it.id];
  /** @param {string} word @param {() => void} onclick @param {string} [style] */
  const button = (word, onclick, style = "") => el("button", { type: "button", class: style, "data-action": word.toLowerCase().replaceAll(" ", "-"), text: `${word}\u2026`, onclick });
  return [
    !over ? button("Cancel", () => askFirst({
      title: "Cancel this execution?", about: [idOf(it.id), "It is asked to cancel itself, and so is every execution that it called. Its code sees Cancelled and may clean up. Then it ends."],
      action: "Cancel it", danger: true, change: () => ({ method: "POST", parts: [...parts, "cancel"] }), done: "It was asked to cancel itself.", then: again,
    }), "danger") : null,
    !over ? button("End now", () => askFirst({
      title: "End this execution at once?", about: [idOf(it.id), "It ends as cancelled, and so do the executions that it called. Its code is not notified and cannot clean up. Use Cancel first, and this only if Cancel had no effect."],
      action: "End it now", danger: true, change: () => ({ method: "POST", parts: [...parts, "cancel"], body: { now: true } }), done: "It was ended.", then: again,
    })) : null,
    it.status === "failed" || it.status === "timed_out" || it.status === "cancelled" ? button("Retry", () => askFirst({
      title: "Retry from the failure?", about: [idOf(it.id), "It continues under the same id from where it failed. Finished steps are not repeated. The step that failed runs again."],
      action: "Retry", change: () => ({ method: "POST", parts: [...parts, "retry"] }), done: "It continues from where it failed.", then: again,
    }), "primary") : null,
    it.status === "halted" ? button("Resume", () => askFirst({
      title: "Resume this execution?", about: [idOf(it.id), "A worker can take it again. It continues where it was."],
      action: "Resume", change: () => ({ method: "POST", parts: [...parts, "resume"] }), done: "It is resumed.", then: again,
    }), "primary") : null,
    !over && it.status !== "halted" ? button("Halt", () => {
      const reason = el("input", { type: "text", value: "", placeholder: "for the people who find it halted" });
      askFirst({
        title: "Halt this execution?", about: [idOf(it.id), "No worker takes it until you resume it. A running step may still finish, but its result is not recorded."],
        form: field("Reason", reason), action: "Halt it", change: () => ({ method: "POST", parts: [...parts, "halt"], body: reason.value ? { reason: reason.value } : {} }), done: "It is halted.", then: again,
      });
    }) : null,
    button("Fork", () => fork(it, null, rows())),
    over ? el("a", { class: "button", "data-action": "start-like-this", href: link(["start"], { like: it.id }) }, "Start like this") : null,
    !over ? button("Tell", () => tell(it, false)) : null,
    !over ? button("Ask", () => tell(it, true)) : null,
  ];
}

/** A new execution that has the records before a step: by default before the one that failed. @param {Execution} it @param {Row | null} before @param {Row[]} rows */
export function fork(it, before, rows) {
  const chosen = before ?? (it.status === "failed" ? rows.findLast((row) => row.state === "failed") : undefined);
  /** @type {Map<string, number>} */
  const named = new Map();
  for (const { name } of rows) named.set(name, (named.get(name) ?? 0) + 1);
  const label = (/** @type {Row} */ row) => (row.name && (named.get(row.name) ?? 0) < 2 ? row.name : row.id);
  const steps = el("datalist", { id: fresh("steps") }, rows.slice(-200).map((row) => el("option", { value: label(row), text: brief(`${row.kind} ${row.name}, ${row.state}`, 120) })));
  const id = el("input", { type: "text", value: `${it.id}-fork-${Date.now().toString(36).slice(-4)}`, spellcheck: "false" });
  const step = el("input", { type: "text", list: steps.id, value: chosen ? label(chosen) : "", placeholder: "the name of a step, or the id of an operation", spellcheck: "false", autocomplete: "off" });
  const given = it.call ?? {};
  const edit = el("input", { type: "checkbox" });
  const place = el("div");
  const box = el("div", { class: "stack tight", hidden: true }, place, el("p", { class: "muted", text: "The steps before keep their results, also those that were made from the old input." }));
  const declared = signatureOf(it).catch(() => null);
  let read = () => ({});
  edit.addEventListener("change", async () => {
    const known = await declared;
    if (!place.hasChildNodes()) {
      const input = known ? form(known.parameters, { label: "Input", value: valuesOf(it, known) }) : form(undefined, { label: "Input", value: { args: given.args ?? [], kwargs: given.kwargs ?? {} } });
      read = known ? () => ({ kwargs: input.read() }) : input.read;
      fill(place, input.element);
    }
    box.hidden = !edit.checked;
  });
  askFirst({
    title: "Fork this execution?",
    about: [idOf(it.id), "This starts a new execution. It keeps everything that was recorded before the chosen step, and runs the rest. The original does not change."],
    form: el("div", { class: "stack" }, field("Id of the new execution", id), el("div", {}, field("Before the step", step), steps), el("label", {}, edit, " with another input"), box),
    action: "Fork",
    change: () => {
      if (!id.value.trim()) throw new FormError("The new execution needs an id.");
      if (!step.value.trim()) throw new FormError("Name the first step that runs again.");
      const body = { id: id.value.trim(), before: chosen && step.value === label(chosen) ? chosen.id : step.value.trim(), ...(edit.checked && read()) };
      return { method: "POST", parts: ["executions", it.id, "fork"], body };
    },
    done: "A fork was started.",
    then: (answer) => go(link(["executions", answer.id ?? id.value.trim()])),
  });
}

/** @param {Execution} it @param {boolean} isQuestion */
export function tell(it, isQuestion) {
  const wait = it.waits?.find((each) => /^message /.test(each.what ?? ""));
  const message = form(wait?.schema, { label: "Message" });
  askFirst({
    title: isQuestion ? "Ask this execution?" : "Tell this execution a message?",
    about: [idOf(it.id), isQuestion ? "The message is added to its mailbox. The page waits at most 30 seconds for the answer." : "The message is added to its mailbox. The code sees messages in order, each once."],
    form: message.element,
    action: isQuestion ? "Ask" : "Tell",
    change: () => ({ method: "POST", parts: ["executions", it.id, "messages"], ...(isQuestion && { query: { ask: true } }), body: message.read() }),
    then: (answer) => (isQuestion ? toast("It answered:", "good", json(answer.answer, "Answer")) : toast(`It was told; that is message ${answer.number}.`)),
  });
}

/**
 * Settle a promise by hand, in a form made from its declared type.
 * @param {{id: string, schema?: import("../types.js").Schema | undefined, title?: string | undefined}} promise
 * @param {() => void} again
 */
export function settle(promise, again) {
  const value = form(promise.schema, { label: promise.title ?? "Value" });
  askFirst({
    title: "Settle this promise?", about: [idOf(promise.id), "Executions that wait for it continue with this value. You cannot change it afterwards."],
    form: value.element, action: "Settle", change: () => ({ method: "POST", parts: ["promises", promise.id, "resolve"], body: { value: value.read() } }), done: "It is settled.", then: again,
  });
}

/** @param {{id: string}} promise @param {() => void} again */
export function reject(promise, again) {
  const message = el("input", { type: "text" });
  const name = el("input", { type: "text", value: "Exception", spellcheck: "false" });
  askFirst({
    title: "Settle this promise with an error?", about: [idOf(promise.id), "The workflow that awaits the promise gets this error. You cannot change it afterwards."],
    form: el("div", { class: "stack" }, field("Error message", message), field("Name of its class", name)), action: "Reject it", danger: true,
    change: () => ({ method: "POST", parts: ["promises", promise.id, "reject"], body: { message: message.value, name: name.value || "Exception" } }), done: "It is settled with an error.", then: again,
  });
}

/** @param {Wait} wait */
export const canSettle = (wait) => /^promise|^$/.test(wait.what ?? "");
