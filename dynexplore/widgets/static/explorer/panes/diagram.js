// @ts-check
/**
 * The FX graphs of a frame as diagrams: boxes that can be chosen like every other row, groups that open and close.
 *
 * It opens as one reads it (folded.js): operators from top to bottom, equal layers once. "All nodes" shows every node in its group:
 * graphviz draws it in the browser when it first comes into view, and a file that was exported without graphviz holds one drawing of
 * each graph instead, whose groups stay as they are. A large one has a map (minimap.js).
 */

import { NODE_COLUMNS, cellsOf } from "../columns.js";
import { asCall, make, makeButton, note, plural, prose } from "../dom.js";
import { dotOf } from "../dot.js";
import { graphviz, hasGraphviz } from "../graphviz.js";
import { folded } from "../folded.js";
import { drawn, pathsIn } from "../groups.js";
import { isParameter } from "../grown.js";
import { layout } from "../layout.js";
import { Minimap } from "../minimap.js";
import { boxShape, crossings, roomOf, sheet } from "../picture.js";
import { Rows, bestOf } from "../rows.js";
import { measured, percentOf, ranked } from "../shares.js";
import { remember, remembered } from "../splitter.js";
import { adopted, shape } from "../svg.js";
import { CostsAside } from "./costs.js";
import { graphsOf, isFailing } from "./graph.js";

/** How much a button changes the size. */
const ZOOM = 1.25;

/** A small diagram opens this much larger than drawn, at most. */
const LARGEST = 1.25;

/** The height of letters that can be read, in pixels: as long as nobody chose a size they are not smaller, and the map shows the whole. */
const READABLE = 13;

/** What colors the boxes, and what its button says. @type {[By, string][]} */
const COLORS = [["line", "Line"], ["time", "Time"], ["bytes", "Bytes"]];

/** The part of the color that the box with the highest cost has, in percent: letters are read on it in every theme. */
const MOST = 45;

/**
 * @typedef {import("../types.js").Frame} Frame
 * @typedef {import("../groups.js").Group} Group
 * @typedef {import("../types.js").Marks} Marks
 * @typedef {import("../shares.js").By} By
 * @typedef {{graph: import("../types.js").Graph, at: number, root: Group, closed: Set<string>, holder: HTMLElement,
 *   width: number, height: number, costs: Map<number, number>}} Figure  a graph, its drawing, and what its operators cost
 */

/** @type {import("../types.js").Pane} */
export const diagramPane = {
  key: "diagram",
  title: "Diagram",
  build(explorer, place) {
    const diagram = new Diagram(explorer, place);
    return {
      lists: [diagram.rows],
      showFrame: (frame) => diagram.showFrame(frame),
      showView: () => diagram.onSize(),
      showAll: () => diagram.fold(false),
      keys: { "+": () => diagram.zoom(ZOOM), "-": () => diagram.zoom(1 / ZOOM), 0: () => diagram.fit(), f: () => diagram.fit(), x: () => diagram.fold(!diagram.isFolded) },
    };
  },
};

/** The boxes of the diagram under their keys; a closed box stands under the keys of all that is in it. */
class Boxes extends Rows {
  constructor() {
    super();
    /** @type {Marks} */
    this.marks = new Map();
    /** @type {Map<Element, string>} what a search looks at */
    this.texts = new Map();
    this.wanted = "";
    /** @type {() => void} is told when other boxes are lit */
    this.onLight = () => {};
  }

  clear() {
    super.clear();
    this.texts.clear();
  }

  /** @param {Marks} marks */
  aim(marks) {
    this.goal = undefined;
    const target = bestOf(this.at, marks)?.[0];
    const scroller = target?.closest(".dynx-body");
    if (target && scroller) this.goal = goalOf(scroller, target);
  }

  /** @param {Marks} marks */
  light(marks) {
    this.marks = marks;
    super.light(marks);
    this.onLight();
  }

  /** Boxes that hold the text are marked; the table of the graph has counted them. @param {string} wanted @returns {[]} */
  find(wanted) {
    this.wanted = wanted;
    for (const [box, text] of this.texts) box.classList.toggle("dynx-found", wanted !== "" && text.includes(wanted));
    return [];
  }

  forget() {
    this.find("");
  }
}

/**
 * Where to scroll so that an element is in the middle, when it is not in view.
 * @param {Element} scroller
 * @param {Element} target
 */
