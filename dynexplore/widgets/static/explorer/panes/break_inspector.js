// @ts-check
/**
 * The graph-break inspector: one break at a time, with its reason, place and remedy, the stack and the live values there, what
 * each resume function receives, and its code beside the code that it continues.
 *
 * In:  `data.inspection`, made by views/break_inspection.py; the rows of resume functions stand with their frame.
 */

import { BREAK_LOCAL_COLUMNS, BREAK_STACK_COLUMNS, RECEIVED_COLUMNS, RESUME_COLUMNS, tableOf } from "../columns.js";
import { make, makeButton, note, scrollable } from "../dom.js";

/**
 * @typedef {import("../page.js").Explorer} Explorer
 * @typedef {import("../types.js").Frame} Frame
 * @typedef {import("../types.js").Inspected} Inspected
 */

/** @type {import("../types.js").Pane} */
export const breakInspectorPane = {
  key: "inspector",
  title: "Break inspector",
  wanted: (data) => Object.keys(data.inspection).length > 0,
  build(explorer, { body, heading }) {
    const shown = make("div");
    body.append(shown);
    let key = "";
    const show = (/** @type {string} */ wanted) => {
      if (wanted === key && shown.firstChild) return;
      key = wanted;
      const keys = explorer.frame.breaks.map((broke) => broke.key);
      const broke = explorer.data.inspection[key];
      heading.textContent = broke ? `Break inspector: ${broke.kind}` : "Break inspector";
      const others = keys.map((other, at) => makeButton(`break ${at + 1}`, () => explorer.choose(other), { name: "dynx-frame" }));
      others.forEach((button, at) => keys[at] === key && button.setAttribute("aria-current", "true"));
      const parts = broke ? inspected(explorer, broke) : [note("this frame has no graph break; choose another frame")];
      shown.replaceChildren(...(others.length > 1 ? [make("p", "", "", ...others)] : []), ...parts);
    };
    return {
      showFrame({ breaks }) {
        shown.replaceChildren();
        show(breaks.at(-1)?.key ?? "");
      },
      showState() {
        if (explorer.chosen in explorer.data.inspection) show(explorer.chosen);
      },
    };
  },
};

/** @param {Explorer} explorer @param {Inspected} broke @returns {HTMLElement[]} */
function inspected(explorer, broke) {
  const facts = make("dl", "dynx-terms");
  /** @type {(name: string, text: string) => void} */
  const tell = (name, text) => {
    if (text) facts.append(make("dt", "", name), make("dd", "", text));
  };
  tell("reason", broke.reason);
  tell("why", broke.why);
  tell("how to fix", broke.fix);
  tell("what happens next", broke.then);
  tell("kind", broke.fundamental ? "fundamental: it cannot be captured" : "not done yet: it could be captured");
  for (const { name, text } of broke.facts) tell(name, text);
  return [
    make("h4", "", `${broke.kind}: ${broke.title}`),
    ...broke.places.map(placeBlock),
    facts,
    valueTable("Symbolic stack at the break, top first", BREAK_STACK_COLUMNS, [...broke.stack].reverse()),
    valueTable("Live locals at the break", BREAK_LOCAL_COLUMNS, broke.locals),
    ...broke.resume.flatMap((made) => resumed(explorer, made)),
  ];
}

/** A line of the user's stack, with ^ under what it is about. @param {{place: string, code: string, from: number, to: number}} at */
function placeBlock({ place, code, from, to }) {
  const letters = [...code];
  const indent = letters.findIndex((letter) => letter.trim());
  const marks = to > from ? `\n    ${" ".repeat(Math.max(from - indent, 0))}${"^".repeat(Math.min(to, letters.length) - from)}` : "";
  return make("pre", "dynx-place", `${place}${code.trim() ? `\n    ${code.trim()}${marks}` : ""}`);
}

/** @param {string} label @param {typeof BREAK_STACK_COLUMNS} columns @param {import("../types.js").Named[]} rows */
function valueTable(label, columns, rows) {
  return make("div", "", "", make("h4", "", label), rows.length ? tableOf(label, columns, rows) : note("none"));
}

/** @param {Explorer} explorer @param {Inspected["resume"][number]} made @returns {HTMLElement[]} */
function resumed(explorer, made) {
  return [
    make("h4", "", `${made.name} continues at offset ${made.offset}`),
    scrollable(tableOf(`Arguments of ${made.name}`, RECEIVED_COLUMNS, made.received)),
    scrollable(tableOf(`${made.name} beside the original code`, RESUME_COLUMNS, besideRows(explorer, made))),
  ];
}

/** What stands before the place where it goes on is left out: only a jump back leads there. @param {Explorer} explorer @param {Inspected["resume"][number]} made */
function besideRows(explorer, made) {
  const rows = explorer.frame.resume.find((each) => each.name === made.name)?.rows ?? [];
  const originals = new Map((explorer.data.codes[made.code]?.rows ?? []).map((row) => [row.offset, row]));
  return rows
    .filter((row) => row.role !== "original" || (row.origin ?? -1) >= made.offset)
    .map((row) => ({ row, original: row.role === "original" ? originals.get(row.origin ?? -1) : undefined }));
}
