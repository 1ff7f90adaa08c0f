// @ts-check
/**
 * The recompile timeline: calls against cache entries. Each row is a frame of a call, each column an entry; a miss can be
 * chosen, and then says which guard failed and what the new capture has that the old one had not.
 *
 * In:  `data.timeline`, made by views/cache_timeline.py.
 */

import { CALL_COLUMNS } from "../columns.js";
import { differenceTables } from "../difference.js";
import { make, makeButton, makeTable, note } from "../dom.js";

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
    const { calls, entries } = explorer.data.timeline;
    const detail = make("div", "dynx-detail");
    detail.setAttribute("aria-live", "polite");
    const header = [...CALL_COLUMNS, ...entries.map(({ entry }) => `entry ${entry}`)];
    const { table, body: rows } = makeTable("Calls and cache entries", header);
    for (const call of calls) {
      call.frames.forEach((frame, at) => {
        rows.append(calledRow(explorer, at ? "" : callText(call), frame, entries, detail));
      });
      if (!call.frames.length) rows.append(make("tr", "", "", make("td", "", callText(call)), make("td", "", "nothing was captured")));
    }
    body.append(calls.length ? table : note("no call was recorded"), detail);
    const first = calls.flatMap(({ frames }) => frames).find((frame) => frame.outcome === "recompile");
    if (first) showMiss(explorer, first, Object.keys(first.missed)[0], detail);
    return {};
  },
};

/** @param {Call} call */
function callText(call) {
  return `${call.number}${call.arguments ? `: ${call.arguments}` : ""}${call.error ? ` raised ${call.error}` : ""}`;
}

/** @param {Explorer} explorer @param {string} call @param {CalledFrame} frame @param {{entry: number}[]} entries @param {HTMLElement} detail */
function calledRow(explorer, call, frame, entries, detail) {
  const shown = explorer.data.frames.find((each) => each.id === frame.frame);
  const go = () => shown && explorer.show(shown, explorer.states(shown).first);
  const name = shown && explorer.isWrapper(shown) ? shown.title : frame.function;
  const functionCell = shown ? make("td", "", "", makeButton(name, go, { name: "dynx-frame" })) : make("td", "", frame.function);
  const cells = entries.map(({ entry }) => make("td", "", "", ...markOf(explorer, frame, String(entry), detail)));
  const row = make("tr", "", "", make("td", "", call), functionCell, make("td", `dynx-outcome-${frame.outcome[0]}`, frame.outcome), ...cells);
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
