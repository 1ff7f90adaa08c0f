// @ts-check
/**
 * Bytecode, before and after: the instructions of the function at hand with their canonical opcodes, and what the frame
 * was rewritten to, each instruction with its role and the original offset behind it. While the frame's own code is at
 * hand, the two are aligned and scroll together.
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
  build(explorer, { body, section }) {
    /** @type {Map<Frame | number, import("../long.js").LongList>} by frame where it is aligned, else by code */
    const made = new Map();
    /** @type {import("../types.js").View} */
    const view = {
      copies: { "original bytecode": () => textTable(LISTED, listed(explorer, explorer.state.code ?? explorer.frame.code).map(({ cells }) => cells)) },
      showState(state) {
        const { frame } = explorer;
        const id = state.code ?? frame.code;
        const isAligned = id === frame.code && frame.modified !== null;
        const list = made.get(isAligned ? frame : id) ?? listing(explorer, id, body, isAligned ? pairsOf(explorer, frame) : null);
        made.set(isAligned ? frame : id, list);
        if (view.lists?.[0] === list) return;
        view.lists = [list];
        section.dataset.aligned = String(isAligned);
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
    };
  });
}

/** @param {Explorer} explorer @param {number} id @param {HTMLElement} body @param {[Row | null, Row | null][] | null} pairs */
function listing(explorer, id, body, pairs) {
  const rows = listed(explorer, id);
  let at = 0;
  const shown = pairs ? pairs.map(([row]) => (row ? rows[at++] : { key: "", cells: LISTED.map(() => "") })) : rows;
  return longTable(body, "Original bytecode", LISTED, shown);
}

/** @type {import("../types.js").Pane} */
export const modifiedPane = {
  key: "modified",
  title: "Modified bytecode",
  wanted: hasBytecode,
  build(explorer, { body, section }) {
    const original = /** @type {HTMLElement} */ (explorer.tabs.panels.querySelector(".dynx-original .dynx-body"));
    scrollTogether(original, body);
    /** @type {import("../types.js").View} */
    const view = {
      copies: { "modified bytecode": () => textTable(EMITTED, (explorer.frame.modified ?? []).map((row) => cellsOf(EMITTED_COLUMNS, row))) },
      showFrame(frame) {
        view.lists = [];
        body.replaceChildren();
        section.dataset.aligned = String(frame.modified !== null);
        if (!frame.modified) {
          body.append(note("the frame was not compiled"));
          return;
        }
        const fate = fateIn(frame, explorer.links);
        const rows = pairsOf(explorer, frame).map(([before, row]) =>
          row ? emitted(explorer, frame, row) : { key: "", cells: EMITTED.map((name) => (name === "role" && before ? fate(before.offset) : "")) },
        );
        const list = longTable(body, "Modified bytecode", EMITTED, rows);
        list.follows = () => original.closest("section")?.dataset.aligned === "true"; // the instruction at hand is in view
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

/** What scrolls one of two aligned panes scrolls the other. @param {HTMLElement} one @param {HTMLElement} other */
function scrollTogether(one, other) {
  for (const [from, to] of [[one, other], [other, one]]) {
    from.addEventListener("scroll", () => {
      const isAligned = [one, other].every((body) => body.closest("section")?.dataset.aligned === "true");
      if (isAligned && Math.abs(to.scrollTop - from.scrollTop) > 1) to.scrollTop = from.scrollTop;
    }, { passive: true });
  }
}
