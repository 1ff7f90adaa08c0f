// @ts-check
/**
 * The guards of a frame: what is checked before its compiled code runs, and which instruction asked for it.
 */

import { longTable } from "../long.js";

/** @type {import("../types.js").Pane} */
export const guardsPane = {
  key: "guards",
  title: "Guards",
  span: 7,
  build(_explorer, { body, heading }) {
    /** @type {import("../types.js").View} */
    const view = {
      showFrame({ guards }) {
        const list = longTable(body, "Guards", ["#", "source", "kind", "expected", "check", "because"], guards);
        view.lists = [list];
        body.replaceChildren(list.element);
        heading.textContent = `Guards (${guards.length})`;
      },
    };
    return view;
  },
};
