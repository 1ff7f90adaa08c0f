// @ts-check
/**
 * What each call of an optimized function met: a cache entry, a miss, a compilation.
 */

import { makeTable, plainRow } from "../dom.js";

/** @type {import("../types.js").Pane} */
export const callsPane = {
  key: "calls",
  title: "Calls and cache entries",
  span: 7,
  build({ data }, place) {
    const { table, body } = makeTable("Calls and cache entries", data.calls.header);
    for (const cells of data.calls.rows) body.append(plainRow(...cells));
    place.body.append(table);
    return {};
  },
};
