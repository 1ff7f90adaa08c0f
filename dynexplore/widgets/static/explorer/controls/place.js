// @ts-check
/**
 * The place in the HTML file: its address names frame, step and what is chosen, so that a link leads back to it. In a
 * notebook the address belongs to the notebook.
 */

import { copyButton } from "../copying.js";

/** So many milliseconds after the last step the address follows. */
const REST = 200;

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
    return {
      showState() {
        window.clearTimeout(waiting);
        // when the steps rest: browsers allow few changes a second. Replaced, not added: the way back leads out of the page
        waiting = window.setTimeout(() => history.replaceState(null, "", here()), REST);
      },
    };
  },
};

/** @param {import("../page.js").Explorer} explorer @returns {string} */
function addressOf({ frame, position, chosen, state }) {
  const item = chosen && chosen !== state?.item ? `&item=${encodeURIComponent(chosen)}` : "";
  return `#frame=${frame.id}&step=${position + 1}${item}`;
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
  if (location.hash !== addressOf(explorer)) explorer.show(frame, step - 1, said.get("item") ?? undefined);
  return true;
}