function goalOf(scroller, target) {
  const box = scroller.getBoundingClientRect();
  const at = target.getBoundingClientRect();
  if (at.top >= box.top && at.bottom <= box.bottom && at.left >= box.left && at.right <= box.right) return undefined;
  const top = scroller.scrollTop + (at.top + at.bottom) / 2 - (box.top + box.bottom) / 2;
  return { scroller, top, left: scroller.scrollLeft + (at.left + at.right) / 2 - (box.left + box.right) / 2 };
}

/** A length of a drawing; graphviz counts in points. @param {Element} svg @param {string} name @returns {number} */
function pixels(svg, name) {
  const length = svg.getAttribute(name) ?? "";
  return (Number.parseFloat(length) || 0) * (length.endsWith("pt") ? 4 / 3 : 1);
}

/** The height of the smallest letters of drawings at the scale 1, in pixels. @param {Figure[]} figures */
function lettersOf(figures) {
  const sizes = figures.flatMap(({ holder, width }) => {
    const drawn = Number.parseFloat(holder.querySelector("svg")?.getAttribute("viewBox")?.split(" ")[2] ?? "") || width;
    const styles = new Set([...holder.querySelectorAll("text")].map((text) => getComputedStyle(text).fontSize));
    return [...styles].map((size) => (Number.parseFloat(size) * width) / drawn);
  });
  return Math.min(...sizes);
}

/** Whether a frame has a graph, be it one that its backend did not compile. @param {Frame} frame */
function hasGraph(frame) {
  return graphsOf(frame).length > 0;
}

/**
 * The frame whose graphs are drawn: the one on show, else the nearest one before it that has a graph, else the first one behind it.
 * @param {import("../page.js").Explorer} explorer @param {Frame} frame
 */
function drawnFor({ walk }, frame) {
  const at = walk.indexOf(frame);
  return hasGraph(frame) ? frame : walk.slice(0, Math.max(at, 0)).reverse().find(hasGraph) ?? walk.slice(at + 1).find(hasGraph) ?? frame;
}

/** The name of the graphs of a frame, and how many operators they have. @param {Frame} frame */
function graphName(frame) {
  const { numbers, title } = frame;
  const operators = graphsOf(frame).reduce((sum, { calls }) => sum + calls, 0);
  return `${numbers.length ? `Graph ${numbers.join(", ")}: ` : ""}${title}, ${plural(operators, "operator")}${numbers.length ? "" : ", not compiled"}`;
}

/** Why a recording has no graph at all, and what next. @param {import("../page.js").Explorer} explorer @returns {HTMLElement} */
function withoutGraph(explorer) {
  const { rows, empty } = explorer.data.overview;
  const [row] = rows;
  const cause = row ? [row.cause.replace(/[.]?$/, "."), row.where ? ` (${row.function || "the program"}, ${row.where})` : ""].join("") : (empty?.why ?? "");
  const open = row ? [makeButton("Open the overview", () => explorer.tabs.openAgain("overview"), { name: "dynx-tool" })] : [];
  return make("div", "dynx-empty", "", make("p", "", "No graph was captured, so there is nothing to draw."), ...(cause ? [make("p", "", "", ...prose(cause))] : []), ...open);
}

/** The least width of a picture with a frame, and what is left and right of the boxes, in pixels. */
const [FRAME, INSET] = [300, 12];

/** The width of a letter of a frame's title, at most. */
const LETTER = 7.5;

/**
 * Where a frame's title stands: left of the edges that come in there, between two of them, or behind the last.
 * @param {number} wanted its width @param {number[]} edges how far right each is @param {number} width of the picture
 * @returns {{x: number, end: number}} `end`: how wide the picture must be
 */
function titlePlace(wanted, edges, width) {
  const starts = [10 - INSET, ...edges.map((edge) => edge + 8)];
  const at = starts.findIndex((start, number) => start + wanted <= (edges[number] ?? Infinity));
  return { x: starts[at], end: Math.max(width, starts[at] + wanted) };
}

/** The frame around a layer that stands for several. @param {string} title @param {number} left @param {number} top @param {number} bottom @param {number} width */
function repeated(title, left, top, bottom, width) {
  return shape(
    "g",
    { class: "dynx-repeated" },
    shape("rect", { x: 2 - INSET + 6, y: top - 4, width: width - 10, height: bottom - top + 16, rx: 6 }),
    shape("rect", { x: 4 - INSET + 4, y: top - 6, width: width - 10, height: bottom - top + 16, rx: 6 }),
    shape("rect", { x: 2 - INSET, y: top - 8, width: width - 10, height: bottom - top + 18, rx: 6 }),
    shape("text", { x: left, y: top + 8 }, title),
  );
}

