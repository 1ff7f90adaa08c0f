// @ts-check
/**
 * What the operators of a graph cost: the time that each took in the real run, or the bytes of what it returns, unless that is a view.
 *
 * Which idea lives here: a graph with two hundred boxes does not say which of them matter. So boxes are colored by their part of
 * the whole, each says its value, and a list beside the diagram ranks the operators.
 *
 * In:  `seconds` of a graph (views/explorer_data.py), where the real run was recorded; the dtypes and shapes of its nodes.
 * Out: `measured(by, graph)`: number of a node -> its cost; `textOf(by, cost)`, `percentOf(cost, all)`; `ranked(by, graph, costs)`.
 */

import { isView, nameOf } from "./folded.js";

/**
 * @typedef {import("./types.js").Graph} Graph
 * @typedef {"line" | "time" | "bytes"} By  what colors a diagram
 * @typedef {{name: string, times: number, cost: number, keys: string[], code: number | undefined, line: number | undefined}} Share  operators of one name or of
 *   one line, and what they cost together; `code` is the function of that line
 */

/** Dtype -> bytes of an element. @type {Record<string, number>} */
const SIZES = {
  bool: 1, uint8: 1, int8: 1, float8_e4m3fn: 1, float8_e5m2: 1, int16: 2, uint16: 2, float16: 2, bfloat16: 2, int32: 4, uint32: 4, float32: 4,
  int64: 8, uint64: 8, float64: 8, complex64: 8, complex128: 16,
};

/** The bytes of a tensor by its dtype and shape; undefined where a size is a symbol, or where it is no tensor. @param {string} result @returns {number | undefined} */
export function bytesOf(result) {
  const tensor = /^(\w+)\[([\d, ]*)\]$/.exec(result);
  if (!tensor || !(tensor[1] in SIZES)) return undefined;
  return tensor[2].split(", ").filter(Boolean).reduce((product, size) => product * Number(size), SIZES[tensor[1]]);
}

/**
 * What each operator costs, as far as it is known.
 * @param {By} by
 * @param {Graph} graph
 * @returns {Map<number, number>} number of a node -> seconds or bytes
 */
export function measured(by, { nodes, seconds = [] }) {
  /** @type {Map<number, number>} */
  const costs = new Map();
  nodes.forEach(({ op, target, result }, number) => {
    const cost = by === "time" ? seconds[number] : isView(target) ? 0 : bytesOf(result);
    if (op.startsWith("call_") && cost) costs.set(number, cost);
  });
  return by === "line" ? new Map() : costs;
}

/** A cost with its unit, in three digits. @param {By} by @param {number} cost @returns {string} */
export function textOf(by, cost) {
  const [base, units] = by === "time" ? [1000, ["ns", "µs", "ms", "s"]] : [1024, ["B", "kB", "MB", "GB"]];
  let [value, unit] = [by === "time" ? cost * 1e9 : cost, 0];
  while (value >= base && unit < units.length - 1) [value, unit] = [value / base, unit + 1];
  return `${value >= 100 || Number.isInteger(value) ? Math.round(value) : value.toPrecision(2)} ${units[unit]}`;
}

/** What tells linear layers of a model apart: "up" of `layers.3.up`; nothing where the operator is of a layer itself. @param {string} module */
function ofModule(module) {
  const last = module.split(".").at(-1) ?? "";
  return /^\d*$/.test(last) ? "" : last;
}

/** A part of a whole: "24 %", "0.4 %". @param {number} cost @param {number} all */
export function percentOf(cost, all) {
  const percent = (100 * cost) / (all || 1);
  return `${percent < 0.05 ? "0" : percent < 1 ? percent.toFixed(1) : percent.toFixed(0)} %`;
}

/**
 * Operators of one name and module together, or those of one line, those first that cost most; a line costs the number of its operators.
 * @param {By} by
 * @param {Graph} graph
 * @param {Map<number, number>} costs
 * @param {(node: import("./types.js").GraphNode) => number[] | undefined} placeOf code and line from which an operator comes
 * @returns {Share[]}
 */
export function ranked(by, { nodes }, costs, placeOf) {
  /** @type {Map<string, Share>} */
  const shares = new Map();
  for (const [number, node] of nodes.entries()) {
    const { op, module, key } = node;
    const [code, line] = (by === "line" && placeOf(node)) || [];
    const cost = by === "line" ? Number(op.startsWith("call_")) : costs.get(number);
    if (!cost) continue;
    const name = by === "line" ? (line ? `line ${line}` : "no line") : [nameOf(node), ofModule(module)].filter(Boolean).join(" ");
    let share = shares.get(name);
    if (!share) shares.set(name, (share = { name, times: 0, cost: 0, keys: [], code, line }));
    share.times += 1;
    share.cost += cost;
    share.keys.push(key);
  }
  return [...shares.values()].sort((one, other) => other.cost - one.cost);
}
