// @ts-check
/**
 * Bytecode, before and after: the instructions of the function at hand with their canonical opcodes, and what the frame
 * was rewritten to, each instruction with its role and the original offset behind it.
 */

import { note } from "../dom.js";
import { longTable } from "../long.js";

/**
 * @typedef {import("../types.js").Row} Row
 * @typedef {import("../page.js").Explorer} Explorer
 */

/** The header of code that was emitted. */
export const EMITTED = ["offset", "opcode", "argument", "role", "from"];

/** @param {Row} row @returns {string[]} its cells under EMITTED */
export function emittedCells(row) {
  return [String(row.offset), row.op, row.arg ?? "", row.role ?? "", (row.origin ?? -1) >= 0 ? String(row.origin) : ""];
}

/** @type {import("../types.js").Pane} */
export const originalPane = {
  key: "original",
  title: "Original bytecode",
  span: 4,
  build(explorer, { body }) {
    /** @type {Map<number, import("../long.js").LongList>} */
    const made = new Map();
    /** @type {import("../types.js").View} */
    const view = {
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

/** @param {Explorer} explorer @param {number} id @param {HTMLElement} body */
function listing(explorer, id, body) {
  let line = 0;
  const rows = explorer.data.codes[id].rows.map((row) => {
    const number = row.line && row.line !== line ? String(row.line) : "";
    line = row.line || line;
    const steps = row.steps ?? [[row.op, row.arg ?? ""]];
    const same = steps.length === 1 && steps[0][0] === row.op;
    const canonical = same ? "=" : steps.map(([op, arg]) => `${op} ${arg}`.trim()).join("; ") || "-";
    return {
      key: `instruction:${id}:${row.offset}`,
      cells: [number, `${row.mark ? "»" : ""}${row.offset}`, row.op, row.arg ?? "", canonical],
      title: steps.map(([op]) => explorer.help(op)).filter(Boolean).join("\n"),
    };
  });
  return longTable(body, "Original bytecode", ["line", "offset", "opcode", "argument", "canonical"], rows);
}

/** @type {import("../types.js").Pane} */
export const modifiedPane = {
  key: "modified",
  title: "Modified bytecode",
  span: 4,
  build(_explorer, { body }) {
    /** @type {import("../types.js").View} */
    const view = {
      showFrame({ id, modified }) {
        view.lists = [];
        body.replaceChildren();
        if (!modified) {
          body.append(note("the frame was not compiled"));
          return;
        }
        const rows = modified.map((row) => ({ key: `modified:${id}:${row.offset}`, cells: emittedCells(row) }));
        const list = longTable(body, "Modified bytecode", EMITTED, rows);
        view.lists = [list];
        body.append(list.element);
      },
    };
    return view;
  },
};