/** What the nodes of a box cost together. @param {number[]} numbers @param {Figure} figure */
function costOf(numbers, { costs }) {
  return numbers.reduce((sum, number) => sum + (costs.get(number) ?? 0), 0);
}

/** The numbers of the nodes under these keys. @param {Figure} figure @param {string[]} keys */
function numbersOf({ graph }, keys) {
  const all = new Set(keys);
  return graph.nodes.flatMap(({ key }, number) => (all.has(key) ? [number] : []));
}

/** The pane of one explorer. */
class Diagram {
  /** @param {import("../page.js").Explorer} explorer @param {import("../types.js").Place} place */
  constructor(explorer, { section, body, heading }) {
    this.explorer = explorer;
    this.body = body;
    this.heading = heading;
    this.rows = new Boxes();
    /** @type {Figure[]} */
    this.figures = [];
    /** the frame whose graphs are drawn */
    this.frame = explorer.frame;
    /** @type {WeakMap<Map<number, number>, [number, number][]>} lines of a node -> those of them that are the program's */
    this.places = new WeakMap();
    this.scale = 1;
    this.letters = READABLE; // the height of the smallest ones at the scale 1
    /** @type {import("../types.js").Frame | undefined} the one whose diagram was put where it begins */
    this.begun = undefined;
    this.inView = false;
    this.waits = false;
    this.sized = false;
    this.isFolded = remembered("graph") !== "all nodes";
    this.status = make("span", "dynx-facts");
    this.status.setAttribute("role", "status");
    this.small = make("p", "dynx-too-small", "Too small to read: zoom in (+)");
    this.small.hidden = true;
    this.map = new Minimap(body, (direction) => this.zoom(direction > 0 ? ZOOM : 1 / ZOOM));
    this.aside = new CostsAside(explorer, this.map.element);
    this.by = COLORS.find(([by]) => by === remembered("graph color"))?.[0] ?? "line";
    this.rows.onLight = () => {
      this.map.mark();
      this.showChosen();
    };
    section.insertBefore(this.bar(), body);
    section.append(make("div", "dynx-beside", "", body, this.small, this.aside.element));
    new IntersectionObserver((seen) => this.onView(seen.some((one) => one.isIntersecting))).observe(section);
    this.dragging();
  }

  bar() {
    const bar = make(
      "div",
      "dynx-bar",
      "",
      ...this.chooser(),
      makeButton("−", () => this.zoom(1 / ZOOM), { label: "Smaller (-)" }),
      makeButton("+", () => this.zoom(ZOOM), { label: "Larger (+)" }),
      makeButton("Fit", () => this.fit(), { label: "Fit the whole diagram (f)" }),
      this.map.button,
    );
    this.folding = makeButton("Fold equal layers", () => this.fold(!this.isFolded), { label: "Fold equal layers and runs of views, leave out parameters (x)" });
    bar.append(this.folding);
    /** @type {HTMLElement[]} */
    this.groupButtons = this.isStatic
      ? []
      : [
          makeButton("Open all", () => this.regroup((graph) => graph.stayClosed), { label: "Open all groups" }),
          makeButton("Close all", () => this.regroup((graph) => pathsIn(graph.group)), { label: "Close all groups" }),
        ];
    bar.append(...this.groupButtons);
    this.markFolding();
    bar.append(this.status, this.colors());
    bar.setAttribute("role", "toolbar");
    bar.setAttribute("aria-label", "Diagram");
    return bar;
  }

  /** The graphs of the recording, to choose from. @returns {HTMLElement[]} */
  chooser() {
    const { explorer } = this;
    const frames = explorer.walk.filter(hasGraph);
    if (frames.length < 2) return [];
    this.select = /** @type {HTMLSelectElement} */ (make("select", "dynx-graph-chooser"));
    this.select.setAttribute("aria-label", "Graph");
    this.select.append(...frames.map((frame) => new Option(graphName(frame), String(frame.id))));
    this.select.addEventListener("change", ({ target }) => {
      const frame = frames.find(({ id }) => String(id) === /** @type {HTMLSelectElement} */ (target).value);
      if (frame) explorer.show(frame, explorer.states(frame).first);
    });
    return [this.select];
  }

