// @ts-check
/**
 * The controls in the head of the page, in their order: one file each beside this one, one line here.
 */

/** @type {import("../types.js").Control[]} */
export const CONTROLS = [];
