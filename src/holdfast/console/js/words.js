/** The words of the field, said the same way everywhere: statuses, kinds, and what each means. */
/** @import { Wait } from "./types.js" */

/** @type {Record<string, {word: string, tone: string, means: string}>} */
export const STATUSES = {
  pending: { word: "pending", tone: "wait", means: "a worker may take it now" },
  waiting: { word: "waiting", tone: "wait", means: "it starts later: delayed, or waiting for the next attempt" },
  claimed: { word: "claimed", tone: "busy", means: "a worker has taken it and has not started it" },
  running: { word: "running", tone: "busy", means: "a worker runs it" },
  suspended: { word: "suspended", tone: "rest", means: "it waits for something outside, and holds no worker" },
  halted: { word: "halted", tone: "stop", means: "it does not run until it is resumed" },
  completed: { word: "completed", tone: "good", means: "it is over, with a result" },
  failed: { word: "failed", tone: "bad", means: "it is over, with an error" },
  cancelled: { word: "cancelled", tone: "off", means: "it was cancelled before it was done" },
  timed_out: { word: "timed out", tone: "bad", means: "its deadline passed" },
  expired: { word: "expired", tone: "off", means: "it did not start in time" },
  resolved: { word: "resolved", tone: "good", means: "it has a value" },
  rejected: { word: "rejected", tone: "bad", means: "it has an error" },
  rejected_canceled: { word: "cancelled", tone: "off", means: "it was cancelled" },
  rejected_timedout: { word: "timed out", tone: "bad", means: "its deadline passed" },
  paused: { word: "paused", tone: "stop", means: "nothing starts until it is resumed" },
  active: { word: "active", tone: "good", means: "it is active" },
  draining: { word: "draining", tone: "wait", means: "it takes no new work and finishes what it has" },
  drained: { word: "drained", tone: "off", means: "it takes no new work and has none" },
  lost: { word: "lost", tone: "bad", means: "it has not reported for more than 45 seconds" },
  stopped: { word: "stopped", tone: "off", means: "it was stopped" },
  connected: { word: "connected", tone: "good", means: "it listens at this node" },
};

export const OF_EXECUTIONS = ["pending", "waiting", "running", "suspended", "halted", "completed", "failed", "cancelled", "timed_out"];
export const OF_TASKS = ["pending", "waiting", "claimed", "running", "halted", "completed", "failed", "cancelled", "expired"];
export const ENDED = new Set(["completed", "failed", "cancelled", "timed_out", "expired"]);
/** A worker has it, or could take it. */
export const OPEN = new Set(["pending", "waiting", "claimed", "running"]);
export const OF_PROMISES = ["pending", "resolved", "rejected", "rejected_canceled", "rejected_timedout"];

/** What the attempts of an execution are. */
export const TAKEN = "How often a worker has taken it: at its start, after each long wait and each crash.";

/** What an execution waits for, as a sentence begins. @type {Record<string, string>} */
export const WAITS = {
  promise: "a promise that somebody settles",
  timer: "a timer",
  sleep: "a timer",
  message: "a message",
  receive: "a message",
  call: "an execution that it called",
  lock: "a lock",
  event: "an event",
  retry: "the next try of a step",
};

/** The same in a list, where there is little room: otherwise the word is the kind. @type {Record<string, string>} */
const WAITS_SHORT = { sleep: "timer", receive: "message", call: "execution", retry: "next try of" };

/** Which kind of wait it is, and of what: `lock printer-3`, `call pay`, `message 4`. @param {Wait} wait */
export function kindOf(wait) {
  const [kind = "", ...name] = (wait.what || "promise").split(" ");
  return { kind: wait.resumesAt ? "retry" : kind, name: `${kind === "message" ? "number " : ""}${name.join(" ")}` };
}

/** The same in a few words, for a list. @param {Wait} wait */
export function waitWords(wait) {
  const { kind, name } = kindOf(wait);
  return `${WAITS_SHORT[kind] ?? kind} ${name}${wait.error ? `: ${wait.error}` : ""}`;
}