  /** What colors the boxes: a button for each. */
  colors() {
    this.colorButtons = COLORS.map(([by, title]) => {
      const button = makeButton(title, () => this.colorBy(by), { label: `Color by ${by}` });
      button.dataset.by = by;
      return button;
    });
    this.markColor();
    return make("span", "dynx-colors", "", make("span", "", "Color by"), ...this.colorButtons);
  }

  /** @param {By} by */
  colorBy(by) {
    this.by = by;
    remember("graph color", by);
    this.markColor();
    this.measure();
    if (this.figures.length) this.draw();
  }

  markColor() {
    for (const button of this.colorButtons ?? []) {
      button.setAttribute("aria-pressed", String(button.dataset.by === this.by));
      const isPlain = button.dataset.by === "line" && !this.hasLines; // no node comes from a line of the program: no color
      button.textContent = isPlain ? "None" : (COLORS.find(([by]) => by === button.dataset.by)?.[1] ?? "");
      button.setAttribute("aria-label", `Color by ${isPlain ? "nothing" : button.dataset.by}`);
    }
  }

  /** What the operators cost, ranked beside the diagram. */
  measure() {
    for (const figure of this.figures) figure.costs = measured(this.by, figure.graph);
    const costs = this.figures.flatMap(({ costs }) => [...costs.values()]);
    this.all = costs.reduce((sum, cost) => sum + cost, 0);
    const place = (/** @type {import("../types.js").GraphNode} */ node) => (this.isNumbered ? this.placeOf(node) : this.placeHere(node));
    const shares = this.figures.flatMap(({ graph, costs }) => ranked(this.by, graph, costs, place)).sort((one, other) => other.cost - one.cost);
    const runs = Math.max(0, ...this.figures.map(({ graph }) => graph.runs ?? 0));
    this.aside.rank(this.by, shares, this.all, runs, this.frame);
  }

  /** The line of the function on show from which a node comes. @param {import("../types.js").GraphNode} node */
  lineOf({ key }) {
    const { frame } = this;
    return this.explorer.bands.linesOf(frame).get(key)?.get(frame.code);
  }

  /**
   * The line of the function on show from which a node comes, with its code.
   * @param {import("../types.js").GraphNode} node @returns {[number, number] | undefined}
   */
  placeHere(node) {
    const line = this.lineOf(node);
    return line ? [this.frame.code, line] : undefined;
  }

  /**
   * Code and line of the program from which a node comes: of the innermost of its functions if those are in one file, else of the
   * first one that is not a library's.
   * @param {import("../types.js").GraphNode} node @returns {[number, number] | undefined}
   */
  placeOf(node) {
    const places = this.placesOf(node);
    return this.isInner ? places.at(-1) : places[0];
  }

  /** Code and line of each function of the program on the way to a node, the outermost first. @param {import("../types.js").GraphNode} node @returns {[number, number][]} */
  placesOf({ key }) {
    const { explorer, frame } = this;
    const lines = explorer.bands.linesOf(frame).get(key);
    if (!lines) return [];
    let places = this.places.get(lines);
    if (!places) this.places.set(lines, (places = [...lines].filter(([code]) => !explorer.data.codes[code]?.ofLibrary)));
    return places;
  }

  /** Where the lines are whose numbers stand in the boxes: in one file, which the heading names, or the boxes have none. */
  name() {
    const { frame, explorer } = this;
    const operators = graphsOf(frame).flatMap(({ nodes }) => nodes);
    const filesOf = (/** @type {Set<number>} */ some) => new Set([...some].map((code) => explorer.data.codes[code]?.file));
    const codesOf = () => new Set(operators.flatMap((node) => this.placeOf(node)?.[0] ?? []));
    this.isInner = true;
    this.isInner = filesOf(codesOf()).size === 1;
    const codes = codesOf();
    this.isNumbered = filesOf(codes).size === 1;
    this.hasLines = codes.size > 0;
    this.markColor();
    const [code] = [...codes].map((one) => explorer.data.codes[one]);
    const file = code?.file.split(/[\\/]/).pop();
    const outer = new Set(operators.flatMap((node) => this.placesOf(node)[0]?.[0] ?? []));
    const [first] = outer.size === 1 ? [...outer].map((one) => explorer.data.codes[one]) : [];
    const where = this.isNumbered ? ` ${first ? `${file}:${first.first}; ` : ""}numbers are lines of ${file}` : "";
    this.heading.replaceChildren(make("span", "", hasGraph(frame) ? frame.title : "Diagram"), make("span", "dynx-facts", where));
  }

