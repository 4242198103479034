/**
 * What changed in the store, as it happens: one event stream for all tabs of this browser.
 *
 * 1. A browser opens about six connections to a server. So among tabs with the same token one holds the
 *    stream (a web lock decides which) and tells the others. Where there are no locks, only visible tabs listen.
 * 2. Whoever was away (paused, hidden, reconnected, cut off) is told that everything may have changed.
 * 3. A listener is called a few times in a row, and then four times a second (`BURST`, `REST_MS`); what happens meanwhile is
 *    collected. While changes never pause, the server tells of them once a second. After a reading that took long it rests
 *    for longer. So many pages do not become a load of their own. A hidden tab reads nothing.
 */
/** @import { Changes } from "./types.js" */
import { Problem, audience, listen } from "./api.js";
import { heardTime } from "./time.js";

const EVERY_MS = 50;
const BURST = 5;
const REST_MS = 250;
const REST_SHARE = 4; // it rests so many times as long as its last reading took beyond `SLOW_MS`
const SLOW_MS = 100;
const REST_MS_MAX = 20_000;
const POLL_MS = 3_000;
const BACKOFF_MS = [300, 700, 1_500, 3_000, 5_000];

/** @typedef {"live" | "connecting" | "paused"} State */
/** @type {State} */
let state = "connecting";
let stop = new AbortController();
let last = "";
/** @type {BroadcastChannel | null} */
let channel = null;

/** @returns {Changes} */
const nothing = () => ({ executions: new Map(), queues: new Set(), schedules: new Set(), workers: new Set(), streams: new Set(), promises: new Set(), all: false });
export const everything = () => ({ ...nothing(), all: true });

/** @type {Set<Listener>} */
const listeners = new Set();

class Listener {
  /** @param {(changes: Changes) => Promise<void> | void} tell */
  constructor(tell) {
    this.tell = tell;
    this.gathered = nothing();
    this.told = -REST_MS;
    this.took = 0;
    this.left = BURST; // of calls that need not wait
    this.timer = 0;
    this.busy = false;
  }

  /** How long until the next call. */
  get wait() {
    const passed = performance.now() - this.told;
    const left = Math.min(BURST, this.left + passed / REST_MS);
    return Math.max(0, EVERY_MS - passed, (1 - left) * REST_MS, Math.min(REST_MS_MAX, REST_SHARE * (this.took - SLOW_MS)) - passed);
  }

  /** @param {Changes} changes */
  hear(changes) {
    const all = this.gathered;
    for (const [id, what] of changes.executions) all.executions.set(id, what);
    for (const name of /** @type {const} */ (["queues", "schedules", "workers", "streams", "promises"])) {
      for (const each of changes[name]) all[name].add(each);
    }
    all.all ||= changes.all;
    if (this.timer) return;
    this.timer = setTimeout(() => this.run(), this.wait);
  }

  async run() {
    this.timer = 0;
    if (this.busy || document.hidden) return; // told again when that is over
    const changes = this.gathered;
    this.gathered = nothing();
    this.busy = true;
    const began = performance.now();
    this.left = Math.min(BURST, this.left + (began - this.told) / REST_MS) - 1;
    this.told = began;
    try {
      await this.tell(changes);
    } catch (error) {
      if (!(error instanceof Problem) && !(error instanceof DOMException)) throw error;
    } finally {
      this.busy = false;
      this.took = performance.now() - began;
      if (!isEmpty(this.gathered)) this.hear(nothing());
    }
  }
}

/** @param {Changes} changes */
const isEmpty = (changes) => !changes.all && !changes.executions.size && !changes.queues.size && !changes.schedules.size && !changes.workers.size && !changes.streams.size && !changes.promises.size;

/**
 * Be told of changes until `signal` is aborted.
 * @param {AbortSignal} signal
 * @param {(changes: Changes) => Promise<void> | void} tell
 */
export function onChanges(signal, tell) {
  const listener = new Listener(tell);
  listeners.add(listener);
  signal.addEventListener("abort", () => { listeners.delete(listener); clearTimeout(listener.timer); });
}

/** @param {Changes} changes */
function spread(changes) { for (const listener of listeners) listener.hear(changes); }

export const current = () => state;

/** @param {State} to */
function become(to) {
  if (state === to) return;
  state = to;
  dispatchEvent(new Event("live"));
}

/** @typedef {{event: string, id: string, data: string}} Frame */

/** @param {Frame} frame */
function hear(frame) {
  if (state === "paused") return;
  const said = JSON.parse(frame.data);
  become("live");
  if (frame.event === "hello" && said.now) heardTime(said.now);
  if (frame.event === "reload") spread(everything());
  if (frame.event !== "changes") return;
  /** @type {[string, any[]][]} */
  const executions = (said.executions ?? []).map((/** @type {any[]} */ each) => [each[0], each]);
  const set = (/** @type {string} */ name) => new Set(said[name] ?? []);
  spread(/** @type {Changes} */ ({
    executions: new Map(executions), queues: set("queues"), schedules: set("schedules"), workers: set("workers"),
    streams: set("streams"), promises: set("promises"), all: said.more === true,
  }));
}

/** @param {string} [after] where the stream begins: what comes behind it is told */
export function start(after = "") {
  stop.abort();
  stop = new AbortController();
  const { signal } = stop;
  last = after;
  become("connecting");
  const name = `holdfast-${audience()}`;
  const others = new BroadcastChannel(name);
  channel = others;
  others.onmessage = (message) => {
    if (message.data.lost) { if (state === "live") become("connecting"); } else hear(message.data);
  };
  signal.addEventListener("abort", () => others.close());
  if (navigator.locks) navigator.locks.request(name, { signal }, () => hold(signal)).catch(() => {});
  else void hold(signal);
  if (navigator.locks) void others.postMessage({ event: "ask", id: "", data: "{}" });
  document.addEventListener("visibilitychange", () => { if (!document.hidden) spread(everything()); }, { signal });
}

/** Hold the stream, and open it again whenever it ends. @param {AbortSignal} signal */
async function hold(signal) {
  let failures = 0;
  while (!signal.aborted) {
    const began = performance.now();
    let missed = failures > 0;
    try {
      await listen(["changes"], last ? { after: last } : {}, signal, (frame) => {
        if (frame.id) last = frame.id;
        hear(frame);
        channel?.postMessage(frame);
        if (missed) {
          missed = false;
          spread(everything());
          channel?.postMessage({ event: "reload", id: "", data: "{}" });
        }
        failures = 0;
      });
    } catch (error) {
      if (signal.aborted) return;
      if (error instanceof Problem && (error.status === 404 || error.status === 401)) return error.status === 404 ? poll(signal) : undefined;
    }
    if (performance.now() - began < 5_000) failures += 1;
    if (failures && state === "live") { become("connecting"); channel?.postMessage({ lost: true }); }
    await new Promise((done) => setTimeout(done, failures ? BACKOFF_MS[Math.min(failures, BACKOFF_MS.length) - 1] : 0));
  }
}

/** A server that tells of no changes is asked now and then. @param {AbortSignal} signal */
async function poll(signal) {
  while (!signal.aborted) {
    if (state !== "paused") { become("live"); spread(everything()); }
    await new Promise((done) => setTimeout(done, POLL_MS));
  }
}

export function pause() { become("paused"); }

export function resume() {
  become("connecting");
  spread(everything());
  start();
}
