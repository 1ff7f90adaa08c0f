// @ts-check
/**
 * Help for keys: a list of them, on `?` and on a button.
 */

import { Dialog } from "../dialogs.js";
import { make, makeButton, makeTable, plainRow } from "../dom.js";

/** What each key does; the tests press them. */
const KEYS = [
  ["← →", "step back, step forward"],
  ["Home, End", "first step, last step"],
  ["p", "play the steps, or pause"],
  ["b, B", "next graph break, previous graph break"],
  ["a, A", "next attempt, previous attempt"],
  ["m", "the step that made what is chosen"],
  ["Tab", "from pane to pane, and to buttons and fields"],
  ["↑ ↓", "from row to row in a pane"],
  ["Enter", "choose the row: all that belongs to it lights up"],
  ["/", "search; Enter leads to the next place found, Esc back to the panes"],
  ["?", "these keys"],
  ["Esc", "close what is open"],
];

/** @type {import("../types.js").Control} */
export const keysControl = {
  key: "keys",
  build(explorer, place) {
    const dialog = new Dialog(explorer, "Keys");
    const toggle = () => {
      if (dialog.isOpen) return dialog.close();
      const { table, body } = makeTable("Keys", ["key", "what it does"]);
      for (const [key, what] of KEYS) body.append(plainRow(key, what));
      const close = dialog.closeButton("Close (Esc)");
      close.classList.add("dynx-first");
      dialog.open(make("h3", "", "Keys"), table, close);
    };
    dialog.keys["?"] = toggle;
    place.append(makeButton("?", toggle, { name: "dynx-tool", label: "Keys (?)" }));
    return { keys: { "?": toggle } };
  },
};