  /** The operator that is chosen, beside the diagram. */
  showChosen() {
    const { chosen } = this.explorer;
    for (const { graph, costs } of this.figures) {
      const number = graph.nodes.findIndex(({ key }) => key === chosen);
      if (number >= 0) return this.aside.choose(this.by, graph.nodes[number], costs.get(number));
    }
    this.aside.choose(this.by, undefined, undefined);
  }

  /** Color a box by what the operators in it cost. @param {Element} element @param {number} cost @param {number} most the highest cost of a box */
  heat(element, cost, most) {
    element.classList.add("dynx-heat");
    /** @type {SVGElement} */ (element).style.setProperty("--dynx-part", `${((MOST * cost) / (most || 1)).toFixed(1)}%`);
  }

  /** Show it as one reads it, or every node. @param {boolean} isFolded */
  fold(isFolded) {
    this.isFolded = isFolded;
    remember("graph", isFolded ? "" : "all nodes");
    this.sized = false;
    this.begun = undefined;
    this.markFolding();
    if (this.figures.length) this.draw();
  }

  markFolding() {
    this.folding?.setAttribute("aria-pressed", String(this.isFolded));
    for (const button of this.groupButtons ?? []) button.hidden = this.isFolded;
  }

  /** Whether the file holds drawings instead of graphviz. */
  get isStatic() {
    return Boolean(this.explorer.data.diagrams);
  }

  /** @param {import("../types.js").Frame} frame */
  showFrame(frame) {
    this.rows.clear();
    this.frame = drawnFor(this.explorer, frame);
    if (this.select) this.select.value = String(this.frame.id);
    this.figures = graphsOf(this.frame).map((graph, at) => {
      const holder = make("div", "dynx-figure", "", note("drawing ..."));
      return { graph, at, root: graph.group, closed: new Set(graph.startClosed), holder, width: 0, height: 0, costs: new Map() };
    });
    this.name();
    this.measure();
    this.body.replaceChildren(...this.figures.map(({ holder }) => holder));
    if (!this.figures.length) this.body.append(withoutGraph(this.explorer));
    this.map.draw();
    this.status.textContent = "";
    this.waits = this.figures.length > 0;
    if (this.inView) this.draw();
  }

  /** @param {boolean} inView */
  onView(inView) {
    this.inView = inView;
    if (inView && this.waits) this.draw();
  }

  /** Draw every graph of the frame. */
  async draw() {
    this.waits = false;
    const isUndrawn = this.isStatic && this.frame.failed; // a file has drawings of compiled graphs only
    if (this.isFolded || isUndrawn) return this.explorer.keepFocus(() => this.putFolded());
    const { figures } = this;
    try {
      /** @type {string[]} */
      const drawings = [];
      for (const figure of figures) drawings.push(await this.drawing(figure));
      if (figures !== this.figures || this.isFolded) return; // another frame came on show meanwhile
      this.explorer.keepFocus(() => this.put(drawings));
    } catch (error) {
      const again = makeButton("Try again", () => this.draw());
      this.body.replaceChildren(note(/** @type {Error} */ (error).message), again);
    }
  }

  /** The text of a graph's SVG. @param {Figure} figure @returns {Promise<string>} */
  async drawing(figure) {
    const { graph, at, root, closed } = figure;
    const { frame } = this;
    const { data, live } = this.explorer;
    if (data.diagrams) return data.diagrams[frame.id][at];
    if (!hasGraphviz(live)) throw new Error("This page was exported without diagrams.");
    return (await graphviz(live)).dot(dotOf(graph.name, root, graph.nodes, closed, frame.inputs, "LR", ({ keys }) => this.part(costOf(numbersOf(figure, keys), figure))));
  }

