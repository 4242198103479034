/**
 * Instants and durations as people read them: local time, UTC on demand, both in the tooltip.
 *
 * The node's clock is the one that counts: `now` is this machine's time corrected by what the node said.
 */
import { el } from "./dom.js";
import { preferences } from "./preferences.js";

let ahead = 0;

/** @param {number} instant */
export function heardTime(instant) { ahead = instant - Date.now(); }
export const now = () => Date.now() + ahead;

/** @type {Map<string, Intl.DateTimeFormat>} */
const formats = new Map();

/** @param {"clock" | "date" | "full" | "minute"} style @param {boolean} utc */
function format(style, utc) {
  const key = style + utc;
  let found = formats.get(key);
  if (!found) {
    /** @type {Intl.DateTimeFormatOptions} */
    const zone = utc ? { timeZone: "UTC" } : {};
    /** @type {Intl.DateTimeFormatOptions} */
    const clock = { hour: "2-digit", minute: "2-digit", second: "2-digit", hourCycle: "h23" };
    const options = {
      clock,
      minute: { hour: "2-digit", minute: "2-digit", hourCycle: "h23" },
      date: { month: "short", day: "numeric", ...clock },
      full: { year: "numeric", month: "short", day: "2-digit", ...clock, fractionalSecondDigits: 3, timeZoneName: "short" },
    }[style];
    found = new Intl.DateTimeFormat("en-GB", /** @type {any} */ ({ ...options, ...zone }));
    formats.set(key, found);
  }
  return found;
}

const LAST = 8_640_000_000_000_000; // the latest instant that a Date can hold
const FAR = 4_102_444_800_000 * 2; // the year 2100 and beyond: no deadline at all

/** Whether a deadline is one that anybody meant. @param {number | undefined} instant */
export const isMeant = (instant) => instant !== undefined && instant < FAR;

/** @param {number} instant */
const date = (instant) => new Date(Math.max(-LAST, Math.min(LAST, instant)));

/** @param {number} instant */
export function moment(instant) {
  const utc = preferences.utc;
  const there = date(instant);
  const near = Math.abs(instant - now()) < 18 * 3_600_000 && sameDay(there, date(now()), utc);
  return format(near ? "clock" : "date", utc).format(there);
}

/** @param {number} instant */
export const minute = (instant) => format("minute", preferences.utc).format(date(instant));

/** @param {number} instant */
export const full = (instant) => `${format("full", false).format(date(instant))}\n${format("full", true).format(date(instant))}\n${date(instant).toISOString()}`;

/** @param {Date} a @param {Date} b @param {boolean} utc */
function sameDay(a, b, utc) {
  return utc ? a.toISOString().slice(0, 10) === b.toISOString().slice(0, 10) : a.toDateString() === b.toDateString();
}

/** What a `datetime-local` field holds for an instant, in the zone that the page shows. @param {number} instant */
export function asField(instant) {
  const there = date(instant);
  return new Date(preferences.utc ? there.getTime() : there.getTime() - there.getTimezoneOffset() * 60_000).toISOString().slice(0, 16);
}

/** The instant of such a field, as text; empty if it is not filled in. @param {string} text */
export function fromField(text) {
  const instant = Date.parse(preferences.utc ? `${text}Z` : text);
  return Number.isFinite(instant) ? String(instant) : "";
}

/** "1.24 s", "2 h 05 min". @param {number} ms @returns {string} */
export function duration(ms) {
  if (ms < 0) return `-${duration(-ms)}`;
  if (ms < 1) return ms === 0 ? "0 ms" : `${ms.toFixed(2)} ms`;
  if (ms < 1000) return `${ms < 10 ? +ms.toFixed(1) : Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 60) return `${s < 10 ? s.toFixed(2) : s.toFixed(1)} s`;
  const minutes = Math.floor(s / 60);
  if (minutes < 60) return `${minutes} min ${pad(Math.floor(s % 60))} s`;
  const hours = Math.floor(minutes / 60);
  if (hours < 48) return `${hours} h ${pad(minutes % 60)} min`;
  return `${Math.floor(hours / 24)} d ${hours % 24} h`;
}

const UNITS = /** @type {const} */ ([["d", 86_400_000], ["h", 3_600_000], ["min", 60_000], ["s", 1_000]]);

/** A span that somebody chose, such as that of a rate: "1 h", "90 s". @param {number} ms */
export function span(ms) {
  const [word, unit] = UNITS.find(([, each]) => ms >= each && ms % each === 0) ?? ["ms", 1];
  return `${ms / unit} ${word}`;
}

/** @param {number} value */
const pad = (value) => String(value).padStart(2, "0");

/** "12 s", "2 d 23 h": for what ticks. Rounded down, below ten days by less than an hour. @param {number} ms */
export function rough(ms) {
  const s = Math.floor(Math.abs(ms) / 1000);
  if (s < 60) return `${s} s`;
  if (s < 3600) return `${Math.floor(s / 60)} min`;
  if (s < 172_800) return `${Math.floor(s / 3600)} h ${pad(Math.floor(s / 60) % 60)} min`;
  const days = Math.floor(s / 86_400);
  return days < 10 ? `${days} d ${Math.floor(s / 3600) % 24} h` : `${days} d`;
}

/** @param {number} instant @param {string} style */
function words(instant, style) {
  const gone = now() - instant;
  if (style === "ago") return gone >= 0 ? (gone < 1000 ? "just now" : `${rough(gone)} ago`) : `in ${rough(gone)}`;
  if (style === "for") return rough(Math.max(0, gone));
  return moment(instant);
}

/**
 * An instant: `at` as time of day, `ago` relative to now, `for` how long it has lasted.
 * @param {number | undefined} instant
 * @param {"at" | "ago" | "for"} [style]
 */
export function when(instant, style = "at") {
  if (instant === undefined || instant === null || !Number.isFinite(instant)) return el("span", { class: "muted", text: "\u2013" });
  return el("time", {
    datetime: date(instant).toISOString(), "data-at": instant, "data-style": style, class: "nowrap", text: words(instant, style),
  });
}

// A tooltip is made when somebody points at an instant: writing one out is slow, and lists hold hundreds.
document.addEventListener("pointerover", ({ target }) => {
  const time = target instanceof Element ? target.closest("time[data-at]") : null;
  if (time) time.setAttribute("title", full(Number(time.getAttribute("data-at"))));
});

/** Write every relative time of the page again; all of them when the zone was changed. @param {boolean} [all] */
export function tick(all = false) {
  const selector = all ? "time[data-at]" : 'time[data-style="ago"], time[data-style="for"]';
  for (const each of document.querySelectorAll(selector)) {
    const text = words(Number(each.getAttribute("data-at")), each.getAttribute("data-style") ?? "at");
    if (each.textContent !== text) each.textContent = text;
  }
}
