/** The operations of one execution, read by pages and kept in step while it goes on. */
/** @import { Row, Claim, Execution } from "../types.js" */
import * as api from "../api.js";

const PAGE = 5_000;
const ROWS_MAX = 100_000;

/** @typedef {{rows: Row[], claims: Claim[]}} Records */

/**
 * All operations of an execution. `onPage` is told after each page, so that something can be shown early.
 * @param {string} id
 * @param {(records: Records) => void} [onPage]
 * @param {() => boolean} [isStopped]
 * @returns {Promise<Records>}
 */
export async function readRecords(id, onPage, isStopped) {
  /** @type {Records} */
  const records = { rows: [], claims: [] };
  /** @type {string | undefined} */
  let cursor;
  /** @type {Execution | undefined} */
  let it;
  do {
    const page = await api.executions.timeline(id, { limit: PAGE, cursor });
    it = page.execution;
    records.rows.push(...page.rows.map(withChild));
    cursor = page.cursor;
    if (cursor) onPage?.(records);
  } while (cursor && records.rows.length < ROWS_MAX && !isStopped?.());
  records.rows.sort((a, b) => a.startedAt - b.startedAt || numberOf(a.id) - numberOf(b.id));
  if (it) records.claims = claimsOf(it, records.rows);
  onPage?.(records);
  return records;
}

/**
 * Who held it. Claims that were lost are recorded, with who took over; the others are told by the workers that its steps
 * name, and by who holds it now.
 * @param {Execution} it
 * @param {Row[]} rows in the order of time
 * @returns {Claim[]}
 */
export function claimsOf(it, rows) {
  const lost = it.lostClaims ?? [];
  const claims = seenOf(it, rows).filter((claim) => !lost.some((each) => each.worker === claim.worker && claim.at >= each.since && claim.at <= each.until));
  for (const each of lost) {
    claims.push({ worker: each.worker, at: each.since, until: each.until, end: each.end === "lapsed" ? "lapsed" : "given back with an error" });
    if (each.takenAt === undefined || lost.some((other) => other.since === each.takenAt)) continue;
    const { takenBy: worker, takenAt: at } = each;
    const first = claims.find((claim) => claim.worker === worker && claim.at >= at);
    if (first) first.at = at;
    else claims.push(/** @type {Claim} */ ({ worker, at, until: at, end: "suspended" }));
  }
  return claims.sort((a, b) => a.at - b.at);
}

/** Stretches of work of one worker each: a wait, or another worker, ends one. @param {Execution} it @param {Row[]} rows @returns {Claim[]} */
function seenOf(it, rows) {
  /** @type {(Claim & {until: number})[]} */
  const claims = [];
  const waits = rows.filter((row) => row.worker === undefined && row.endedAt !== undefined).map((row) => row.endedAt ?? 0).sort((a, b) => a - b);
  const hold = (/** @type {string} */ worker, /** @type {number} */ at, /** @type {number} */ until) => {
    const last = claims.at(-1);
    if (last && last.worker === worker && !hasBetween(waits, last.until, at)) last.until = Math.max(last.until, until);
    else claims.push({ worker, at, until, end: "suspended" });
  };
  for (const row of rows) if (row.worker !== undefined && row.endedAt !== undefined) hold(row.worker, row.startedAt, row.endedAt);
  const last = claims.at(-1);
  if (it.status === "running" && it.worker) {
    hold(it.worker, last?.worker === it.worker ? Math.max(last.at, it.since) : it.since, it.since);
    const { until: _, end: __, ...open } = /** @type {Claim & {until: number}} */ (claims.pop());
    return [...claims, open];
  }
  if (last && it.settledAt !== undefined) last.end = "released";
  return claims;
}

/** @param {number[]} sorted @param {number} from @param {number} to */
function hasBetween(sorted, from, to) {
  let low = 0;
  let high = sorted.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (/** @type {number} */ (sorted[middle]) < from) low = middle + 1;
    else high = middle;
  }
  return low < sorted.length && /** @type {number} */ (sorted[low]) <= to;
}

/** A call is an execution under the id of its record, unless it says otherwise. @param {Row} row @returns {Row} */
function withChild(row) { return row.child === undefined && row.kind === "call" ? { ...row, child: row.id } : row; }

/** @param {string} id */
function numberOf(id) { return Number(/(\d+)~?$/.exec(id)?.[1] ?? 0); }

/** What happened, one line each, in order. @param {Execution} it @param {Records} records */
export function eventsOf(it, records) {
  /** @type {{at: number, kind: string, words: string, what: string}[]} */
  const ends = [];
  /** @type {{at: number, kind: string, words: string, what: string}[]} */
  const events = [{ at: it.createdAt, kind: "executions", words: "created", what: it.name ?? "" }];
  for (const claim of records.claims) {
    events.push({ at: claim.at, kind: "workers", words: "taken by", what: claim.worker ?? "a worker" });
    if (claim.until !== undefined) ends.push({ at: claim.until, kind: claim.end === "lapsed" ? "crash" : "suspended", words: claim.end === "lapsed" ? "lease lapsed, worker lost" : claim.end ?? "given back", what: claim.worker ?? "" });
  }
  for (const row of records.rows) {
    events.push({ at: row.startedAt, kind: row.kind, words: `${row.kind} began`, what: row.name || row.id });
    for (const each of row.failures ?? []) if (each.at !== undefined) events.push({ at: each.at, kind: "failed", words: `attempt ${each.attempt ?? ""} failed`, what: `${row.name} ${each.code ?? ""} ${each.message ?? ""}` });
    if (row.endedAt !== undefined) events.push({ at: row.endedAt, kind: row.state, words: `${row.kind} ${row.state.replace("_", " ")}`, what: row.name || row.id });
  }
  events.push(...ends); // behind what ended in the same millisecond
  if (it.settledAt !== undefined) events.push({ at: it.settledAt, kind: it.status, words: it.status.replace("_", " "), what: it.code ?? "" });
  return events.sort((a, b) => a.at - b.at);
}