  /** @param {string[]} drawings */
  put(drawings) {
    this.rows.clear();
    let shown = 0;
    let all = 0;
    drawings.forEach((text, at) => {
      const figure = this.figures[at];
      const svg = adopted(text);
      const { boxes } = drawn(figure.root, figure.graph.nodes, figure.closed, this.frame.inputs);
      [shown, all] = [shown + boxes.size, all + figure.graph.nodes.length];
      [figure.width, figure.height] = [pixels(svg, "width"), pixels(svg, "height")];
      svg.setAttribute("role", "group");
      svg.setAttribute("aria-label", `diagram of ${figure.graph.name}`);
      this.most = this.mostOf([...boxes.values()].map(({ keys }) => numbersOf(figure, keys)), figure);
      for (const box of boxes.values()) this.equip(svg, figure, box);
      for (const path of figure.closed.size < pathsIn(figure.root).length ? pathsIn(figure.root) : []) this.equipCluster(svg, figure, path);
      figure.holder.replaceChildren(svg);
    });
    this.body.replaceChildren(...this.figures.map(({ holder }) => holder));
    const nodes = plural(all, "node");
    const closed = this.isStatic ? "; exported without graphviz, so groups stay closed" : "";
    this.status.textContent = shown === all ? nodes : `${nodes} in ${plural(shown, "box", "boxes")}${closed}`;
    this.status.title = closed || shown === all ? this.status.textContent : `${this.status.textContent}: + opens a group, − closes it`;
    this.finish();
  }

  /** What was drawn gets its size and its marks. */
  finish() {
    this.letters = lettersOf(this.figures);
    this.setScale(this.startScale());
    this.rows.find(this.rows.wanted);
    this.rows.aim(this.rows.marks);
    this.rows.light(this.rows.marks);
    this.begin();
  }

  /** What does not fit at a size that can be read begins at the operator that failed, at the one at hand, or at its first box. */
  begin() {
    const { body, frame } = this;
    if (this.sized || this.begun === frame) return;
    this.begun = frame;
    const boxes = [".dynx-failed", ".dynx-now, .dynx-chosen", ".dynx-row"].map((one) => body.querySelector(`.dynx-figure ${one}`));
    const at = boxes.findIndex(Boolean);
    const [pane, box] = [body.getBoundingClientRect(), boxes[at]?.getBoundingClientRect()];
    if (!box) return;
    body.scrollLeft += box.left + box.width / 2 - pane.left - pane.width / 2;
    if (at < 2) body.scrollTop += box.top + box.height / 2 - pane.top - pane.height / 2;
  }

  /** The graphs as one reads them. */
  putFolded() {
    this.rows.clear();
    let shown = 0;
    let all = 0;
    for (const figure of this.figures) {
      const { boxes, element } = this.foldedFigure(figure);
      [shown, all] = [shown + boxes, all + figure.graph.calls];
      figure.holder.replaceChildren(element);
    }
    this.body.replaceChildren(...this.figures.map(({ holder }) => holder));
    const { failed, raised, title } = this.frame;
    const error = failed ? "✕ The backend failed: " : raised ? `✕ ${raised.error}. ` : "";
    const shownFor = this.explorer.frame === this.frame ? "" : `${this.explorer.frame.title} has no graph; this is the graph of ${title}: `;
    this.status.textContent = `${error}${shownFor}${plural(all, "operator")}${shown === all ? ", nothing to fold" : `, folded to ${shown}`}`;
    this.status.title = `${this.status.textContent}; parameters are left out`;
    this.finish();
  }

