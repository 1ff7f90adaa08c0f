// @ts-check
/**
 * Original and modified bytecode of a frame beside each other: rows of the same height, so that what an instruction became
 * stands beside it, with gaps where the other side has nothing, and in a gap of the modified code what became of it.
 *
 * An emitted instruction belongs beside the original one that it comes from; one that comes from several, as the call of a
 * graph does, beside the last of them. What would have to stand above a row that is there already follows below it.
 */

/**
 * @typedef {import("../types.js").Row} Row
 * @typedef {import("../links.js").Links} Links
 */

/**
 * Pair the rows of two listings.
 * @param {Row[]} original
 * @param {Row[]} modified
 * @param {(row: Row) => number} anchor  the offset of the original instruction beside which a row belongs, -1 for none
 * @returns {[Row | null, Row | null][]} original and modified, null for a gap
 */
export function paired(original, modified, anchor) {
  /** @type {[Row | null, Row | null][]} */
  const pairs = [];
  const places = new Map(original.map(({ offset }, at) => [offset, at]));
  let next = 0;
  for (const row of modified) {
    const at = places.get(anchor(row)) ?? -1;
    if (at < next) {
      pairs.push([null, row]);
      continue;
    }
    for (; next < at; next += 1) pairs.push([original[next], null]);
    pairs.push([original[next], row]);
    next += 1;
  }
  for (; next < original.length; next += 1) pairs.push([original[next], null]);
  return pairs;
}

/**
 * Says beside which original instruction of a frame an emitted one belongs.
 * @param {import("../types.js").Frame} frame
 * @param {Links} links
 * @returns {(row: Row) => number}
 */
export function anchorIn({ id, code }, links) {
  const own = `instruction:${code}:`;
  return ({ offset, origin = -1, role }) => {
    if (origin >= 0) return origin;
    if (role === "prologue") return 0;
    let last = -1;
    for (const place of links.items.get(`modified:${id}:${offset}`) ?? []) {
      for (const key of links.places[place]) if (key.startsWith(own)) last = Math.max(last, Number(key.slice(own.length)));
    }
    return last;
  };
}

/**
 * Says what became of an original instruction of a frame that no emitted one comes from.
 * @param {import("../types.js").Frame} frame
 * @param {Links} links
 * @returns {(offset: number) => string}
 */
export function fateIn({ code, graphs, resume, states }, links) {
  const own = `instruction:${code}:`;
  const inGraph = new Set();
  for (const { key } of graphs.flatMap(({ nodes }) => nodes)) {
    for (const place of links.items.get(key) ?? []) for (const at of links.places[place]) inGraph.add(at);
  }
  const read = new Set();
  const inlined = new Set();
  let last = 0;
  for (const state of states) {
    if (state.kind === "InlineEntered" && state.calls?.length === 1) inlined.add(state.offset);
    if (state.kind || (state.code ?? code) !== code) continue;
    read.add(state.offset);
    last = Math.max(last, state.offset);
  }
  return (offset) => {
    if (inGraph.has(own + offset)) return "in the graph";
    if (inlined.has(offset)) return "inlined";
    if (read.has(offset)) return "at compile time";
    return resume.length && offset > last ? "in a resume function" : "";
  };
}
