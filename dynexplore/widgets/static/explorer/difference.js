// @ts-check
/**
 * Two captures side by side: graph, guards and breaks as aligned rows, each with a sign of how it differs.
 *
 * In:  what `difference_data` of views/capture_difference.py makes: table name -> rows of {sign, before, after}.
 */

import { make, makeCell, makeTable } from "./dom.js";
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
 * @returns {HTMLElement}
 */
export function differenceTables(difference, before, after) {
  const box = make("div", "dynx-difference");
  for (const [name, rows] of Object.entries(difference ?? {})) {
    if (!rows.length) continue;
    const { table, body } = makeTable(`${name}: ${before} and ${after}`, ["", before, after]);
    for (const { sign, before: left, after: right } of rows) {
      const [style, words] = DIFFERS[sign] ?? ["", ""];
      const mark = make("td", "", sign === "=" ? "" : sign);
      mark.setAttribute("aria-label", words);
      body.append(make("tr", style, "", mark, makeCell(left), makeCell(right)));
    }
    const changed = rows.filter(({ sign }) => sign !== "=").length;
    const said = changed ? `${changed} of ${rows.length} rows differ` : "the same";
    box.append(make("h4", "", `${name}: ${said}`), fitting(table));
  }
  return box;
}
