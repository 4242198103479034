/** The bar above and the list of views: where one is, whether the page is live, colours, time zone, who looks. */
/** @import { Session } from "./types.js" */
import { executions, hasToken, promises, tasks } from "./api.js";
import { el, fill, part } from "./dom.js";
import { icon } from "./icons.js";
import { showKeys } from "./keyboard.js";
import { current, pause, resume } from "./live.js";
import { prefer, preferences } from "./preferences.js";
import { go, link } from "./router.js";
import { visible } from "./text.js";

export const VIEWS = /** @type {const} */ ([
  ["overview", "Overview", "o"], ["executions", "Executions", "e"], ["tasks", "Background tasks", "t"], ["queues", "Queues", "q"],
  ["schedules", "Schedules", "s"], ["workers", "Workers", "w"], ["promises", "Promises", "p"], ["start", "Start", "n"], ["audit", "Audit log", "a"],
]);

const THEMES = /** @type {const} */ (["system", "light", "dark"]);
const THEME_ICONS = { system: "auto", light: "sun", dark: "moon" };
/** @type {AbortController} */
let drawn = new AbortController();

/** @param {Session} session @param {() => void} signOut */
export function drawFrame(session, signOut) {
  drawn.abort();
  drawn = new AbortController();
  const find = el("input", { type: "search", id: "find", placeholder: "Find by id", "aria-label": "Find an execution, a background task or a promise by its id", autocomplete: "off", spellcheck: "false" });
  const search = el("form", { class: "find", role: "search", onsubmit: (/** @type {Event} */ event) => {
    event.preventDefault();
    const wanted = find.value.trim();
    if (wanted) void found(wanted).catch(() => link(["executions"], { prefix: wanted })).then(go);
    find.value = "";
  } }, find, el("kbd", { "aria-hidden": "true", text: "/" }));
  fill(part("bar"),
    el("a", { class: "brand", href: link(["overview"]), "aria-label": "Holdfast, to the overview" }, el("img", { src: new URL("../icon.svg", import.meta.url).href, alt: "" }), el("span", { text: "Holdfast" })),
    search, el("span", { class: "space" }), liveButton(), zoneButton(), themeButton(),
    el("button", { class: "icon", type: "button", title: "Keys (?)", "aria-label": "Show the keys", onclick: showKeys }, icon("help")),
    hasToken() ? el("button", { class: "icon", type: "button", title: "Sign out", "aria-label": "Sign out", onclick: signOut }, icon("out")) : null);
  const here = document.querySelector('.side a[aria-current="page"]')?.getAttribute("data-view");
  fill(part("side"),
    VIEWS.map(([name, word, key]) => el("a", { href: link([name]), "data-view": name, title: `g ${key}`, "aria-current": name === here ? "page" : null }, icon(name), el("span", { text: word }))),
    el("span", { class: "rest" }), who(session));
}

/** Where an id leads: the page of what has it, or a list of what begins with it. @param {string} id */
async function found(id) {
  let list = "";
  for (const [view, find] of Object.entries({ executions: executions.find, tasks: tasks.find, promises: promises.find })) {
    /** @type {any} */
    const page = await find({ prefix: id, limit: 50 });
    if (page[view].some((/** @type {any} */ each) => each.id === id)) return link([view, id]);
    list ||= page[view].length ? view : "";
  }
  return link([list || "executions"], { prefix: id });
}

/** @param {Session} session */
function who(session) {
  const lines = [
    session.readOnly ? "You may look, and change nothing." : "",
    session.prefix ? `Only ids that begin with ${session.prefix}` : "",
    session.name && !session.isOpen ? `Signed in as ${session.name}` : "",
    session.version ? `Holdfast ${session.version}, ${session.store ?? ""}` : "",
  ];
  return el("div", { class: "who" }, lines.filter(Boolean).map((text) => el("div", { text: visible(text.slice(0, 120)) })));
}

function liveButton() {
  const word = el("span", { class: "word" });
  const button = el("button", { class: "live plain", type: "button", onclick: () => (current() === "paused" ? resume() : pause()) }, el("span", { class: "dot" }), word);
  const WORDS = { live: "Live", connecting: "Connecting\u2026", paused: "Paused" };
  const draw = () => {
    const state = current();
    button.className = `live plain is-${state}`;
    word.textContent = WORDS[state];
    button.title = { live: "Changes appear as they happen. Click to pause.", connecting: "The server does not answer yet. The page keeps trying.", paused: "This page does not update. Click to continue." }[state];
    button.setAttribute("aria-label", `${WORDS[state]}. ${button.title}`);
  };
  addEventListener("live", draw, { signal: drawn.signal });
  draw();
  return button;
}

function zoneButton() {
  const button = el("button", { class: "plain", type: "button", onclick: () => { prefer({ utc: !preferences.utc }); draw(); } });
  const draw = () => {
    button.textContent = preferences.utc ? "UTC" : "Local";
    button.title = preferences.utc ? "Times are in UTC. Click for local time." : "Times are local. Click for UTC.";
    button.setAttribute("aria-label", button.title);
  };
  draw();
  return button;
}

function themeButton() {
  const button = el("button", { class: "icon", type: "button", onclick: () => { prefer({ theme: THEMES[(THEMES.indexOf(preferences.theme) + 1) % THEMES.length] ?? "system" }); draw(); } });
  const draw = () => {
    fill(button, icon(THEME_ICONS[preferences.theme]));
    button.title = `Colours: ${preferences.theme === "system" ? "as the system has them" : preferences.theme}. Click to change.`;
    button.setAttribute("aria-label", button.title);
  };
  draw();
  return button;
}
