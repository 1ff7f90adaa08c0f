// @ts-check
/**
 * Compare: two captures beside each other. One recording holds the versions of a function that was compiled again; two recordings
 * are compared by the command that the pane names.
 *
 * In:  `data.timeline.misses`, made by views/cache_timeline.py.
 */

import { copyButton } from "../copying.js";
import { make, makeButton } from "../dom.js";
import { differenceTables } from "../difference.js";

/** @type {import("../types.js").Pane} */
export const comparePane = {
  key: "compare",
  title: "Compare",
  build(explorer, { body }) {
    const { frames, timeline } = explorer.data;
    const pairs = Object.entries(timeline.misses).filter(([, miss]) => miss.difference);
    const shown = make("div", "dynx-compared");
    const title = (/** @type {number} */ id) => frames.find((frame) => frame.id === id)?.title ?? "";
    const buttons = pairs.map(([id, miss], at) => {
      const call = timeline.calls.find((one) => one.frames.some(({ frame }) => frame === Number(id)));
      const button = makeButton(`${title(Number(id))}, recompiled in call ${call?.number ?? "?"}`, () => show(at), { name: "dynx-chip" });
      return { button, id, miss };
    });
    const show = (/** @type {number} */ at) => {
      buttons.forEach(({ button }, number) => button.setAttribute("aria-pressed", String(number === at)));
      const { miss } = buttons[at];
      shown.replaceChildren(differenceTables(miss.difference ?? {}, `the version compiled first (frame ${miss.with})`, "the version compiled again"));
    };
    const script = explorer.data.title.endsWith(".py") ? explorer.data.title : "SCRIPT.py";
    const command = `dynexplore compare ${script} --engines --html compare.html`;
    const copy = copyButton(explorer, "the command", () => command);
    const why = make("p", "", "One recording is open. To see what torch.compile and dynexplore make of the same call, side by side:");
    const other = make("div", "dynx-empty", "", why, make("span", "dynx-change-code", "", make("code", "", command), copy));
    const none = make("p", "dynx-facts", "No function in this recording recompiled, so there are no two versions to compare.");
    body.append(...(pairs.length ? [make("div", "dynx-chips", "", ...buttons.map(({ button }) => button)), shown] : [none]), other);
    let isBuilt = !pairs.length;
    return {
      showFrame() {
        if (!isBuilt) show(0);
        isBuilt = true;
      },
    };
  },
};
