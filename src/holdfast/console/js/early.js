/**
 * Runs as soon as it is there, while the other modules are on their way: asks who looks, and fetches the modules of the
 * view that the URL names. The server writes into the page which views there are and which modules each needs.
 */
import { askSession } from "./api.js";
import { viewOf } from "./router.js";

askSession();
const view = viewOf();
const modules = document.querySelector(`meta[name="modules"][data-view="${CSS.escape(view)}"]`)?.getAttribute("content");
for (const path of modules?.split(" ").filter(Boolean) ?? []) {
  const link = document.createElement("link");
  link.rel = "modulepreload";
  link.href = new URL(path, new URL("..", import.meta.url)).href;
  document.head.append(link);
}
if (modules !== undefined) import(`./views/${view}.js`).catch(() => {}); // whoever shows it hears why
