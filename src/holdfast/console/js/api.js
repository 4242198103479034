/**
 * The one module that talks to `/v1`. Everything else asks here.
 *
 * 1. Paths are relative to the page, so the console works below any path prefix.
 * 2. The token is held in memory; in `sessionStorage` only if the reader asked for that. Never a cookie.
 * 3. A refusal is a `Problem` with what happened, what to do, and a code.
 * 4. Pages that ask the same at the same moment may share an answer (`max-age`); not behind a change of their own.
 */
/** @import { Execution, Promised, Queue, Schedule, Session, Worker, Declaration } from "./types.js" */

const BASE = new URL("../v1/", document.baseURI);
const KEPT = "holdfast-token";
const OWN_CHANGE_MS = 2_000; // so long after a change nothing shared is taken
const NOTHING_HEARD_MS = 40_000; // the server sends something every 15 s

export class Problem extends Error {
  /** @param {number} status @param {{error?: string, hint?: string, code?: string, problems?: {path: string, problem: string}[]}} said */
  constructor(status, said) {
    super(said.error || `The server answered with ${status}`);
    this.status = status;
    this.hint = said.hint ?? "";
    this.code = said.code ?? "";
    this.problems = said.problems ?? [];
  }
}

/** Nobody answered: the server is away, or the way to it. */
export class Unreachable extends Problem {
  constructor() {
    super(0, { error: "The server does not answer", hint: "The page continues when the server is back. Check that `holdfast serve` runs." });
  }
}

let token = stored();
let changedAt = -OWN_CHANGE_MS;

function stored() {
  try { return sessionStorage.getItem(KEPT) ?? ""; } catch { return ""; }
}

/** @param {string} value @param {boolean} keep until the tab is closed */
export function signIn(value, keep) {
  token = value;
  try {
    if (keep) sessionStorage.setItem(KEPT, value);
    else sessionStorage.removeItem(KEPT);
  } catch {
    // A browser that keeps nothing: the token is in memory.
  }
}
export const hasToken = () => token !== "";

/** A name for the connection that tabs with the same token may share; it does not tell the token. */
export function audience() {
  let hash = 0x811c9dc5;
  for (const letter of BASE.href + token) hash = Math.imul(hash ^ letter.charCodeAt(0), 0x01000193);
  return (hash >>> 0).toString(36);
}

/** @typedef {Record<string, string | number | boolean | string[] | null | undefined>} Query */

/** @param {string[]} parts @param {Query} [query] */
function address(parts, query = {}) {
  const url = new URL(parts.map(encodeURIComponent).join("/"), BASE);
  for (const [name, value] of Object.entries(query)) {
    for (const each of Array.isArray(value) ? value : [value]) {
      if (each !== undefined && each !== null && each !== "") url.searchParams.append(name, String(each));
    }
  }
  return url;
}

/** @param {URL} url @param {RequestInit} init @param {string} [accept] */
async function send(url, init, accept = "application/json") {
  /** @type {Record<string, string>} */
  const headers = { accept, ...(token && { authorization: `Bearer ${token}` }) };
  if (init.body) headers["content-type"] = "application/json";
  if (init.method && init.method !== "GET") changedAt = performance.now();
  else if (performance.now() - changedAt > OWN_CHANGE_MS) headers["cache-control"] = "max-age=1";
  try {
    return await fetch(url, { ...init, headers, credentials: "omit", cache: "no-store", redirect: "error" });
  } catch (error) {
    if (error instanceof DOMException && error.name === "AbortError") throw error;
    throw new Unreachable();
  }
}

/** @param {string} method @param {string[]} parts @param {{query?: Query, body?: any, signal?: AbortSignal}} [more] @returns {Promise<any>} */
async function ask(method, parts, more = {}) {
  const body = more.body === undefined ? null : JSON.stringify(more.body);
  const answer = await send(address(parts, more.query), { method, body, signal: more.signal ?? null });
  if (method !== "GET") changedAt = performance.now();
  const text = await answer.text();
  /** @type {any} */
  let said;
  try { said = JSON.parse(text); } catch { said = { error: `The server answered with ${answer.status} and no JSON` }; }
  if (answer.ok) return said;
  if (answer.status === 401) dispatchEvent(new Event("signed-out"));
  throw new Problem(answer.status, said);
}

/** @param {...string} parts */
const get = (...parts) => (/** @type {Query} */ query = {}, /** @type {AbortSignal | undefined} */ signal = undefined) => ask("GET", parts, { query, ...(signal && { signal }) });

/** The same call for a shell, shown in each dialog. @param {Change} change */
export function curl({ method, parts, query, body }) {
  const quote = (/** @type {string} */ text) => `'${text.replaceAll("'", "'\\''")}'`;
  const words = ["curl -s", method === "POST" && body !== undefined ? "" : `-X ${method}`, token ? "-H \"Authorization: Bearer $TOKEN\"" : "", quote(address(parts, query).href)];
  if (body !== undefined) words.push("-d", quote(JSON.stringify(body)));
  return words.filter(Boolean).join(" ");
}

/** One change that a reader may ask for: said in words before it is made. @typedef {{method: string, parts: string[], query?: Query, body?: any}} Change */
/** @param {Change} change */
export const make = (change) => ask(change.method, change.parts, { ...(change.query && { query: change.query }), body: change.body ?? (change.method === "DELETE" ? undefined : {}) });

