// @ts-check
/**
 * The modified code of the frame as Python: what runs in its place, as a function that can be read (views/modified_python.py).
 */

import { make, note } from "../dom.js";

/** @type {import("../types.js").Pane} */
export const pythonPane = {
  key: "python",
  title: "Modified code as Python",
  wanted: (data) => data.frames.some(({ python }) => python),
  build(explorer, { body }) {
    return {
      copies: { "modified code as Python": () => explorer.frame.python ?? "" },
      showFrame({ python }) {
        body.replaceChildren(python ? make("pre", "dynx-text", python) : note("this frame runs as plain Python: its code was not modified"));
      },
    };
  },
};
