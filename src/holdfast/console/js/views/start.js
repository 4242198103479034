/**
 * Start a workflow or send a task that some worker has declared: a form made from its signature. With `like` in the
 * address it holds what another execution was called with.
 */
/** @import { Context } from "../main.js" */
/** @import { Declaration, Execution } from "../types.js" */
import * as api from "../api.js";
import { el, fill } from "../dom.js";
import { idLink } from "../kit/chip.js";
import { FormError, askFirst, field } from "../kit/dialog.js";
import { form } from "../kit/form.js";
import { panel } from "../kit/panel.js";
import { empty, present } from "../kit/states.js";
import { go, link } from "../router.js";
import { mayAct, onlyOwn } from "../session.js";
import { plural, said, visible } from "../text.js";
import { valuesOf } from "./signature.js";

/** @param {Context} context */
export async function view({ main, query, signal, title }) {
  title("Start");
  const box = el("div", { class: "stack" });
  main.append(el("div", { class: "head" }, el("h1", { text: "Start" })), box);
  const like = query.get("like");
  const read = async () => { const [all, model] = await Promise.all([load(), like ? api.executions.get(like) : null]); return { all, model }; };
  await present(box, read, ({ all, model }) => (all.length ? draw(all, model?.name ?? query.get("name") ?? "", model) : empty("No worker has declared anything to run yet. Start a worker with your app. Its workflows and tasks then appear here.", onlyOwn())), signal);
}

async function load() {
  /** @type {Declaration[]} */
  const all = [];
  let cursor;
  do {
    /** @type {{declarations: Declaration[], cursor?: string}} */
    const page = await api.declarations({ cursor });
    all.push(...page.declarations.filter((each) => each.kind !== "entity")); // an entity is called, not started
    cursor = page.cursor;
  } while (cursor && all.length < 2000);
  return all.sort((a, b) => a.kind.localeCompare(b.kind) * -1 || a.name.localeCompare(b.name) || (b.version ?? 0) - (a.version ?? 0));
}

/** @param {Declaration[]} all @param {string} wanted @param {Execution | null} model */
function draw(all, wanted, model) {
  const list = el("ul", { class: "choices" });
  const place = el("div", { class: "stack grow" });
  const search = el("input", { type: "search", "data-search": "", placeholder: "Find a workflow or task", "aria-label": "Find a workflow or task", oninput: () => drawList() });
  /** @param {Declaration} it */
  const choose = (it) => {
    list.querySelectorAll("button").forEach((each) => each.setAttribute("aria-pressed", String(each.dataset["name"] === `${it.kind} ${it.name} ${it.version ?? ""}`)));
    fill(place, page(it, it.name === model?.name ? model : null));
  };
  const drawList = () => {
    const text = search.value.toLowerCase();
    const found = all.filter((each) => each.name.toLowerCase().includes(text));
    fill(list, found.slice(0, 300).map((each) => el("li", {}, el("button", { type: "button", class: "choice-row", "aria-pressed": "false", "data-name": `${each.kind} ${each.name} ${each.version ?? ""}`, onclick: () => choose(each) },
      el("strong", {}, said(each.name, { max: 80 })), el("span", { class: "muted" }, `${each.kind}${each.version ? `, version ${each.version}` : ""}${each.workers === 0 ? ", no worker now" : ""}`)))));
    if (!found.length) fill(list, el("li", { class: "empty", text: "No worker has declared anything of that name." }));
  };
  drawList();
  const first = all.find((each) => each.name === wanted) ?? all[0];
  if (first) choose(first);
  return el("div", { class: "start" }, el("div", { class: "stack" }, search, list), place);
}

