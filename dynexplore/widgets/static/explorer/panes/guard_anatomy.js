// @ts-check
/**
 * Guard anatomy: every guard of the entries of the function on show, with the instruction that asked for it, and what it says
 * to a call: to one that was recorded, or to the input of the what-if pane.
 *
 * In:  `data.anatomy`, made by views/anatomy.py; the event of the what-if pane.
 */

import { make, makeTable, note, plainRow, scrollable } from "../dom.js";
import { Rows } from "../rows.js";
import { VERDICTS } from "./what_if.js";

/**
 * @typedef {{entry: number, frame: number, function: string, asked: string[]}} Entry
 * @typedef {{label: string, frame: number, tried: Record<string, number>, found: Record<string, [string, string]>}} TriedCall
 * @typedef {[string, string]} Said  a verdict, and what was found
 */

const NOBODY = "no call: what the guards are";
const WHAT_IF = "the input of the what-if pane";
const ANATOMY = ["#", "says", "source", "kind", "expected", "found", "asked for by", "why", "check"];

/** @type {import("../types.js").Pane} */
export const guardAnatomyPane = {
  key: "anatomy",
  title: "Guard anatomy",
  span: 7,
  wanted: (data) => data.anatomy.entries.length > 0,
  build(explorer, { body }) {
    const rows = new Rows();
    const shown = make("div");
    const select = /** @type {HTMLSelectElement} */ (make("select"));
    select.setAttribute("aria-label", "what the guards say to");
    body.append(make("p", "", "What they say to ", select), shown);
    /** @type {import("./what_if.js").EntryVerdict[]} */
    let predicted = [];
    const { entries, calls } = explorer.data.anatomy;
    const fill = () => {
      rows.clear();
      const { frame } = explorer;
      const own = entries.filter((/** @type {Entry} */ e) => explorer.data.frames.find((f) => f.id === e.frame)?.name === frame.name);
      const tables = own.map((/** @type {Entry} */ entry) => {
        const guards = explorer.data.frames.find((f) => f.id === entry.frame)?.guards ?? [];
        const said = saidTo(select.value, entry, guards.map((guard) => guard.cells[2]), calls, predicted);
        return entryTable(explorer, rows, entry, guards, said);
      });
      shown.replaceChildren(...(tables.length ? tables : [note("this function has no cache entry")]));
    };
    const offer = () => {
      const before = select.value;
      const own = calls.filter((/** @type {TriedCall} */ call) => call.label.includes(` ${explorer.frame.name} (`));
      const options = [NOBODY, ...(predicted.length ? [WHAT_IF] : []), ...own.map((/** @type {TriedCall} */ call) => call.label)];
      select.replaceChildren(...options.map((option) => new Option(option, option, false, option === before)));
    };
    select.addEventListener("change", fill);
    explorer.root.addEventListener(VERDICTS, (event) => {
      predicted = /** @type {CustomEvent} */ (event).detail;
      offer();
      select.value = predicted.length ? WHAT_IF : NOBODY;
      fill();
    });
    return {
      lists: [rows],
      showFrame() {
        offer();
        fill();
      },
    };
  },
};

/**
 * What each guard of an entry says, by its index.
 * @param {string} whom @param {Entry} entry @param {string[]} kinds of its guards @param {TriedCall[]} calls @param {import("./what_if.js").EntryVerdict[]} predicted
 * @returns {Map<number, Said> | null}
 */
function saidTo(whom, entry, kinds, calls, predicted) {
  if (whom === WHAT_IF) {
    const found = predicted.find((each) => each.entry === entry.entry);
    if (!found) return null;
    return new Map(found.guards.map((g) => [g.index, [g.verdict, g.alone === "fail" ? g.actual : ""]]));
  }
  const call = calls.find((each) => each.label === whom);
  const failed = call?.tried[entry.entry];
  if (!call || failed === undefined) return null;
  const actual = call.found[entry.entry]?.[1] ?? "";
  // the state of modules is checked before all other guards, whatever their place in the list
  const order = [...kinds.keys()].sort((a, b) => Number(kinds[b] === "MODULE_STATE") - Number(kinds[a] === "MODULE_STATE"));
  const last = order.indexOf(failed);
  return new Map(
    order.map((index, at) => {
      if (at === last) return [index, ["fail", actual]];
      return [index, [last < 0 || at < last ? "pass" : "not reached", ""]];
    }),
  );
}

/**
 * @param {import("../page.js").Explorer} explorer @param {Rows} rows @param {Entry} entry
 * @param {import("../types.js").Guard[]} guards @param {Map<number, Said> | null} said
 */
function entryTable(explorer, rows, entry, guards, said) {
  const { table, body } = makeTable(`Guards of entry ${entry.entry}`, ANATOMY);
  guards.forEach((guard, at) => {
    const [index, source, kind, expected, check, why] = guard.cells;
    const [verdict, found] = said?.get(at) ?? ["", ""];
    const cells = [index, verdict, source, kind, expected, found, entry.asked[at] ?? "", why, check];
    const row = entry.frame === explorer.frame.id ? rows.row(guard.key, cells) : plainRow(...cells);
    if (found) row.title = `expected ${expected}, found ${found}`;
    if (verdict) row.classList.add(`dynx-said-${verdict.replace(" ", "-")}`);
    body.append(row);
  });
  const fails = [...(said?.values() ?? [])].some(([verdict]) => verdict === "fail");
  const fits = said ? (fails ? ": does not fit" : ": fits") : "";
  const title = make("h4", "", `entry ${entry.entry}, compiled as frame ${entry.frame}${fits}`);
  return make("div", "", "", title, scrollable(table));
}
