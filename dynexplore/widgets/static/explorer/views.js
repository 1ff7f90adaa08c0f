// @ts-check
/**
 * The five views, one on show at a time: Overview, Story, Graph, Recompiles, Compare.
 *
 * Which idea lives here: a recording answers five questions, and each has a view that is as large as the page. Choosing something
 * changes what a pane shows, never where a pane stands. Where a view holds more panes than it has room for, these take turns in one
 * place. What is not on show is not kept up to date either: a step costs what is seen.
 */

import { make, makeButton } from "./dom.js";
import { meaningOf } from "./glossary.js";

/** Key and title of each view, the panes that always stand in it, and those that take turns. @type {[string, string, string[], string[]][]} */
const VIEWS = [
  ["overview", "Overview", ["summary"], []],
  ["story", "Story", ["source", "boxes", "growing"], ["original", "modified", "python", "state", "frames", "breaks", "real", "artefacts"]],
  ["graph", "Graph", [], ["diagram", "graph", "memory"]],
  ["recompiles", "Recompiles", ["timeline"], ["miss", "guards", "what-if", "live"]],
  ["compare", "Compare", ["compare"], []],
];

/** The class of the place in the overview at which the whole graph stands where nothing was lost. */
export const WHOLE_GRAPH = "dynx-whole-graph";

/** What a button says, where the pane's own title is longer. @type {Record<string, string>} */
const SHORT = {
  original: "Bytecode", modified: "New bytecode", python: "Python", state: "Values", frames: "Functions", breaks: "Breaks", real: "Real run",
  artefacts: "Kernels", diagram: "Diagram", graph: "Table", memory: "Memory", miss: "Failing guards", guards: "All guards", "what-if": "What if", live: "Live run",
};

/** What in Story takes turns with the other panes where it is narrow: the panes that each shows. @type {[string, string][]} */
const FRONTS = [["source", "Source"], ["graph", "Graph"]];

/**
 * @typedef {import("./types.js").View} View
 * @typedef {{key: string, title: string, section: HTMLElement, always: boolean, view?: View}} Part  a pane in a view
 * @typedef {{key: string, button: HTMLElement, panel: HTMLElement, parts: Part[], turns: HTMLElement, one?: Part}} Tab  `one` is the
 *   part on show where parts take turns
 */

/** The row of views, and which is on show. */
export class Views {
  /** @param {import("./page.js").Explorer} explorer */
  constructor(explorer) {
    this.explorer = explorer;
    this.list = make("div", "dynx-tablist");
    this.list.setAttribute("role", "tablist");
    this.list.setAttribute("aria-label", "Views");
    this.panels = make("div", "dynx-views");
    this.names = Math.random().toString(36).slice(2); // ids are the page's, and it may hold several explorers
    /** @type {Tab[]} */
    this.tabs = VIEWS.map(([key, title]) => this.add(key, title));
    this.shown = this.tabs[0];
    /** which of its panes Story shows where it is narrow: "" is the graph, or in one column the source */
    this.front = "";
    this.list.append(...this.tabs.map(({ button }) => button));
  }

  /** @param {string} key @param {string} title @returns {Tab} */
  add(key, title) {
    const panel = make("div", `dynx-panel dynx-panel-${key}`);
    const turns = make("div", "dynx-turns");
    const button = makeButton(title, () => this.open(tab), { name: "dynx-tab" });
    /** @type {Tab} */
    const tab = { key, button, panel, parts: [], turns };
    button.setAttribute("role", "tab");
    button.id = `dynx-tab-${this.names}-${key}`;
    panel.id = `dynx-panel-${this.names}-${key}`;
    button.setAttribute("aria-controls", panel.id);
    panel.setAttribute("role", "tabpanel");
    panel.setAttribute("aria-labelledby", button.id);
    panel.hidden = true;
    this.panels.append(panel);
    return tab;
  }

  /** The view of this name. @param {string} key @returns {Tab} */
  named(key) {
    return /** @type {Tab} */ (this.tabs.find((one) => one.key === key));
  }

  /**
   * Put a pane where it belongs.
   * @param {string} pane its key
   * @param {HTMLElement} section
   * @returns {(view: View) => void} to be told the pane's view when it is built
   */
  take(pane, section) {
    const [key, , always] = VIEWS.find(([, , fixed, turns]) => [...fixed, ...turns].includes(pane)) ?? VIEWS[1];
    const tab = this.named(key);
    tab.panel.append(section);
    /** @type {Part} */
    const part = { key: pane, title: SHORT[pane] ?? section.querySelector("h3")?.textContent ?? pane, section, always: always.includes(pane) };
    tab.parts.push(part);
    return (view) => (part.view = view);
  }

  /** All panes are there. */
  finish() {
    this.tabs.forEach(({ button }, at) => (button.title = `${button.textContent} (${at + 1})`));
    for (const tab of this.tabs) this.takeTurns(tab);
    this.mark();
  }

  /** A button for each pane of a view that shares its place with others. @param {Tab} tab */
  takeTurns(tab) {
    const [, , , order] = /** @type {[string, string, string[], string[]]} */ (VIEWS.find(([key]) => key === tab.key));
    const parts = order.flatMap((key) => tab.parts.find((part) => part.key === key) ?? []);
    if (!parts.length) return;
    const fronts = tab.key === "story" ? FRONTS.map(([key, title]) => this.frontButton(key, title)) : [];
    const buttons = parts.map((part) => {
      const button = makeButton(part.title, () => this.turnTo(tab, part), { name: "dynx-turn" });
      button.dataset.pane = part.key;
      button.title = meaningOf(part.key);
      return button;
    });
    tab.turns.append(...fronts, ...buttons);
    tab.turns.setAttribute("role", "group");
    tab.turns.setAttribute("aria-label", `Parts of ${tab.button.textContent}`);
    tab.panel.insertBefore(tab.turns, parts[0].section);
    this.turnTo(tab, parts[0], false);
  }

