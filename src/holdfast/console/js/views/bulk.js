/**
 * Changing many at once: those that were ticked, or all that match the filters. The number is said beforehand,
 * and how far it has come afterwards. The server does it in the background, so the page may be left.
 */
/** @import { Pages } from "../kit/pages.js" */
/** @import { Execution } from "../types.js" */
import * as api from "../api.js";
import { el, fill, part } from "../dom.js";
import { icon } from "../icons.js";
import { askFirst } from "../kit/dialog.js";
import { toast, toastProblem } from "../kit/toast.js";
import { renew } from "../renew.js";
import { count, plural, visible } from "../text.js";
import { ENDED } from "../words.js";
import { wanted } from "./filters.js";

const POLL_MS = 300;
const AT_ONCE = 4;
const PAGE = 500;

/**
 * `all`: what the server calls it, and which it does it to where no status is chosen. Without it the page goes through
 * all that match by itself.
 * @typedef {{word: string, danger?: boolean, means: string, past: string, all?: string, from: string[]}} Action
 */
/** @type {Record<string, Record<string, Action>>} */
const ACTIONS = {
  executions: {
    cancel: { word: "Cancel", danger: true, past: "cancelled", all: "cancel", from: ["pending", "waiting", "running", "suspended", "halted"], means: "Each is asked to cancel itself, with everything that it called. Its code may clean up. Executions that are over do not change." },
    retry: { word: "Retry", past: "retried", all: "retry", from: ["failed", "timed_out"], means: "Each one that failed or timed out continues from where it failed. Finished steps are not repeated." },
    halt: { word: "Halt", past: "halted", all: "halt", from: ["pending", "waiting", "running", "suspended"], means: "No worker takes them until you resume them." },
    resume: { word: "Resume", past: "resumed", all: "resume", from: ["halted"], means: "Halted executions continue." },
  },
  tasks: {
    cancel: { word: "Cancel", danger: true, past: "cancelled", all: "cancel", from: ["pending", "waiting", "claimed", "running", "halted"], means: "Waiting tasks are cancelled. Running tasks are left alone." },
    rerun: { word: "Rerun", past: "sent again", all: "retry", from: ["failed", "expired"], means: "Each one that failed, was cancelled or has expired is sent again under a new id." },
    promote: { word: "Run now", past: "promoted", from: ["waiting"], means: "Tasks that are delayed, or wait for their next attempt, may start at once." },
  },
};

/** @param {"executions" | "tasks"} noun @param {Pages<Execution>} pages @param {URLSearchParams} query */
export function bulkBar(noun, pages, query) {
  const element = el("div", { class: "bulk", role: "region", "aria-label": "Change many at once", hidden: true });
  const actions = /** @type {Record<string, Action>} */ (ACTIONS[noun]);
  let everything = false;
  const box = el("input", { type: "checkbox", onchange: () => { everything = box.checked; draw(); } });
  const whole = el("label", {}, box, " all that match the filters, loaded or not");
  const unknown = el("span", { class: "muted", text: "Remove the version filter to choose all that match." }); // the server compares it on pages only
  const draw = () => {
    const { size } = pages.table.selected;
    if (!size || query.has("version")) everything = false;
    element.hidden = size === 0;
    box.checked = everything;
    renew(element,
      el("strong", { text: everything ? "All that match" : `${plural(size, NOUN[noun] ?? noun)} selected` }),
      Object.entries(actions).map(([name, action]) => el("button", { type: "button", class: action.danger ? "danger" : "", "data-action": name, text: `${action.word}\u2026`, onclick: () => void ask(name, action) })),
      query.has("version") ? unknown : whole, el("button", { class: "plain", type: "button", text: "Clear", onclick: () => pages.table.clearSelection() }));
  };
  /** @param {string} name @param {Action} action */
  const ask = async (name, action) => {
    const ids = [...pages.table.selected];
    const question = { about: [action.means], ...(action.danger && { danger: true }) };
    /** Said of so many; done one after the other by this page. @param {string} found @param {() => Promise<string[]>} list @param {string} more */
    const byPage = (found, list, more) => {
      /** @type {string[]} */
      let chosen = [];
      askFirst({
        ...question, title: `${action.word} ${found}?`, about: [...question.about, more], action: `${action.word} ${found}`,
        change: () => ({ method: "POST", parts: [noun, ids[0] ?? "", name] }), run: async () => { chosen = await list(); },
        then: () => { everything = false; pages.table.clearSelection(); void oneByOne(noun, name, chosen, action); },
      });
    };
    if (!everything) { byPage(plural(ids.length, NOUN[noun] ?? noun), async () => ids, ids.length > 1 ? "They are changed one after the other, while this page is open." : ""); return; }
    const { status, tag, version: _, ...rest } = wanted(query);
    const from = status?.split(",") ?? action.from;
    /** @type {string} */
    let found;
    try { found = await howMany(noun, { ...rest, tag }, from); } catch (error) { toastProblem(error); return; }
    if (!action.all) { byPage(found, () => everyId({ ...rest, tag, status: from.join(",") }), "All that match the filters are changed, one after the other, while this page is open."); return; }
    const tags = tag.length ? Object.fromEntries(tag.map((each) => each.split(/:(.*)/s).slice(0, 2))) : undefined;
    const body = JSON.parse(JSON.stringify({ action: action.all, kind: NOUN[noun], ...rest, status: from, tags }));
    askFirst({
      ...question, title: `${action.word} ${found}?`, action: `${action.word} ${found}`,
      about: [action.means, "This changes everything that matches the filters now, also rows that are not loaded here. The server does it in the background, so you can leave the page."],
      change: () => ({ method: "POST", parts: ["bulk"], body }),
      then: (answer) => { everything = false; pages.table.clearSelection(); void follow(answer, action); },
    });
  };
  return { element, draw };
}

