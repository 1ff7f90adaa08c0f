// @ts-check
/**
 * The tabs below the story: everything that the recording holds besides, one tab open at a time.
 *
 * Which idea lives here: panes of equal weight are read by nobody. What belongs together stands in one tab, and a tab whose panes
 * have nothing to say is not there. What is not on show is not kept up to date either: a step costs what is seen.
 */

import { make, makeButton } from "./dom.js";
import { meaningOf } from "./glossary.js";

/** Key, title and panes of each tab, in their order. @type {[string, string, string[]][]} */
const TABS = [
  ["bytecode", "Bytecode", ["original", "modified"]],
  ["python", "Python", ["python"]],
  ["values", "Stack & locals", ["state"]],
  ["graph", "Graph", ["diagram", "graph"]],
  ["guards", "Guards & recompiles", ["guards", "timeline"]],
  ["breaks", "Breaks", ["breaks"]],
  ["frames", "Frames", ["frames"]],
  ["real", "Real run", ["real"]],
  ["memory", "Memory", ["memory"]],
  ["artefacts", "Artefacts", ["artefacts"]],
  ["try", "What-if & live run", ["what-if", "live"]],
];

/**
 * @typedef {import("./types.js").View} View
 * @typedef {{key: string, title: string, section: HTMLElement, view?: View}} Part  a pane in a tab
 * @typedef {{key: string, button: HTMLElement, panel: HTMLElement, parts: Part[], one?: Part}} Tab  `one` is the part on show
 *   where the parts take turns
 */

/** Tabs whose panes need the whole width, one at a time: a button for each. */
const TURNS = ["guards", "graph"];

/** Those whose panes need it where the explorer is narrow: page.css shows the buttons there only. */
const TURNS_WHERE_NARROW = ["bytecode"];

/** What the explorer is while a tab needs more height: page.css says how much. */
const HIGHER = ["dynx-draws", "dynx-charts"];

/** The row of tabs, and what is open. */
export class Tabs {
  /** @param {import("./page.js").Explorer} explorer */
  constructor(explorer) {
    this.explorer = explorer;
    this.list = make("div", "dynx-tablist");
    this.list.setAttribute("role", "tablist");
    this.list.setAttribute("aria-label", "Everything that was recorded");
    this.panels = make("div", "dynx-panes");
    this.larger = makeButton("More room", () => this.enlarge(), { name: "dynx-tool", label: "More room for the tabs, or less (f)" });
    this.bar = make("div", "dynx-tabbar", "", this.list, this.larger);
    /** @type {Tab[]} */
    this.tabs = [];
    /** @type {Tab | undefined} */
    this.shown = undefined;
    this.names = Math.random().toString(36).slice(2); // ids are the page's, and it may hold several explorers
  }

  /**
   * Put a pane where it belongs.
   * @param {string} pane its key
   * @param {HTMLElement} section
   * @returns {(view: View) => void} to be told the pane's view when it is built
   */
  take(pane, section) {
    const [key, title] = TABS.find(([, , panes]) => panes.includes(pane)) ?? [pane, pane];
    const tab = this.tabs.find((one) => one.key === key) ?? this.add(key, title);
    tab.panel.append(section);
    /** @type {Part} */
    const part = { key: pane, title: section.querySelector("h3")?.textContent ?? pane, section };
    tab.parts.push(part);
    return (view) => (part.view = view);
  }

  /** @param {string} key @param {string} title @returns {Tab} */
  add(key, title) {
    const panel = make("div", `dynx-panel dynx-panel-${key}`);
    const tab = { key, button: makeButton(title, () => this.open(tab), { name: "dynx-tab" }), panel, parts: [] };
    const { button } = tab;
    button.setAttribute("role", "tab");
    button.id = `dynx-tab-${this.names}-${key}`;
    panel.id = `dynx-panel-${this.names}-${key}`;
    button.setAttribute("aria-controls", panel.id);
    panel.setAttribute("role", "tabpanel");
    panel.setAttribute("aria-labelledby", button.id);
    panel.hidden = true;
    this.panels.append(panel);
    this.tabs.push(tab);
    return tab;
  }

  /** All panes are there: their tabs stand in the order above. */
  finish() {
    const rank = (/** @type {Tab} */ tab) => TABS.findIndex(([key]) => key === tab.key);
    this.tabs.sort((one, other) => rank(one) - rank(other));
    this.tabs.forEach(({ key, button }, at) => (button.title = `${button.textContent} (${at + 1})\n${meaningOf(key)}`.trimEnd()));
    this.list.replaceChildren(...this.tabs.map(({ button }) => button));
    for (const tab of this.tabs) if (tab.parts.length > 1) this.takeTurns(tab);
    if (this.tabs.length) this.open(this.tabs[0]);
  }

