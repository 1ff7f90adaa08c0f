// @ts-check
/**
 * Two lists aligned: what stands on both sides in the same order is one row, what only one side has stands beside a gap.
 */

/**
 * @template T
 * @typedef {{sign: string, before: T | null, after: T | null}} Aligned  `sign` is "=" (equal), "~" (changed), "-" (only before), "+" (only after)
 */

/** Longer lists than this are aligned at their ends only. */
const LONGEST = 2_000;

/**
 * @template T
 * @param {T[]} before
 * @param {T[]} after
 * @param {(item: T) => string} key  equal keys may stand beside each other
 * @param {(item: T) => string} text  and are equal where this is
 * @returns {Aligned<T>[]}
 */
export function aligned(before, after, key, text) {
  const [left, right] = [before.map(key), after.map(key)];
  let start = 0;
  while (start < left.length && start < right.length && left[start] === right[start]) start += 1;
  let [end, other] = [left.length, right.length];
  while (end > start && other > start && left[end - 1] === right[other - 1]) [end, other] = [end - 1, other - 1];
  const both = (/** @type {T} */ one, /** @type {T} */ two) => ({ sign: text(one) === text(two) ? "=" : "~", before: one, after: two });
  /** @type {Aligned<T>[]} */
  const rows = before.slice(0, start).map((one, at) => both(one, after[at]));
  rows.push(...between(before.slice(start, end), after.slice(start, other), key, both));
  rows.push(...before.slice(end).map((one, at) => both(one, after[other + at])));
  return rows;
}

/**
 * @template T
 * @param {T[]} before @param {T[]} after @param {(item: T) => string} key @param {(one: T, two: T) => Aligned<T>} both
 * @returns {Aligned<T>[]}
 */
function between(before, after, key, both) {
  const [left, right] = [before.map(key), after.map(key)];
  const isLong = left.length > LONGEST || right.length > LONGEST;
  const width = right.length + 1;
  const most = new Uint16Array(isLong ? 0 : (left.length + 1) * width); // of what begins there: the most rows in common
  for (let at = left.length - 1; at >= 0 && !isLong; at -= 1) {
    for (let to = right.length - 1; to >= 0; to -= 1) {
      const next = (at + 1) * width + to;
      most[at * width + to] = left[at] === right[to] ? most[next + 1] + 1 : Math.max(most[next], most[at * width + to + 1]);
    }
  }
  /** @type {Aligned<T>[]} */
  const rows = [];
  let [at, to] = [0, 0];
  while (at < left.length || to < right.length) {
    if (at < left.length && to < right.length && left[at] === right[to] && !isLong) rows.push(both(before[at++], after[to++]));
    else if (to === right.length || (at < left.length && (isLong || most[(at + 1) * width + to] >= most[at * width + to + 1]))) rows.push({ sign: "-", before: before[at++], after: null });
    else rows.push({ sign: "+", before: null, after: after[to++] });
  }
  return rows;
}
