/** What an execution was called with, by the names of the parameters that its workflow has declared. */
/** @import { Declaration, Execution } from "../types.js" */
import * as api from "../api.js";

/** @param {Execution} model @param {Declaration} it @returns {Record<string, any>} */
export function valuesOf({ call = {} }, it) {
  const names = it.positional ?? Object.keys(it.parameters?.["properties"] ?? {});
  return { ...Object.fromEntries((call.args ?? []).map((/** @type {any} */ value, /** @type {number} */ at) => [names[at] ?? `argument ${at + 1}`, value])), ...call.kwargs };
}

/** The declaration that it was called by, if every argument has a field in its form. @param {Execution} it */
export async function signatureOf(it) {
  const { call } = it;
  if (!call || "input" in call) return null;
  const { declarations } = await api.declarations({ kind: "workflow", name: it.name });
  const found = declarations.sort((a, b) => (b.version ?? 0) - (a.version ?? 0)).find((each) => !call.version || each.version === call.version);
  const fields = found?.parameters?.["properties"] ?? {};
  return found && Object.keys(valuesOf(it, found)).every((name) => name in fields) ? found : null;
}
