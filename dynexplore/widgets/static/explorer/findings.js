// @ts-check
/**
 * What a search can find in frames that are not on show: the texts of their panes, each with the key that leads there.
 *
 * Texts of a code object stand here once, however many frames it has; all is made when the first search asks for it.
 */

import { GUARD_COLUMNS, NODE_COLUMNS, cellsOf } from "./columns.js";

/**
 * @typedef {import("./types.js").Frame} Frame
 * @typedef {{text: string, key: string, code: number}} Entry  a row: its text in small letters; -1 where it is of no code
 * @typedef {{frame: Frame, key: string, code: number}} Finding
 */

/** The texts of all frames. */
export class Findings {
  /** @param {import("./types.js").Data} data */
  constructor(data) {
    this.data = data;
    /** @type {Map<number, Entry[]>} */
    this.ofCode = new Map();
    /** @type {Map<Frame, {entries: Entry[], codes: number[]}>} */
    this.ofFrame = new Map();
  }

  /**
   * @param {Frame} frame
   * @param {string} wanted in small letters
   * @returns {Finding[]} the rows of the frame that hold it
   */
  find(frame, wanted) {
    let there = this.ofFrame.get(frame);
    if (!there) this.ofFrame.set(frame, (there = { entries: entriesOf(frame), codes: codesOf(frame) }));
    const lists = [...there.codes.map((id) => this.code(id)), there.entries];
    return lists.flatMap((entries) => entries.filter(({ text }) => text.includes(wanted)).map(({ key, code }) => ({ frame, key, code })));
  }

  /** @param {number} id @returns {Entry[]} */
  code(id) {
    let entries = this.ofCode.get(id);
    if (!entries) this.ofCode.set(id, (entries = entriesOfCode(id, this.data.codes[id])));
    return entries;
  }
}

/** The function of the frame itself and its callees. @param {Frame} frame @returns {number[]} */
function codesOf(frame) {
  return [...new Set([frame.code, ...frame.states.flatMap(({ code }) => (code === undefined ? [] : [code]))])].filter((id) => id >= 0);
}

/** @param {number} id @param {import("./types.js").Code} code @returns {Entry[]} */
function entriesOfCode(id, code) {
  /** @type {Map<number, string>} line -> an instruction of it */
  const onLine = new Map();
  for (const row of code.rows) if (row.line && !onLine.has(row.line)) onLine.set(row.line, `instruction:${id}:${row.offset}`);
  const lines = code.lines.map((text, at) => entry(onLine.get(code.first + at) ?? "", id, text));
  const rows = code.rows.map((row) => {
    const canonical = (row.steps ?? []).map((step) => step.join(" ")).join("; ");
    return entry(`instruction:${id}:${row.offset}`, id, `${row.offset} ${row.op} ${row.arg ?? ""} ${canonical}`);
  });
  return [...lines, ...rows];
}

/** @param {Frame} frame @returns {Entry[]} */
function entriesOf(frame) {
  return [
    entry("", -1, `frame ${frame.id}: ${frame.name} ${frame.skipped}`),
    ...(frame.modified ?? []).map((row) =>
      entry(`modified:${frame.id}:${row.offset}`, -1, `${row.offset} ${row.op} ${row.arg ?? ""} ${row.role ?? ""}`),
    ),
    ...frame.graphs.flatMap(({ nodes }) => nodes.map((node) => entry(node.key, -1, cellsOf(NODE_COLUMNS, node).join(" ")))),
    ...frame.guards.map((guard) => entry(guard.key, -1, cellsOf(GUARD_COLUMNS, guard).join(" "))),
    ...frame.breaks.map(({ key, report }) => entry(key, -1, report)),
    ...frame.resume.map(({ key, name, rows }) => entry(key, -1, `${name} ${rows.map((row) => `${row.op} ${row.arg ?? ""}`).join(" ")}`)),
  ];
}

/** @param {string} key @param {number} code @param {string} text @returns {Entry} */
function entry(key, code, text) {
  return { key, code, text: text.toLowerCase() };
}
