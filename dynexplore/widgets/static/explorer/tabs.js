// @ts-check
/**
 * The tabs below the story: everything that the recording holds besides, one tab open at a time.
 *
 * Which idea lives here: panes of equal weight are read by nobody. What belongs together stands in one tab, and a tab whose panes
 * have nothing to say is not there. What is not on show is not kept up to date either: a step costs what is seen.
 */

import { make, makeButton } from "./dom.js";

/** Key, title and panes of each tab, in their order. @type {[string, string, string[]][]} */
const TABS = [
  ["bytecode", "Bytecode", ["original", "modified"]],
  ["values", "Stack & locals", ["state"]],
  ["graph", "Graph", ["graph", "diagram"]],
  ["guards", "Guards & recompiles", ["guards", "anatomy", "timeline"]],
  ["breaks", "Breaks", ["breaks", "inspector"]],
  ["frames", "Frames", ["frames"]],
  ["real", "Real run", ["real"]],
  ["artefacts", "Artefacts", ["artefacts"]],
  ["try", "What-if & live run", ["what-if", "live"]],
];

/**
 * @typedef {import("./types.js").View} View
 * @typedef {{key: string, button: HTMLElement, panel: HTMLElement, views: View[]}} Tab
 */

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
    return (view) => tab.views.push(view);
  }

  /** @param {string} key @param {string} title @returns {Tab} */
  add(key, title) {
    const panel = make("div", `dynx-panel dynx-panel-${key}`);
    const tab = { key, button: makeButton(title, () => this.open(tab), { name: "dynx-tab" }), panel, views: [] };
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
    this.tabs.forEach(({ button }, at) => (button.title = `${button.textContent} (${at + 1})`));
    this.list.replaceChildren(...this.tabs.map(({ button }) => button));
    if (this.tabs.length) this.open(this.tabs[0]);
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
    this.explorer.catchUp(wanted.views);
  }

  /** Open the tab in which a pane stands. @param {View} view */
  reveal(view) {
    const tab = this.tabs.find(({ views }) => views.includes(view));
    if (tab && tab !== this.shown) this.open(tab);
  }

  /** Whether a view is hidden in a tab that is not open. @param {View} view */
  hides(view) {
    return this.tabs.some((tab) => tab !== this.shown && tab.views.includes(view));
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