  /** A button for each pane of a tab; one of them is on show. @param {Tab} tab */
  takeTurns(tab) {
    const always = TURNS.includes(tab.key);
    if (!always && !TURNS_WHERE_NARROW.includes(tab.key)) return;
    const buttons = tab.parts.map((part) => {
      const button = makeButton(part.title, () => this.turnTo(tab, part), { name: "dynx-turn" });
      button.dataset.pane = part.key;
      return button;
    });
    const bar = make("div", "dynx-turns", "", ...buttons);
    bar.setAttribute("role", "group");
    bar.setAttribute("aria-label", `Parts of ${tab.button.textContent}`);
    tab.panel.prepend(bar);
    tab.panel.classList.add(always ? "dynx-takes-turns" : "dynx-turns-where-narrow");
    this.turnTo(tab, tab.parts[0]);
  }

  /** @param {Tab} tab @param {Part} wanted */
  turnTo(tab, wanted) {
    const always = TURNS.includes(tab.key);
    if (always) tab.one = wanted;
    for (const { key, section } of tab.parts) {
      if (always) section.hidden = key !== wanted.key;
      else section.classList.toggle("dynx-turned-away", key !== wanted.key);
      tab.panel.querySelector(`[data-pane="${key}"]`)?.setAttribute("aria-pressed", String(key === wanted.key));
    }
    if (tab === this.shown) this.onShow(tab);
  }

  /** What is on show now is brought up to date; a drawing gets more height than a table. @param {Tab} tab */
  onShow(tab) {
    const { classList } = this.explorer.root;
    const before = HIGHER.map((name) => classList.contains(name)).join();
    classList.toggle("dynx-draws", tab.one?.key === "diagram");
    classList.toggle("dynx-charts", tab.key === "memory");
    const isNew = before !== HIGHER.map((name) => classList.contains(name)).join();
    this.explorer.catchUp(viewsOf(tab));
    if (isNew) this.explorer.paint(); // what is at hand may have to scroll into view
  }

  /** @param {Tab} wanted */
  open(wanted) {
    this.shown = wanted;
    for (const { button, panel } of this.tabs) {
      const isOpen = button === wanted.button;
      panel.hidden = !isOpen;
      button.setAttribute("aria-selected", String(isOpen));
      button.tabIndex = isOpen ? 0 : -1;
    }
    this.onShow(wanted);
  }

  /** Open the tab of this name, where there is one, and the part of it. @param {string} [key] @param {string} [part] */
  openAgain(key, part) {
    const tab = this.tabs.find((one) => one.key === key);
    if (!tab) return;
    this.open(tab);
    const one = tab.one && tab.parts.find((each) => each.key === part);
    if (one) this.turnTo(tab, one);
  }

  /** Open the tab in which a pane stands. @param {View} view */
  reveal(view) {
    const tab = this.tabs.find(({ parts }) => parts.some((part) => part.view === view));
    if (tab?.key === "graph" && tab === this.shown && tab.one?.key === "diagram") return; // a node is seen there, too
    if (tab && tab !== this.shown) this.open(tab);
    const part = tab?.parts.find((one) => one.view === view);
    if (tab?.one && part && part !== tab.one) this.turnTo(tab, part);
  }

  /** Whether a view is hidden in a tab that is not open. @param {View} view */
  hides(view) {
    return this.tabs.some((tab) => tab.parts.some((part) => part.view === view) && !(tab === this.shown && viewsOf(tab).includes(view)));
  }

  /** The tabs take the place of source and state, or give it back. */
  enlarge() {
    const isLarge = this.explorer.root.classList.toggle("dynx-large");
    this.larger.textContent = isLarge ? "Less room" : "More room";
    this.larger.setAttribute("aria-pressed", String(isLarge));
    this.explorer.paint(); // what is at hand may have to scroll into view
  }

  /** @type {Record<string, () => void>} */
  get keys() {
    const open = this.tabs.map((tab, at) => /** @type {[string, () => void]} */ ([String(at + 1), () => this.open(tab)]));
    return { ...Object.fromEntries(open), f: () => this.enlarge() };
  }

  /** What arrows and ends do while a tab has the focus. @param {EventTarget | null} target @returns {Record<string, () => void>} */
  keysAt(target) {
    const at = this.tabs.findIndex(({ button }) => button === target);
    if (at < 0) return {};
    const go = (/** @type {number} */ to) => () => {
      const tab = this.tabs[(to + this.tabs.length) % this.tabs.length];
      this.open(tab);
      tab.button.focus();
    };
    return { ArrowRight: go(at + 1), ArrowLeft: go(at - 1), Home: go(0), End: go(-1) };
  }
}

/** The views of a tab that are seen while it is open. @param {Tab} tab @returns {View[]} */
function viewsOf({ parts, one }) {
  return parts.flatMap((part) => (part.view && (!one || one === part) ? [part.view] : []));
}
