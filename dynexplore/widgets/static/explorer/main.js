// @ts-check
/**
 * The way in: `mount(element, await read(letters))` for a file, the default export for anywidget. The same module serves both.
 *
 * In:  the data of views/explorer_data.py.
 * Out: the explorer in the element.
 */

import { make } from "./dom.js";
import { Editing } from "./editing.js";
import { NoRecording, SCHEMA, dataIn, fileButton, takesFiles } from "./files.js";
import { Live } from "./live.js";
import { Explorer } from "./page.js";
import { Together } from "./together.js";
import { withSketches } from "./sketched.js";
import { inflated, opened } from "./unpack.js";

/**
 * Show the explorer of `data` in `host`.
 * @param {HTMLElement} host
 * @param {any} given the data, packed or not
 * @param {Live | null} [live] the kernel, where there is one
 * @param {boolean} [ownsAddress] whether the page is nothing but this: its address then names the step at hand
 * @returns {Explorer | null}
 */
export function mount(host, given, live = null, ownsAddress = false) {
  const data = withSketches(opened(given));
  if (data?.schema !== SCHEMA) {
    host.append(make("p", "dynexplore", "This recording was saved by a different version of dynexplore."));
    return null;
  }
  return new Explorer(host, data, live, ownsAddress, live ? new Editing(live, opened) : null);
}

/**
 * Two explorers of one call, stepped together.
 * @param {HTMLElement} host
 * @param {any[]} both the data of the two, packed or not
 * @param {import("./together.js").Beside} beside
 */
export function together(host, both, beside) {
  return new Together(host, both.map(opened), beside);
}

/**
 * A page without a recording: one that is dropped on it is shown, two are compared.
 * @param {HTMLElement} host
 * @param {import("./files.js").Dropped | null} [file] that its address names
 * @param {string} [why] the file that its address names cannot be read
 */
export function viewer(host, file = null, why = "") {
  const said = make("p", "dynx-facts", why);
  said.setAttribute("role", "status");
  /** @type {Explorer | null} */
  let explorer = null;
  const open = async (/** @type {import("./files.js").Dropped[]} */ files) => {
    try {
      const data = await dataIn(files[0]);
      host.replaceChildren();
      explorer = mount(host, data, null, true);
      explorer?.root.focus({ preventScroll: true });
    } catch (error) {
      if (!(error instanceof NoRecording)) throw error;
      said.textContent = error.message;
      return;
    }
    if (files.length > 1) await explorer?.compareWith?.(/** @type {File[]} */ (files.slice(1)));
  };
  const words = "Drop what dynexplore saved: a page (--html), a recording (--json) or a packed one (--pack). It opens here; two are compared. Nothing leaves this computer.";
  host.append(make("section", "dynexplore dynx-drop", "", make("h2", "", "Open a recording"), make("p", "", words), fileButton("Or choose files", open), said));
  takesFiles(document.body, (files) => explorer ? explorer.compareWith?.(files) : open(files));
  if (file) open([file]);
}

/**
 * The data that an exported file holds compressed.
 * @param {string} letters
 * @returns {Promise<any>}
 */
export async function read(letters) {
  return JSON.parse(await inflated(letters));
}

export default {
  /** @param {{model: any, el: HTMLElement}} context */
  render({ model, el }) {
    const live = new Live(model);
    const read = () => JSON.parse(model.get("data"));
    const explorer = mount(el, read(), live);
    const onData = () => explorer?.editing?.complete(opened(read())); // the first view was all there was until now
    const onInterrupted = () => model.get("interrupted") && explorer?.rest?.interrupted();
    model.on("change:data", onData);
    model.on("change:interrupted", onInterrupted);
    onInterrupted();
    return () => {
      model.off("change:data", onData);
      model.off("change:interrupted", onInterrupted);
      live.close();
    };
  },
};
