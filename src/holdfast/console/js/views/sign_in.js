/** Signing in with a token: kept in memory; until the tab is closed only if the reader asks for that. */
/** @import { Context } from "../main.js" */
import * as api from "../api.js";
import { el, fill } from "../dom.js";
import { field } from "../kit/dialog.js";
import { problem } from "../kit/states.js";
import { readSession } from "../session.js";

const HINT = "Check that it is complete. Tokens are set where the server starts.";

/** @param {Context} context */
export function view({ main, title }) {
  title("Sign in");
  const token = el("input", { type: "password", autocomplete: "off", spellcheck: "false", required: true });
  const keep = el("input", { type: "checkbox" });
  const trouble = el("div");
  main.append(el("form", { class: "panel sign-in", onsubmit: async (/** @type {Event} */ event) => {
    event.preventDefault();
    fill(trouble);
    api.signIn(token.value.trim(), keep.checked);
    try {
      await readSession();
      dispatchEvent(new Event("signed-in"));
    } catch (error) {
      if (!(error instanceof api.Problem) || error.status === 401 || error.status === 403) api.signIn("", false);
      fill(trouble, problem(error instanceof api.Problem && error.status === 401 ? new api.Problem(401, { error: error.message, hint: HINT, code: error.code }) : error));
    }
  } }, el("div", { class: "body stack" }, el("h1", { text: "Sign in" }), el("p", { class: "muted", text: "This server asks for a token. It is sent with each request and kept in the memory of this page; no cookie is set." }),
    field("Token", token), el("label", {}, keep, " keep it until this tab is closed"), trouble, el("div", {}, el("button", { class: "primary", type: "submit", text: "Sign in" })))));
  token.focus();
}
