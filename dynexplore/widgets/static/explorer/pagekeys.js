// @ts-check
/**
 * The rule which keys are the notebook's or the browser's also while one of our widgets has the focus, for all of them.
 */

/** An element with this attribute is left out by Notebook 7, which hears keys before any widget. */
export const SUPPRESSES = "data-lm-suppress-shortcuts";

/** Whether a key is the notebook's or the browser's also while a widget has the focus. @param {KeyboardEvent} event @returns {boolean} */
export function isThePages({ ctrlKey, metaKey, shiftKey, key }) {
  return ctrlKey || metaKey || (shiftKey && key === "Enter");
}
