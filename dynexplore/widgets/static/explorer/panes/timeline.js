// @ts-check
/**
 * The recompile timeline: calls against cache entries. Each row is a frame of a call, each column an entry; a miss can be
 * chosen, and then says which guard failed and what the new capture has that the old one had not.
 *
 * In:  `data.timeline`, made by views/cache_timeline.py.
 */

import { CALL_COLUMNS } from "../columns.js";
import { differenceTables } from "../difference.js";
import { make, makeButton, makeCell, makeTable, note, plainRow, plural } from "../dom.js";
import { runsOf } from "../strip.js";

/**
 * @typedef {import("../types.js").CalledFrame} CalledFrame
 * @typedef {import("../types.js").Call} Call
 * @typedef {import("../page.js").Explorer} Explorer
 */

/** @type {import("../types.js").Pane} */
export const timelinePane = {
  key: "timeline",
  title: "Calls and cache entries",
  build(explorer, { body }) {
    let isBuilt = false;
    return {
      showFrame() {
        if (!isBuilt) body.append(...tableOf(explorer));
        isBuilt = true; // it is the same for all frames; what is never looked at is not built
      },
    };
  },
};

/** The sentences, the table and the place for what a miss was. @param {Explorer} explorer @returns {HTMLElement[]} */
function tableOf(explorer) {
  const { calls, entries } = explorer.data.timeline;
  const detail = make("div", "dynx-detail");
  detail.setAttribute("aria-live", "polite");
  const marked = entries.length > MANY ? ["entry"] : entries.map(({ entry }) => `entry ${entry}`);
  const { table, body } = makeTable("Calls and cache entries", [...CALL_COLUMNS, ...marked]);
  for (const { first, last, frames } of runsOf(calls)) {
    const text = first === last ? callText(first) : `${first.number} to ${last.number}`;
    runsIn(frames).forEach(([frame, count], at) => {
      body.append(calledRow(explorer, at ? "" : text, frame, entries, detail, count));
    });
    if (!frames.length) body.append(plainRow(text, "nothing was captured"));
  }
  const again = calls.flatMap(({ frames }) => frames).find((frame) => frame.outcome === "recompile");
  if (again) showMiss(explorer, again, Object.keys(again.missed).at(-1) ?? "", detail);
  return [...wordsOf(explorer, calls, detail), calls.length ? table : note("no call was recorded"), detail];
}

/** With more entries than this one column says which was hit, made or missed; else each has a column. */
const MANY = 6;

/** With more recompiles than this the first are told in words. */
const MOST_WORDS = 50;

/**
 * One sentence for each recompile, a link to the two captures side by side.
 * @param {Explorer} explorer @param {Call[]} calls @param {HTMLElement} detail
 */
function wordsOf(explorer, calls, detail) {
  const again = calls.flatMap((call) => call.frames.filter(({ outcome }) => outcome === "recompile").map((frame) => ({ call, frame })));
  const told = again.slice(0, MOST_WORDS).map(({ call, frame }) => {
    const [entry = "", words = frame.reason] = Object.entries(frame.words).at(-1) ?? []; // the latest takes most kinds of calls
    const name = explorer.data.frames.find(({ id }) => id === frame.frame)?.title ?? frame.function;
    const text = `call ${call.number}: ${name} recompiled: ${words}`;
    return make("p", "", "", entry ? makeButton(text, () => showMiss(explorer, frame, entry, detail), { name: "dynx-frame" }) : make("span", "", text));
  });
  return again.length > MOST_WORDS ? [...told, note(`${again.length - MOST_WORDS} more are in the table`)] : told;
}

/** More hits than this after each other are one row for each entry that they found, with their number. */
const MANY_HITS = 8;

/** Frames, equal hits of a run once, with their number. @param {CalledFrame[]} frames @returns {[CalledFrame, number][]} */
function runsIn(frames) {
  /** @type {CalledFrame[][]} */
  const runs = [];
  const isHit = (/** @type {CalledFrame} */ frame) => frame.outcome === "hit" && !Object.keys(frame.missed).length;
  for (const frame of frames) {
    const before = runs.at(-1);
    if (before && isHit(before[0]) && isHit(frame)) before.push(frame);
    else runs.push([frame]);
  }
  return runs.flatMap((run) => (run.length > MANY_HITS ? counted(run) : neighbours(run)));
}

