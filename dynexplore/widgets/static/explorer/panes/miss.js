// @ts-check
/**
 * The call that is chosen in the calls beside it: which guard of which version failed, what was found, the line that needed the
 * guard, the line that made the call, and the change.
 *
 * In:  the event of panes/timeline.js; `misses` of `data.timeline`, made by views/cache_timeline.py.
 */

import { copyButton } from "../copying.js";
import { make, makeButton, makeTable, note, plural, prose, sentence } from "../dom.js";
import { CALL_CHOSEN } from "./timeline.js";

/** The headings of the guards that failed. */
const HEADER = ["version", "guard", "found", "other guards"];

/** @type {import("../types.js").Pane} */
export const missPane = {
  key: "miss",
  title: "Failing guards",
  build(explorer, { body, heading, section }) {
    let report = "";
    let change = "";
    explorer.root.addEventListener(CALL_CHOSEN, (event) => {
      const { called, of, cost, isUncounted } = /** @type {CustomEvent} */ (event).detail;
      const { frame, first, last } = called;
      const miss = explorer.data.timeline.misses[frame.frame];
      report = Object.values(miss?.reports ?? {}).join("\n");
      change = cost && !cost.isExpected ? cost.change || cost.remedies?.[0]?.text || "" : cost?.change ?? "";
      const noun = isUncounted ? "Compilation" : "Call";
      heading.textContent = `${noun} ${first === last ? first : `${first} to ${last}`} of ${of.name}`;
      body.replaceChildren(...(miss ? partsOf(explorer, miss, of, cost, change) : fits(explorer, called, of)));
      body.scrollTop = 0;
    });
    section.classList.add("dynx-cost-detail-pane");
    return {
      copies: { "report": () => report || heading.textContent || "" },
      keys: { c: () => void (change ? /** @type {HTMLElement | null} */ (body.querySelector("[data-change]"))?.click() : explorer.say("This call has no change to copy.")) },
    };
  },
};

/**
 * @param {import("../page.js").Explorer} explorer
 * @param {import("../types.js").Miss} miss
 * @param {import("../called.js").CalledFunction} of
 * @param {import("../types.js").Cost | undefined} cost
 * @param {string} change
 * @returns {HTMLElement[]}
 */
function partsOf(explorer, { failed, lines }, { versions }, cost, change) {
  const { table, body } = makeTable("Failing guards", HEADER);
  for (const { entry, guard, found, others } of failed) {
    const more = others ? `${others} more ${others === 1 ? "fails" : "fail"}` : "no other fails";
    const cells = [String(versions.indexOf(entry) + 1 || "earlier"), guard, found, more];
    body.append(make("tr", "", "", ...cells.map((text) => make("td", "dynx-wrapped", text))));
  }
  const parts = [make("h4", "", `${plural(failed.length, "version")} did not fit`), table];
  for (const [title, place, code] of lines) {
    const [number = ""] = place.split(":").slice(-1);
    parts.push(make("h4", "", `${title} ${place}`));
    if (code) parts.push(make("div", "dynx-said-line", "", make("span", "dynx-number", number), make("code", "", code)));
  }
  if (change) {
    const copy = copyButton(explorer, "the change", () => change, "Copy change");
    copy.dataset.change = change;
    const where = cost?.remedies?.find(({ text }) => text === change);
    parts.push(make("h4", "", cost?.isExpected ? "Optional change" : "Change"), make("pre", "dynx-added", `+ ${change}`));
    if (where) parts.push(make("p", "dynx-facts", "", ...prose([where.where, where.tried, where.price].map(sentence).filter(Boolean).join(" "))));
    parts.push(make("div", "dynx-buttons", "", copy, whatIf(explorer)));
  }
  if (cost?.remedy) parts.push(make("p", "", "", ...prose(cost.remedy)));
  return parts;
}

/** @param {import("../page.js").Explorer} explorer @returns {HTMLElement} */
function whatIf(explorer) {
  const open = () => explorer.tabs.openAgain("recompiles", "what-if");
  return makeButton("What if …", open, { name: "dynx-tool", label: "Predict what a different input would do" });
}

/** @param {import("../page.js").Explorer} explorer @param {import("../called.js").Called} called @param {import("../called.js").CalledFunction} of @returns {HTMLElement[]} */
function fits(explorer, { frame }, { versions }) {
  if (frame.outcome === "hit") return [note(`All guards of version ${versions.indexOf(frame.entry) + 1} hold. The other guards are under Guards.`)];
  if (frame.outcome === "compile") return [note("There was no compiled version yet, so this call was compiled."), make("div", "dynx-buttons", "", whatIf(explorer))];
  return [note(frame.reason || "No guard was checked.")];
}
