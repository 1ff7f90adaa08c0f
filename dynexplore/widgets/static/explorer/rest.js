// @ts-check
/**
 * What is said of the rest of a recording while only its first view is there: that it follows by itself, or, where making it was
 * interrupted, that it does not, with a button that has the kernel make it.
 *
 * In:  an explorer of a first view. Out: `element`, for the views that are not there yet; `interrupted()`, `ask()`.
 */

import { make, makeButton } from "./dom.js";

/** How long the rest of a recording may take to be made, in milliseconds. */
const PATIENCE = 600_000;

export class Rest {
  /** @param {import("./page.js").Explorer} explorer */
  constructor(explorer) {
    this.explorer = explorer;
    this.isInterrupted = false;
    const what = "with bytecode, graph, guards and the other views";
    this.text = make("span", "", `Loading all ${explorer.order.total} steps, ${what}. `);
    const label = `Load all ${explorer.order.total} steps, ${what}`;
    this.button = /** @type {HTMLButtonElement} */ (makeButton("Load the rest", () => this.ask(), { name: "dynx-tool", label }));
    this.button.hidden = true;
    this.element = make("p", "dynx-facts", "", this.text, this.button);
  }

  /** The rest does not follow by itself. */
  interrupted() {
    this.isInterrupted = true;
    this.text.textContent = "Only the steps around the first one are loaded. Loading the other steps and views was interrupted. ";
    this.button.hidden = false;
  }

  /** Have the kernel make it: it comes as the data of the widget. */
  async ask() {
    if (!this.explorer.live || this.button.disabled) return;
    this.button.disabled = true;
    try {
      await this.explorer.live.ask("rest", {}, PATIENCE);
    } catch (error) {
      this.explorer.say(/** @type {Error} */ (error).message);
    }
    this.button.disabled = false;
  }
}
