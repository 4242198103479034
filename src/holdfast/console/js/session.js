/** Who looks, and at what: the answer of `/v1/session`, read when the page opens or somebody signs in. */
/** @import { Session } from "./types.js" */
import * as api from "./api.js";
import { visible } from "./text.js";
import { heardTime } from "./time.js";

/** @type {Session} */
let known = {};

export const session = () => known;
export const mayAct = () => known.readOnly !== true;

export async function readSession() {
  known = await api.session();
  if (known.now) heardTime(known.now);
  return known;
}

/** Said where there is nothing, to somebody who would not see it if there were. */
export const onlyOwn = () => (known.prefix ? `Your token sees only what begins with ${visible(known.prefix)}.` : null);