/** @type {Record<string, string>} */
const NOUN = { executions: "execution", tasks: "task" };

/** @param {string} noun @param {any} filter @param {string[]} statuses */
async function howMany(noun, filter, statuses) {
  const found = (await api.counts({ ...filter, status: statuses.join(",") }))[noun] ?? {};
  const sum = statuses.reduce((all, each) => all + (found.counts?.[each] ?? 0), 0);
  return `${statuses.some((each) => found.more?.includes(each)) ? "more than " : ""}${plural(sum, NOUN[noun] ?? noun)}`;
}

/** The ids of all tasks that match. @param {any} filter */
async function everyId(filter) {
  /** @type {string[]} */
  const ids = [];
  /** @type {string | undefined} */
  let cursor;
  do {
    const page = await api.tasks.find({ ...filter, limit: PAGE, cursor });
    ids.push(...page.tasks.map((each) => each.id));
    cursor = page.cursor;
  } while (cursor);
  return ids;
}

/** A bar that says how many are done, and stays until it is closed or the next one begins. @param {Action} action */
function progressBar(action) {
  const bar = el("progress", { "aria-label": `How many are ${action.past}`, max: 1, value: 0 });
  const words = el("span", { class: "text" });
  const note = el("div", { class: "bulk", role: "status" }, words, bar);
  for (const each of document.querySelectorAll("main .bulk.is-over")) each.remove();
  part("main").append(note); // below the list: nothing moves under the pointer
  return {
    /** @param {number} done @param {number} total @param {number} failed @param {number} skipped */
    show(done, total, failed, skipped) {
      bar.max = Math.max(1, total);
      bar.value = done + failed + skipped;
      words.textContent = `${count(done)} of ${count(total)} ${action.past}${skipped ? `, ${count(skipped)} were not as needed` : ""}${failed ? `, ${count(failed)} could not be` : ""}`;
    },
    /** @param {string} why the first refusal, if there was one */
    end(why) {
      const said = `${words.textContent}.${why ? ` The first said: ${why}` : ""}`;
      if (!note.isConnected) { toast(said, why ? "bad" : "good"); return; }
      words.textContent = visible(said);
      note.classList.add("is-over");
      fill(note, icon(why ? "failed" : "completed"), words, el("button", { class: "plain", type: "button", text: "Close", onclick: () => note.remove() }));
    },
    remove: () => note.remove(),
  };
}

/** Show how far the server has come, until it is done. @param {any} job @param {Action} action */
async function follow(job, action) {
  const bar = progressBar(action);
  try {
    for (let at = job; ; at = await api.bulk.get(at.id)) {
      const total = at.done + at.failed + at.skipped + (at.left ?? 0);
      bar.show(at.done, total, at.failed, at.skipped);
      if (ENDED.has(at.status)) { bar.end(at.failed ? `code ${Object.keys(at.codes)[0] ?? ""} of ${at.examples[0] ?? ""}` : ""); return; }
      await new Promise((wait) => setTimeout(wait, POLL_MS));
    }
  } catch (error) {
    bar.remove();
    toastProblem(error);
  }
}

/** A few at a time. @param {string} noun @param {string} name @param {string[]} ids @param {Action} action */
async function oneByOne(noun, name, ids, action) {
  const bar = progressBar(action);
  const left = [...ids];
  let [done, failed, why] = [0, 0, ""];
  bar.show(done, ids.length, 0, 0);
  const work = async () => {
    for (let id = left.shift(); id !== undefined; id = left.shift()) {
      try {
        await api.make({ method: "POST", parts: [noun, id, name] });
        done += 1;
      } catch (error) {
        if (!(error instanceof api.Problem)) throw error;
        failed += 1;
        why ||= error.message;
      }
      bar.show(done, ids.length, failed, 0);
    }
  };
  await Promise.all(Array.from({ length: AT_ONCE }, work));
  bar.end(why);
}
