/** A page about one record: read, drawn, and drawn again when a change made something else of it. */
/** @import { Changes } from "../types.js" */
import { el } from "../dom.js";
import { current, onChanges } from "../live.js";
import { present } from "./states.js";

const SLOW_MS = 10_000; // what becomes of time alone, such as a worker that falls silent

/**
 * @template T
 * @param {{main: HTMLElement, signal: AbortSignal}} context
 * @param {() => Promise<T>} load
 * @param {(it: T, again: () => void) => HTMLElement} draw
 * @param {(changes: Changes) => boolean} isAbout whether changes may be of this record
 * @param {(it: T) => boolean} [isOpen] whether time alone may make something else of it
 */
export async function showOne({ main, signal }, load, draw, isAbout, isOpen = () => false) {
  const box = el("div", { class: "stack" });
  main.append(box);
  let text = "";
  let open = false;
  const read = () => present(box, load, (it) => { text = JSON.stringify(it); open = isOpen(it); return draw(it, () => void read()); }, signal);
  const look = async () => { if (JSON.stringify(await load()) !== text && !signal.aborted) await read(); };
  onChanges(signal, async (changes) => { if (changes.all || isAbout(changes)) await look(); });
  const timer = setInterval(() => { if (open && !document.hidden && current() !== "paused") void look().catch(() => {}); }, SLOW_MS);
  signal.addEventListener("abort", () => clearInterval(timer));
  await read();
}
