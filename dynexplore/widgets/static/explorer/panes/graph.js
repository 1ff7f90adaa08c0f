// @ts-check
/**
 * The FX graphs of a frame as tables; of one that was split for DistributedDataParallel, its pieces by number and colour.
 */

import { make, note } from "../dom.js";
import { textTable } from "../copying.js";
import { longTable } from "../long.js";

/** The header of a graph's table. */
const COLUMNS = ["opcode", "name", "target", "args", "kwargs", "result", "module", "line"];

/** @type {import("../types.js").Pane} */
export const graphPane = {
  key: "graph",
  title: "FX graph",
  span: 7,
  build(explorer, { body }) {
    /** @type {import("../types.js").View} */
    const view = {
      copies: { "graph table": () => explorer.frame.graphs.map(graphText).join("\n\n") },
      showFrame({ graphs }) {
        const tables = graphs.map((graph) => longTable(body, graph.name, header(graph), graph.nodes.map((node) => rowOf(graph, node))));
        view.lists = tables;
        body.replaceChildren(
          ...graphs.map(({ name, calls, backend, pieces = [] }, at) =>
            make("div", "", "", note(`${name}: ${calls} operators, backend ${backend}`), ...pieces.map(pieceLine), tables[at].element),
          ),
        );
        if (!graphs.length) body.append(note("no graph"));
      },
    };
    return view;
  },
};

/** @param {import("../types.js").Graph} graph @returns {string} */
function graphText(graph) {
  const rows = graph.nodes.map((node) => rowOf(graph, node).cells);
  return [graph.name, textTable(header(graph), rows), ...(graph.pieces ?? [])].join("\n");
}

/** @param {import("../types.js").Graph} graph */
function header({ pieces }) {
  return pieces ? [...COLUMNS, "piece"] : COLUMNS;
}

/** @param {import("../types.js").Graph} graph @param {import("../types.js").GraphNode} node */
function rowOf({ pieces }, { key, cells, line, piece = 0 }) {
  const all = [...cells, line ? String(line) : "", ...(pieces ? [piece ? String(piece) : ""] : [])];
  const dress = (/** @type {HTMLElement} */ row) => piece && row.firstElementChild?.classList.add("dynx-piece", pieceClass(piece));
  return { key, cells: all, dress };
}

/** What a piece holds, in words, in its colour. @param {string} text @param {number} at */
function pieceLine(text, at) {
  return make("p", `dynx-piece ${pieceClass(at + 1)}`, text);
}

/** The class of a piece's colour: there are six, over and over. @param {number} piece */
function pieceClass(piece) {
  return `dynx-piece-${((piece - 1) % 6) + 1}`;
}
