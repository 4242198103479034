/** A page about one record: read, drawn, and drawn again when a change made something else of it. */
/** @import { Changes } from "../types.js" */
import { el } from "../dom.js";
import { onChanges } from "../live.js";
import { present } from "./states.js";

/**
 * @template T
 * @param {{main: HTMLElement, signal: AbortSignal}} context
 * @param {() => Promise<T>} load
 * @param {(it: T, again: () => void) => HTMLElement} draw
 * @param {(changes: Changes) => boolean} isAbout whether changes may be of this record
 */
export async function showOne({ main, signal }, load, draw, isAbout) {
  const box = el("div", { class: "stack" });
  main.append(box);
  let text = "";
  const read = () => present(box, load, (it) => { text = JSON.stringify(it); return draw(it, () => void read()); }, signal);
  onChanges(signal, async (changes) => {
    if (!changes.all && !isAbout(changes)) return;
    if (JSON.stringify(await load()) !== text && !signal.aborted) await read();
  });
  await read();
}
