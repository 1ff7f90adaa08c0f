// @ts-check
/**
 * Graphviz, compiled to WebAssembly (vendor/README.md says where it is from): loaded when the first diagram is shown, once
 * per page, whatever the number of explorers on it.
 *
 * The HTML file holds its text, compressed, when it was exported with it; in a notebook the kernel sends it as a binary buffer.
 */

import { inflated } from "./unpack.js";

/**
 * @typedef {{dot(text: string): string}} Graphviz
 * @typedef {typeof globalThis & {dynexploreGraphviz?: Promise<Graphviz>}} Shared
 */

/** Where the HTML file holds it. */
const EMBEDDED = "graphviz";

/** @param {import("./live.js").Live | null} live @returns {boolean} whether there is one to ask for */
export function hasGraphviz(live) {
  return Boolean(live || document.getElementById(EMBEDDED) || /** @type {Shared} */ (globalThis).dynexploreGraphviz);
}

/**
 * Graphviz, ready to draw. Fails with one sentence (Error.message).
 * @param {import("./live.js").Live | null} live
 * @returns {Promise<Graphviz>}
 */
export function graphviz(live) {
  const shared = /** @type {Shared} */ (globalThis);
  if (!shared.dynexploreGraphviz) {
    const loading = textOf(live).then(loaded);
    shared.dynexploreGraphviz = loading;
    loading.catch(() => delete shared.dynexploreGraphviz); // another explorer may have more luck
  }
  return shared.dynexploreGraphviz;
}

/** @param {import("./live.js").Live | null} live @returns {Promise<BlobPart>} the module's text */
async function textOf(live) {
  const embedded = document.getElementById(EMBEDDED)?.textContent;
  if (embedded) return JSON.parse(await inflated(embedded));
  if (!live) throw new Error("This page was exported without graphviz.");
  const { buffers } = await live.ask("graphviz");
  return /** @type {BlobPart} */ (/** @type {unknown} */ (buffers[0]));
}

/** @param {BlobPart} text @returns {Promise<Graphviz>} */
async function loaded(text) {
  const address = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
  try {
    const { Graphviz } = await import(address);
    return await Graphviz.load();
  } finally {
    URL.revokeObjectURL(address);
  }
}