  /** @param {Figure} figure */
  foldedFigure(figure) {
    const { explorer, frame } = this;
    const { boxes, frames } = folded(figure.graph.nodes, figure.graph.group, (node) => isParameter(explorer, frame, node));
    for (const box of boxes) if (box.kind === "placeholder") box.lines[0] = frame.inputs?.[box.node.name] ?? box.lines[0];
    const most = this.mostOf(boxes.map(({ numbers }) => numbers), figure);
    for (const box of boxes) {
      const cost = costOf(box.numbers, figure);
      if (this.by !== "line" && cost) box.lines = [box.lines[0], [box.lines[1], this.part(cost)].filter(Boolean).join("  ")];
    }
    for (const box of boxes) if (isFailing(frame, box.keys)) box.lines[0] = `✕ ${box.lines[0]}`;
    const at = (/** @type {{kind: string, node: import("../types.js").GraphNode}} */ { kind, node }) => (kind === "placeholder" ? undefined : this.placeOf(node));
    const room = this.isNumbered ? roomOf(boxes.map((box) => at(box)?.[1])) : "";
    const drawing = layout(boxes.map(({ name, inputs, lines, part }) => ({ name, inputs, lines: [`${room}${lines[0] ?? ""}`, ...lines.slice(1)], part })));
    const { width: own, height } = drawing;
    const parts = [...new Set(boxes.map(({ part }) => part))];
    const name = (/** @type {string} */ path) => explorer.names(path).replace(/^self\b\.?/, "");
    const titles = frames.map(({ part, times, from, to }) => {
      const top = drawing.seams[parts.indexOf(part) - 1] ?? 0;
      const title = `× ${times}   ${name(from)} to ${name(to)}`;
      return { part, title, top, ...titlePlace(title.length * LETTER + 8, crossings(drawing.edges, top), Math.max(own, FRAME)) };
    });
    const width = Math.max(own, ...titles.map(({ end }) => end)) + 2 * INSET;
    [figure.width, figure.height] = [width, height];
    const svg = sheet(width, height, drawing.edges);
    svg.setAttribute("viewBox", `${-INSET} 0 ${width} ${height}`);
    svg.setAttribute("aria-label", `diagram of ${figure.graph.name}`);
    for (const { part, title, top, x } of titles) {
      const inside = boxes.filter((box) => box.part === part).map((box) => drawing.boxes.get(box.name));
      const bottom = Math.max(...inside.map((box) => (box ? box.y + box.height : 0)));
      svg.prepend(repeated(title, x, top, bottom, width));
    }
    for (const { name: key, keys, lines, kind, node, numbers } of boxes) {
      const box = drawing.boxes.get(key);
      if (!box) continue;
      const place = at({ kind, node });
      const [code, line] = place ?? [frame.code, kind === "placeholder" ? undefined : this.lineOf(node)];
      const look = kind === "placeholder" || kind === "output" ? "dynx-input" : / views( × \d+)?$/.test(lines[0] ?? "") ? "dynx-pill" : "dynx-operator";
      const element = boxShape(box, { lines, title: `${node.name} = ${node.target}${asCall(node.args)}: ${node.result}`, kind: `dynx-row ${look}`, line: this.isNumbered ? place?.[1] : undefined });
      if (this.by === "line") explorer.bands.dress(element, code, line);
      else this.heat(element, costOf(numbers, figure), most);
      element.classList.toggle("dynx-failed", isFailing(frame, keys));
      this.rows.under(/** @type {any} */ (element), keys);
      this.rows.texts.set(element, `${lines.join(" ")} ${node.name} ${node.target} ${node.module}`.toLowerCase());
      svg.append(element);
    }
    return { boxes: boxes.filter(({ kind }) => kind.startsWith("call_")).length, element: svg };
  }

  /** A cost as a part of what all operators cost; nothing where there is none. @param {number} cost @returns {string} */
  part(cost) {
    return cost && this.by !== "line" ? percentOf(cost, this.all ?? 0) : "";
  }

  /** The highest cost of a box. @param {number[][]} boxes the nodes of each @param {Figure} figure */
  mostOf(boxes, figure) {
    return Math.max(0, ...boxes.map((numbers) => costOf(numbers, figure)));
  }

  /** Give a box its keys. @param {Element} svg @param {Figure} figure @param {import("../groups.js").Box} box */
  equip(svg, figure, box) {
    const element = /** @type {HTMLElement | null} */ (svg.querySelector(`[data-id="${CSS.escape(box.ident)}"]`));
    if (!element) return;
    const isClosed = box.kind === "closed";
    const cost = costOf(numbersOf(figure, box.keys), figure);
    element.classList.add("dynx-row");
    element.setAttribute("tabindex", "-1");
    element.setAttribute("role", "button");
    element.setAttribute("aria-label", [isClosed ? `open ${box.tooltip}: ${box.lines[1]}` : [...box.lines, box.result].join(", "), this.part(cost)].filter(Boolean).join(", "));
    element.classList.toggle("dynx-failed", isFailing(this.frame, box.keys));
    if (this.by !== "line") this.heat(element, cost, this.most ?? 0);
    this.rows.under(element, box.keys, isClosed ? "" : box.keys[0]);
    const nodes = isClosed ? figure.graph.nodes.filter(({ key }) => box.keys.includes(key)) : [];
    this.rows.texts.set(element, [...box.lines, box.result, box.tooltip, ...nodes.map((node) => cellsOf(NODE_COLUMNS, node).join(" "))].join(" ").toLowerCase());
    if (isClosed && !this.isStatic) this.toggles(element, figure, box.name.slice("module:".length), "+ ");
  }

