// @ts-check
/**
 * Two captures side by side: graph, guards and breaks as aligned rows, each with a sign of how it differs.
 *
 * In:  what `difference_data` of views/capture_difference.py makes: table name -> rows of {sign, before, after}.
 */

import { make, makeCell, makeTable, plural } from "./dom.js";
import { fitting } from "./fitted.js";

/** @type {Record<string, [string, string]>} sign -> its class, and what a screen reader says */
const DIFFERS = {
  "=": ["", "the same"],
  "~": ["dynx-new", "changed"],
  "-": ["dynx-gone", "only before"],
  "+": ["dynx-new", "only after"],
};

/**
 * @param {Record<string, import("./types.js").Differing[]> | null | undefined} difference
 * @param {string} before the heading of the left column
 * @param {string} after
 * @param {boolean} [isOnlyDifferences] whether equal rows are left out
 * @returns {HTMLElement}
 */
export function differenceTables(difference, before, after, isOnlyDifferences = false) {
  const box = make("div", "dynx-difference");
  for (const [name, rows] of Object.entries(difference ?? {})) {
    const changed = rows.filter(({ sign }) => sign !== "=").length;
    if (!rows.length || (isOnlyDifferences && !changed)) continue;
    const { table, body } = makeTable(`${name}: ${before} and ${after}`, ["", before, after]);
    for (const { sign, before: left, after: right } of isOnlyDifferences ? rows.filter(({ sign }) => sign !== "=") : rows) {
      const [style, words] = DIFFERS[sign] ?? ["", ""];
      const mark = make("td", "", sign === "=" ? "" : sign);
      mark.setAttribute("aria-label", words);
      body.append(make("tr", style, "", mark, makeCell(left), makeCell(right)));
    }
    const summary = changed ? `${changed} of ${plural(rows.length, "row")} ${changed === 1 ? "differs" : "differ"}` : "the same";
    box.append(make("h4", "", `${name}: ${summary}`), fitting(table));
  }
  return box;
}
