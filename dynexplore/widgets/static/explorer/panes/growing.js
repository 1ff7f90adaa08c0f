// @ts-check
/**
 * The graph as far as it has grown at this step of this attempt, drawn from left to right: the new node is marked. A large graph
 * shows the nodes around the newest; the whole stands in the tab "Graph".
 */

import { note, plural } from "../dom.js";
import { shortType } from "../groups.js";
import { layout } from "../layout.js";
import { Rows, bestOf } from "../rows.js";
import { colourOf } from "../strip.js";
import { shape } from "../svg.js";

/** So many nodes are drawn. */
const MOST = 40;

/** Pixels above the upper row of a graph that is scrolled. */
const EDGE = 2;

/** So few pixels of a row at the upper edge are not taken for a row. */
const SLIVER = 4;

/** Pixels between the newest node and the right edge. */
const MARGIN = 10;

/**
 * @typedef {import("../types.js").Frame} Frame
 * @typedef {import("../types.js").GraphNode} GraphNode
 * @typedef {{node: GraphNode, inputs: string[], at: number}} Grown  a node, and the state that made it
 */

/** @type {import("../types.js").Pane} */
export const growingPane = {
  key: "growing",
  title: "Graph so far",
  place: "now",
  build(explorer, { body, heading }) {
    const rows = new Nodes(body);
    /** @type {Map<Frame, Map<number, Grown[]>>} */
    const grownOf = new Map();
    let drawn = "";
    /** @type {{name: string, element: Element}[]} those that stand there */
    let nodes = [];
    return {
      lists: [rows],
      showState(state, position) {
        const { frame } = explorer;
        let attempts = grownOf.get(frame);
        if (!attempts) grownOf.set(frame, (attempts = grown(frame)));
        const attempt = state.attempt || explorer.states().lastAttempt;
        const all = attempts.get(attempt) ?? [];
        const isKept = attempt === explorer.states().lastAttempt;
        const whole = explorer.data.isFirstView && isKept ? frame.graphs.reduce((sum, { calls }) => sum + calls, 0) : operators(all);
        const made = state.attempt ? all.filter(({ at }) => at <= position) : all;
        const [number = 0] = frame.numbers;
        const module = explorer.names(made.at(-1)?.node.module ?? "");
        const part = made.length > MOST ? ` (drawn: the last ${MOST} of ${made.length} nodes)` : "";
        heading.textContent = `${headingOf(made, number, discarded(frame, attempt), whole)}${module ? `, in ${module}` : ""}${part}`;
        const key = `${frame.id} ${attempt} ${made.length} ${made.at(-1)?.at === position}`;
        if (key !== drawn) draw(made, number, position);
        drawn = key;
        const held = new Set(explorer.states().around(position).after.stack.map((value) => explorer.data.values[value].node));
        for (const { name, element } of nodes) element.classList.toggle("dynx-held", held.has(name));
      },
    };

    /** @param {Grown[]} made @param {number} number @param {number} position */
    function draw(made, number, position) {
      rows.clear();
      nodes = [];
      body.replaceChildren(made.length ? drawing(made.slice(-MOST), rows, { number, position, label: (name) => explorer.label(name) }, nodes) : note("no node yet"));
      const newest = nodes.at(-1)?.element;
      if (newest) rows.reveal(newest);
    }
  },
};

/** The nodes that are drawn: the pane is scrolled so that what is chosen is seen whole. */
class Nodes extends Rows {
  /** @param {HTMLElement} body what they stand in */
  constructor(body) {
    super();
    this.body = body;
  }

  /** @param {Map<string, string>} marks */
  aim(marks) {
    this.goal = undefined;
    const target = bestOf(this.at, marks)?.[0];
    if (!target) return;
    const [view, at] = [this.body.getBoundingClientRect(), target.getBoundingClientRect()];
    if (at.top < view.top || at.bottom > view.bottom) this.goal = { scroller: this.body, top: this.place(target) };
  }

  /** Show a node with all that stands left of it: a tall graph shows where it grows. @param {Element} node */
  reveal(node) {
    this.body.scrollLeft += node.getBoundingClientRect().right + MARGIN - this.body.getBoundingClientRect().right;
    this.body.scrollTop = this.place(node);
  }

  /**
   * How far down the pane is scrolled so that a node is about half-way down, and the upper edge cuts no other, where there is such a
   * place.
   * @param {Element} node
   */
  place(node) {
    const { body } = this;
    const home = body.getBoundingClientRect().top - body.scrollTop;
    const limit = Math.max(0, body.scrollHeight - body.clientHeight);
    const boxOf = (/** @type {Element} */ element) => {
      const { top, bottom } = element.getBoundingClientRect();
      return { top: top - home, bottom: bottom - home };
    };
    const at = boxOf(node);
    const all = [...this.at.values()].flat().map(boxOf);
    const middle = (at.top + at.bottom - body.clientHeight) / 2;
    const places = [0, limit, ...all.map(({ top }) => top - EDGE)].filter((to) => {
      const isSeen = to <= at.top && at.bottom <= to + body.clientHeight;
      return isSeen && to >= 0 && to <= limit && !all.some(({ top, bottom }) => top < to && bottom > to + SLIVER);
    });
    return places.sort((one, other) => Math.abs(one - middle) - Math.abs(other - middle))[0] ?? middle;
  }
}

