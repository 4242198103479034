/** One queue: depth, age of the oldest, each limit and what is used of it, by key; pause, resume, change limits. */
/** @import { Context } from "../main.js" */
/** @import { KeyUse, Queue } from "../types.js" */
import * as api from "../api.js";
import { el } from "../dom.js";
import { chip } from "../kit/chip.js";
import { FormError, askFirst, field } from "../kit/dialog.js";
import { showOne } from "../kit/one.js";
import { facts, meter, panel } from "../kit/panel.js";
import { empty, lookOnly } from "../kit/states.js";
import { link } from "../router.js";
import { mayAct } from "../session.js";
import { count, said } from "../text.js";
import { span, when } from "../time.js";
import { rateWords } from "./queues.js";

/** @param {Context} context */
export async function view(context) {
  const name = context.path[0] ?? "";
  context.title(name);
  await showOne(context, () => api.queues.get(name), draw, (changes) => changes.queues.has(name) || [...changes.executions.values()].some((each) => each[1] === "task"));
}

/** @param {Queue} it @param {() => void} again */
function draw(it, again) {
  const { counted = 0, claimed = 0, begun = 0 } = it.used ?? {};
  return el("div", { class: "stack" },
    el("div", { class: "head" }, el("h1", {}, said(it.name, { max: 200 })), chip(it.paused ? "paused" : "active"),
      el("div", { class: "actions" }, mayAct() ? [
        it.paused
          ? el("button", { class: "primary", type: "button", text: "Resume\u2026", onclick: () => askFirst({ title: "Resume this queue?", about: [`Queue ${it.name}: workers take its tasks again. ${count(it.pending ?? 0)} tasks wait.`], action: "Resume", change: () => ({ method: "POST", parts: ["queues", it.name, "resume"] }), done: "The queue is resumed.", then: again }) })
          : el("button", { type: "button", text: "Pause\u2026", onclick: () => askFirst({ title: "Pause this queue?", about: [`Queue ${it.name}: no task starts until you resume it. Running tasks continue.`], action: "Pause", change: () => ({ method: "POST", parts: ["queues", it.name, "pause"] }), done: "The queue is paused.", then: again }) }),
        el("button", { type: "button", text: "Change limits\u2026", onclick: () => change(it, again) }),
      ] : lookOnly())),
    facts([
      ["Waiting", el("a", { href: link(["tasks"], { queue: it.name, status: "pending,waiting" }) }, count(it.pending ?? 0))],
      ["Of these delayed", count(it["delayed"] ?? 0)],
      ["Claimed, not started", count(it["claimed"] ?? 0)],
      ["Running", el("a", { href: link(["tasks"], { queue: it.name, status: "running" }) }, count(it.running ?? 0))],
      ["The oldest waits", it.oldestAt ? when(it.oldestAt, "for") : null],
      ["Failed", el("a", { href: link(["tasks"], { queue: it.name, status: "failed" }), text: "show" })],
    ]),
    it["served"] === false ? el("p", { class: "note tone-wait" }, "No worker serves this queue now. Start one that declares a task or a workflow for it: holdfast worker module:app.") : null,
    panel("Limits", {}, facts([
      ["At a time", it.concurrency ? meter(counted, it.concurrency) : "no limit"],
      ["At a time, of one key", it.keyConcurrency ? count(it.keyConcurrency) : "no limit"],
      ["Claimed at a time", it["runningLimit"] ? meter(claimed, it["runningLimit"]) : "no limit"],
      ["Rate", it.rate ? el("span", {}, meter(begun, it.rate["count"]), ` in ${span(it.rate["perMs"])}`) : "no limit"],
      ["Rate of one key", rateWords(it.keyRate) || "no limit"],
      ["Fair", it.fair ? "keys take turns" : "first come, first served"],
      ["Weights", it.weights && Object.keys(it.weights).length ? said(Object.entries(it.weights).map(([key, weight]) => `${key}: ${weight}`).join(", "), { max: 400 }) : null],
    ])),
    panel("By key", { flush: true }, it.keys?.length ? keyTable(it, it.keys) : empty("Nothing in it has a key. Tasks get one with task.with_options(limit_key=...), and limits can hold for each key.")));
}

