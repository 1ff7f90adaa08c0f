// @ts-check
/**
 * The place in the HTML file: its address names frame, step, what is chosen and the view that is open, so that a link leads back to
 * it. A link that names no view opens the story: it is where a step is seen. In a notebook the address belongs to the notebook.
 */

import { copyButton } from "../copying.js";

/** So many milliseconds after the last step the address follows. */
const REST = 200;

/** The view of a link that names none. */
const STORY = "story";

/** @type {import("../types.js").Control} */
export const placeControl = {
  key: "place",
  wanted: (data) => data.frames.length > 0,
  build(explorer, place) {
    if (!explorer.ownsAddress) return {};
    window.addEventListener("hashchange", () => follow(explorer));
    const here = () => new URL(addressOf(explorer), location.href).href;
    place.append(copyButton(explorer, "a link to this step", here, "Copy link"));
    /** @type {number | undefined} */
    let waiting;
    const keep = () => {
      window.clearTimeout(waiting);
      // when the steps rest: browsers allow few changes a second. Replaced, not added: the way back leads out of the page
      waiting = window.setTimeout(() => history.replaceState(null, "", here()), REST);
    };
    return { showState: keep, showView: keep };
  },
};

/** @param {import("../page.js").Explorer} explorer @returns {string} */
function addressOf({ frame, position, chosen, state, tabs }) {
  const item = chosen && chosen !== state?.item ? `&item=${encodeURIComponent(chosen)}` : "";
  const view = tabs.shown.key === STORY ? "" : `&view=${tabs.shown.key}`;
  return `#frame=${frame.id}&step=${position + 1}${item}${view}`;
}

/**
 * Go where the address says; what it does not say, or says of another recording, is left as it is.
 * @param {import("../page.js").Explorer} explorer
 * @returns {boolean} whether it named a place that is there
 */
export function follow(explorer) {
  const said = new URLSearchParams(location.hash.slice(1));
  const frame = explorer.data.frames.find(({ id }) => String(id) === said.get("frame"));
  const step = Number(said.get("step"));
  if (!frame || !(step >= 1 && step <= frame.states.length)) return false;
  explorer.tabs.openAgain(said.get("view") ?? STORY);
  explorer.show(frame, step - 1, said.get("item") ?? undefined);
  return true;
}
