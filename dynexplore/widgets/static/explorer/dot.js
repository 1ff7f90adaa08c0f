// @ts-check
/**
 * A graph as DOT text for graphviz, the same that views/dot.py writes (a test keeps both equal). It is written here as
 * well because groups are opened and closed where no kernel is.
 */

import { drawn } from "./groups.js";

/** Fill colour by FX opcode; page.css has those that are seen. @type {Record<string, string>} */
const COLOURS = {
  placeholder: "#dbeafe",
  get_attr: "#e0e7ff",
  call_function: "#dcfce7",
  call_method: "#dcfce7",
  call_module: "#fef9c3",
  output: "#fee2e2",
};

/** Border colours of the pieces that a graph was split into, over and over. */
const PIECE_COLOURS = ["#2563eb", "#ea580c", "#16a34a", "#9333ea", "#dc2626", "#0891b2"];

/**
 * @typedef {import("./groups.js").Group} Group
 * @typedef {import("./groups.js").Box} Box
 */

/**
 * @param {string} name of the graph
 * @param {Group} root
 * @param {import("./types.js").GraphNode[]} nodes
 * @param {Set<string>} closed the paths of the groups that are drawn as one box
 * @returns {string}
 */
export function dotOf(name, root, nodes, closed) {
  const { boxes, edges } = drawn(root, nodes, closed);
  /** @param {Group} group @param {string} indent @returns {string[]} */
  const clusterLines = (group, indent) => {
    const lines = group.nodes.map((number) => indent + boxLine(boxes.get(nodes[number].cells[1])));
    for (const inner of group.inner) {
      if (closed.has(inner.path)) {
        lines.push(indent + boxLine(boxes.get(`module:${inner.path}`)));
        continue;
      }
      const style = 'style="rounded,dashed", color="#94a3b8", fontsize=10';
      lines.push(
        `${indent}subgraph ${quoted(`cluster_${inner.path}`)} {`,
        `${indent}  graph [id=${quoted(`module-${inner.path}`)}, label=${quoted(inner.title)}, ${style}];`,
        ...clusterLines(inner, `${indent}  `),
        `${indent}}`,
      );
    }
    return lines;
  };
  return [
    `digraph ${quoted(name)} {`,
    '  graph [rankdir="TB", bgcolor="transparent", fontname="Courier", compound=true];',
    '  node [shape="box", style="rounded,filled", fontname="Courier", fontsize=10];',
    '  edge [fontname="Courier", fontsize=9];',
    ...clusterLines(root, "  "),
    ...edges.map(([from, to]) => `  ${quoted(from)} -> ${quoted(to)} [id=${quoted(`edge-${from}-${to}`)}];`),
    "}",
  ].join("\n");
}

/** @param {Box | undefined} box @returns {string} */
function boxLine(box) {
  if (!box) return "";
  const label = `"${box.lines.map(escaped).join("\\n")}"`;
  const colour = COLOURS[box.kind] ?? "#f1f5f9";
  const kind = box.piece ? `${box.kind} piece-${box.piece}` : box.kind;
  const facts = `id=${quoted(box.ident)}, class=${quoted(kind)}, label=${label}, tooltip=${quoted(box.tooltip)}`;
  const border = PIECE_COLOURS[(box.piece - 1) % PIECE_COLOURS.length];
  const more = box.piece ? `, color=${quoted(border)}, penwidth="2"` : "";
  return `${quoted(box.name)} [${facts}, fillcolor=${quoted(colour)}${more}];`;
}

/** @param {string} text @returns {string} */
function quoted(text) {
  return `"${escaped(text)}"`;
}

/** Quotes and backslashes escaped, line ends and control characters as spaces. @param {string} text @returns {string} */
function escaped(text) {
  return text.replace(/[\p{C}\p{Z}]/gu, " ").replaceAll("\\", "\\\\").replaceAll('"', '\\"');
}
