/** Why nobody runs an open execution or background task, and what to do: what its server tells as `obstacle`, in sentences. */
/** @import { Execution, Obstacle } from "../types.js" */
import { el } from "../dom.js";
import { link } from "../router.js";
import { count, plural, said } from "../text.js";
import { now, span, when } from "../time.js";

/** @typedef {import("../dom.js").Child} Child */
/** What it waits for, as a sentence begins; why; and what to do. @typedef {{what: string, why: Child[], todo: string}} Told */

const SOON_MS = 30_000; // a worker that listens takes what is offered within a moment

/** @param {{queue?: string | undefined, group?: string | undefined}} it */
export const place = (it) => (it.queue ? el("a", { href: link(["queues", it.queue]) }, "queue ", said(it.queue, { max: 80 })) : el("span", {}, "group ", said(it.group ?? "default", { max: 80 })));

/** The limit that is used up. @param {Obstacle} found */
function limit(found) {
  const { used = 0, most = 0, perMs = 0 } = found;
  const words = { concurrency: "at a time", keyConcurrency: "at a time", running: "are claimed at a time", rate: `were started in ${span(perMs)}`, keyRate: `were started in ${span(perMs)}` }[found.limit ?? "concurrency"];
  return [`${count(used)} of ${count(most)} ${words}`, found.key === undefined ? "" : el("span", {}, ", of the key ", said(found.key, { max: 80 })), ", in the ", place(found), "."];
}

/** @type {Record<string, (found: Obstacle) => Told>} */
const SENTENCES = {
  paused: (found) => ({ what: "its queue to be resumed", why: ["The ", place(found), " is paused."], todo: "Nothing in it starts until you resume the queue on its page." }),
  unserved: (found) => ({ what: "a worker", why: ["No worker serves the ", place(found), " now."], todo: `Start one: holdfast worker module:app${found.queue ? "" : `, with App(group="${found.group ?? "default"}")`}.` }),
  undeclared: (found) => ({ what: "a worker that knows it", why: ["None of the workers that serve the ", place(found), " (", count(found.workers ?? 0), ") has declared the task ", said(found.name ?? "", { max: 80 }), "."], todo: "Import the module that defines it where the worker starts, and start that worker again." }),
  limit: (found) => ({ what: "a free place in its queue", why: limit(found), todo: found.perMs ? "It starts by itself when the rate allows it. You can change the limit on the page of the queue." : "It starts by itself when one of them ends. You can change the limit on the page of the queue." }),
  drained: (found) => ({ what: "a worker that takes work", why: [`${plural(found.workers ?? 0, "worker")} of the `, place(found), (found.workers ?? 0) === 1 ? " takes no new work: it is drained." : " take no new work: they are drained."], todo: "Take one back on the page Workers, or start another." }),
  busy: (found) => ({ what: "a free worker", why: [`${plural(found.workers ?? 0, "worker")} of the `, place(found), (found.workers ?? 0) === 1 ? " had no free slot when it last reported." : " had no free slot when they last reported."], todo: "It starts by itself when one of them is free. To be faster, start another worker." }),
};

/** One that no worker has taken yet, or that was given back. @param {Execution} it @returns {Told} */
export function untaken(it) {
  const known = it.obstacle && SENTENCES[it.obstacle.kind];
  if (it.obstacle && known) return known(it.obstacle);
  const times = it.crashes === 1 ? "once" : `${count(it.crashes ?? 0)} times in a row`;
  if (it.status === "pending") {
    return { what: "a worker", why: [it.crashes ? `Its worker died ${times}, and it has recorded nothing new since. ` : "", "It is offered to the workers of the ", place(it), "."], todo: now() - it.since > SOON_MS ? "Nobody has taken it yet. Look at the page Workers, and into their logs." : "One of them takes it in a moment." };
  }
  if (it.crashes && it.error) return { what: "the next try", why: [`Workers could not run it, ${times}. The last error: `, said(it.error, { class: "bad", max: 600 })], todo: "Repair the cause. It is tried again by itself, each time after a longer rest, and is halted if that never helps." };
  if (it.crashes) return { what: "the next try", why: [`Its worker died ${times}, and it has recorded nothing new since.`], todo: "Find out why: the log of the worker, its exit code, its memory. It is tried again by itself, and is halted if that never helps." };
  const last = it.job?.["attempts"]?.at(-1);
  if (it.error || last?.outcome === "FAILED") return { what: "the next attempt", why: ["The last error: ", said(it.error ?? attemptWords(last), { class: "bad", max: 600 })], todo: "" };
  if (it.tags["resonate:delay"] && Number(it.tags["resonate:delay"]) >= now()) return { what: "its start time", why: [], todo: "" };
  return it.attempts || it.retries ? { what: "the next offer", why: ["A worker took it and gave it back. Its log says why."], todo: "" } : { what: "its start time", why: [], todo: "" };
}

/** The worker that holds it, if that one is away. @param {Execution} it */
export function lost(it) {
  const found = it.obstacle;
  if (found?.kind !== "lost") return null;
  return el("div", { class: "bad" }, found.state === "stopped" ? "That worker has stopped" : "That worker is lost: it was last heard of ", found.state === "stopped" ? "" : when(found.seenAt, "ago"), ". ",
    it.dueAt ? el("span", {}, "Another takes over when its lease lapses, ", when(it.dueAt, "ago"), ". To go on at once, halt it and resume it.") : "Another takes over when its lease lapses.");
}

/** The same in a few words, for a list. @param {Execution} it */
export function untakenWords(it) {
  const where = it.queue ? `queue ${it.queue}` : `group ${it.group ?? "default"}`;
  if (it.status === "pending") return `worker of ${where}`;
  if (it.crashes) return `next try; ${it.error ?? `its worker died ${it.crashes === 1 ? "once" : `${it.crashes} times`}`}`;
  if (it.error) return `next attempt; ${it.error}`;
  return it.kind === "task" && it.attempts ? "next attempt" : it.retries ? "next offer" : "start time";
}

/** What an attempt of a background task failed with. @param {any} attempt */
export const attemptWords = (attempt) => [attempt.code, typeof attempt.error === "object" ? "encoded" : attempt.error].filter(Boolean).join(": ");