/** Of many hits each entry once. @param {CalledFrame[]} run @returns {[CalledFrame, number][]} */
function counted(run) {
  /** @type {Map<number, [CalledFrame, number]>} */
  const counts = new Map();
  for (const frame of run) counts.set(frame.entry, [counts.get(frame.entry)?.[0] ?? frame, (counts.get(frame.entry)?.[1] ?? 0) + 1]);
  return [...counts.values()];
}

/** Of few hits those next to each other. @param {CalledFrame[]} run @returns {[CalledFrame, number][]} */
function neighbours(run) {
  /** @type {[CalledFrame, number][]} */
  const rows = [];
  for (const frame of run) {
    const before = rows.at(-1);
    if (before && before[0].outcome === "hit" && before[0].entry === frame.entry) before[1] += 1;
    else rows.push([frame, 1]);
  }
  return rows;
}

/** @param {Call} call */
function callText(call) {
  return `${call.number}${call.arguments ? `: ${call.arguments}` : ""}${call.error ? ` raised ${call.error}` : ""}`;
}

/**
 * @param {Explorer} explorer @param {string} call @param {CalledFrame} frame @param {{entry: number}[]} entries
 * @param {HTMLElement} detail @param {number} count of equal ones
 */
function calledRow(explorer, call, frame, entries, detail, count) {
  const shown = explorer.data.frames.find((each) => each.id === frame.frame);
  const go = () => shown && explorer.show(shown, explorer.states(shown).first);
  const name = shown && explorer.isWrapper(shown) ? shown.title : frame.function;
  const functionCell = shown ? make("td", "dynx-wrapped", "", makeButton(name, go, { name: "dynx-frame" })) : makeCell(frame.function);
  const marks = entries.filter(({ entry }) => String(entry) in frame.missed || entry === frame.entry);
  const each = (/** @type {{entry: number}} */ { entry }) => markOf(explorer, frame, String(entry), detail);
  const cells = entries.length > MANY
    ? [make("td", "", "", ...marks.flatMap((one, at) => [...(at ? [document.createTextNode(", ")] : []), ...each(one), document.createTextNode(` ${one.entry}`)]))]
    : entries.map((one) => make("td", "", "", ...each(one)));
  const row = make("tr", "", "", makeCell(call), functionCell, make("td", `dynx-outcome-${frame.outcome[0]}`, count > 1 ? `${plural(count, frame.outcome)}` : frame.outcome), ...cells);
  if (frame.reason) row.title = frame.reason;
  return row;
}

/** @param {Explorer} explorer @param {CalledFrame} frame @param {string} entry @param {HTMLElement} detail @returns {(Node | string)[] & Node[]} */
function markOf(explorer, frame, entry, detail) {
  if (frame.missed[entry]) {
    const label = `miss: frame ${frame.frame} did not fit entry ${entry}: ${frame.missed[entry]}`;
    return [makeButton("✕ miss", () => showMiss(explorer, frame, entry, detail), { name: "dynx-frame", label })];
  }
  if (String(frame.entry) !== entry) return [];
  return [document.createTextNode(frame.outcome === "hit" ? "● hit" : "+ made")];
}

/** @param {Explorer} explorer @param {CalledFrame} frame @param {string} entry @param {HTMLElement} detail */
function showMiss(explorer, frame, entry, detail) {
  const miss = explorer.data.timeline.misses[frame.frame];
  const entryFrame = explorer.data.timeline.entries.find((one) => String(one.entry) === entry)?.frame;
  detail.replaceChildren(make("h4", "", `frame ${frame.frame}: why entry ${entry} did not fit`), make("pre", "", miss.reports[entry]));
  if (miss.difference && miss.with === entryFrame) {
    detail.append(differenceTables(miss.difference, `entry ${entry} (frame ${miss.with})`, `frame ${frame.frame}`));
  } else if (miss.difference) {
    detail.append(note(`The two captures are side by side under the entry that was tried first (frame ${miss.with}).`));
  }
}
