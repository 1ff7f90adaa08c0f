// @ts-check
/**
 * What a drawing of a graph shows while some of its groups are closed: boxes, and the edges between them. The groups come
 * with the page's data (views/groups.py); only which of them are closed is decided here.
 */

import { plural } from "./dom.js";

/**
 * @typedef {import("./types.js").GraphNode} GraphNode
 * @typedef {import("./types.js").Group} Group
 * @typedef {{name: string, ident: string, kind: string, lines: string[], tooltip: string, keys: string[],
 *   result: string, piece: number}} Box  a node, or a closed group; `keys` are the link keys of what is in it
 * @typedef {[string, string, string]} Edge  from one box to another, and the dtype and shape of what goes along it
 */

/** @param {Group} group @returns {number[]} all nodes of the group and of those inside it */
export function within(group) {
  return [...group.nodes, ...group.inner.flatMap(within)];
}

/** @param {Group} group @returns {string[]} the paths of all groups inside it */
export function pathsIn(group) {
  return group.inner.flatMap((inner) => [inner.path, ...pathsIn(inner)]);
}

/**
 * The boxes by the name that edges use, in the order of the tree, and the edges between them, each once.
 * @param {Group} root
 * @param {GraphNode[]} nodes
 * @param {Set<string>} closed
 * @param {Record<string, string>} [inputs] what the program calls inputs of the graph
 * @returns {{boxes: Map<string, Box>, edges: Edge[]}} what a node gives stands on the edges to its readers; in its box only where
 *   nobody reads it
 */
export function drawn(root, nodes, closed, inputs = {}) {
  const read = new Set(nodes.flatMap(({ inputs = [] }) => inputs));
  const boxes = new Map();
  /** @type {string[]} node -> the box that it is in */
  const standing = [];
  /** @param {Group} group */
  const collect = (group) => {
    for (const number of group.nodes) {
      const box = nodeBox(nodes[number], read.has(number), inputs[nodes[number].name]);
      boxes.set(box.name, box);
      standing[number] = box.name;
    }
    for (const inner of group.inner) {
      if (!closed.has(inner.path)) {
        collect(inner);
        continue;
      }
      const box = closedBox(inner, nodes);
      boxes.set(box.name, box);
      for (const number of within(inner)) standing[number] = box.name;
    }
  };
  collect(root);
  return { boxes, edges: edgesOf(root, nodes, standing) };
}

/** @param {Group} root @param {GraphNode[]} nodes @param {string[]} standing node -> the box that it is in @returns {Edge[]} */
function edgesOf(root, nodes, standing) {
  /** @type {Map<string, {start: string, end: string, flow: Set<string>}>} */
  const edges = new Map();
  for (const number of within(root)) {
    for (const source of nodes[number].inputs ?? []) {
      const [start, end] = [standing[source], standing[number]];
      if (start === end) continue;
      const key = `${start}\n${end}`;
      const edge = edges.get(key) ?? { start, end, flow: new Set() };
      if (nodes[source].result) edge.flow.add(shortType(nodes[source].result));
      edges.set(key, edge);
    }
  }
  return [...edges.values()].map(({ start, end, flow }) => [start, end, several([...flow])]);
}

/** The first of several kinds of tensors, and how many others. @param {string[]} results */
function several(results) {
  return results.length > 1 ? `${results[0]} +${results.length - 1}` : (results[0] ?? "");
}

/** @type {Record<string, string>} */
const SHORT_TYPES = { float: "f", bfloat: "bf", int: "i", uint: "u", complex: "c" };

/** A dtype and shape as they are written on an edge: `f32[2, 4]`. @param {string} result */
export function shortType(result) {
  return result.replace(/^(float|bfloat|int|uint|complex)(\d+)/, (_, kind, bits) => SHORT_TYPES[kind] + bits);
}

/** @param {GraphNode} node @param {boolean} isRead @param {string} [called] by the program @returns {Box} */
function nodeBox({ key, op, name, target, args, result, piece }, isRead, called) {
  const lines = called ? [clipped(called, 60), op] : [name, clipped(`${op} ${target}`, 60)];
  if (result && !isRead) lines.push(shortType(result));
  if (op === "output") lines.splice(0, lines.length, "output");
  if (piece) lines.push(`piece ${piece}`);
  return {
    name,
    ident: `node-${name}`,
    kind: op,
    lines,
    tooltip: clipped(`${target}${args}`, 200),
    keys: [key],
    result,
    piece: piece ?? 0,
  };
}

/** A group as one box. @param {Group} group @param {GraphNode[]} nodes @returns {Box} */
function closedBox(group, nodes) {
  const all = within(group);
  return {
    name: `module:${group.path}`,
    ident: `module-${group.path}`,
    kind: "closed",
    lines: [group.title, plural(all.length, "node")],
    tooltip: group.path.includes("#") ? group.title : group.path,
    keys: all.map((number) => nodes[number].key),
    result: "",
    piece: 0,
  };
}

/** Cut in the middle to at most `limit` letters. @param {string} text @param {number} limit @returns {string} */
function clipped(text, limit) {
  const letters = [...text];
  if (letters.length <= limit) return text;
  const tail = Math.floor((limit - 3) / 4);
  return `${letters.slice(0, limit - 3 - tail).join("")}...${letters.slice(-tail).join("")}`;
}
