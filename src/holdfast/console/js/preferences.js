/**
 * What the reader chose, kept in this browser: colours and time zone. No cookies, nothing about the data.
 */

const KEY = "holdfast-console";

/** @typedef {{theme: "system" | "light" | "dark", utc: boolean}} Preferences */

/** @returns {Preferences} */
function read() {
  try {
    const found = JSON.parse(localStorage.getItem(KEY) ?? "{}");
    return { theme: ["light", "dark"].includes(found.theme) ? found.theme : "system", utc: found.utc === true };
  } catch {
    return { theme: "system", utc: false };
  }
}

export const preferences = read();

const dark = matchMedia("(prefers-color-scheme: dark)");

export function applyTheme() {
  const isDark = preferences.theme === "dark" || (preferences.theme === "system" && dark.matches);
  document.documentElement.dataset.theme = isDark ? "dark" : "light";
}
dark.addEventListener("change", applyTheme);

/** @param {Partial<Preferences>} change */
export function prefer(change) {
  Object.assign(preferences, change);
  try {
    localStorage.setItem(KEY, JSON.stringify(preferences));
  } catch {
    // A browser that keeps nothing: the choice holds until the page is left.
  }
  applyTheme();
  dispatchEvent(new Event("preferences"));
}
