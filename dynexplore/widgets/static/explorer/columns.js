// @ts-check
/**
 * The columns of the explorer's tables: heading -> the text below it, read by name from what the row stands for.
 *
 * A table that is not built of texts alone (a mark that can be chosen, a badge) has its headings here, and its pane fills the
 * cells. tests/house/test_explorer_is_tested.py reads this file: every column has to be named by a test.
 */

import { makeTable, plainRow } from "./dom.js";

/**
 * @template T
 * @typedef {Record<string, (row: T) => string>} Columns
 */

/** @type {Columns<import("./types.js").GraphNode>} */
export const NODE_COLUMNS = {
  "opcode": ({ op }) => op,
  "name": ({ name }) => name,
  "target": ({ target }) => target,
  "args": ({ args }) => args,
  "kwargs": ({ kwargs }) => kwargs,
  "result": ({ result }) => result,
  "module": ({ module }) => module,
  "line": ({ line }) => (line ? String(line) : ""),
};

/** Of a graph that was split for DistributedDataParallel. @type {Columns<import("./types.js").GraphNode>} */
export const PIECE_COLUMNS = {
  ...NODE_COLUMNS,
  "piece": ({ piece }) => (piece ? String(piece) : ""),
};

/** @type {Columns<import("./types.js").Guard>} */
export const GUARD_COLUMNS = {
  "#": ({ index }) => String(index),
  "source": ({ source }) => source,
  "kind": ({ kind }) => kind,
  "expected": ({ expected }) => expected,
  "check": ({ check }) => check,
  "because": ({ reason }) => reason,
};

/**
 * A guard, with its verdict on a call and what it found there.
 * @type {Columns<{guard: import("./types.js").Guard, verdict: string, found: string, asked: string}>}
 */
export const ANATOMY_COLUMNS = {
  "#": ({ guard }) => String(guard.index),
  "verdict": ({ verdict }) => verdict,
  "source": ({ guard }) => guard.source,
  "checks": ({ guard }) => guard.checks,
  "expected": ({ guard }) => guard.expected,
  "found": ({ found }) => found,
  "used by": ({ asked }) => asked,
  "because": ({ guard }) => guard.reason,
  "check": ({ guard }) => guard.check,
};

/** @type {Columns<{number: string, row: import("./types.js").Row, canonical: string}>} */
export const ORIGINAL_COLUMNS = {
  "line": ({ number }) => number,
  "offset": ({ row }) => `${row.mark ? "»" : ""}${row.offset}`,
  "opcode": ({ row }) => row.op,
  "argument": ({ row }) => row.arg ?? "",
  "canonical": ({ canonical }) => canonical,
};

/** @type {Columns<import("./types.js").Row>} */
export const EMITTED_COLUMNS = {
  "offset": ({ offset }) => String(offset),
  "role": ({ role }) => role ?? "",
  "opcode": ({ op }) => op,
  "argument": ({ arg }) => arg ?? "",
  "from": ({ origin = -1 }) => (origin >= 0 ? String(origin) : ""),
};

/** @type {Columns<import("./types.js").Named>} */
export const BREAK_STACK_COLUMNS = {
  "slot": ({ name }) => name,
  "kind": ({ kind }) => kind,
  "value": ({ value }) => value,
};

/** @type {Columns<import("./types.js").Named>} */
export const BREAK_LOCAL_COLUMNS = {
  "local": ({ name }) => name,
  "kind": ({ kind }) => kind,
  "value": ({ value }) => value,
};

/** @type {Columns<{name: string, value: string}>} */
export const RECEIVED_COLUMNS = {
  "parameter": ({ name }) => name,
  "value in the first call": ({ value }) => value || "not called yet",
};

/** An instruction of a resume function, with the original one that it continues. @type {Columns<{original?: import("./types.js").Row, row: import("./types.js").Row}>} */
export const RESUME_COLUMNS = {
  "line": ({ original }) => String(original?.line ?? ""),
  "original offset": ({ original }) => String(original?.offset ?? ""),
  "original": ({ original }) => (original ? instruction(original) : ""),
  "offset": ({ row }) => String(row.offset),
  "resume function": ({ row }) => instruction(row),
  "role": ({ original, row }) => (original ? "unchanged" : (row.role ?? "")),
};

/** @type {Columns<{where: string, value: string}>} */
export const PLACE_COLUMNS = {
  "where": ({ where }) => where,
  "value": ({ value }) => value,
};

/** @type {Columns<string>} */
export const LIVE_STACK_COLUMNS = {
  "stack": (value) => value,
};

/** @type {Columns<{name: string, value: string}>} */
export const LIVE_LOCAL_COLUMNS = {
  "local": ({ name }) => name,
  "value": ({ value }) => value,
};

/** @type {Columns<{frame: number, of: string, name: string, value: string, range: string, first: string}>} */
export const OBSERVED_COLUMNS = {
  "frame": ({ frame }) => String(frame),
  "of": ({ of }) => of,
  "name": ({ name }) => name,
  "real value": ({ value }) => value,
  "range": ({ range }) => range,
  "first elements": ({ first }) => first,
};

/** @type {Columns<import("./types.js").Run>} */
export const RUN_COLUMNS = {
  "frame": ({ frame }) => String(frame),
  "graph": ({ graph }) => graph,
  "run": ({ run }) => String(run),
  "wall time": ({ time }) => time,
  "compared with the replay": ({ compared }) => compared,
};

/** @type {Columns<{key: string, does: string}>} */
export const KEY_COLUMNS = {
  "key": ({ key }) => key,
  "what it does": ({ does }) => does,
};

/** Headings of tables whose panes fill the cells. */
export const STATE_STACK_COLUMNS = ["±", "slot", "value", "real value"];
export const STATE_LOCAL_COLUMNS = ["±", "local", "value", "real value", "before"];
export const RAN_COLUMNS = ["when", "name", "real value"];
export const CALL_COLUMNS = ["call", "result", "why", "compile"];
export const PAIR_COLUMNS = ["function", "A: before", "compile", "B: after", "compile", "change"];
export const BESIDE_COLUMNS = ["", "line", "A: before", "line", "B: after"];

/**
 * The texts of a row, in the order of its columns.
 * @template T
 * @param {Columns<T>} columns
 * @param {T} row
 * @returns {string[]}
 */
export function cellsOf(columns, row) {
  return Object.values(columns).map((text) => text(row));
}

/**
 * A table of rows that cannot be chosen.
 * @template T
 * @param {string} label
 * @param {Columns<T>} columns
 * @param {T[]} rows
 * @returns {HTMLElement}
 */
export function tableOf(label, columns, rows) {
  const { table, body } = makeTable(label, Object.keys(columns));
  for (const row of rows) body.append(plainRow(...cellsOf(columns, row)));
  return table;
}

/** An instruction in words. @param {import("./types.js").Row} row */
function instruction({ op, arg = "" }) {
  return `${op} ${arg}`.trim();
}
