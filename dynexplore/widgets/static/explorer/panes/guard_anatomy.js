// @ts-check
/**
 * Guard anatomy: every guard of the entries of the function on show, with the instruction that asked for it, and what it says
 * to a call: to one that was recorded, or to the input of the what-if pane.
 *
 * In:  `data.anatomy`, made by views/anatomy.py; the event of the what-if pane.
 */

import { ANATOMY_COLUMNS, cellsOf } from "../columns.js";
import { make, makeTable, note, plainRow, scrollable } from "../dom.js";
import { Rows } from "../rows.js";
import { VERDICTS } from "./what_if.js";

/**
 * @typedef {import("../types.js").Entry} Entry
 * @typedef {import("../types.js").TriedCall} TriedCall
 * @typedef {{verdict: string, found: string}} Said  a verdict, and what was found
 */

const NOBODY = "no call";
const WHAT_IF = "the input of the what-if pane";

/** @type {import("../types.js").Pane} */
export const guardAnatomyPane = {
  key: "anatomy",
  title: "Guard anatomy",
  wanted: (data) => data.anatomy.entries.length > 0,
  build(explorer, { body }) {
    const rows = new Rows();
    const shown = make("div");
    const select = /** @type {HTMLSelectElement} */ (make("select"));
    select.setAttribute("aria-label", "verdicts on");
    body.append(make("p", "", "Verdicts on ", select), shown);
    /** @type {import("./what_if.js").EntryVerdict[]} */
    let predicted = [];
    const { entries, calls } = explorer.data.anatomy;
    const fill = () => {
      rows.clear();
      const { frame } = explorer;
      const own = entries.filter((/** @type {Entry} */ e) => explorer.data.frames.find((f) => f.id === e.frame)?.name === frame.name);
      const tables = own.map((/** @type {Entry} */ entry) => {
        const guards = explorer.data.frames.find((f) => f.id === entry.frame)?.guards ?? [];
        const said = saidTo(select.value, entry, guards.map((guard) => guard.kind), calls, predicted);
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
    const verdicts = predicted.find((each) => each.entry === entry.entry);
    if (!verdicts) return null;
    return new Map(verdicts.guards.map((g) => [g.index, { verdict: g.verdict, found: g.alone === "fail" ? g.actual : "" }]));
  }
  const call = calls.find((each) => each.label === whom);
  const failed = call?.tried[entry.entry];
  if (!call || failed === undefined) return null;
  const actual = call.found[entry.entry]?.actual ?? "";
  // the state of modules is checked before all other guards, whatever their place in the list
  const order = [...kinds.keys()].sort((a, b) => Number(kinds[b] === "MODULE_STATE") - Number(kinds[a] === "MODULE_STATE"));
  const last = order.indexOf(failed);
  return new Map(
    order.map((index, at) => {
      if (at === last) return [index, { verdict: "fail", found: actual }];
      return [index, { verdict: last < 0 || at < last ? "pass" : "not reached", found: "" }];
    }),
  );
}

/**
 * @param {import("../page.js").Explorer} explorer @param {Rows} rows @param {Entry} entry
 * @param {import("../types.js").Guard[]} guards @param {Map<number, Said> | null} said
 */
function entryTable(explorer, rows, entry, guards, said) {
  const { table, body } = makeTable(`Guards of entry ${entry.entry}`, Object.keys(ANATOMY_COLUMNS));
  guards.forEach((guard, at) => {
    const { verdict, found } = said?.get(at) ?? { verdict: "", found: "" };
    const cells = cellsOf(ANATOMY_COLUMNS, { guard, verdict, found, asked: entry.asked[at] ?? "" });
    const row = entry.frame === explorer.frame.id ? rows.row(guard.key, cells) : plainRow(...cells);
    if (found) row.title = `expected ${guard.expected}, found ${found}`;
    if (verdict) row.classList.add(`dynx-said-${verdict.replace(" ", "-")}`);
    body.append(row);
  });
  const fails = [...(said?.values() ?? [])].some(({ verdict }) => verdict === "fail");
  const fits = said ? (fails ? ": a guard fails" : ": all guards pass") : "";
  const title = make("h4", "", `entry ${entry.entry}, compiled as frame ${entry.frame}${fits}`);
  return make("div", "", "", title, scrollable(table));
}
