// @ts-check
/**
 * Help for keys: a list of them, on `?` and on a button.
 */

import { KEY_COLUMNS, tableOf } from "../columns.js";
import { Dialog } from "../dialogs.js";
import { make, makeButton } from "../dom.js";

/** What each key does; the tests press them. */
const KEYS = [
  ["← →", "step back, step forward, from frame to frame"],
  ["Home, End", "first step, last step of the frame"],
  ["l, i, k", "step by line, by instruction, by call"],
  ["p", "play or pause"],
  ["b, B", "next graph break, previous graph break, in any frame"],
  ["a, A", "next attempt, previous attempt"],
  ["m", "the step that created the selection"],
  ["f, x", "in a graph: fit it, fold equal layers or show every node"],
  ["1 … 5", "open a view: Overview, Story, Graph, Recompiles, Compare"],
  ["c", "copy the change of the selected row in the Overview"],
  ["Tab", "move between panes, buttons and fields"],
  ["↑ ↓", "move between the rows of a pane; in the Overview, choose a row"],
  ["Enter", "select the row and highlight everything related to it; in the Overview, open its story"],
  ["/", "search; Enter goes to the next match, Esc back to the panes"],
  ["n, p", "during a search: next match, previous match"],
  ["?", "show this list"],
  ["z", "enlarge the focused pane, or restore it"],
  ["Esc", "close the dialog, or restore an enlarged pane"],
];

/** @type {import("../types.js").Control} */
export const keysControl = {
  key: "keys",
  build(explorer, place) {
    const dialog = new Dialog(explorer, "Keys");
    const toggle = () => {
      if (dialog.isOpen) return dialog.close();
      const table = tableOf("Keys", KEY_COLUMNS, KEYS.map(([key, does]) => ({ key, does })));
      const close = dialog.closeButton("Close (Esc)");
      close.classList.add("dynx-first");
      dialog.open(make("h3", "", "Keys"), table, close);
    };
    dialog.keys["?"] = toggle;
    place.append(makeButton("?", toggle, { name: "dynx-tool", label: "Keys (?)" }));
    return { keys: { "?": toggle } };
  },
};
