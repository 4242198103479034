/** Why an execution or a background task failed: the error, its code and its traceback. */
/** @import { Execution } from "../types.js" */
import { el } from "../dom.js";
import { json } from "../kit/json.js";
import { panel } from "../kit/panel.js";
import { block, said } from "../text.js";
import { when } from "../time.js";
import { ENDED } from "../words.js";

/** @param {Execution} it */
export function failurePanel(it) {
  const failure = it.failure;
  if (failure === undefined && (!it.error || !ENDED.has(it.status)) && !it.failures?.length) {
    return panel("Result", { class: "half" }, el("p", { class: "muted", text: it.status === "cancelled" ? "It was cancelled and has no result." : "It is not over yet. The result appears here." }));
  }
  const isError = failure && typeof failure === "object" && ("message" in failure || "name" in failure);
  const raised = failure?.exception?.name ? failure.exception : failure; // in the error of a task
  const trace = isError ? failure.traceback ?? failure.stack ?? raised.traceback : undefined;
  return panel(failure === undefined ? "Last error" : "Error", { class: "half" },
    el("div", { class: "stack" },
      isError ? el("p", { class: "bad" }, el("strong", {}, said(raised.name ?? raised.type ?? "Error", { max: 120 })), ": ", said(failure.message ?? "", { max: 2000 })) : null,
      it.error ? el("p", {}, said(it.error, { class: "bad", max: 2000 })) : null,
      it.code ? el("p", { class: "muted" }, "Code ", el("code", {}, said(it.code, { max: 120 }))) : null,
      trace ? el("details", { open: true }, el("summary", { text: "Traceback" }), block(trace)) : null,
      failure !== undefined && failure !== null ? el("details", { open: !isError }, el("summary", { text: "As it is stored" }), json(failure, "Error")) : null,
      it.failures?.length ? el("details", {}, el("summary", { text: `Failed attempts (${it.failures.length})` }), el("ul", { class: "stack" }, it.failures.map((each) => el("li", {}, when(each.at), " ", said(`${each.code ?? each.name ?? ""} ${each.message ?? each.error ?? ""}`, { class: "bad", max: 500 }), each.traceback ? block(each.traceback) : null)))) : null));
}
