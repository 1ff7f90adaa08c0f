// @ts-check
/**
 * The nodes that each attempt at a frame added, in the order of its states, with what a step asks for counted beforehand: a graph may
 * have 200,000 nodes.
 *
 * In:  a frame. Out: `madeOf(explorer, frame)`, by attempt; `countUntil`, `lastUntil`, `operators` ask how it stood at a step.
 */

/**
 * @typedef {import("./types.js").Frame} Frame
 * @typedef {import("./types.js").GraphNode} GraphNode
 * @typedef {import("./page.js").Explorer} Explorer
 * @typedef {{node: GraphNode, inputs: string[], at: number, calls: number}} Grown  a node, the state that made it, and how many
 *   operators the attempt had then
 * @typedef {{all: Grown[], placeOf: Map<string, number>, boxed: Grown[], boxedAt: Map<string, number>, isKept: boolean}} Made  the nodes
 *   that an attempt added, those of them that have a box, both with their places, and whether the last attempt has all of them
 */

/** What an attempt added that added nothing. @type {Made} */
export const NOTHING = { all: [], placeOf: new Map(), boxed: [], boxedAt: new Map(), isKept: true };

/** What each attempt at a frame added. @param {Explorer} explorer @param {Frame} frame @returns {Map<number, Made>} */
export function madeOf(explorer, frame) {
  const all = grown(frame);
  const kept = new Set((all.get(explorer.states(frame).lastAttempt) ?? []).map(({ node }) => node.key));
  const isBoxed = (/** @type {Grown} */ { node }) => node.op !== "output" && !isParameter(explorer, frame, node);
  const places = (/** @type {Grown[]} */ some) => new Map(some.map(({ node }, at) => [node.key, at]));
  const made = (/** @type {Grown[]} */ some) => {
    const boxed = some.filter(isBoxed);
    return { all: some, placeOf: places(some), boxed, boxedAt: places(boxed), isKept: some.every(({ node }) => kept.has(node.key)) };
  };
  return new Map([...all].map(([attempt, some]) => [attempt, made(some)]));
}

/** Whether a node is a parameter or a buffer. @param {Explorer} explorer @param {Frame} frame @param {GraphNode} node */
export function isParameter(explorer, frame, { op, name, module }) {
  if (op === "get_attr") return true;
  if (op !== "placeholder") return false;
  return Boolean(module) || /^self\b/.test(frame.inputs?.[name] ?? "") || (explorer.isWrapper(frame) && /^target\b/.test(frame.inputs?.[name] ?? ""));
}

/** The nodes of each attempt at a frame, in the order in which they were added. @param {Frame} frame @returns {Map<number, Grown[]>} */
function grown(frame) {
  /** @type {Map<string, {node: GraphNode, inputs: string[]}>} */
  const kept = new Map();
  for (const { nodes } of frame.graphs) {
    for (const node of nodes) kept.set(node.key, { node, inputs: (node.inputs ?? []).map((at) => nodes[at].name) });
  }
  const thrown = new Map(Object.entries(frame.thrown ?? {}).map(([attempt, nodes]) => [Number(attempt), new Map(nodes.map((node) => [node.key, node]))]));
  /** @type {Map<number, Grown[]>} */
  const attempts = new Map();
  frame.states.forEach((state, at) => {
    for (const key of state.nodes ?? []) {
      const attempt = state.attempt ?? 0;
      const given = thrown.get(attempt)?.get(key);
      const found = given ? { node: given, inputs: given.reads ?? [] } : kept.get(key);
      if (!found) continue;
      const there = attempts.get(attempt) ?? [];
      const calls = operators(there, there.length) + Number(found.node.op.startsWith("call_"));
      there.push({ ...found, at, calls });
      attempts.set(attempt, there);
    }
  });
  return attempts;
}

/** How many of the first nodes are operators. @param {Grown[]} all @param {number} count so many nodes */
export function operators(all, count) {
  return all[count - 1]?.calls ?? 0;
}

/** How many nodes there are after a state: they come in the order of the states. @param {Grown[]} all @param {number} position */
export function countUntil(all, position) {
  let [low, high] = [0, all.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (all[middle].at <= position) low = middle + 1;
    else high = middle;
  }
  return low;
}

/** The last of the first nodes of which something is true. @param {Grown[]} all @param {number} count so many nodes @param {(grown: Grown) => boolean} is */
export function lastUntil(all, count, is) {
  for (let at = count - 1; at >= 0; at -= 1) if (is(all[at])) return all[at];
  return undefined;
}
