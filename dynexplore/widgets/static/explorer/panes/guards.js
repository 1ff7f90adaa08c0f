// @ts-check
/**
 * The guards of a frame: what is checked before its compiled code runs, which instruction asked for it, and what each says to a
 * call: to one that was recorded, or to the input of the what-if pane.
 *
 * In:  the guards of frames, `data.anatomy`, made by views/anatomy.py; the event of the what-if pane.
 */

import { ANATOMY_COLUMNS, cellsOf } from "../columns.js";
import { textTable } from "../copying.js";
import { make, makeButton } from "../dom.js";
import { longTable } from "../long.js";
import { VERDICTS } from "./what_if.js";

/**
 * @typedef {import("../types.js").Entry} Entry
 * @typedef {import("../types.js").Guard} Guard
 * @typedef {import("../types.js").TriedCall} TriedCall
 * @typedef {import("../page.js").Explorer} Explorer
 * @typedef {{verdict: string, found: string}} Said  a verdict, and what was found
 */

const NOBODY = "no call";
const WHAT_IF = "the input of the what-if pane";

/** The header of the guards. */
const HEADER = Object.keys(ANATOMY_COLUMNS);

/** @type {import("../types.js").Pane} */
export const guardsPane = {
  key: "guards",
  title: "Guards",
  build(explorer, { body, heading }) {
    const { entries, calls } = explorer.data.anatomy;
    const select = /** @type {HTMLSelectElement} */ (make("select"));
    select.setAttribute("aria-label", "verdicts on");
    const about = make("span", "dynx-facts");
    const bar = make("p", "dynx-verdicts-on", "", make("label", "", "Verdicts on ", select), about);
    /** @type {import("./what_if.js").EntryVerdict[]} */
    let predicted = [];
    const rowsOf = () => {
      const { frame } = explorer;
      const entry = entries.find((one) => one.frame === frame.id);
      const said = entry ? saidTo(select.value, entry, frame.guards.map(({ kind }) => kind), calls, predicted) : null;
      about.replaceChildren(...(entry ? aboutEntry(explorer, entry, said) : []));
      return frame.guards.map((guard, at) => guardRow(guard, said?.get(at), entry?.asked[at] ?? ""));
    };
    /** @type {import("../types.js").View} */
    const view = {
      copies: {
        "guard": () => {
          const rows = rowsOf();
          const chosen = rows.filter(({ key }) => key === explorer.chosen);
          return textTable(HEADER, (chosen.length ? chosen : rows).map(({ cells }) => cells));
        },
      },
      showFrame({ guards }) {
        offer();
        fill();
        heading.textContent = `Guards (${guards.length})`;
      },
    };
    const fill = () => {
      const list = longTable(body, "Guards", HEADER, rowsOf());
      view.lists = [list];
      body.replaceChildren(...(entries.length ? [bar] : []), list.element);
    };
    const offer = () => {
      const before = select.value;
      const own = calls.filter(({ label }) => label.includes(` ${explorer.frame.name} (`));
      const options = [NOBODY, ...(predicted.length ? [WHAT_IF] : []), ...own.map(({ label }) => label)];
      select.replaceChildren(...options.map((option) => new Option(option, option, false, option === before)));
    };
    select.addEventListener("change", () => {
      fill();
      explorer.paint();
    });
    explorer.root.addEventListener(VERDICTS, (event) => {
      predicted = /** @type {CustomEvent} */ (event).detail;
      offer();
      select.value = predicted.length ? WHAT_IF : NOBODY;
      if (explorer.frame) fill();
    });
    return view;
  },
};

/** @param {Guard} guard @param {Said | undefined} said @param {string} asked */
function guardRow(guard, said, asked) {
  const { verdict = "", found = "" } = said ?? {};
  const sentence = [guard.kind, found ? `expected ${guard.expected}, found ${found}` : guard.check, guard.reason, asked && `used by ${asked}`].filter(Boolean).join("\n");
  return {
    key: guard.key,
    cells: cellsOf(ANATOMY_COLUMNS, { guard, verdict, found, asked }),
    title: sentence,
    dress: (/** @type {HTMLElement} */ row) => verdict && row.classList.add(`dynx-said-${verdict.replace(" ", "-")}`),
  };
}

/**
 * Which entry these guards are of, whether it fits, and the ways to the other entries of the function.
 * @param {Explorer} explorer @param {Entry} entry @param {Map<number, Said> | null} said
 */
function aboutEntry(explorer, entry, said) {
  const { data, frame } = explorer;
  const fails = [...(said?.values() ?? [])].some(({ verdict }) => verdict === "fail");
  const fits = said ? (fails ? ": a guard fails" : ": all guards pass") : "";
  const name = (/** @type {number} */ id) => data.frames.find((one) => one.id === id)?.name;
  const others = data.anatomy.entries.filter((one) => one !== entry && name(one.frame) === frame.name);
  const buttons = others.map((one) => {
    const there = data.frames.find(({ id }) => id === one.frame);
    return makeButton(`entry ${one.entry}`, () => there && explorer.show(there, explorer.states(there).first), { name: "dynx-frame" });
  });
  const price = make("span", "dynx-guard-price", entry.price ? ` One check takes ${[entry.price, ...(entry.parts ?? [])].join("; ")}. ` : "");
  return [make("span", "", ` entry ${entry.entry}, compiled as frame ${entry.frame}${fits} `), price, ...buttons];
}

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
