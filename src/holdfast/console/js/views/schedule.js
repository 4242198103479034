/** One schedule: in words and as cron, its next and last runs; pause, resume, trigger, backfill, edit, delete. */
/** @import { Context } from "../main.js" */
/** @import { Schedule } from "../types.js" */
import * as api from "../api.js";
import { cronWords } from "../cron.js";
import { el } from "../dom.js";
import { chip, givenTags, idLink, tag } from "../kit/chip.js";
import { FormError, askFirst, field } from "../kit/dialog.js";
import { form } from "../kit/form.js";
import { json } from "../kit/json.js";
import { showOne } from "../kit/one.js";
import { facts, panel } from "../kit/panel.js";
import { empty, lookOnly } from "../kit/states.js";
import { toast } from "../kit/toast.js";
import { preferences } from "../preferences.js";
import { go, link } from "../router.js";
import { mayAct } from "../session.js";
import { plural, said, visible } from "../text.js";
import { asField, fromField, now, when } from "../time.js";

/** @type {Record<string, string>} */
const OVERLAPS = { allow: "start the next one beside it", skip: "skip the next one", replace: "cancel it and start the next one" };

/** Which are being deleted from here: their page asks for them no more. @type {Set<string>} */
const leaving = new Set();

/** @param {Context} context */
export async function view(context) {
  const id = context.path[0] ?? "";
  leaving.delete(id);
  context.title(id);
  await showOne(context, () => api.schedules.get(id), draw, (changes) => !leaving.has(id) && (changes.schedules.has(id) || changes.executions.size > 0));
}


/** @param {Schedule} it @param {() => void} again */
function draw(it, again) {
  const paused = it["pausedAt"] !== undefined || it.paused;
  const next = it["nextRuns"] ?? it.next ?? (it.nextRunAt ? [it.nextRunAt] : []);
  const last = it["lastRuns"] ?? it.last ?? [];
  const given = givenTags(it.tags);
  return el("div", { class: "stack" },
    el("div", { class: "head" }, el("h1", {}, said(it.id, { max: 200 })), chip(paused ? "paused" : "active"), it.orphan ? el("span", { class: "muted", text: "no app declares it any more" }) : null,
      el("div", { class: "actions" }, mayAct() ? buttons(it, paused === true, again) : lookOnly())),
    facts([
      ["When", said(it.words ?? (cronWords(it.cron) || "\u2013"), { max: 200 })], ["Cron", el("code", {}, said(it.cron, { max: 120 }))], ["Time zone", said(it.timezone ?? "UTC", { max: 60 })],
      ["Runs", said(it.call?.workflow ?? "", { max: 120 })], ["If the last run is not over", OVERLAPS[it.overlap ?? "allow"] ?? it.overlap], ["After downtime", `at most ${it.catchUp ?? 100} missed runs`], ["Created", when(it.createdAt)], paused ? ["Paused", when(it["pausedAt"])] : null,
    ]),
    given.length ? el("div", { class: "line" }, given.map(([name, value]) => tag(name, value))) : null,
    el("div", { class: "grid" },
      panel("Next runs", { class: "third" }, paused ? el("p", { class: "muted", text: "It is paused: nothing runs until it is resumed." }) : el("ol", { class: "stack tight" }, next.slice(0, 5).map((/** @type {number} */ each) => el("li", { class: "line" }, when(each), el("span", { class: "muted" }, when(each, "ago")))))),
      panel("Last runs", { class: "third" }, last.length ? el("ol", { class: "stack tight" }, last.slice(0, 5).map((/** @type {any} */ each) => el("li", { class: "line" }, chip(each.status ?? "completed"), idLink(each.id, each.kind === "task" ? "tasks" : "executions"), when(each.createdAt ?? each.at, "ago")))) : el("p", { class: "muted", text: "It has not run yet." })),
      panel("Arguments", { class: "third", flush: true }, it.call ? json("input" in it.call ? it.call.input : { args: it.call.args ?? [], kwargs: it.call.kwargs ?? {} }, "Arguments") : empty("None."))));
}

/** @param {Schedule} it @param {boolean} paused @param {() => void} again */
function buttons(it, paused, again) {
  const parts = ["schedules", it.id];
  const about = [el("p", {}, said(it.id, { class: "mono", max: 200 }))];
  return [
    paused ? el("button", { class: "primary", type: "button", text: "Resume\u2026", onclick: () => askFirst({ title: "Resume this schedule?", about: [...about, "It runs again, from now on. Missed runs are skipped."], action: "Resume", change: () => ({ method: "POST", parts: [...parts, "resume"] }), done: "It runs again.", then: again }) })
      : el("button", { type: "button", text: "Pause\u2026", onclick: () => askFirst({ title: "Pause this schedule?", about: [...about, "It starts no runs until you resume it. Runs that have started continue."], action: "Pause", change: () => ({ method: "POST", parts: [...parts, "pause"] }), done: "It is paused.", then: again }) }),
    el("button", { type: "button", text: "Trigger\u2026", onclick: () => askFirst({ title: "Make one run now?", about: [...about, "One run is started at once. The next regular run does not change."], action: "Run it now", change: () => ({ method: "POST", parts: [...parts, "trigger"] }), then: (answer) => { if (answer.id) go(link(["executions", answer.id])); else again(); } }) }),
    el("button", { type: "button", text: "Backfill\u2026", onclick: () => backfill(it, again) }),
    el("button", { type: "button", text: "Edit\u2026", onclick: () => edit(it, again) }),
    el("button", { class: "danger", type: "button", text: "Delete\u2026", onclick: () => askFirst({ title: "Delete this schedule?", about: [...about, "It starts no more runs. Runs that have started continue."], action: "Delete it", danger: true, change: () => ({ method: "DELETE", parts }), run: () => { leaving.add(it.id); return api.make({ method: "DELETE", parts }).catch((error) => { leaving.delete(it.id); throw error; }); }, done: "It was deleted.", then: () => go(link(["schedules"])) }) }),
  ];
}

