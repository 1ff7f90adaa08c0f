// @ts-check
/**
 * The panes, in their order on the page: one file each beside this one, one line here. types.js says what a pane is.
 */

import { artefactsPane } from "./artefacts.js";
import { boxesPane } from "./boxes.js";
import { breaksPane } from "./breaks.js";
import { modifiedPane, originalPane } from "./bytecode.js";
import { comparePane } from "./compare.js";
import { diagramPane } from "./diagram.js";
import { framesPane } from "./frames.js";
import { graphPane } from "./graph.js";
import { growingPane } from "./growing.js";
import { guardsPane } from "./guards.js";
import { liveRunPane } from "./live_run.js";
import { memoryPane } from "./memory.js";
import { missPane } from "./miss.js";
import { pythonPane } from "./python.js";
import { realPane } from "./real.js";
import { sourcePane } from "./source.js";
import { statePane } from "./state.js";
import { summaryPane } from "./summary.js";
import { timelinePane } from "./timeline.js";
import { whatIfPane } from "./what_if.js";

/** @type {import("../types.js").Pane[]} */
export const PANES = [
  summaryPane,
  sourcePane,
  boxesPane,
  growingPane,
  framesPane,
  timelinePane,
  missPane,
  originalPane,
  modifiedPane,
  pythonPane,
  statePane,
  diagramPane,
  graphPane,
  artefactsPane,
  realPane,
  memoryPane,
  guardsPane,
  breaksPane,
  whatIfPane,
  liveRunPane,
  comparePane,
];
