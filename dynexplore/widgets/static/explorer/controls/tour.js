// @ts-check
/**
 * What am I looking at? A tour of a few bubbles, one pane each, for those who see the explorer for the first time.
 */

import { Dialog } from "../dialogs.js";
import { make, makeButton } from "../dom.js";

/** Where a bubble points, and what it says. @type {[string, string, string][]} */
const BUBBLES = [
  [
    ".dynx-headline",
    "What it cost",
    "How long your program spent compiling, how much of it was lost to recompiles and graph breaks, and what to fix first.",
  ],
  [
    ".dynx-list-pane",
    "What to fix",
    "Each cause is one row, sorted by compile time: what happened, where, how often, and the change as code to copy. Choose a " +
      "row to see the evidence beside it.",
  ],
  [
    ".dynx-source",
    "Where",
    "Your source. The number next to a line shows which graph contains it. A line that breaks the graph shows the reason. The " +
      "current instruction is marked. Click anything to highlight what is related to it.",
  ],
  [
    ".dynx-boxes",
    "The symbolic stack",
    "The engine interprets your function one bytecode instruction at a time, with symbolic values instead of tensors. Below " +
      "each one is the value that it actually had. + pushed, − popped, ~ changed.",
  ],
  [
    ".dynx-growing",
    "The graph grows",
    "Tensor operations become nodes of a graph, which a backend compiles. This is the graph at the current step.",
  ],
  [
    ".dynx-stepper",
    "Step forward and back",
    "The strip below shows everything that ran: calls and functions. Click it, or use the arrow " +
      "keys; b goes to the next graph break.",
  ],
  [
    ".dynx-tablist",
    "Five views",
    "Overview, Story, Graph, Recompiles, Compare: the digits 1 to 5 open them. Bytecode, guards and what-if are inside them.",
  ],
  [
    ".dynx-find",
    "Search and keyboard",
    "Search covers all panes of all frames. ? lists the keys. Everything works without a mouse.",
  ],
];

/** From this bubble on they point into the story. */
const OF_STORY = 2;

/** @type {import("../types.js").Control} */
export const tourControl = {
  key: "tour",
  wanted: (data) => data.frames.length > 0,
  build(explorer, place) {
    const tour = new Tour(explorer);
    place.append(makeButton("What am I looking at?", () => tour.show(0), { name: "dynx-tool" }));
    return {};
  },
};

/** The tour: one bubble at a time. */
class Tour {
  /** @param {import("../page.js").Explorer} explorer */
  constructor(explorer) {
    this.explorer = explorer;
    this.at = 0;
    this.dialog = new Dialog(explorer, "What am I looking at?");
    this.dialog.onClose = () => this.point([]);
    this.dialog.keys = { ArrowRight: () => this.show(this.at + 1), ArrowLeft: () => this.show(this.at - 1) };
  }

  /** @param {number} at */
  show(at) {
    if (at < BUBBLES.length) this.explorer.tabs.openAgain(at < OF_STORY ? "overview" : "story");
    if (at >= BUBBLES.length) return this.dialog.close();
    this.at = Math.max(0, at);
    const [where, title, text] = BUBBLES[this.at];
    const isLast = this.at === BUBBLES.length - 1;
    const next = makeButton(isLast ? "Done" : "Next", () => this.show(this.at + 1), { name: "dynx-first" });
    const buttons = [this.at ? [makeButton("Back", () => this.show(this.at - 1))] : [], next, this.dialog.closeButton("Close (Esc)")];
    this.dialog.element.setAttribute("aria-label", `What am I looking at? ${this.at + 1} of ${BUBBLES.length}: ${title}. ${text}`);
    this.dialog.open(
      make("h3", "", `${this.at + 1}/${BUBBLES.length} ${title}`),
      make("p", "", text),
      make("div", "dynx-buttons", "", ...buttons.flat()),
    );
    this.point(/** @type {HTMLElement[]} */ ([...this.explorer.root.querySelectorAll(where)]));
  }

  /** Frame what the bubble speaks of, and put the bubble below it. @param {HTMLElement[]} targets */
  point(targets) {
    const { root } = this.explorer;
    for (const before of root.querySelectorAll(".dynx-pointed")) before.classList.remove("dynx-pointed");
    if (!targets.length) return;
    for (const target of targets) target.classList.add("dynx-pointed");
    targets[0].scrollIntoView({ block: "nearest" });
    const home = root.getBoundingClientRect();
    const box = targets[0].getBoundingClientRect();
    const { element } = this.dialog;
    const left = Math.min(box.left - home.left + 12, home.width - element.offsetWidth - 12);
    element.style.left = `${Math.max(8, left)}px`;
    element.style.top = `${Math.min(box.top - home.top + Math.min(box.height, 120) + 8, home.height - element.offsetHeight - 8)}px`;
    element.scrollIntoView({ block: "nearest" });
  }
}
