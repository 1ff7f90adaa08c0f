// @ts-check
/**
 * The nodes of a graph in groups that can be closed, as views/groups.py makes them (a test keeps both equal): groups nest
 * as modules do, many nodes of one group stand in blocks, and a large graph starts closed as far as it must to fit.
 */

/**
 * @typedef {import("./types.js").GraphNode} GraphNode
 * @typedef {{path: string, title: string, nodes: number[], inner: Group[]}} Group  `nodes` by their number in the graph
 * @typedef {{name: string, ident: string, kind: string, lines: string[], tooltip: string, keys: string[],
 *   piece: number}} Box  a node, or a closed group; `keys` are the link keys of what is in it
 */

/** A group with half as many more nodes of its own is cut into blocks of so many. */
const BLOCK = 40;

/** So many boxes are drawn at most before somebody opens a group. */
const PAGE = 80;

/** What the cells of a node are, as views/explorer_data.py gives them. */
const OP = 0;
const NAME = 1;
const TARGET = 2;
const ARGS = 3;
const RESULT = 5;
const MODULE = 6;

/** @param {GraphNode[]} nodes @returns {Group} the whole graph */
export function grouped(nodes) {
  /** @type {Group} */
  const root = { path: "", title: "", nodes: [], inner: [] };
  const known = new Map([["", root]]);
  nodes.forEach(({ cells }, number) => {
    let at = root;
    let path = "";
    for (const part of cells[MODULE] ? cells[MODULE].split(".") : []) {
      path = path ? `${path}.${part}` : part;
      let inner = known.get(path);
      if (!inner) {
        inner = { path, title: part, nodes: [], inner: [] };
        known.set(path, inner);
        at.inner.push(inner);
      }
      at = inner;
    }
    at.nodes.push(number);
  });
  for (const group of known.values()) cut(group, nodes);
  return root;
}

/** Put many nodes of one group into blocks. @param {Group} group @param {GraphNode[]} nodes */
function cut(group, nodes) {
  if (2 * group.nodes.length <= 3 * BLOCK) return;
  for (let start = 0; start < group.nodes.length; start += BLOCK) {
    const block = group.nodes.slice(start, start + BLOCK);
    const title = `${nodes[block[0]].cells[NAME]} ... ${nodes[block[block.length - 1]].cells[NAME]}`;
    group.inner.push({ path: `${group.path}#${start}`, title, nodes: block, inner: [] });
  }
  group.nodes = [];
}

/** @param {Group} group @returns {number[]} all nodes of the group and of those inside it */
export function within(group) {
  return [...group.nodes, ...group.inner.flatMap(within)];
}

/** @param {Group} group @returns {string[]} the paths of all groups inside it */
export function pathsIn(group) {
  return group.inner.flatMap((inner) => [inner.path, ...pathsIn(inner)]);
}

/**
 * The paths of the groups that are closed when at most so many boxes are drawn.
 * @param {Group} root
 * @param {number} [most]
 * @returns {Set<string>}
 */
export function startClosed(root, most = PAGE) {
  const closed = new Set();
  let count = root.nodes.length + root.inner.length;
  const waiting = [...root.inner];
  for (const group of waiting) {
    const more = group.nodes.length + group.inner.length - 1;
    if (count + more > most) {
      closed.add(group.path);
    } else {
      count += more;
      waiting.push(...group.inner);
    }
  }
  return closed;
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
function nodeBox({ key, cells, piece }) {
  const lines = [cells[NAME], clipped(`${cells[OP]} ${cells[TARGET]}`, 60)];
  if (cells[RESULT]) lines.push(cells[RESULT]);
  if (cells[OP] === "output") lines.splice(0, lines.length, "output");
  if (piece) lines.push(`piece ${piece}`);
  return {
    name: cells[NAME],
    ident: `node-${cells[NAME]}`,
    kind: cells[OP],
    lines,
    tooltip: clipped(`${cells[TARGET]}${cells[ARGS]}`, 200),
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
    lines: [group.title, `${all.length} nodes`],
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
