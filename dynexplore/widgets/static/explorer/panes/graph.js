// @ts-check
/**
 * The FX graphs of a frame as tables; of one that was split for DistributedDataParallel, its pieces by number and colour.
 */

import { NODE_COLUMNS, PIECE_COLUMNS, cellsOf } from "../columns.js";
import { make, note, plural } from "../dom.js";
import { textTable } from "../copying.js";
import { longTable } from "../long.js";

/** @type {import("../types.js").Pane} */
export const graphPane = {
  key: "graph",
  title: "FX graph",
  build(explorer, { body }) {
    /** @type {import("../types.js").View} */
    const view = {
      copies: { "graph table": () => graphsOf(explorer.frame).map((graph) => graphText(explorer, graph)).join("\n\n") },
      showFrame(frame) {
        const graphs = graphsOf(frame);
        const tables = graphs.map((graph) => longTable(body, graph.name, Object.keys(columnsOf(graph)), graph.nodes.map((node) => rowOf(explorer, graph, node))));
        view.lists = tables;
        body.replaceChildren(
          ...graphs.map((graph, at) =>
            make("div", "", "", note(titleOf(graph)), ...skipLines(graph), ...(graph.pieces ?? []).map(pieceLine), tables[at].element),
          ),
        );
        if (!graphs.length) body.append(note("no graph"));
      },
    };
    return view;
  },
};

/** Whether this is the operator at which the backend stopped, or one that raised when the graph ran. @param {import("../types.js").Frame} frame @param {string[]} keys of an operator or a box of several */
export function isFailing({ failed, raised }, keys) {
  return keys.some((key) => key === failed?.at || raised?.at.includes(key));
}

/** The graphs of a frame, or the one that its backend failed to compile. @param {import("../types.js").Frame} frame @returns {import("../types.js").Graph[]} */
export function graphsOf({ graphs, failed }) {
  return failed && !graphs.length ? [failed] : graphs;
}

/** @param {import("../types.js").Graph} graph */
function titleOf(graph) {
  const { name, calls, backend, skipped } = graph;
  if ("at" in graph) return `${name}: ${plural(calls, "operator")}, not compiled: the backend ${backend} failed`;
  return `${name}: ${plural(calls, "operator")}, backend ${backend}${skipped ? ` skipped, ${skipped}` : ""}`;
}

/**
 * Why the backend did not get the graph, and what to do about it.
 * @param {import("../types.js").Graph} graph
 */
function skipLines({ why, fix }) {
  return [why, fix].filter((text) => text).map((text) => note(/** @type {string} */ (text)));
}

/** @param {import("../page.js").Explorer} explorer @param {import("../types.js").Graph} graph @returns {string} */
function graphText(explorer, graph) {
  const rows = graph.nodes.map((node) => rowOf(explorer, graph, node).cells);
  return [...(graph.skipped ? [titleOf(graph)] : [graph.name]), textTable(Object.keys(columnsOf(graph)), rows), ...(graph.pieces ?? [])].join("\n");
}

/** @param {import("../types.js").Graph} graph */
function columnsOf({ pieces }) {
  return pieces ? PIECE_COLUMNS : NODE_COLUMNS;
}

/**
 * The target of an input is what the program calls it: its name stands beside that already.
 * @param {import("../page.js").Explorer} explorer @param {import("../types.js").Graph} graph @param {import("../types.js").GraphNode} node
 */
function rowOf(explorer, graph, node) {
  const { key, piece = 0, name, target } = node;
  const dress = (/** @type {HTMLElement} */ row) => piece && row.firstElementChild?.classList.add("dynx-piece", pieceClass(piece));
  return { key, cells: cellsOf(columnsOf(graph), { ...node, target: target === name ? explorer.label(name) : target }), dress };
}

/** What a piece holds, in words, in its colour. @param {string} text @param {number} at */
function pieceLine(text, at) {
  return make("p", `dynx-piece ${pieceClass(at + 1)}`, text);
}

/** The class of a piece's colour: there are six, over and over. @param {number} piece */
function pieceClass(piece) {
  return `dynx-piece-${((piece - 1) % 6) + 1}`;
}
