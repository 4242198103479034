/**
 * Which view is shown, by the part of the URL behind `#`: `#/executions?status=failed`. Filters live there, so
 * a link shows the same to somebody else, and "back" goes back.
 */

/** @typedef {{path: string[], query: URLSearchParams}} Place */

/** @returns {Place} */
export function place() {
  const [path = "", query = ""] = location.hash.replace(/^#\/?/, "").split("?", 2);
  return { path: path.split("/").filter(Boolean).map(decode), query: new URLSearchParams(query) };
}

const ONE = /** @type {Record<string, string>} */ ({ executions: "execution", tasks: "task", queues: "queue", schedules: "schedule", promises: "promise" });

/** The name of the view that the URL names. */
export function viewOf() {
  const [first = "overview", ...rest] = place().path;
  return (rest.length && ONE[first]) || first;
}

/** @param {string} part */
function decode(part) {
  try { return decodeURIComponent(part); } catch { return part; }
}

/**
 * @param {string[]} path
 * @param {Record<string, string | string[] | undefined> | URLSearchParams} [query]
 */
export function link(path, query = {}) {
  const search = query instanceof URLSearchParams ? query : new URLSearchParams();
  if (!(query instanceof URLSearchParams)) {
    for (const [name, value] of Object.entries(query)) {
      for (const each of Array.isArray(value) ? value : [value]) if (each) search.append(name, each);
    }
  }
  const text = search.toString();
  return `#/${path.map(encodeURIComponent).join("/")}${text ? `?${text}` : ""}`;
}

/** @param {string} to */
export function go(to) { location.hash = to; }

/** Change what is behind the `?` without a new entry in the history. @param {URLSearchParams} query */
export function amend(query) {
  history.replaceState(null, "", link(place().path, query));
  dispatchEvent(new Event("amended"));
}
