// @ts-check
/**
 * The verdict on the real run in the head of the page: a flag and a button to the first divergence, or that there is none.
 */

import { make, makeButton } from "../dom.js";
import { divergences, goToDivergence } from "../real.js";

/** @type {import("../types.js").Control} */
export const realControl = {
  key: "real",
  wanted: (data) => Boolean(data.real?.verdict),
  build(explorer, place) {
    const { data } = explorer;
    const [first] = divergences(data);
    if (first) {
      const jump = makeButton("⚑ First difference", () => goToDivergence(explorer, first), {
        name: "dynx-flag",
        label: "Go to the first value that differs from the real run",
      });
      jump.title = first.text;
      place.append(jump);
    } else if (data.real.runs.length) {
      const { verdict } = data.real;
      const raised = verdict.startsWith("It ended in") ? `real run: ${verdict.split(";")[0].replace("It ended", "ended")}` : "";
      const clean = make("span", "dynx-clean", verdict.startsWith("Matches") ? "✓ Matches plain Python" : raised);
      clean.title = data.real.verdict;
      place.append(clean);
    }
    return {};
  },
};
