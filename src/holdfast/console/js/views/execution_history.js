/** The history of an execution as a file: what `holdfast replay` reads. */
import * as api from "../api.js";
import { el } from "../dom.js";
import { toast, toastProblem } from "../kit/toast.js";
import { count } from "../text.js";

const PAGE = 1_000;

/** @param {string} id */
export function history(id) {
  const button = el("button", { type: "button", text: "Download the history", onclick: async () => {
    button.disabled = true;
    try {
      const whole = await api.executions.history(id, { limit: PAGE });
      while (whole.cursor) {
        const page = await api.executions.history(id, { limit: PAGE, cursor: whole.cursor });
        whole.records.push(...page.records);
        if (page.cursor) whole.cursor = page.cursor;
        else delete whole.cursor;
      }
      const url = URL.createObjectURL(new Blob([JSON.stringify(whole, null, 1)], { type: "application/json" }));
      el("a", { href: url, download: `${id.replace(/[^\w.-]+/g, "_").slice(0, 80)}.history.json` }).click();
      setTimeout(() => URL.revokeObjectURL(url), 10_000);
      toast(`${count(whole.records.length)} records. \u201choldfast replay FILE module:app\u201d runs today's code against them.`);
    } catch (error) {
      toastProblem(error);
    } finally {
      button.disabled = false;
    }
  } });
  return el("p", {}, button);
}
