/** A status as text, icon and colour together; a tag; an id that leads somewhere. */
import { el } from "../dom.js";
import { icon } from "../icons.js";
import { link } from "../router.js";
import { brief, said, visible } from "../text.js";
import { STATUSES } from "../words.js";

/** @param {string} status @param {string} [word] */
export function chip(status, word) {
  const known = STATUSES[status] ?? { word: status, tone: "off", means: "" };
  return el("span", { class: `chip tone-${known.tone}`, title: known.means || null }, icon(status), el("span", { text: word ?? brief(known.word, 40) }));
}

/** @param {string} name @param {string} value @param {string} [href] */
export function tag(name, value, href) {
  const content = [el("bdi", { class: "name", text: brief(name, 60) }), el("bdi", { text: brief(value, 80) })];
  const title = visible(`${name}: ${value}`.slice(0, 1000));
  return href ? el("a", { class: "tag", href, title }, ...content) : el("span", { class: "tag", title }, ...content);
}

const OWN = /^(resonate|holdfast):/;

/** The tags that people gave, without the protocol's own. @param {Record<string, string>} tags */
export const givenTags = (tags) => Object.entries(tags ?? {}).filter(([name]) => !OWN.test(name));

/** @param {string} id @param {string} [view] */
export function idLink(id, view = "executions") {
  return el("a", { class: "id mono", href: link([view, id]), title: visible(id.slice(0, 1000)) }, said(id, { max: 120 }));
}
