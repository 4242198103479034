/** One promise: its state, its value, and a form to settle it. */
/** @import { Context } from "../main.js" */
/** @import { Promised } from "../types.js" */
import * as api from "../api.js";
import { el } from "../dom.js";
import { chip, idLink, tag } from "../kit/chip.js";
import { json } from "../kit/json.js";
import { showOne } from "../kit/one.js";
import { facts, panel } from "../kit/panel.js";
import { lookOnly } from "../kit/states.js";
import { link } from "../router.js";
import { mayAct } from "../session.js";
import { said } from "../text.js";
import { isMeant, when } from "../time.js";
import { reject, settle } from "./actions.js";

/** @param {Context} context */
export async function view(context) {
  const id = context.path[0] ?? "";
  const root = id.split(/[:.]/)[0] ?? id;
  context.title(id);
  await showOne(context, () => load(id), draw, (changes) => changes.promises.has(id) || [...changes.executions.keys()].some((each) => each.split(/[:.]/)[0] === root));
}

/** The promise, with the declared type that its execution knows. @param {string} id */
async function load(id) {
  const it = await api.promises.get(id);
  const parent = it.tags["resonate:parent"];
  if (it.schema || it.state !== "pending" || !parent || parent === id) return it;
  const owner = await api.executions.get(parent).catch(() => null);
  const schema = owner?.waits?.find((each) => each.id === id)?.schema;
  return schema ? { ...it, schema } : it;
}

/** @param {Promised} it @param {() => void} again */
function draw(it, again) {
  const hasTarget = "resonate:target" in it.tags;
  const parent = it.tags["resonate:parent"];
  return el("div", { class: "stack" },
    el("div", { class: "head" }, el("h1", { class: "mono" }, said(it.id, { max: 200 })), chip(it.state),
      el("div", { class: "actions" }, it.state === "pending" && !hasTarget && mayAct() ? [el("button", { class: "primary", type: "button", text: "Settle\u2026", onclick: () => settle(it, again) }), el("button", { type: "button", text: "Reject\u2026", onclick: () => reject(it, again) })] : it.state === "pending" && !hasTarget ? lookOnly() : null,
        hasTarget ? el("a", { class: "button", href: link(["executions", it.id]), text: "Its execution" }) : null)),
    facts([
      ["Created", when(it.createdAt)], ["Settled", it.settledAt ? when(it.settledAt) : null], ["Deadline", isMeant(it.timeoutAt) ? when(it.timeoutAt) : "none"], parent && parent !== it.id ? ["Of the execution", idLink(parent)] : null,
    ]),
    el("div", { class: "line" }, Object.entries(it.tags).map(([name, value]) => tag(name, value))),
    el("div", { class: "grid" }, panel("Param", { flush: true, class: "half" }, json(it.param ?? null, "Param")), panel("Value", it.state === "pending" ? { class: "half" } : { flush: true, class: "half" }, it.state === "pending" ? el("p", { class: "muted", text: "Nobody has settled it yet." }) : json(it.value ?? null, "Value"))));
}
