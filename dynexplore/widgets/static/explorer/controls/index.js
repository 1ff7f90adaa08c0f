// @ts-check
/**
 * The controls in the head of the page, in their order: one file each beside this one, one line here.
 */

import { keysControl } from "./keys.js";
import { placeControl } from "./place.js";
import { realControl } from "./real.js";
import { tourControl } from "./tour.js";

/** @type {import("../types.js").Control[]} */
export const CONTROLS = [realControl, tourControl, keysControl, placeControl];
