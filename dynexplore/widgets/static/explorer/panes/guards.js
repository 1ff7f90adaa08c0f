// @ts-check
/**
 * The guards of a frame: what is checked before its compiled code runs, and which instruction asked for it.
 */

import { textTable } from "../copying.js";
import { longTable } from "../long.js";

/** The header of the guards. */
const GUARD_COLUMNS = ["#", "source", "kind", "expected", "check", "because"];

/** @type {import("../types.js").Pane} */
export const guardsPane = {
  key: "guards",
  title: "Guards",
  span: 7,
  build(explorer, { body, heading }) {
    /** @type {import("../types.js").View} */
    const view = {
      copies: {
        "guard": () => {
          const { guards } = explorer.frame;
          const chosen = guards.filter(({ key }) => key === explorer.chosen);
          return textTable(GUARD_COLUMNS, (chosen.length ? chosen : guards).map(({ cells }) => cells));
        },
      },
      showFrame({ guards }) {
        const list = longTable(body, "Guards", GUARD_COLUMNS, guards);
        view.lists = [list];
        body.replaceChildren(list.element);
        heading.textContent = `Guards (${guards.length})`;
      },
    };
    return view;
  },
};