/** What waits and counts of each key. @param {Queue} it @param {KeyUse[]} keys */
function keyTable(it, keys) {
  const of = (/** @type {number} */ number, /** @type {number | undefined} */ most) => (most ? meter(number, most) : count(number));
  return el("div", {}, el("table", { class: "rows" }, el("caption", { class: "visually-hidden", text: "By key" }),
    el("thead", {}, el("tr", {}, [["Key", ""], ["Waiting", "w-num num"], ["Oldest", "w-time mid"], ["At a time", "w-use"], ...(it.keyRate ? [["Rate", "w-use mid"]] : []), ["Weight", "w-num num mid"]].map(([text, style]) => el("th", { scope: "col", class: style ?? "", text: text ?? "" })))),
    el("tbody", {}, keys.map((each) => el("tr", { "data-key": each.key ?? "" },
      el("td", {}, each.key === undefined ? el("span", { class: "muted", text: "without a key" }) : said(each.key, { max: 120 })),
      el("td", { class: "num", text: count(each.pending ?? 0) }), el("td", { class: "mid" }, each.oldestAt ? when(each.oldestAt, "ago") : el("span", { class: "muted", text: "\u2013" })),
      el("td", {}, of(each.counted ?? 0, each.key === undefined ? undefined : it.keyConcurrency)),
      it.keyRate ? el("td", { class: "mid" }, each.key !== undefined ? meter(each.begun ?? 0, it.keyRate["count"]) : "") : null,
      el("td", { class: "num mid", text: each.key === undefined ? "" : String(it.weights?.[each.key] ?? 1) }))))),
    it.moreKeys ? el("p", { class: "empty", text: "The fullest 100 keys are shown; there are more." }) : null);
}

/** @param {Queue} it @param {() => void} again */
function change(it, again) {
  const number = (/** @type {any} */ value) => el("input", { type: "text", inputmode: "numeric", value: value ?? "", placeholder: "no limit" });
  const [all, key, claimed] = [number(it.concurrency), number(it.keyConcurrency), number(it["runningLimit"])];
  const rate = (/** @type {any} */ given) => ({ count: number(given?.count), per: el("input", { type: "text", inputmode: "decimal", value: given ? given.perMs / 1000 : "", placeholder: "seconds" }) });
  const [whole, each] = [rate(it.rate), rate(it.keyRate)];
  const fair = el("input", { type: "checkbox", checked: it.fair === true });
  const weights = el("input", { type: "text", spellcheck: "false", autocomplete: "off", placeholder: "ada:3, bob:2", value: Object.entries(it.weights ?? {}).map(([key, weight]) => `${key}:${weight}`).join(", ") });
  const readWeights = () => {
    const given = weights.value.split(",").map((each) => each.trim()).filter(Boolean).map((each) => /^(.+):(\d+)$/.exec(each) ?? each);
    const wrong = given.find((each) => typeof each === "string");
    if (wrong) throw new FormError(`Weights: expected key:number, got \u201c${wrong}\u201d`);
    if (given.length && !fair.checked) throw new FormError("Weights: only a fair queue has them. Tick fair, or leave them empty.");
    return given.length ? Object.fromEntries(given.map((each) => [each[1], Number(each[2])])) : undefined;
  };
  const read = (/** @type {HTMLInputElement} */ input, /** @type {string} */ label, whole = true) => {
    const text = input.value.trim();
    if (!text) return undefined;
    const value = Number(text);
    if (!(value > 0) || (whole && !Number.isInteger(value))) throw new FormError(`${label}: expected ${whole ? "a whole number" : "a number"} above zero, got \u201c${text}\u201d`);
    return value;
  };
  const readRate = (/** @type {{count: HTMLInputElement, per: HTMLInputElement}} */ given, /** @type {string} */ label) => {
    const [number, per] = [read(given.count, label), read(given.per, label, false)];
    if ((number === undefined) !== (per === undefined)) throw new FormError(`${label}: give both how many and in how many seconds`);
    return number === undefined || per === undefined ? undefined : { count: number, perMs: Math.round(per * 1000) };
  };
  const pair = (/** @type {string} */ label, /** @type {{count: HTMLInputElement, per: HTMLInputElement}} */ given) => el("fieldset", { class: "group" }, el("legend", { text: label }), field("How many are started", given.count), field("In seconds", given.per));
  askFirst({
    title: `Change the limits of ${it.name}?`, about: ["These values replace all limits of the queue. An empty field means no limit. Running tasks continue."],
    form: el("div", { class: "stack" }, field("At a time", all), field("At a time, of one key", key), field("Claimed at a time (executions that wait do not count)", claimed), pair("Rate", whole), pair("Rate of one key", each), el("label", {}, fair, " fair: keys take turns"), field("Weights", weights, "how many turns a key has in a round; 1 where nothing is said")),
    action: "Set these limits",
    change: () => ({ method: "PUT", parts: ["queues", it.name], body: JSON.parse(JSON.stringify({ concurrency: read(all, "At a time"), keyConcurrency: read(key, "Of one key"), running: read(claimed, "Claimed"), rate: readRate(whole, "Rate"), keyRate: readRate(each, "Rate of one key"), fair: fair.checked || undefined, weights: readWeights() })) }),
    done: "The limits are set.", then: again,
  });
}
