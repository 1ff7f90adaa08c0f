// @ts-check
/**
 * The memory of the graphs: bytes over the nodes as a step line, the peak marked, what is saved for backward shaded. The pointer, or
 * the arrows while the picture has the focus, name the operator at hand; the step at hand is marked where it made a node.
 *
 * In:  `memory` of the data (views/memory_picture.py): the picture as text, its edges, and a row for each node.
 */

import { make, note } from "../dom.js";
import { adopted } from "../svg.js";

/**
 * @typedef {import("../types.js").GraphMemory} GraphMemory
 */

/** @type {import("../types.js").Pane} */
export const memoryPane = {
  key: "memory",
  title: "Memory",
  wanted: (data) => (data.memory ?? []).length > 0,
  build(explorer, { body }) {
    /** @type {Chart[]} */
    let charts = [];
    return {
      copies: { memory: () => charts.map(({ graph }) => [graph.graph, ...graph.lines].join("\n  ")).join("\n") },
      showFrame(frame) {
        const own = (explorer.data.memory ?? []).filter((graph) => graph.frame === frame.id);
        charts = own.map((graph) => new Chart(graph));
        body.replaceChildren(...(charts.length ? charts.map(({ element }) => element) : [note("this frame has no graph")]));
      },
      showState(state) {
        const names = (state.nodes ?? []).map((key) => key.split(":").at(-1));
        for (const chart of charts) chart.follow(names);
      },
    };
  },
};

/** One graph: its picture, and the node at hand. */
class Chart {
  /** @param {GraphMemory} graph */
  constructor(graph) {
    this.graph = graph;
    this.at = graph.peak;
    this.drawing = /** @type {SVGElement} */ (adopted(graph.picture));
    this.drawing.setAttribute("aria-hidden", "true");
    this.cursor = document.createElementNS(this.drawing.namespaceURI, "rect");
    this.cursor.setAttribute("class", "dynx-memory-cursor");
    this.cursor.setAttribute("y", String(graph.edges.top));
    this.cursor.setAttribute("height", String(graph.edges.bottom - graph.edges.top));
    this.drawing.append(this.cursor);
    this.words = make("span");
    const slider = make("div", "dynx-memory-picture");
    slider.append(this.drawing);
    slider.tabIndex = 0;
    slider.setAttribute("role", "slider");
    slider.setAttribute("aria-label", `Node of ${graph.graph}`);
    slider.setAttribute("aria-valuemin", "1");
    slider.setAttribute("aria-valuemax", String(graph.rows.length));
    slider.addEventListener("pointermove", (event) => this.point(event));
    slider.addEventListener("pointerleave", () => this.show(this.graph.peak));
    slider.addEventListener("keydown", (event) => this.onKey(event));
    this.slider = slider;
    const facts = make("ul", "dynx-memory-facts", "", ...graph.lines.map((line) => make("li", "", line)));
    const told = make("div", "dynx-memory-told", "", make("h4", "", graph.graph), facts, make("p", "dynx-memory-node", "", this.words));
    if (graph.kept.length) told.append(keptList(graph));
    this.element = make("section", "dynx-block dynx-memory-graph", "", slider, told);
    this.show(graph.peak);
  }

  /** @param {PointerEvent} event */
  point(event) {
    const box = this.drawing.getBoundingClientRect();
    const { left, right, width } = this.graph.edges;
    const x = ((event.clientX - box.left) / (box.width || 1)) * width;
    this.show(Math.floor(((x - left) / (width - left - right)) * this.graph.rows.length));
  }

  /** @param {KeyboardEvent} event */
  onKey(event) {
    const last = this.graph.rows.length - 1;
    /** @type {Record<string, number>} */
    const to = { ArrowRight: this.at + 1, ArrowLeft: this.at - 1, Home: 0, End: last, PageUp: this.at - 20, PageDown: this.at + 20 };
    if (!(event.key in to)) return;
    event.preventDefault();
    event.stopPropagation();
    this.show(to[event.key]);
  }

  /** The step at hand made nodes of the captured graph. @param {(string | undefined)[]} names */
  follow(names) {
    const at = this.graph.rows.findIndex(({ name, stage }) => stage === "captured" && names.includes(name));
    if (at >= 0) this.show(at);
  }

  /** @param {number} at */
  show(at) {
    const { rows, edges } = this.graph;
    this.at = Math.max(0, Math.min(rows.length - 1, at));
    const { name, op, stage, live, made, inside, place } = rows[this.at];
    const step = (edges.width - edges.left - edges.right) / rows.length;
    this.cursor.setAttribute("x", String(edges.left + this.at * step));
    this.cursor.setAttribute("width", String(Math.max(step, 1.5)));
    const does = [made ? `makes ${made}` : "makes nothing", inside ? `takes ${inside} while it runs` : ""];
    const facts = [`${this.at + 1} of ${rows.length}`, stage, `${name} = ${op}`, `${live} live`, ...does, place];
    this.words.textContent = facts.filter(Boolean).join(" · ");
    this.slider.setAttribute("aria-valuenow", String(this.at + 1));
    this.slider.setAttribute("aria-valuetext", this.words.textContent);
  }
}

/** @param {GraphMemory} graph */
function keptList({ kept }) {
  const items = kept.map(({ name, bytes, what }) => make("li", "", `${name}: ${bytes}${what ? ` · ${what}` : ""}`));
  const list = make("details", "dynx-memory-kept", "", make("summary", "", `Saved for backward: ${kept.length}`), make("ul", "", "", ...items));
  return list;
}
