/**
 * The shapes that `/v1` answers with, for the type checker and for readers. No code.
 * Fields that may be absent are left out by the server, never null.
 */

/** @typedef {"pending"|"waiting"|"claimed"|"running"|"suspended"|"halted"|"completed"|"failed"|"cancelled"|"timed_out"|"expired"} Status */
/** @typedef {Record<string, any>} Json */
/** @typedef {Record<string, any>} Schema */

/**
 * @typedef {object} Wait
 * @property {string} id
 * @property {string} [what]
 * @property {string} [file]
 * @property {number} [line]
 * @property {string} [function]
 * @property {string} [fiber]
 * @property {number} [since]
 * @property {number} [dueAt] when it settles by itself: a timer, a deadline
 * @property {number} [attempts] of a step that waits for its next try
 * @property {string} [error] of its last try
 * @property {number} [resumesAt] when that is
 * @property {string} [heldBy]
 * @property {number} [heldSince]
 * @property {Schema} [schema]
 */

/**
 * @typedef {object} Execution
 * @property {string} id
 * @property {"execution"|"task"} kind
 * @property {Status} status
 * @property {number} since
 * @property {number} createdAt
 * @property {number} timeoutAt
 * @property {Record<string, string>} tags
 * @property {number} [attempts]
 * @property {string} [name]
 * @property {string} [group]
 * @property {string} [queue]
 * @property {string} [worker]
 * @property {number} [settledAt]
 * @property {number} [dueAt]
 * @property {number} [retries]
 * @property {number} [generation]
 * @property {number} [crashes]
 * @property {Obstacle} [obstacle]
 * @property {number} [workerSeenAt]
 * @property {{worker: string, since: number, until: number, end: "lapsed" | "given_back", takenBy?: string, takenAt?: number}[]} [lostClaims]
 * @property {string} [error]
 * @property {string} [code]
 * @property {string} [parent]
 * @property {Wait[]} [waits]
 * @property {Call} [call]
 * @property {any} [result]
 * @property {any} [failure]
 * @property {Json} [published]
 * @property {any} [progress]
 * @property {Json} [job]
 * @property {Attempt[]} [failures]
 * @property {number} [priority]
 */

/** Why it does not go on. @typedef {{kind: string, queue?: string, group?: string, name?: string, workers?: number, limit?: "concurrency" | "keyConcurrency" | "rate" | "keyRate" | "running", used?: number, most?: number, key?: string, perMs?: number, worker?: string, state?: string, seenAt?: number}} Obstacle */
/** @typedef {{workflow?: string, version?: number, args?: any[], kwargs?: Json, input?: any}} Call */
/** @typedef {{at?: number, attempt?: number, number?: number, code?: string, name?: string, message?: string, error?: string, traceback?: string, worker?: string, tookMs?: number}} Attempt */

/**
 * @typedef {object} Row one operation of an execution, as the timeline has it
 * @property {string} id
 * @property {string} kind
 * @property {string} name
 * @property {string} state
 * @property {number} startedAt
 * @property {number} [endedAt]
 * @property {number} [attempts]
 * @property {string} [worker]
 * @property {string} [parent]
 * @property {string} [child]
 * @property {number} [place]
 * @property {number} [dueAt]
 * @property {string} [error]
 * @property {string} [code]
 * @property {Attempt[]} [failures] attempts that failed, each at the instant at which it did
 * @property {number} [resumesAt] of a step that waits for its next attempt
 */

/** @typedef {{version?: number, worker?: string, at: number, until?: number, end?: string}} Claim */
/** @typedef {{id: string, state: string, tags: Record<string, string>, createdAt: number, timeoutAt: number, settledAt?: number, param: any, value: any, schema?: Schema}} Promised */
/** @typedef {{key?: string, pending?: number, counted?: number, begun?: number, oldestAt?: number}} KeyUse */
/** @typedef {{name: string, pending?: number, running?: number, waiting?: number, paused?: boolean, oldestAt?: number, concurrency?: number, keyConcurrency?: number, rate?: Json, keyRate?: Json, fair?: boolean, weights?: Json, keys?: KeyUse[], moreKeys?: boolean, used?: {counted?: number, claimed?: number, begun?: number}} & Json} Queue */
/** @typedef {{id: string, cron: string, timezone?: string, overlap?: string, catchUp?: number, createdAt: number, nextRunAt?: number, lastRunAt?: number, call?: Call, tags: Record<string, string>, words?: string, next?: number[], last?: any[], paused?: boolean, orphan?: boolean} & Json} Schedule */
/** @typedef {{id: string, group?: string, groups?: string[], queues?: string[], host?: string, pid?: number, python?: string, holdfast?: string, codeVersion?: string, slots?: Json, startedAt?: number, seenAt?: number, state?: string, connected?: boolean, held: string[], more?: boolean, declarations?: string[]}} Worker */
/** @typedef {{kind: string, name: string, version?: number, group?: string, queue?: string, about?: string, parameters?: Schema, positional?: string[], returns?: Schema, workers?: number, seenAt?: number}} Declaration */
/** @typedef {{name?: string, readOnly?: boolean, prefix?: string, isOpen?: boolean, version?: string, store?: string, node?: string, now?: number, after?: string, codecUrl?: string}} Session */
/** @typedef {{executions: Map<string, any[]>, queues: Set<string>, schedules: Set<string>, workers: Set<string>, streams: Set<string>, promises: Set<string>, all: boolean}} Changes */

export {};
