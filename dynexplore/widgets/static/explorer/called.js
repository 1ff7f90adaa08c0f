// @ts-check
/**
 * The calls of each function: which of its compiled versions each call found, and what that cost.
 *
 * In:  `data.timeline`, made by views/cache_timeline.py.
 * Out: `functionsOf(data)`, most seconds of recompiling first.
 */

import { withoutCode } from "./dom.js";

/**
 * @typedef {import("./types.js").CalledFrame} CalledFrame
 * @typedef {{frame: CalledFrame, first: number, last: number, seconds: number, call: number, given: string}} Called  calls `first` to `last` of a
 *   function, which went alike; `call` of the program, and the arguments `given` to it
 * @typedef {{name: string, versions: number[], rows: Called[], calls: number, hits: number, recompiles: number, seconds: number,
 *   lost: number}} CalledFunction  `versions` are cache entries, in the order in which they were made; `lost` are the seconds of recompiles
 */

/** More hits than this after each other are one row for each version that they found. */
const MANY_HITS = 3;

/** @param {import("./types.js").Data} data @returns {CalledFunction[]} */
export function functionsOf({ frames, timeline }) {
  const titles = new Map(frames.map(({ id, title }) => [id, title]));
  const made = new Map(timeline.entries.map(({ entry, frame }) => [entry, titles.get(frame)]));
  /** @type {Map<string, CalledFunction>} */
  const functions = new Map();
  for (const { number, arguments: given, frames: called } of timeline.calls) {
    for (const frame of called) {
      const name = titles.get(frame.frame) ?? made.get(frame.entry) ?? frame.function;
      const there = functions.get(name) ?? { name, versions: [], rows: [], calls: 0, hits: 0, recompiles: 0, seconds: 0, lost: 0 };
      functions.set(name, there);
      add(there, frame, timeline.seconds?.[frame.frame] ?? 0, number, given);
    }
  }
  const all = [...functions.values()];
  for (const one of all) one.rows = folded(one.rows);
  return all.sort((one, other) => other.lost - one.lost || other.recompiles - one.recompiles || other.seconds - one.seconds);
}

/** @param {CalledFunction} to @param {CalledFrame} frame @param {number} seconds @param {number} call @param {string} given */
function add(to, frame, seconds, call, given) {
  to.calls += 1;
  to.seconds += seconds;
  if (frame.outcome === "hit") to.hits += 1;
  if (frame.recompiled) {
    to.recompiles += 1;
    to.lost += seconds;
  }
  for (const entry of [...Object.keys(frame.missed).map(Number), frame.entry]) {
    if (entry > 0 && !to.versions.includes(entry)) to.versions.push(entry);
  }
  to.versions.sort((one, other) => one - other);
  to.rows.push({ frame, first: to.calls, last: to.calls, seconds, call, given });
}

/** Many hits after each other are one row for each version. @param {Called[]} rows @returns {Called[]} */
function folded(rows) {
  const isHit = (/** @type {Called | undefined} */ row) => row?.frame.outcome === "hit" && !Object.keys(row.frame.missed).length;
  /** @type {Called[][]} */
  const runs = [];
  for (const row of rows) {
    if (isHit(row) && isHit(runs.at(-1)?.[0])) runs.at(-1)?.push(row);
    else runs.push([row]);
  }
  return runs.flatMap((run) => {
    if (run.length <= MANY_HITS) return run;
    const entries = [...new Set(run.map(({ frame }) => frame.entry))];
    return entries.map((entry) => {
      const same = run.filter(({ frame }) => frame.entry === entry);
      return { ...same[0], last: same[same.length - 1].last };
    });
  });
}

/** Why a call went as it did, in words. @param {Called} called @param {CalledFunction} of @returns {string} */
export function whyOf({ frame, first, last }, { versions }) {
  const words = Object.values(frame.words).at(-1); // the latest version takes most kinds of calls
  if (frame.outcome === "hit") return `all guards of version ${versions.indexOf(frame.entry) + 1} hold${last > first ? ` in ${last - first + 1} calls` : ""}`;
  if (frame.outcome === "limit reached") return [words, `the limit of ${versions.length} versions is reached`].filter(Boolean).join("; ");
  if (words) return words;
  return frame.reason || (frame.outcome === "compile" ? (first === 1 ? "first call" : "no version was tried") : "");
}

/**
 * What a state of the frame on show is, in words: of a recompile the change that caused it, without names of guard kinds; no codes.
 * @param {import("./page.js").Explorer} explorer @param {import("./types.js").State} state @returns {string}
 */
export function saidOf({ data, frame }, { kind, text }) {
  if (kind !== "Recompiled") return withoutCode(text);
  const called = (data.timeline?.calls ?? []).flatMap(({ frames }) => frames).find((one) => one.frame === frame.id);
  const why = called && Object.values(called.words).at(-1);
  return why ? `recompiled because ${why.replaceAll("`", "")}` : "recompiled";
}