  /** Where it is narrow, source or graph have the place of the other panes. @param {string} key @param {string} title */
  frontButton(key, title) {
    const act = () => {
      this.front = key;
      this.mark();
      this.onShow(this.named("story"));
    };
    const button = makeButton(title, act, { name: `dynx-turn dynx-front dynx-front-${key}` });
    button.dataset.front = key;
    return button;
  }

  /** Which buttons are pressed, and what of Story is in front. */
  mark() {
    const tab = this.named("story");
    const { width = "wide" } = this.explorer.root.dataset;
    const front = width === "wide" ? "part" : this.front || (width === "narrow" ? "source" : "graph");
    const shown = width === "middle" && front === "source" ? "graph" : front;
    tab.panel.dataset.front = shown;
    for (const button of /** @type {NodeListOf<HTMLElement>} */ (tab.turns.querySelectorAll(".dynx-turn"))) {
      const { front: own, pane } = button.dataset;
      button.setAttribute("aria-pressed", String(own ? own === shown : shown === "part" && pane === tab.one?.key));
    }
  }

  /** @param {Tab} tab @param {Part} wanted @param {boolean} [isAsked] whether a person wants to see it */
  turnTo(tab, wanted, isAsked = true) {
    tab.one = wanted;
    for (const { key, section, always } of tab.parts) {
      if (always) continue;
      section.hidden = key !== wanted.key;
      tab.panel.querySelector(`[data-pane="${key}"]`)?.setAttribute("aria-pressed", String(key === wanted.key));
    }
    if (tab.key === "story") {
      if (isAsked) this.front = "part";
      this.mark();
    }
    if (isAsked && tab === this.shown) this.onShow(tab);
  }

  /** What is on show now is brought up to date. @param {Tab} tab */
  onShow(tab) {
    this.explorer.catchUp(viewsOf(tab));
  }

  /** Where nothing was lost, the diagram stands in the overview, too: in whichever of the two views is open. @param {Tab} wanted */
  lend(wanted) {
    const [overview, graph] = [this.named("overview"), this.named("graph")];
    const home = overview.panel.querySelector(`.${WHOLE_GRAPH}`);
    const part = [...graph.parts, ...overview.parts].find(({ key }) => key === "diagram");
    if (!home || !part || (wanted !== overview && wanted !== graph)) return;
    const [from, to] = wanted === overview ? [graph, overview] : [overview, graph];
    if (to.parts.includes(part)) return;
    from.parts.splice(from.parts.indexOf(part), 1);
    to.parts.push(part);
    part.always = to === overview;
    part.section.hidden = to === graph && graph.one !== part;
    (to === overview ? home : graph.panel).append(part.section);
  }

  /** @param {Tab} wanted */
  open(wanted) {
    this.lend(wanted);
    this.shown = wanted;
    for (const { button, panel } of this.tabs) {
      const isOpen = button === wanted.button;
      panel.hidden = !isOpen;
      button.setAttribute("aria-selected", String(isOpen));
      button.tabIndex = isOpen ? 0 : -1;
    }
    this.explorer.root.dataset.view = wanted.key;
    this.explorer.foot?.(wanted.key);
    for (const view of this.explorer.views) view.showView?.(wanted.key);
    this.onShow(wanted);
  }

  /** Open the view of this name, and the part of it. @param {string} [key] @param {string} [part] */
  openAgain(key, part) {
    const tab = this.tabs.find((one) => one.key === key);
    if (!tab) return;
    this.open(tab);
    const one = tab.parts.find((each) => each.key === part);
    if (one && !one.always) this.turnTo(tab, one);
  }

  /** Open the view in which a pane stands. @param {View} view */
  reveal(view) {
    const tab = this.tabs.find(({ parts }) => parts.some((part) => part.view === view));
    if (tab?.key === "graph" && tab === this.shown && tab.one?.key === "diagram") return; // a node is seen there, too
    if (tab && tab !== this.shown) this.open(tab);
    const part = tab?.parts.find((one) => one.view === view);
    if (tab && part && !part.always && (part !== tab.one || this.front !== "part")) this.turnTo(tab, part);
  }

  /** Whether a pane is hidden in a view that is not open. @param {View} view */
  hides(view) {
    return this.tabs.some((tab) => tab.parts.some((part) => part.view === view) && !(tab === this.shown && viewsOf(tab).includes(view)));
  }

  /** Whether a pane is about other frames than the one at hand, and not on show. @param {View} view */
  isAside(view) {
    const compare = this.named("compare");
    return compare !== this.shown && compare.parts.some((part) => part.view === view);
  }

  /** @type {Record<string, () => void>} */
  get keys() {
    return Object.fromEntries(this.tabs.map((tab, at) => [String(at + 1), () => this.open(tab)]));
  }
}

/** The panes of a view that are seen while it is open. @param {Tab} tab @returns {View[]} */
function viewsOf({ parts, one }) {
  return parts.flatMap((part) => (part.view && (part.always || one === part) ? [part.view] : []));
}
