// @ts-check
/**
 * The FX graphs of a frame as tables.
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
  span: 8,
  build(explorer, { body }) {
    /** @type {import("../types.js").View} */
    const view = {
      copies: { "graph table": () => explorer.frame.graphs.map(graphText).join("\n\n") },
      showFrame({ graphs }) {
        const tables = graphs.map(({ name, nodes }) =>
          longTable(body, name, COLUMNS, nodes.map(({ key, cells, line }) => ({ key, cells: [...cells, line ? String(line) : ""] }))),
        );
        view.lists = tables;
        body.replaceChildren(
          ...graphs.map(({ name, calls, backend }, at) =>
            make("div", "", "", note(`${name}: ${calls} operators, backend ${backend}`), tables[at].element),
          ),
        );
        if (!graphs.length) body.append(note("no graph"));
      },
    };
    return view;
  },
};

/** @param {import("../types.js").Graph} graph @returns {string} */
function graphText({ name, nodes }) {
  return `${name}\n${textTable(COLUMNS, nodes.map(({ cells, line }) => [...cells, line ? String(line) : ""]))}`;
}
