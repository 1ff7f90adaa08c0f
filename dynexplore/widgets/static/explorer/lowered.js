// @ts-check
/**
 * From a line of the source to what the compiler generated from it, and back: which lines each part of a compiler's text stands for.
 *
 * Which idea lives here: each stage says where its parts come from in a way of its own. Graphs in ATen operators have a comment
 * with the line; Inductor's diagram names the ATen nodes of each loop body; a Triton kernel has a comment with the FX nodes, and
 * the name of a kernel lists the ATen operators that were fused into it, which is all that a C++ kernel says.
 *
 * In:  the artifacts of a graph, in the order in which the compiler emitted them, and the nodes of the graph.
 * Out: `loweredOf(artifacts, nodes)`: for each artifact its blocks, which together are its text.
 */

/** @typedef {{text: string, lines: number[]}} Block  lines of text that stand for the same lines of the source */

const FILE = /^\s*# File: .*?:(\d+) in /;
const ATEN = /^\s*(\w+)(?:: ?"[^"]*")? = torch\.ops\.\w+\.(\w+)/;
const BODY = /^(op\d+(?:_op\d+)*)\b/;
const ORIGINS = /\b(op\d+(?:_op\d+)*): ([\w, ]+)/g;
const ORIGIN = /^ +\w+ +from ([\w, ]+)$/;
const NODES = /Source Nodes: \[([^\]]*)\]/;
const KERNEL = /\b(\w+_fused_(\w+?)_\d+)\b/;

/**
 * @param {import("./types.js").Artefact[]} artifacts
 * @param {import("./types.js").GraphNode[]} nodes
 * @returns {Block[][]}
 */
export function loweredOf(artifacts, nodes) {
  const names = new Names(nodes);
  for (const { part, text } of artifacts) if (part === "graph" || part === "joint") names.readGraph(text);
  for (const { part, text } of artifacts) if (part === "diagram") names.readDiagram(text);
  const readers = /** @type {Record<string, (lines: string[]) => number[][]>} */ ({
    "joint": ofGraph, "graph": ofGraph, "ir": (lines) => names.ofBodies(lines), "fused ir": (lines) => names.ofBodies(lines),
    "provenance": (lines) => lines.map((line) => joined((ORIGIN.exec(line)?.[1] ?? "").split(", ").map((name) => names.nodes.get(name) ?? []))),
    "kernels": (lines) => names.ofKernels(lines), "code": (lines) => names.ofKernels(lines),
  });
  return artifacts.map(({ part, text }) => {
    const lines = text.split("\n");
    return blocksOf(lines, readers[part]?.(lines) ?? lines.map(() => []));
  });
}

/** Where the nodes and operators of each stage come from. */
class Names {
  /** @param {import("./types.js").GraphNode[]} nodes */
  constructor(nodes) {
    /** @type {Map<string, number[]>} names of FX and ATen nodes, and of loop bodies -> lines */
    this.nodes = new Map(nodes.map(({ name, line }) => [name, line ? [line] : []]));
    /** @type {Map<string, number[]>} ATen operators -> lines */
    this.operators = new Map();
  }

  /** @param {string} text */
  readGraph(text) {
    const lines = text.split("\n");
    ofGraph(lines).forEach((of, at) => {
      const [, name = "", operator = ""] = ATEN.exec(lines[at]) ?? [];
      if (!name) return;
      if (!this.nodes.get(name)?.length) this.nodes.set(name, of);
      this.operators.set(operator, joined([this.operators.get(operator) ?? [], of]));
    });
  }

  /** @param {string} text */
  readDiagram(text) {
    for (const [, body, origins] of text.matchAll(ORIGINS)) {
      this.nodes.set(body, joined(origins.split(", ").map((name) => this.nodes.get(name) ?? [])));
    }
  }

  /** Of Inductor's loop bodies, each of which goes on to the next one. @param {string[]} lines */
  ofBodies(lines) {
    /** @type {number[]} */
    let of = [];
    return lines.map((line) => {
      const body = BODY.exec(line)?.[1];
      if (body) of = this.nodes.get(body) ?? joined([...this.nodes].flatMap(([name, lines]) => (BODY.test(name) && name.split("_").includes(body) ? [lines] : [])));
      return of;
    });
  }

  /** Of kernels: their definitions, and the lines that name them. @param {string[]} lines */
  ofKernels(lines) {
    /** @type {number[]} */
    let of = [];
    /** @type {number[]} */
    let listed = [];
    let isInside = false;
    return lines.map((line) => {
      const [, names] = NODES.exec(line) ?? [];
      if (names !== undefined) return (listed = joined(names.split(", ").map((name) => this.nodes.get(name) ?? [])));
      const [, , fused] = KERNEL.exec(line) ?? [];
      if (fused && !isInside) of = listed.length ? listed : this.fusedIn(fused);
      if (fused && !isInside) listed = [];
      const own = isInside || fused ? of : listed;
      if (/'''|\{\s*$|\}\s*$/.test(line)) isInside = /'''\s*$/.test(line) && !isInside ? Boolean(fused) : isInside && !/^'''/.test(line);
      return own;
    });
  }

  /** The lines of the operators that the name of a kernel lists. @param {string} fused */
  fusedIn(fused) {
    return joined([...this.operators].flatMap(([operator, lines]) => (`_${fused}_`.includes(`_${operator}_`) ? [lines] : [])));
  }
}

/** A comment with the line holds for the lines below it. @param {string[]} lines */
function ofGraph(lines) {
  /** @type {number[]} */
  let of = [];
  return lines.map((line) => {
    const [, number = ""] = FILE.exec(line) ?? [];
    if (number) of = [Number(number)];
    else if (!line.trim() || /^\s*return\b/.test(line)) of = [];
    return of;
  });
}

/** @param {number[][]} lists @returns {number[]} each once, sorted */
function joined(lists) {
  return [...new Set(lists.flat())].sort((one, other) => one - other);
}

/** @param {string[]} lines @param {number[][]} of @returns {Block[]} */
function blocksOf(lines, of) {
  /** @type {Block[]} */
  const blocks = [];
  lines.forEach((line, at) => {
    const last = blocks.at(-1);
    if (last && last.lines.join() === of[at].join()) last.text += `\n${line}`;
    else blocks.push({ text: line, lines: of[at] });
  });
  return blocks;
}
