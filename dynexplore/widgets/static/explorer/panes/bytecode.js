// @ts-check
/**
 * Bytecode, before and after: the instructions of the function at hand with their canonical opcodes, and what the frame
 * was rewritten to, each instruction with its role and the original offset behind it. What left the code stands in the new listing
 * as a gap, with what became of it.
 */

import { EMITTED_COLUMNS, ORIGINAL_COLUMNS, cellsOf } from "../columns.js";
import { textTable } from "../copying.js";
import { make, note } from "../dom.js";
import { longTable } from "../long.js";
import { anchorIn, fateIn, paired } from "./aligned.js";

/**
 * @typedef {import("../types.js").Row} Row
 * @typedef {import("../types.js").Frame} Frame
 * @typedef {import("../page.js").Explorer} Explorer
 */

/** The headers of the original code, and of code that was emitted. */
const LISTED = Object.keys(ORIGINAL_COLUMNS);
const EMITTED = Object.keys(EMITTED_COLUMNS);

/** What stands beside what in a frame, once per frame. @type {WeakMap<Frame, [Row | null, Row | null][]>} */
const PAIRS = new WeakMap();

/** @param {Explorer} explorer @param {Frame} frame @returns {[Row | null, Row | null][]} */
function pairsOf({ data, links }, frame) {
  let pairs = PAIRS.get(frame);
  if (!pairs) {
    pairs = paired(data.codes[frame.code].rows, frame.modified ?? [], anchorIn(frame, links));
    PAIRS.set(frame, pairs);
  }
  return pairs;
}

/** Whether there is bytecode: a log of torch.compile has none. @param {import("../types.js").Data} data @returns {boolean} */
function hasBytecode(data) {
  const codes = Object.values(data.codes);
  return !codes.length || codes.some(({ rows }) => rows.length > 0);
}

/** @type {import("../types.js").Pane} */
export const originalPane = {
  key: "original",
  title: "Original bytecode",
  wanted: hasBytecode,
  build(explorer, { body }) {
    /** @type {Map<number, import("../long.js").LongList>} by code */
    const made = new Map();
    /** @type {import("../types.js").View} */
    const view = {
      copies: { "original bytecode": () => textTable(LISTED, listed(explorer, explorer.state.code ?? explorer.frame.code).map(({ cells }) => cells)) },
      showState(state) {
        const id = state.code ?? explorer.frame.code;
        const list = made.get(id) ?? listing(explorer, id, body);
        made.set(id, list);
        if (view.lists?.[0] === list) return;
        view.lists = [list];
        body.replaceChildren(list.element);
        list.draw();
      },
    };
    return view;
  },
};

/** The rows of a code object. @param {Explorer} explorer @param {number} id */
function listed(explorer, id) {
  let line = 0;
  return explorer.data.codes[id].rows.map((row) => {
    const number = row.line && row.line !== line ? String(row.line) : "";
    line = row.line || line;
    const steps = row.steps ?? [[row.op, row.arg ?? ""]];
    const same = steps.length === 1 && steps.every(([op]) => op === row.op);
    const canonical = same ? "=" : steps.map(([op, arg]) => `${op} ${arg}`.trim()).join("; ") || "-";
    return {
      key: `instruction:${id}:${row.offset}`,
      cells: cellsOf(ORIGINAL_COLUMNS, { number, row, canonical }),
      title: [`canonical: ${same ? row.op : canonical}`, ...steps.map(([op]) => explorer.help(op)).filter(Boolean)].join("\n"),
      dress: (/** @type {HTMLElement} */ made) => explorer.bands.dress(made, id, row.line),
    };
  });
}

/** @param {Explorer} explorer @param {number} id @param {HTMLElement} body */
function listing(explorer, id, body) {
  return longTable(body, "Original bytecode", LISTED, listed(explorer, id));
}

/** @type {import("../types.js").Pane} */
export const modifiedPane = {
  key: "modified",
  title: "Modified bytecode",
  wanted: hasBytecode,
  build(explorer, { body }) {
    /** @type {import("../types.js").View} */
    const view = {
      copies: { "modified bytecode": () => textTable(EMITTED, (explorer.frame.modified ?? []).map((row) => cellsOf(EMITTED_COLUMNS, row))) },
      showFrame(frame) {
        view.lists = [];
        body.replaceChildren();
        if (!frame.modified) {
          body.append(note("the frame was not compiled"));
          return;
        }
        const fate = fateIn(frame, explorer.links);
        const rows = pairsOf(explorer, frame).map(([before, row]) =>
          row ? emitted(explorer, frame, row) : { key: "", cells: EMITTED.map((name) => (name === "role" && before ? fate(before.offset) : "")) },
        );
        const list = longTable(body, "Modified bytecode", EMITTED, rows);
        view.lists = [list];
        body.append(list.element);
      },
    };
    return view;
  },
};

/** @param {Explorer} explorer @param {Frame} frame @param {Row} row */
function emitted(explorer, frame, row) {
  return {
    key: `modified:${frame.id}:${row.offset}`,
    cells: cellsOf(EMITTED_COLUMNS, row),
    title: [row.role, `${row.op} ${row.arg ?? ""}`.trim(), explorer.help(row.op)].filter(Boolean).join("\n"), // what is too narrow to be read
    dress: (/** @type {HTMLElement} */ made) => label(/** @type {HTMLElement} */ (made.children[EMITTED.indexOf("role")]), row.role ?? ""),
  };
}

/** A role as a label, in a colour and in words. @param {HTMLElement} cell @param {string} role */
function label(cell, role) {
  if (role) cell.replaceChildren(make("span", `dynx-role dynx-role-${role.replaceAll(" ", "-")}`, role));
}
