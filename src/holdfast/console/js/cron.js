/** A cron expression in words. What it cannot say well, it says field by field. */

const DAYS = ["Sunday", "Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday"];
const MONTHS = ["January", "February", "March", "April", "May", "June", "July", "August", "September", "October", "November", "December"];
const SHORT_DAYS = ["sun", "mon", "tue", "wed", "thu", "fri", "sat"];
const SHORT_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];
/** @type {Record<string, string>} */
const NAMED = { "@yearly": "every year, on January 1 at 00:00", "@annually": "every year, on January 1 at 00:00", "@monthly": "every month, on day 1 at 00:00", "@weekly": "every Sunday at 00:00", "@daily": "every day at 00:00", "@midnight": "every day at 00:00", "@hourly": "every hour" };

/** @param {string} cron @returns {string} */
export function cronWords(cron) {
  const text = cron.trim().toLowerCase();
  if (NAMED[text]) return NAMED[text];
  const every = /^@every (.+)$/.exec(text);
  if (every?.[1]) return `every ${spelled(every[1])}`;
  const fields = text.split(/\s+/);
  if (fields.length === 6) return `${cronWords(fields.slice(1).join(" "))}, at second ${part(fields[0] ?? "*", "second")}`;
  if (fields.length !== 5) return "";
  const [minute = "*", hour = "*", day = "*", month = "*", weekday = "*"] = fields;
  return [time(minute, hour), days(day, weekday), month === "*" ? "" : `in ${names(month, MONTHS, SHORT_MONTHS, 1)}`].filter(Boolean).join(", ");
}

/** @param {string} text "90s" */
function spelled(text) {
  const seconds = /^(\d+)s$/.exec(text);
  if (!seconds) return text;
  const number = Number(seconds[1]);
  for (const [size, word] of /** @type {const} */ ([[86_400, "day"], [3_600, "hour"], [60, "minute"]])) {
    if (number % size === 0) return number === size ? word : `${number / size} ${word}s`;
  }
  return number === 1 ? "second" : `${number} seconds`;
}

/** @param {string} minute @param {string} hour */
function time(minute, hour) {
  if (minute === "*" && hour === "*") return "every minute";
  const step = /^\*\/(\d+)$/.exec(minute);
  if (step && hour === "*") return `every ${step[1]} minutes`;
  if (/^\d+$/.test(minute) && hour === "*") return `every hour, at minute ${minute}`;
  const hours = /^\*\/(\d+)$/.exec(hour);
  if (/^\d+$/.test(minute) && hours) return `every ${hours[1]} hours, at minute ${minute}`;
  if (/^\d+$/.test(minute) && /^[\d,]+$/.test(hour)) return `at ${hour.split(",").map((each) => `${each.padStart(2, "0")}:${minute.padStart(2, "0")}`).join(" and ")}`;
  return `at ${part(minute, "minute")} of ${part(hour, "hour")}`;
}

/** @param {string} day @param {string} weekday */
function days(day, weekday) {
  if (day === "*" && weekday === "*") return "";
  if (weekday === "1-5" || weekday === "mon-fri") return "on weekdays";
  const said = [];
  if (day !== "*") said.push(`on ${day === "l" ? "the last day" : part(day, "day")} of the month`);
  if (weekday !== "*") said.push(`on ${names(weekday, DAYS, SHORT_DAYS, 0)}`);
  return said.join(" or ");
}

/** @param {string} field @param {string} noun */
function part(field, noun) {
  if (field === "*") return `every ${noun}`;
  const step = /^\*\/(\d+)$/.exec(field);
  if (step) return `every ${step[1]} ${noun}s`;
  return `${noun} ${field.replaceAll(",", ", ").replaceAll("-", " to ")}`;
}

/** @param {string} field @param {string[]} full @param {string[]} short @param {number} first */
function names(field, full, short, first) {
  return field.split(",").map((each) => each.split("-").map((name) => full[short.indexOf(name)] ?? full[(Number(name) - first) % full.length] ?? name).join(" to ")).join(", ");
}
