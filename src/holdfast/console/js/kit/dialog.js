/**
 * Each change asks first: what it is about to do, to what, and the same for a shell.
 *
 * The change is made while the dialog is open; a refusal is shown inside it, and nothing that was typed is lost.
 */
import { el, fill, fresh } from "../dom.js";
import { curl, make } from "../api.js";
import { icon } from "../icons.js";
import { visible } from "../text.js";
import { problem } from "./states.js";
import { toast } from "./toast.js";

/** @typedef {import("../api.js").Change} Change */

/**
 * @typedef {object} Question
 * @property {string} title what is about to be done
 * @property {(Node | string | null)[]} about what that means
 * @property {string} action the word on the button
 * @property {boolean} [danger]
 * @property {Node | null} [form] what is to be filled in
 * @property {() => Change} change raises an Error that says what is wrong with what was filled in
 * @property {() => Promise<any>} [run] what is done instead of `change`, which then is an example of it
 * @property {string} [done] what is said afterwards
 * @property {(answer: any) => void} [then]
 */

/** @param {Question} question */
export function askFirst(question) {
  const heading = fresh("dialog");
  const trouble = el("div");
  const shell = el("details", { class: "shell" }, el("summary", { text: "The same for a shell" }), el("pre", { class: "text block", tabindex: 0, role: "region", "aria-label": "Command" }));
  const confirm = el("button", { class: `primary ${question.danger ? "danger" : ""}`, type: "submit", text: question.action });
  const form = el("form", { class: "stack", novalidate: true },
    el("header", { class: "line" }, el("h2", { id: heading, class: "grow", text: visible(question.title) }),
      el("button", { class: "icon", type: "button", "aria-label": "Close", onclick: () => dialog.close() }, icon("close"))),
    el("div", { class: "stack about" }, question.about.map((each) => (typeof each === "string" ? el("p", { class: "text", text: visible(each) }) : each))),
    question.form ?? null, shell, trouble,
    el("footer", { class: "line" }, el("span", { class: "grow" }),
      el("button", { type: "button", text: "Leave it as it is", onclick: () => dialog.close() }), confirm));
  const dialog = el("dialog", { "aria-labelledby": heading }, form);

  const command = () => {
    try {
      return curl(question.change());
    } catch (error) {
      return error instanceof Error ? error.message : String(error);
    }
  };
  const write = () => { const pre = shell.querySelector("pre"); if (pre && shell.open) pre.textContent = visible(command()); };
  shell.addEventListener("toggle", write);
  for (const event of ["input", "change", "click"]) form.addEventListener(event, write); // what is filled in is part of the command
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    confirm.disabled = true;
    fill(trouble);
    try {
      const answer = await (question.run ? question.run() : make(question.change()));
      dialog.close();
      if (question.done) toast(question.done);
      question.then?.(answer);
    } catch (error) {
      fill(trouble, error instanceof FormError ? el("p", { class: "bad", role: "alert", text: visible(error.message) }) : problem(error));
    } finally {
      confirm.disabled = false;
    }
  });
  show(dialog);
}

/** What was filled in makes no sense yet. */
export class FormError extends Error {}

/** @param {HTMLDialogElement} dialog */
export function show(dialog) {
  dialog.addEventListener("close", () => dialog.remove());
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
  document.body.append(dialog);
  dialog.showModal();
}

/** A dialog that only tells. @param {string} title @param {Node} content */
export function tell(title, content) {
  const heading = fresh("dialog");
  const dialog = el("dialog", { "aria-labelledby": heading }, el("div", { class: "stack" },
    el("header", { class: "line" }, el("h2", { id: heading, class: "grow", text: title }),
      el("button", { class: "icon", type: "button", "aria-label": "Close", onclick: () => dialog.close() }, icon("close"))), content));
  show(dialog);
}

/** A labelled field for the form of a dialog. @param {string} label @param {HTMLElement} input @param {string} [hint] */
export function field(label, input, hint) {
  input.id ||= fresh("field");
  const hintId = hint ? fresh("hint") : null;
  if (hintId) input.setAttribute("aria-describedby", hintId);
  return el("div", { class: "field" }, el("label", { for: input.id, text: visible(label) }), input, hintId ? el("p", { class: "hint muted", id: hintId, text: hint ?? "" }) : null);
}