  /** Let the heading of an open group close it. @param {Element} svg @param {Figure} figure @param {string} path */
  equipCluster(svg, figure, path) {
    const heading = /** @type {HTMLElement | null} */ (svg.querySelector(`.cluster[data-id="${CSS.escape(`module-${path}`)}"] > text`));
    if (!heading || this.isStatic) return;
    heading.setAttribute("tabindex", "-1");
    heading.setAttribute("role", "button");
    heading.setAttribute("aria-label", `close ${path.includes("#") ? heading.textContent : path}`);
    heading.classList.add("dynx-row");
    this.toggles(heading, figure, path, "− ");
  }

  /** @param {HTMLElement} element @param {Figure} figure @param {string} path @param {string} sign */
  toggles(element, figure, path, sign) {
    const title = element.matches("text") ? element : element.querySelector("text");
    if (title) title.textContent = `${sign}${title.textContent}`;
    element.setAttribute("aria-expanded", String(!figure.closed.has(path)));
    const toggle = async () => {
      if (!figure.closed.delete(path)) figure.closed.add(path);
      await this.draw();
      const again = this.body.querySelector(`[data-id="${CSS.escape(`module-${path}`)}"]`);
      const goal = again && goalOf(this.body, again.querySelector(":scope > text.dynx-row") ?? again);
      if (goal) this.body.scrollTo({ top: goal.top, left: goal.left });
    };
    element.addEventListener("click", toggle);
    element.addEventListener("keydown", (event) => {
      if (event.key === "Enter" || event.key === " ") toggle();
    });
  }

  /** @param {(graph: import("../types.js").Graph) => string[]} closedOf */
  regroup(closedOf) {
    for (const figure of this.figures) figure.closed = new Set(closedOf(figure.graph));
    this.draw();
  }

  // -- size ------------------------------------------------------------------------------------------------------------

  /** The whole where it fits, but neither much larger than drawn nor too small to read; as it was, once somebody chose a size. */
  startScale() {
    if (this.sized) return this.scale;
    return Math.max(READABLE / this.letters, Math.min(LARGEST, this.fittingScale()));
  }

  /** The scale at which the whole is in view. */
  fittingScale() {
    const width = Math.max(1, ...this.figures.map((figure) => figure.width));
    const height = this.figures.reduce((sum, figure) => sum + figure.height, 1);
    return Math.min((this.body.clientWidth - 16) / width, (this.body.clientHeight - 16) / height);
  }

  /** It stands in another view now, which may be smaller. */
  onSize() {
    if (this.inView && !this.sized && this.body.clientWidth) this.setScale(this.startScale());
  }

  /** @param {number} factor */
  zoom(factor) {
    this.sized = true;
    const { body, scale } = this;
    const [x, y] = [body.scrollLeft + body.clientWidth / 2, body.scrollTop + body.clientHeight / 2];
    this.setScale(Math.min(4, Math.max(0.05, scale * factor)));
    const grown = this.scale / scale;
    body.scrollTo({ left: x * grown - body.clientWidth / 2, top: y * grown - body.clientHeight / 2 });
  }

  fit() {
    this.sized = true;
    this.setScale(Math.min(2, this.fittingScale()));
  }

  /** @param {number} scale */
  setScale(scale) {
    this.scale = scale;
    for (const { holder, width, height } of this.figures) {
      const svg = holder.querySelector("svg");
      svg?.setAttribute("width", `${width * scale}`);
      svg?.setAttribute("height", `${height * scale}`);
    }
    this.small.hidden = Math.round(this.letters * scale) >= READABLE;
    this.map.draw();
  }

  /** Drag to move, turn the wheel with Ctrl to zoom. */
  dragging() {
    /** @type {{x: number, y: number} | undefined} */
    let last;
    const { body } = this;
    body.addEventListener("pointerdown", (event) => {
      const onBox = /** @type {Element} */ (event.target).closest(".dynx-row");
      if (event.button === 0 && event.pointerType === "mouse" && !onBox) last = { x: event.clientX, y: event.clientY };
    });
    body.addEventListener("pointermove", (event) => {
      if (!last || !event.buttons) return;
      body.scrollBy(last.x - event.clientX, last.y - event.clientY);
      last = { x: event.clientX, y: event.clientY };
    });
    for (const end of ["pointerup", "pointerleave"]) body.addEventListener(end, () => (last = undefined));
    body.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      this.zoom(event.deltaY < 0 ? ZOOM : 1 / ZOOM);
    });
  }
}
