/** Small line drawings, each a path in a box of 16 by 16. They accompany words and never stand for them. */
import { svg } from "./dom.js";

const PATHS = {
  pending: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12Z",
  waiting: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12ZM8 5v3l2 1.5",
  claimed: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12ZM8 9a1 1 0 1 0 0-2 1 1 0 0 0 0 2Z",
  running: "M5 3.5v9l7-4.5z",
  suspended: "M10.5 2.8a5.5 5.5 0 1 0 2.7 7.7A5 5 0 0 1 10.5 2.8Z",
  halted: "M4 4h8v8H4z",
  completed: "M3 8.5 6.5 12 13 4.5",
  failed: "M4 4l8 8M12 4l-8 8",
  cancelled: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12ZM4 12 12 4",
  timed_out: "M4 2h8M4 14h8M5 2c0 4 6 8 6 12M11 2c0 4-6 8-6 12",
  expired: "M4 2h8M4 14h8M5 2c0 4 6 8 6 12M11 2c0 4-6 8-6 12",
  overview: "M2.5 13.5h11M4.5 11V8M8 11V3.5M11.5 11V6",
  executions: "M3 4h4M3 8h10M7 12h6",
  tasks: "M3 3.5h10v9H3zM5.5 8l2 2 3.5-4",
  queues: "M3 4.5h10M3 8h10M3 11.5h10",
  schedules: "M3 4h10v9.5H3zM3 7h10M5.5 2.5V5M10.5 2.5V5",
  workers: "M4 4h8v8H4zM6.5 1.5V4M9.5 1.5V4M6.5 12v2.5M9.5 12v2.5M1.5 6.5H4M1.5 9.5H4M12 6.5h2.5M12 9.5h2.5",
  promises: "M6.5 9.5 9.5 6.5M7 4.5 8.5 3a3 3 0 0 1 4.3 4.3L11.5 8.7M9 11.5 7.5 13a3 3 0 0 1-4.3-4.3L4.6 7.3",
  start: "M8 3v10M3 8h10",
  audit: "M4 2.5h6L12.5 5v8.5H4zM6 7.5h4.5M6 10h4.5",
  sun: "M8 11a3 3 0 1 0 0-6 3 3 0 0 0 0 6ZM8 1v1.5M8 13.5V15M1 8h1.5M13.5 8H15M3 3l1 1M12 12l1 1M3 13l1-1M12 4l1-1",
  moon: "M10.5 2.8a5.5 5.5 0 1 0 2.7 7.7A5 5 0 0 1 10.5 2.8Z",
  auto: "M8 14A6 6 0 1 0 8 2a6 6 0 0 0 0 12ZM8 2v12M8 5h4.5M8 8h6M8 11h4.5",
  help: "M6 6a2 2 0 1 1 2.8 1.8c-.6.3-.8.7-.8 1.4M8 11.8v.1M8 14.5A6.5 6.5 0 1 0 8 1.5a6.5 6.5 0 0 0 0 13Z",
  pause: "M5.5 3.5v9M10.5 3.5v9",
  out: "M6 3H3v10h3M10 5l3 3-3 3M13 8H6",
  right: "M6 4l4 4-4 4",
  down: "M4 6l4 4 4-4",
  step: "M3 6h10v4H3z",
  sleep: "M10.5 2.8a5.5 5.5 0 1 0 2.7 7.7A5 5 0 0 1 10.5 2.8Z",
  promise: "M6.5 9.5 9.5 6.5M7 4.5 8.5 3a3 3 0 0 1 4.3 4.3L11.5 8.7M9 11.5 7.5 13a3 3 0 0 1-4.3-4.3L4.6 7.3",
  call: "M3 3v4a3 3 0 0 0 3 3h6M9.5 7l3 3-3 3",
  message: "M2.5 3.5h11v7h-6l-3 2.5v-2.5h-2z",
  note: "M4 2.5h8v11H4zM6 6h4M6 9h3",
  crash: "M9 1.5 4 9h3.5L7 14.5 12 7H8.5z",
  lock: "M4 7.5h8v6H4zM5.5 7.5V5a2.5 2.5 0 0 1 5 0v2.5",
  copy: "M5.5 5.5h8v8h-8zM2.5 10.5v-8h8",
  close: "M4 4l8 8M12 4l-8 8",
};

/** Words that share the drawing of another. @type {Record<string, string>} */
const SAME = {
  resolved: "completed", active: "completed", connected: "completed", rejected: "failed", lost: "failed", rejected_canceled: "cancelled", stopped: "cancelled",
  rejected_timedout: "timed_out", paused: "pause", draining: "waiting", drained: "pending", takeover: "call", receive: "message", timer: "waiting", retry: "waiting", limit: "queues", unserved: "workers", undeclared: "workers", busy: "workers", event: "message", transact: "step", task: "tasks",
};

/** @typedef {keyof typeof PATHS} IconName */

/** @param {string} name */
export function icon(name) {
  const path = PATHS[/** @type {IconName} */ (SAME[name] ?? name)] ?? PATHS.note;
  return svg("svg", { viewBox: "0 0 16 16", class: "glyph", "aria-hidden": "true" }, svg("path", { d: path }));
}
