/** Workers: who they are, what they know to run, how full they are, when they were last heard of; drain one. */
/** @import { Context } from "../main.js" */
/** @import { Worker } from "../types.js" */
import * as api from "../api.js";
import { el } from "../dom.js";
import { chip, idLink } from "../kit/chip.js";
import { askFirst } from "../kit/dialog.js";
import { facts, meter } from "../kit/panel.js";
import { empty, present } from "../kit/states.js";
import { current, onChanges } from "../live.js";
import { renew } from "../renew.js";
import { link } from "../router.js";
import { mayAct, onlyOwn } from "../session.js";
import { plural, said } from "../text.js";
import { when } from "../time.js";

const EVERY_MS = 1_000;
const SLOW_MS = 10_000; // what becomes of time alone: one that falls silent is lost

/** @param {Context} context */
export async function view({ main, signal, title }) {
  title("Workers");
  const box = el("div", { class: "stack" });
  const gone = el("input", { type: "checkbox", onchange: () => void read() });
  main.append(el("div", { class: "head" }, el("h1", { text: "Workers" }), el("label", {}, gone, " also those that stopped")), box);
  let text = "";
  let last = 0;
  const load = async () => {
    /** @type {Worker[]} */
    const all = [];
    let cursor;
    do {
      /** @type {{workers: Worker[], cursor?: string}} */
      const page = await api.workers({ cursor });
      all.push(...page.workers);
      cursor = page.cursor;
    } while (cursor && all.length < 1000);
    return all;
  };
  const draw = (/** @type {Worker[]} */ all) => {
    text = JSON.stringify(all);
    const shown = all.filter((each) => gone.checked || each.state !== "stopped");
    return shown.length ? el("ul", { class: "cards", "aria-label": "Workers" }, shown.map((each) => card(each, () => void read())))
      : empty("No worker is connected. Start one with \u201choldfast worker module:app\u201d, or run your app against this server.", onlyOwn());
  };
  const read = () => present(box, load, draw, signal);
  const refresh = async () => {
    last = performance.now();
    const all = await load();
    if (!signal.aborted && JSON.stringify(all) !== text) renew(box, draw(all));
  };
  onChanges(signal, async (changes) => {
    if (!changes.all && !changes.workers.size && !changes.executions.size) return;
    if (performance.now() - last < EVERY_MS) await new Promise((done) => setTimeout(done, EVERY_MS));
    await refresh();
  });
  const timer = setInterval(() => { if (!document.hidden && current() !== "paused") void refresh().catch(() => {}); }, SLOW_MS);
  signal.addEventListener("abort", () => clearInterval(timer));
  await read();
}

/** @param {Worker} it @param {() => void} again */
function card(it, again) {
  const slots = Object.entries(it.slots ?? {});
  const state = it.state ?? "connected";
  return el("li", { class: "panel", "data-key": it.id },
    el("header", {}, el("h2", { class: "mono" }, said(it.id, { max: 120 })), chip(state === "running" ? "running" : state), it.connected === false && state !== "stopped" && state !== "lost" ? el("span", { class: "muted", text: "not connected to this node" }) : null,
      mayAct() && (state === "running" || state === "connected") ? el("span", { class: "more" }, el("button", { class: "small", type: "button", text: "Drain\u2026", onclick: () => askFirst({ title: "Drain this worker?", about: [el("p", { class: "mono" }, said(it.id, { max: 120 })), "It takes no new work, finishes what it has, and stays connected. After that you can stop it, and no work has to wait for a lease."], action: "Drain it", change: () => ({ method: "POST", parts: ["workers", it.id, "drain"] }), done: "The worker takes no new work.", then: again }) })) : null,
      mayAct() && (state === "draining" || state === "drained") ? el("span", { class: "more" }, el("button", { class: "small", type: "button", text: "Take it back\u2026", onclick: () => askFirst({ title: "Let this worker take work again?", about: [el("p", { class: "mono" }, said(it.id, { max: 120 }))], action: "Take it back", change: () => ({ method: "POST", parts: ["workers", it.id, "undrain"] }), done: "The worker takes work again.", then: again }) })) : null),
    el("div", { class: "body stack" },
      facts([
        ["Group", said(it.group ?? (it.groups ?? []).join(", "), { max: 120 })],
        ["Queues", it.queues?.length ? said(it.queues.join(", "), { max: 200 }) : null],
        ["Host", it.host ? said(it.host, { max: 80 }) : null],
        ["Process", it.pid !== undefined ? String(it.pid) : null],
        ["Code version", it.codeVersion ? said(it.codeVersion, { max: 60 }) : null],
        ["Python", it.python ?? null],
        ["Holdfast", it.holdfast ?? null],
        ["Started", it.startedAt ? when(it.startedAt, "ago") : null],
        ["Last heard of", it.seenAt ? when(it.seenAt, "ago") : null],
        ...slots.map(([name, slot]) => /** @type {[string, Node]} */ ([`Slots, ${name}`, meter(slot.used ?? 0, slot.size ?? 0)])),
      ]),
      it.held?.length ? el("div", { class: "line" }, el("span", { class: "muted", text: "Holds" }), it.held.slice(0, 20).map((id) => idLink(id)), it.held.length > 20 || it.more ? el("span", { class: "muted", text: `and ${it.more ? "more than " : ""}${it.held.length - 20} more` }) : null) : el("p", { class: "muted", text: "It holds nothing." }),
      it.declarations?.length ? el("details", {}, el("summary", { text: `Knows to run ${plural(it.declarations.length, "thing")}` }), el("div", { class: "line" }, it.declarations.map((name) => el("a", { class: "tag", href: link(["start"], { name: name.split("@")[0] ?? name }) }, el("bdi", {}, said(name, { max: 80 })))))) : null));
}
