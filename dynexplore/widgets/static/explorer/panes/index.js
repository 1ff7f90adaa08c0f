// @ts-check
/**
 * The panes, in their order on the page: one file each beside this one, one line here. types.js says what a pane is.
 */

import { breaksPane } from "./breaks.js";
import { modifiedPane, originalPane } from "./bytecode.js";
import { callsPane } from "./calls.js";
import { framesPane } from "./frames.js";
import { graphPane } from "./graph.js";
import { guardsPane } from "./guards.js";
import { sourcePane } from "./source.js";
import { statePane } from "./state.js";

/** @type {import("../types.js").Pane[]} */
export const PANES = [
  framesPane,
  callsPane,
  sourcePane,
  originalPane,
  modifiedPane,
  statePane,
  graphPane,
  guardsPane,
  breaksPane,
];