/** @type {Promise<Session> | null} */
let asked = null;

/** Ask who looks before anybody wants to know it: `session` gives this answer once. */
export function askSession() {
  asked = get("session")();
  asked.catch(() => {}); // whoever takes it hears why
}

/** @returns {Promise<Session>} */
export function session() {
  const answer = asked ?? get("session")();
  asked = null;
  return answer;
}
export const overview = get("overview");
export const counts = get("counts");
export const audit = get("audit");

export const executions = {
  /** @type {(query: Query, signal?: AbortSignal) => Promise<{executions: Execution[], cursor?: string}>} */
  find: get("executions"),
  /** @type {(id: string) => Promise<Execution>} */
  get: (id) => get("executions", id)(),
  timeline: (/** @type {string} */ id, /** @type {Query} */ query) => get("executions", id, "timeline")(query),
  history: (/** @type {string} */ id, /** @type {Query} */ query) => get("executions", id, "history")(query),
  published: (/** @type {string} */ id) => get("executions", id, "published")(),
  messages: (/** @type {string} */ id, /** @type {Query} */ query) => get("executions", id, "messages")(query),
  streams: (/** @type {string} */ id) => get("executions", id, "streams")(),
  stream: (/** @type {string} */ id, /** @type {string} */ name, /** @type {Query} */ query) => get("executions", id, "streams", name)(query),
};
export const tasks = {
  /** @type {(query: Query, signal?: AbortSignal) => Promise<{tasks: Execution[], cursor?: string}>} */
  find: get("tasks"),
  /** @type {(id: string) => Promise<Execution>} */
  get: (id) => get("tasks", id)(),
};
export const promises = {
  /** @type {(query: Query, signal?: AbortSignal) => Promise<{promises: Promised[], cursor?: string}>} */
  find: get("promises"),
  /** @type {(id: string) => Promise<Promised>} */
  get: (id) => get("promises", id)(),
};
export const queues = {
  /** @type {(query: Query) => Promise<{queues: Queue[], cursor?: string}>} */
  find: get("queues"),
  /** @type {(name: string) => Promise<Queue>} */
  get: (name) => get("queues", name)(),
};
export const schedules = {
  /** @type {(query: Query) => Promise<{schedules: Schedule[], cursor?: string}>} */
  find: get("schedules"),
  /** @type {(id: string) => Promise<Schedule>} */
  get: (id) => get("schedules", id)(),
};
/** @type {(query: Query) => Promise<{workers: Worker[], cursor?: string}>} */
export const workers = get("workers");
/** @type {(query: Query) => Promise<{declarations: Declaration[], cursor?: string}>} */
export const declarations = get("declarations");
export const bulk = {
  get: (/** @type {string} */ id) => get("bulk", id)(),
};

/**
 * Server-sent events, read until they end. `EventSource` could not send the token.
 * @param {string[]} parts
 * @param {Query} query
 * @param {AbortSignal} signal
 * @param {(event: {event: string, id: string, data: string}) => void} on
 */
export async function listen(parts, query, signal, on) {
  const silence = new AbortController();
  const give = () => silence.abort();
  let timer = setTimeout(give, NOTHING_HEARD_MS);
  signal.addEventListener("abort", give);
  try {
    const answer = await send(address(parts, query), { signal: silence.signal }, "text/event-stream");
    if (!answer.ok || !answer.body) {
      if (answer.status === 401) dispatchEvent(new Event("signed-out"));
      throw new Problem(answer.status, await answer.json().catch(() => ({})));
    }
    const reader = answer.body.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      clearTimeout(timer);
      timer = setTimeout(give, NOTHING_HEARD_MS);
      text += value;
      const frames = text.split(/\r?\n\r?\n/);
      text = frames.pop() ?? "";
      for (const frame of frames) read(frame, on);
    }
  } finally {
    clearTimeout(timer);
    signal.removeEventListener("abort", give);
  }
}

/** @param {string} frame @param {(event: {event: string, id: string, data: string}) => void} on */
function read(frame, on) {
  const fields = { event: "message", id: "", data: "" };
  for (const line of frame.split(/\r?\n/)) {
    const [, name, value] = /^(event|id|data): ?(.*)$/.exec(line) ?? [];
    if (name === "data") fields.data += (fields.data && "\n") + value;
    else if (name === "event" || name === "id") fields[name] = value ?? "";
  }
  if (fields.data) on(fields);
}

/**
 * Ask the user's own endpoint to decode payloads, so that keys never reach the node.
 * @param {string} url
 * @param {string} encoded
 */
export async function decode(url, encoded) {
  const answer = await fetch(url, {
    method: "POST", body: JSON.stringify({ payloads: [encoded] }), headers: { "content-type": "application/json" }, credentials: "omit",
  }).catch(() => { throw new Problem(0, { error: "The decoding endpoint does not answer", hint: `Check that ${url} runs and allows this origin (CORS).` }); });
  if (!answer.ok) throw new Problem(answer.status, { error: `The decoding endpoint answered with ${answer.status}`, hint: `Look into the log of ${url}.` });
  return (await answer.json()).payloads[0];
}
