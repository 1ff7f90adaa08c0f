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
 * @param {Record<string, string>} [inputs] what the program calls inputs of the graph
 * @param {string} [direction] from top to bottom (TB), or from left to right (LR)
 * @param {(box: Box) => string} [costOf] what a box costs, as its last line; views/dot.py has none
 * @returns {string}
 */
export function dotOf(name, root, nodes, closed, inputs = {}, direction = "TB", costOf = () => "") {
  const { boxes, edges } = drawn(root, nodes, closed, inputs);
  for (const box of boxes.values()) box.lines = [...box.lines, costOf(box)].filter(Boolean);
  /** @param {Group} group @param {string} indent @returns {string[]} */
  const clusterLines = (group, indent) => {
    const lines = group.nodes.map((number) => indent + boxLine(boxes.get(nodes[number].name)));
    for (const inner of group.inner) {
      if (closed.has(inner.path)) {
        lines.push(indent + boxLine(boxes.get(`module:${inner.path}`)));
        continue;
      }
      const facts = { id: literal(`module-${inner.path}`), label: literal(inner.title) };
      lines.push(
        `${indent}subgraph ${quoted(literal(`cluster_${inner.path}`))} {`,
        `${indent}\tgraph${attributes({ ...facts, style: "rounded,dashed", color: "#94a3b8", fontsize: "10" })}`,
        ...clusterLines(inner, `${indent}\t`),
        `${indent}}`,
      );
    }
    return lines;
  };
  const font = { fontname: "Courier" };
  return [
    `digraph ${quoted(literal(name))} {`,
    `\tgraph${attributes({ ...font, bgcolor: "transparent", compound: "true", rankdir: direction })}`,
    `\tnode${attributes({ ...font, shape: "box", style: "rounded,filled", fontsize: "10" })}`,
    `\tedge${attributes({ ...font, fontsize: "10" })}`,
    ...clusterLines(root, "\t"),
    ...edges.map(([from, to, flow]) => {
      const facts = { id: literal(`edge-${from}-${to}`), ...(flow ? { label: literal(flow) } : {}) };
      return `\t${identifier(from)} -> ${identifier(to)}${attributes(facts)}`;
    }),
    "}",
  ].join("\n");
}

/** @param {Box | undefined} box @returns {string} */
function boxLine(box) {
  if (!box) return "";
  const facts = {
    id: literal(box.ident),
    class: literal(box.piece ? `${box.kind} piece-${box.piece}` : box.kind),
    label: box.lines.map(literal).join("\\n"),
    tooltip: literal(box.tooltip),
    fillcolor: COLOURS[box.kind] ?? "#f1f5f9",
  };
  const border = PIECE_COLOURS[(box.piece - 1) % PIECE_COLOURS.length];
  return identifier(box.name) + attributes(box.piece ? { ...facts, color: border, penwidth: "2" } : facts);
}

/** In the order of their names, as Python's package writes them. @param {Record<string, string>} facts @returns {string} */
function attributes(facts) {
  const names = Object.keys(facts).sort();
  return ` [${names.map((name) => `${name}=${quoted(facts[name])}`).join(" ")}]`;
}

const PLAIN = /^([a-zA-Z_][a-zA-Z0-9_]*|-?(\.[0-9]+|[0-9]+(\.[0-9]*)?))$/;
const KEYWORDS = new Set(["node", "edge", "graph", "digraph", "subgraph", "strict"]);

/** In quotes where it needs them; backslashes are escaped already. @param {string} text @returns {string} */
function quoted(text) {
  return PLAIN.test(text) && !KEYWORDS.has(text.toLowerCase()) ? text : `"${text.replaceAll('"', '\\"')}"`;
}

/** Backslashes escaped, line ends and control characters as spaces. @param {string} text @returns {string} */
function literal(text) {
  return text.replace(/[\p{C}\p{Z}]/gu, " ").replaceAll("\\", "\\\\");
}

/** The name of a node: a colon would be taken for a port. @param {string} name @returns {string} */
function identifier(name) {
  return quoted(literal(name.replaceAll(":", "%3A").replaceAll("<", "%3C")));
}
