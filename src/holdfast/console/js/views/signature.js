/** What an execution was called with, by the names of the parameters that its workflow has declared. */
/** @import { Declaration, Execution } from "../types.js" */
import * as api from "../api.js";

/** @param {Declaration} it */
const namesOf = (it) => it.positional ?? Object.keys(it.parameters?.["properties"] ?? {});

/** @param {Execution} model @param {Declaration} it @returns {Record<string, any>} */
export function valuesOf({ call = {} }, it) {
  const names = namesOf(it);
  return { ...Object.fromEntries((call.args ?? []).map((/** @type {any} */ value, /** @type {number} */ at) => [names[at] ?? `argument ${at + 1}`, value])), ...call.kwargs };
}

/** The declaration that an execution was called by, if every argument has a field in its form. @param {Execution} it */
export async function signatureOf(it) {
  if (!it.call || "input" in it.call || !it.name) return null;
  const { declarations } = await api.declarations({ kind: "workflow", name: it.name });
  const newest = declarations.sort((a, b) => (b.version ?? 0) - (a.version ?? 0));
  const found = newest.find((each) => !it.call?.version || each.version === it.call.version);
  const fields = found?.parameters?.["properties"];
  return found && fields && Object.keys(valuesOf(it, found)).every((name) => name in fields) ? found : null;
}