/** @param {Declaration} it @param {Execution | null} model */
function page(it, model) {
  const isTask = it.kind === "task";
  const isKnown = it.parameters?.["properties"] !== undefined;
  const input = form(isKnown ? it.parameters : undefined, { label: isKnown ? "" : "Arguments by name", ...(model ? { value: valuesOf(model, it) } : isKnown ? {} : { value: {} }) });
  const id = el("input", { type: "text", placeholder: "a new one", spellcheck: "false", autocomplete: "off" });
  const tags = el("input", { type: "text", placeholder: "customer:4, region:eu", spellcheck: "false", autocomplete: "off" });
  const delay = el("input", { type: "text", inputmode: "decimal", placeholder: "none" });
  const timeout = el("input", { type: "text", inputmode: "decimal", placeholder: "none" });
  const seconds = (/** @type {HTMLInputElement} */ given, /** @type {string} */ label) => {
    if (!given.value.trim()) return undefined;
    const value = Number(given.value);
    if (!(value >= 0)) throw new FormError(`${label}: expected a number of seconds, got \u201c${given.value}\u201d`);
    return value;
  };
  const body = () => {
    const given = tags.value.split(",").map((each) => each.trim()).filter(Boolean);
    for (const each of given) if (!each.includes(":")) throw new FormError(`Tags: expected name:value, got \u201c${each}\u201d`);
    return JSON.parse(JSON.stringify({
      [isTask ? "task" : "workflow"]: it.name, kwargs: input.read(), id: id.value.trim() || undefined, tags: given.length ? Object.fromEntries(given.map((each) => each.split(/:(.*)/s).slice(0, 2))) : undefined,
      delay: seconds(delay, "Delay"), ...(isTask ? { queue: it.queue } : { group: it.group, version: it.version || undefined, timeout: seconds(timeout, "Timeout") }),
    }));
  };
  const trouble = el("div");
  const button = el("button", { class: "primary", type: "submit", text: isTask ? "Send it\u2026" : "Start it\u2026" });
  const element = el("form", { class: "stack", novalidate: true, onsubmit: (/** @type {Event} */ event) => {
    event.preventDefault();
    fill(trouble);
    /** @type {any} */
    let ready;
    try { ready = body(); } catch (error) { fill(trouble, el("p", { class: "bad", role: "alert", text: visible(error instanceof Error ? error.message : error) })); return; }
    askFirst({
      title: isTask ? `Send the task ${it.name}?` : `Start the workflow ${it.name}?`,
      about: [isTask ? `It is put into the queue ${it.queue ?? "default"}.` : `It runs on a worker of the group ${it.group ?? "default"}.`, el("pre", { class: "text block", tabindex: 0, role: "region", "aria-label": "Arguments", text: visible(JSON.stringify(ready.kwargs, null, 2)) })],
      action: isTask ? "Send it" : "Start it", change: () => ({ method: "POST", parts: [isTask ? "tasks" : "executions"], body: ready }),
      done: isTask ? "The task was sent." : "The execution was started.", then: (answer) => go(link([isTask ? "tasks" : "executions", answer.id])),
    });
  } }, input.element, el("details", {}, el("summary", { text: "Options" }), el("div", { class: "stack" }, field("Id", id, "The same call under the same id is one execution."), field("Tags", tags), field("Start after (seconds)", delay), isTask ? null : field("Must be over after (seconds)", timeout))), trouble,
    mayAct() ? el("div", { class: "line" }, button) : el("p", { class: "muted", text: "Your token may look, and start nothing." }));
  return panel(visible(it.name), {}, el("div", { class: "stack" },
    el("p", { class: "muted" }, it.about ? said(it.about.replace(/[.\s]*$/, "."), { max: 400 }) : "It has no description.", ` ${it.workers === undefined ? "" : it.workers ? `${plural(it.workers, "worker")} can run it now.` : "No worker that runs now knows it: it will wait for one."}`),
    model ? el("p", { class: "muted" }, "The fields hold what ", idLink(model.id), " was called with.", "input" in (model.call ?? {}) ? " That is encoded, so they are empty." : null) : null, element));
}
