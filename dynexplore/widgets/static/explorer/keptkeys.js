// @ts-check
/**
 * Keys that are the explorer's own, and not the notebook's.
 *
 * Which idea lives here: JupyterLab hears keys when the explorer has had them, so stopping them there is enough. Notebook 7 hears them
 * first, at the document: `d d` would delete the cell. It leaves out an element with this attribute, which the element that has the
 * focus gets before anybody hears a key, and only for keys that are not the notebook's.
 */

import { isInEditor } from "./editing.js";
import { SUPPRESSES, isThePages } from "./pagekeys.js";

const ONCE = Symbol.for("dynexplore keeps its keys");

/** Keep keys of all explorers of this page from listeners that are called first. */
export function keepKeys() {
  const page = /** @type {any} */ (window);
  if (page[ONCE]) return;
  page[ONCE] = true;
  /** @type {Element | undefined} the one that has the attribute: around another element it would keep that one's keys, too */
  let marked;
  window.addEventListener("keydown", (event) => {
    marked?.removeAttribute(SUPPRESSES);
    const target = /** @type {Element | undefined} */ (event.composedPath()[0]);
    if (!target?.closest?.(".dynexplore")) return;
    // an editor has Ctrl+Enter and Ctrl+Z for itself, but does not save the notebook
    const passes = isThePages(event) && !(isInEditor(target) && event.key.toLowerCase() !== "s");
    marked = passes ? undefined : target;
    marked?.setAttribute(SUPPRESSES, "");
  }, true);
}
