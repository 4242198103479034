/** Promises: found by id and tags; settled by hand. */
/** @import { Context } from "../main.js" */
/** @import { Promised } from "../types.js" */
import * as api from "../api.js";
import { el } from "../dom.js";
import { chip, givenTags, idLink, tag } from "../kit/chip.js";
import { inline } from "../kit/json.js";
import { Pages } from "../kit/pages.js";
import { amend, link, place } from "../router.js";
import { isMeant, when } from "../time.js";
import { OF_PROMISES, STATUSES } from "../words.js";

/** @param {Context} context */
export async function view({ main, signal, title }) {
  title("Promises");
  main.classList.add("full");
  const query = place().query;
  const changed = () => { amend(query); void pages.reload(); };
  const put = (/** @type {string} */ name, /** @type {string} */ value) => { if (value) query.set(name, value); else query.delete(name); changed(); };
  let timer = 0;
  const prefix = el("input", { type: "search", "data-search": "", placeholder: "id begins with\u2026", "aria-label": "Only ids that begin with", value: query.get("prefix") ?? "", oninput: () => { clearTimeout(timer); timer = setTimeout(() => put("prefix", prefix.value.trim()), 250); } });
  const tags = el("input", { type: "search", placeholder: "tag name:value", "aria-label": "Only with this tag, name:value", value: query.get("tag") ?? "", onchange: () => put("tag", tags.value.includes(":") ? tags.value.trim() : "") });
  const state = el("select", { "aria-label": "State", onchange: () => put("state", state.value) }, el("option", { value: "", text: "any state" }), OF_PROMISES.map((each) => el("option", { value: each, text: STATUSES[each]?.word ?? each, selected: query.get("state") === each })));
  /** @type {Pages<Promised>} */
  const pages = new Pages({
    label: "Promises", key: (row) => row.id, href: (row) => link(["promises", row.id]),
    columns: [
      { title: "State", class: "w-status", cell: (row) => chip(row.state) },
      { title: "Id", class: "w-id", cell: (row) => idLink(row.id, "promises") },
      { title: "Value", class: "mid", cell: (row) => (row.state === "pending" ? null : inline(row.value, { class: "muted", max: 160, title: true })) },
      { title: "Tags", class: "w-name wide", cell: (row) => el("span", { class: "line one" }, givenTags(row.tags).slice(0, 3).map(([name, value]) => tag(name, value))) },
      { title: "Created", class: "w-time", cell: (row) => when(row.createdAt, "ago") },
      { title: "Deadline", class: "w-time wide", cell: (row) => (isMeant(row.timeoutAt) ? when(row.timeoutAt, "ago") : el("span", { class: "muted", text: "none" })) },
    ],
  }, {
    noun: "promise", nothing: "No promise is stored yet.",
    filtered: () => query.size > 0,
    page: async (paging, stop) => { const found = await api.promises.find({ prefix: query.get("prefix"), tag: query.get("tag"), state: query.get("state"), ...paging }, stop); return { rows: found.promises, ...(found.cursor && { cursor: found.cursor }) }; },
    touched: (changes) => (changes.promises.size || changes.executions.size ? [] : null),
  }, signal);
  main.append(el("div", { class: "head" }, el("h1", { text: "Promises" })), el("div", { class: "filters" }, prefix, tags, state), pages.element);
  await pages.reload();
}
