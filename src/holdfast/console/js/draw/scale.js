/**
 * From instants to places on the time axis of a drawing, with long gaps compressed.
 *
 * 1. A gap is a stretch in which no step performs: sleeps, waits for others, nobody at work.
 * 2. A gap longer than a share of all the work is drawn as long as that share. Within it, time still runs
 *    evenly, so a place always has exactly one instant, and the order of instants never changes.
 */

const GAP_SHARE = 0.12;
const GAP_MS_MIN = 1_000;

/** @typedef {{from: number, to: number}} Span */
/** @typedef {{from: number, to: number, at: number, until: number}} Break a gap that was compressed, and its place */

export class Scale {
  /**
   * @param {Span} whole
   * @param {Span[]} busy when something performs
   * @param {boolean} compress
   */
  constructor(whole, busy, compress) {
    const to = Math.max(whole.to, whole.from + 1);
    /** @type {number[]} */
    this.instants = [whole.from];
    /** @type {number[]} */
    this.places = [0];
    /** @type {Break[]} */
    this.breaks = [];
    const spans = merged(busy, whole.from, to);
    const work = spans.reduce((sum, each) => sum + each.to - each.from, 0);
    const gaps = gapsBetween(spans, whole.from, to);
    const idle = to - whole.from - work;
    const most = Math.max(work * GAP_SHARE, GAP_MS_MIN, work === 0 ? idle / Math.max(1, gaps.length) : 0);
    let place = 0;
    let at = whole.from;
    for (const gap of compress ? gaps : []) {
      if (gap.to - gap.from <= most * 1.5) continue;
      place += gap.from - at;
      this.instants.push(gap.from, gap.to);
      this.places.push(place, place + most);
      this.breaks.push({ ...gap, at: place, until: place + most });
      place += most;
      at = gap.to;
    }
    this.instants.push(to);
    this.places.push(place + to - at);
    this.length = place + to - at;
    for (const each of this.breaks) { each.at /= this.length; each.until /= this.length; }
    this.places = this.places.map((each) => each / this.length);
  }

  /** The place of an instant, 0 to 1. @param {number} instant */
  place(instant) { return interpolate(this.instants, this.places, instant); }

  /** The instant at a place. @param {number} place */
  instant(place) { return interpolate(this.places, this.instants, place); }
}

/** @param {number[]} xs @param {number[]} ys @param {number} x */
function interpolate(xs, ys, x) {
  let low = 0;
  let high = xs.length - 1;
  while (high - low > 1) {
    const middle = (low + high) >> 1;
    if (/** @type {number} */ (xs[middle]) <= x) low = middle;
    else high = middle;
  }
  const [x0, x1, y0, y1] = /** @type {[number, number, number, number]} */ ([xs[low], xs[high], ys[low], ys[high]]);
  const share = x1 > x0 ? (x - x0) / (x1 - x0) : 0;
  return y0 + Math.max(0, Math.min(1, share)) * (y1 - y0);
}

/** @param {Span[]} spans @param {number} from @param {number} to */
function merged(spans, from, to) {
  const sorted = spans.map((each) => ({ from: Math.max(from, each.from), to: Math.min(to, each.to) })).filter((each) => each.to >= each.from).sort((a, b) => a.from - b.from);
  /** @type {Span[]} */
  const found = [];
  for (const each of sorted) {
    const last = found.at(-1);
    if (last && each.from <= last.to) last.to = Math.max(last.to, each.to);
    else found.push({ ...each });
  }
  return found;
}

/** @param {Span[]} spans @param {number} from @param {number} to */
function gapsBetween(spans, from, to) {
  /** @type {Span[]} */
  const gaps = [];
  let at = from;
  for (const each of [...spans, { from: to, to }]) {
    if (each.from > at) gaps.push({ from: at, to: each.from });
    at = Math.max(at, each.to);
  }
  return gaps;
}

const STEPS_MS = [1, 2, 5, 10, 20, 50, 100, 200, 500, 1e3, 2e3, 5e3, 1e4, 15e3, 3e4, 6e4, 12e4, 3e5, 6e5, 9e5, 18e5, 36e5, 72e5, 216e5, 432e5, 864e5, 1728e5, 6048e5, 2592e6, 7776e6, 31536e6];

/** Instants at round distances, about `wanted` of them. @param {number} from @param {number} to @param {number} wanted */
export function ticks(from, to, wanted) {
  const step = STEPS_MS.find((each) => (to - from) / each <= wanted) ?? 31536e6 * Math.ceil((to - from) / 31536e6 / wanted);
  const found = [];
  for (let at = Math.ceil(from / step) * step; at <= to && found.length < 200; at += step) found.push(at);
  return { step, found };
}
