// @ts-check
/**
 * A map of a diagram that is larger than its pane: every box in small, and a frame around what is in view. A click, a drag or the
 * arrow keys move the view; the wheel, + and - change the size. It stands beside the diagram, and folds away where that is small.
 */

import { make, makeButton } from "./dom.js";
import { shape } from "./svg.js";

/** The largest and the least that the map measures, in pixels: a long chain of boxes would be a line. */
const [WIDEST, HIGHEST, LEAST] = [212, 180, 44];

/** So many boxes are seen at a glance, and a diagram of less than so many views, too. */
const [FEW, VIEWS] = [12, 1.25];

/** The part of a view that an arrow key goes on. */
const STEP = 1 / 3;

/** The map of one diagram. */
export class Minimap {
  /**
   * @param {HTMLElement} body what holds the diagram, and scrolls
   * @param {(direction: number) => void} zoom larger (1) or smaller (-1)
   */
  constructor(body, zoom) {
    this.body = body;
    this.zoom = zoom;
    /** @type {boolean | undefined} whether somebody wants it; undefined: it depends on the size of the diagram */
    this.wanted = undefined;
    /** @type {{box: Element, dot: Element, x: number, y: number, width: number, height: number}[]} the boxes, what stands for them, and where */
    this.dots = [];
    this.svg = shape("svg", { preserveAspectRatio: "none", "aria-hidden": "true" });
    this.view = shape("rect", { class: "dynx-map-view", "vector-effect": "non-scaling-stroke" });
    this.element = make("div", "dynx-map", "", this.svg);
    this.element.tabIndex = 0;
    this.element.setAttribute("role", "group");
    this.element.setAttribute("aria-label", "Map of the diagram: arrow keys move the view, + and - change its size");
    this.button = makeButton("Map", () => this.toggle(), { label: "Show or hide the map of the diagram" });
    this.element.addEventListener("keydown", (event) => this.onKey(event));
    this.element.addEventListener("pointerdown", (event) => this.onPointer(event));
    this.element.addEventListener("pointermove", (event) => event.buttons && this.onPointer(event));
    this.element.addEventListener("wheel", (event) => this.onWheel(event), { passive: false });
    body.addEventListener("scroll", () => this.look(), { passive: true });
    new ResizeObserver(() => this.draw()).observe(body);
    this.draw();
  }

  toggle() {
    this.wanted = Boolean(this.element.hidden);
    this.draw();
  }

  /** Whether the diagram is so large that a map helps. @param {number} count of its boxes */
  helps(count) {
    const { scrollWidth, scrollHeight, clientWidth, clientHeight } = this.body;
    return count >= FEW && scrollWidth * scrollHeight > VIEWS * clientWidth * clientHeight;
  }

  /** The diagram, or its size, is another. */
  draw() {
    const { body, element, svg } = this;
    const boxes = [...body.querySelectorAll(".node")];
    element.hidden = !(boxes.length && (this.wanted ?? this.helps(boxes.length)));
    this.button.setAttribute("aria-pressed", String(!element.hidden));
    this.dots = [];
    if (element.hidden) return svg.replaceChildren();
    const { scrollWidth, scrollHeight } = body;
    const scale = Math.min(WIDEST / scrollWidth, HIGHEST / scrollHeight);
    element.style.width = `${Math.max(LEAST, scrollWidth * scale)}px`;
    element.style.height = `${Math.max(LEAST, scrollHeight * scale)}px`;
    svg.setAttribute("viewBox", `0 0 ${scrollWidth} ${scrollHeight}`);
    const home = body.getBoundingClientRect();
    const [left, top] = [home.left - body.scrollLeft, home.top - body.scrollTop];
    const places = boxes.map((box) => box.getBoundingClientRect()); // all that reads the layout comes before all that changes it
    this.dots = boxes.map((box, at) => {
      const { width, height } = places[at];
      const place = { x: places[at].x - left, y: places[at].y - top, width, height };
      return { box, dot: shape("rect", place), ...place };
    });
    svg.replaceChildren(...this.dots.map(({ dot }) => dot), this.view);
    this.mark();
  }

  /** What is lit in the diagram is lit here. */
  mark() {
    for (const { box, dot } of this.dots) {
      const { classList } = box;
      dot.setAttribute("class", classList.contains("dynx-chosen") ? "dynx-map-chosen" : classList.contains("dynx-lit") ? "dynx-map-lit" : "");
    }
    if (this.dots.length) this.look();
  }

  /** The frame stands around what is in view. */
  look() {
    const { scrollLeft, scrollTop, clientWidth, clientHeight } = this.body;
    const place = { x: scrollLeft, y: scrollTop, width: clientWidth, height: clientHeight };
    for (const [name, value] of Object.entries(place)) this.view.setAttribute(name, String(value));
  }

  /** The place under the pointer comes into the middle of the view. @param {PointerEvent} event */
  onPointer(event) {
    const { body, element } = this;
    if (event.type === "pointerdown") element.setPointerCapture(event.pointerId);
    const box = this.svg.getBoundingClientRect();
    const [x, y] = [(event.clientX - box.left) / (box.width || 1), (event.clientY - box.top) / (box.height || 1)];
    body.scrollTo({ left: x * body.scrollWidth - body.clientWidth / 2, top: y * body.scrollHeight - body.clientHeight / 2 });
  }

  /** @param {WheelEvent} event */
  onWheel(event) {
    event.preventDefault();
    this.zoom(event.deltaY < 0 ? 1 : -1);
  }

  /** @param {KeyboardEvent} event */
  onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey) return;
    const { clientWidth, clientHeight, scrollWidth, scrollHeight } = this.body;
    const isWide = scrollWidth / clientWidth > scrollHeight / clientHeight; // its ends are left and right
    const by = (/** @type {number} */ left, /** @type {number} */ top) => () => this.body.scrollBy({ left: left * clientWidth, top: top * clientHeight });
    /** @type {Record<string, () => void>} */
    const acts = {
      ArrowLeft: by(-STEP, 0), ArrowRight: by(STEP, 0), ArrowUp: by(0, -STEP), ArrowDown: by(0, STEP),
      PageUp: isWide ? by(-1, 0) : by(0, -1), PageDown: isWide ? by(1, 0) : by(0, 1),
      Home: () => this.body.scrollTo({ left: 0, top: 0 }), End: () => this.body.scrollTo(isWide ? { left: scrollWidth } : { top: scrollHeight }),
    };
    const act = acts[event.key];
    if (!act) return; // + and - are those of the diagram
    act();
    event.preventDefault();
    event.stopPropagation(); // arrows step everywhere else
  }
}
