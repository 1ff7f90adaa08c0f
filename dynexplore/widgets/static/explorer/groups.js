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
 *   piece: number}} Box  a node, or a closed group; `keys` are the link keys of what is in it
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
 * @returns {{boxes: Map<string, Box>, edges: [string, string][]}}
 */
export function drawn(root, nodes, closed) {
  const boxes = new Map();
  /** @type {string[]} node -> the box that it is in */
  const standing = [];
  /** @param {Group} group */
  const collect = (group) => {
    for (const number of group.nodes) {
      const box = nodeBox(nodes[number]);
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
  /** @type {Map<string, [string, string]>} */
  const edges = new Map();
  for (const number of within(root)) {
    for (const source of nodes[number].inputs ?? []) {
      const [start, end] = [standing[source], standing[number]];
      if (start !== end) edges.set(`${start}\n${end}`, [start, end]);
    }
  }
  return { boxes, edges: [...edges.values()] };
}

/** @param {GraphNode} node @returns {Box} */
function nodeBox({ key, op, name, target, args, result, piece }) {
  const lines = [name, clipped(`${op} ${target}`, 60)];
  if (result) lines.push(result);
  if (op === "output") lines.splice(0, lines.length, "output");
  if (piece) lines.push(`piece ${piece}`);
  return {
    name,
    ident: `node-${name}`,
    kind: op,
    lines,
    tooltip: clipped(`${target}${args}`, 200),
    keys: [key],
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