/** Whether an attempt was given up for a later one. @param {Frame} frame @param {number} attempt */
function discarded(frame, attempt) {
  return frame.states.some((state) => (state.attempt ?? 0) > attempt) ? `, attempt ${attempt} (discarded)` : "";
}

/** The nodes of each attempt at a frame, in the order in which they were added. @param {Frame} frame @returns {Map<number, Grown[]>} */
function grown(frame) {
  /** @type {Map<string, {node: GraphNode, inputs: string[]}>} */
  const kept = new Map();
  for (const { nodes } of frame.graphs) {
    for (const node of nodes) kept.set(node.key, { node, inputs: (node.inputs ?? []).map((at) => nodes[at].name) });
  }
  /** @type {Map<number, Grown[]>} */
  const attempts = new Map();
  frame.states.forEach((state, at) => {
    for (const key of state.nodes ?? []) {
      const attempt = state.attempt ?? 0;
      const thrown = frame.thrown?.[attempt]?.find((node) => node.key === key);
      const found = thrown ? { node: thrown, inputs: thrown.reads ?? [] } : kept.get(key);
      if (!found || found.node.op === "get_attr") continue; // parameters would hide the operators: the tab has them
      const there = attempts.get(attempt);
      if (there) there.push({ ...found, at });
      else attempts.set(attempt, [{ ...found, at }]);
    }
  });
  return attempts;
}

/** How many of some nodes are operators. @param {Grown[]} some */
function operators(some) {
  return some.filter(({ node }) => node.op.startsWith("call_")).length;
}

/** @param {Grown[]} made @param {number} number @param {string} became @param {number} whole */
function headingOf(made, number, became, whole) {
  const count = operators(made);
  const name = `${number ? `Graph ${number}` : "Graph"}${became}`;
  const so = count < whole ? `${count} of ${plural(whole, "operator")} so far` : plural(whole, "operator");
  return `${name}: ${so}`;
}

/**
 * @param {Grown[]} made @param {Rows} rows
 * @param {{number: number, position: number, label: (node: string) => string}} facts number of the graph, the step, and what
 *   the program calls its inputs
 * @param {{name: string, element: Element}[]} nodes is told the element of each node
 */
function drawing(made, rows, { number, position, label }, nodes) {
  const { boxes, edges, width, height } = layout(made.map(({ node, inputs }) => ({ name: node.name, inputs, lines: linesOf(node, label) })));
  const svg = shape("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", class: `dynx-drawing ${colourOf(number)}` });
  svg.setAttribute("aria-label", "graph so far");
  const head = `dynx-head-${Math.random().toString(36).slice(2)}`;
  const arrow = shape("marker", { id: head, viewBox: "0 0 8 8", refX: 8, refY: 4, markerWidth: 8, markerHeight: 8, orient: "auto", markerUnits: "userSpaceOnUse" });
  arrow.append(shape("path", { d: "M0,0 L8,4 L0,8 z", class: "dynx-arrow" }));
  svg.append(shape("defs", {}, arrow));
  for (const d of edges) svg.append(shape("path", { d, class: "dynx-edge", "marker-end": `url(#${head})` }));
  made.forEach(({ node, at }) => {
    const box = boxes.get(node.name);
    if (!box) return;
    const kind = node.op === "placeholder" || node.op === "get_attr" || node.op === "output" ? "dynx-input" : "dynx-operator";
    const group = shape(
      "g",
      { class: `dynx-node ${kind} ${at === position ? "dynx-newest" : ""}`, tabindex: -1, role: "button", "aria-label": `${box.lines.join(", ")}` },
      shape("title", {}, `${node.op} ${node.target}${node.args} ${node.result}`),
      shape("rect", { x: box.x, y: box.y, width: box.width, height: box.height, rx: 4 }),
      ...box.lines.map((text, line) => shape("text", { x: box.x + box.width / 2, y: box.y + 16 + 15 * line, class: line ? "dynx-small" : "" }, text)),
    );
    rows.under(/** @type {any} */ (group), [node.key]);
    nodes.push({ name: node.name, element: group });
    svg.append(group);
  });
  return svg;
}

/** Name, and dtype and shape in short. @param {GraphNode} node @param {(node: string) => string} label */
function linesOf({ op, name, result }, label) {
  return [op === "output" ? "output" : cut(label(name)), shortType(result)].filter(Boolean);
}

/** Of a long path the end tells more. @param {string} text */
function cut(text) {
  return text.length > 20 ? `…${text.slice(-19)}` : text;
}