/** @param {Schedule} it @param {() => void} again */
function backfill(it, again) {
  const since = el("input", { type: "datetime-local", value: asField(now() - 86_400_000) });
  const until = el("input", { type: "datetime-local", value: asField(now()) });
  const read = (/** @type {HTMLInputElement} */ input, /** @type {string} */ label) => {
    const instant = Number(fromField(input.value) || Number.NaN);
    if (!Number.isFinite(instant)) throw new FormError(`${label}: choose a day and a time`);
    return instant;
  };
  const zone = preferences.utc ? "UTC" : "local time";
  const change = (/** @type {number} */ from) => ({ method: "POST", parts: ["schedules", it.id, "backfill"], body: { since: from, until: read(until, "Until") } });
  askFirst({
    title: "Backfill past runs?", about: [el("p", {}, said(it.id, { class: "mono", max: 200 })), "One run starts for each occurrence between the two times, some at a time. Occurrences that already have a run are skipped."],
    form: el("div", { class: "stack" }, field(`From (${zone})`, since), field(`Until (${zone})`, until)), action: "Backfill",
    change: () => change(read(since, "From")),
    run: async () => {
      let made = 0;
      for (let from = /** @type {number | undefined} */ (read(since, "From")); from !== undefined;) {
        const page = await api.make(change(from));
        made += page.ids.length;
        from = page.nextAt;
      }
      return made;
    },
    then: (made) => { toast(made ? `Started ${plural(made, "run")}.` : "There is no occurrence between the two instants that was not made already."); again(); },
  });
}

/** Change a schedule, or create one. @param {Schedule | null} it @param {() => void} again */
export function edit(it, again) {
  const text = (/** @type {any} */ value, placeholder = "") => el("input", { type: "text", value: value ?? "", placeholder, spellcheck: "false", autocomplete: "off" });
  const [id, cron, zone, work, catchUp] = [text(it?.id), text(it?.cron, "0 9 * * 1-5"), text(it?.timezone, "UTC"), text(it?.call?.workflow), text(it?.catchUp, "100")];
  const overlap = el("select", {}, ["allow", "skip", "replace"].map((each) => el("option", { value: each, text: each, selected: it?.overlap === each })));
  const words = el("p", { class: "muted", role: "status" });
  const say = () => { words.textContent = visible(cronWords(cron.value) || "minute, hour, day, month, weekday; or @every 90s"); };
  cron.addEventListener("input", say);
  say();
  const input = form(undefined, { label: "Arguments", value: { args: it?.call?.args ?? [], kwargs: it?.call?.kwargs ?? {} } });
  askFirst({
    title: it ? "Change this schedule?" : "Create a schedule?", about: [it ? "The next run follows the new rule. Runs that have started continue." : "It runs a workflow at these times, again and again."],
    form: el("div", { class: "stack" }, it ? null : field("Id", id), it ? null : field("Workflow", work), field("Cron", cron), words, field("Time zone", zone), field("If the last run is not over", overlap, "allow a second one, skip the new one, or replace the old one"), field("After downtime, run at most this many missed runs", catchUp), it ? null : input.element),
    action: it ? "Change it" : "Create it",
    change: () => {
      if (!cron.value.trim()) throw new FormError("Cron: say when it runs, such as 0 9 * * 1-5");
      if (!it && (!id.value.trim() || !work.value.trim())) throw new FormError("A schedule needs an id and the name of a workflow.");
      const missed = catchUp.value.trim() === "" ? undefined : Number(catchUp.value);
      if (missed !== undefined && !(Number.isInteger(missed) && missed >= 0)) throw new FormError(`Expected a whole number of runs, got \u201c${catchUp.value}\u201d`);
      const every = /^@every (\d+)s$/.exec(cron.value.trim());
      const body = { ...(every ? { every: Number(every[1]) } : { cron: cron.value.trim() }), timezone: zone.value.trim() || undefined, overlap: overlap.value, catchUp: missed, ...(it ? {} : { id: id.value.trim(), workflow: work.value.trim(), ...input.read() }) };
      return it ? { method: "PUT", parts: ["schedules", it.id], body: JSON.parse(JSON.stringify(body)) } : { method: "POST", parts: ["schedules"], body: JSON.parse(JSON.stringify(body)) };
    },
    done: it ? "It was changed." : "It was created.", then: (answer) => { if (it) again(); else go(link(["schedules", answer.id ?? id.value.trim()])); },
  });
}
