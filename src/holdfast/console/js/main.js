/**
 * Opens the console: who looks, the frame, the view that the URL names. Views are loaded when they are first shown.
 */
import "./early.js"; // which has run before this module does, in whatever order they arrive
import * as api from "./api.js";
import { el, fill, part } from "./dom.js";
import { drawFrame } from "./frame.js";
import { bindKeys } from "./keyboard.js";
import { start } from "./live.js";
import { announce } from "./kit/toast.js";
import { problem } from "./kit/states.js";
import { applyTheme } from "./preferences.js";
import { place, viewOf } from "./router.js";
import { readSession, session } from "./session.js";
import { brief } from "./text.js";
import { tick } from "./time.js";

/**
 * What a view is given.
 * @typedef {object} Context
 * @property {string[]} path what follows the name of the view
 * @property {URLSearchParams} query
 * @property {HTMLElement} main
 * @property {AbortSignal} signal aborted when another view is shown
 * @property {(title: string) => void} title
 */

/** @type {Record<string, () => Promise<{view: (context: Context) => Promise<void> | void}>>} */
const VIEWS = {
  overview: () => import("./views/overview.js"),
  executions: () => import("./views/executions.js"),
  execution: () => import("./views/execution.js"),
  tasks: () => import("./views/tasks.js"),
  task: () => import("./views/task.js"),
  queues: () => import("./views/queues.js"),
  queue: () => import("./views/queue.js"),
  schedules: () => import("./views/schedules.js"),
  schedule: () => import("./views/schedule.js"),
  workers: () => import("./views/workers.js"),
  promises: () => import("./views/promises.js"),
  promise: () => import("./views/promise.js"),
  start: () => import("./views/start.js"),
  audit: () => import("./views/audit.js"),
  signin: () => import("./views/sign_in.js"),
};
let shown = new AbortController();
let needsToken = false;

async function show() {
  shown.abort();
  shown = new AbortController();
  const { signal } = shown;
  const { path, query } = place();
  const first = path[0] ?? "overview";
  const name = needsToken ? "signin" : viewOf();
  const main = part("main");
  const title = (/** @type {string} */ text) => { const shown = brief(text, 120); document.title = `${shown} \u00b7 Holdfast`; announce(shown); };
  const load = VIEWS[name];
  document.querySelectorAll(".side a").forEach((each) => each.toggleAttribute("aria-current", false));
  const here = document.querySelector(`.side a[data-view="${CSS.escape(first)}"]`);
  here?.setAttribute("aria-current", "page");
  here?.scrollIntoView({ block: "nearest", inline: "nearest" }); // where the screen is narrow they are a row to scroll
  if (!load) {
    main.className = "";
    fill(main, el("h1", { text: "There is nothing here" }), el("p", { text: "This address names no view of the console. Choose one from the list, or press ? for the keys." }));
    return;
  }
  try {
    const module = await load();
    if (signal.aborted) return;
    main.className = "";
    main.replaceChildren();
    main.scrollTop = 0;
    await module.view({ path: path.slice(1), query, main, signal, title });
  } catch (error) {
    if (!signal.aborted) fill(main, problem(error, () => void show()));
  }
}

/** Read who looks; without a token where one is needed, ask for it. The view is loaded meanwhile. */
async function open() {
  void VIEWS[viewOf()]?.().catch(() => {});
  try {
    await readSession();
    needsToken = false;
  } catch (error) {
    if (!(error instanceof api.Problem)) throw error;
    if (error.status === 401) needsToken = true;
    else if (error.status !== 404) {
      fill(part("main"), problem(error, () => void open()));
      if (error instanceof api.Unreachable) setTimeout(open, 2_000);
      return;
    }
  }
  drawFrame(session(), () => { api.signIn("", false); needsToken = true; void show(); });
  if (!needsToken) start(session().after);
  await show();
}

applyTheme();
addEventListener("hashchange", () => void show());
addEventListener("signed-out", () => { if (!needsToken) { needsToken = true; void show(); } });
addEventListener("signed-in", () => void open());
addEventListener("preferences", () => tick(true));
setInterval(() => { if (!document.hidden) tick(); }, 1_000);
part("skip").addEventListener("click", (event) => { event.preventDefault(); part("main").focus(); });
bindKeys();
drawFrame({}, () => {});
void open();
