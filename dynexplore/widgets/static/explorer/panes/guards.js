// @ts-check
/**
 * The guards of a frame: what is checked before its compiled code runs, and which instruction asked for it.
 */

import { GUARD_COLUMNS, cellsOf } from "../columns.js";
import { textTable } from "../copying.js";
import { longTable } from "../long.js";

/** The header of the guards. */
const HEADER = Object.keys(GUARD_COLUMNS);

/** @param {import("../types.js").Guard} guard */
function rowOf(guard) {
  return { key: guard.key, cells: cellsOf(GUARD_COLUMNS, guard), title: `${guard.check}\n${guard.reason}` };
}

/** @type {import("../types.js").Pane} */
export const guardsPane = {
  key: "guards",
  title: "Guards",
  build(explorer, { body, heading }) {
    /** @type {import("../types.js").View} */
    const view = {
      copies: {
        "guard": () => {
          const { guards } = explorer.frame;
          const chosen = guards.filter(({ key }) => key === explorer.chosen);
          return textTable(HEADER, (chosen.length ? chosen : guards).map((guard) => rowOf(guard).cells));
        },
      },
      showFrame({ guards }) {
        const list = longTable(body, "Guards", HEADER, guards.map(rowOf));
        view.lists = [list];
        body.replaceChildren(list.element);
        heading.textContent = `Guards (${guards.length})`;
      },
    };
    return view;
  },
};
