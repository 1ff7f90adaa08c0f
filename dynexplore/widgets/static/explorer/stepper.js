// @ts-check
/**
 * The stepper: forward and back, from frame to frame, and by the strip of time anywhere; playing; jumps to breaks, attempts and to what made the chosen
 * item; and what is said about the state at hand.
 */

import { make, makeButton } from "./dom.js";
import { Strip } from "./strip.js";

/** How many steps a second playing makes, by what is chosen. @type {[string, number][]} */
const SPEEDS = [
  ["slow", 1],
  ["normal", 3],
  ["fast", 10],
  ["very fast", 40],
];

/** @typedef {import("./types.js").Frame} Frame */

/** The bar of steps. */
export class Stepper {
  /** @param {import("./page.js").Explorer} explorer */
  constructor(explorer) {
    this.explorer = explorer;
    this.strip = new Strip(explorer);
    this.status = make("span", "dynx-status");
    this.status.setAttribute("role", "status");
    /** @type {number | undefined} the timer, while the steps are played */
    this.playing = undefined;
    this.player = makeButton("Play", () => this.play(), { name: "dynx-play", label: "Play the steps (p)" });
    this.speed = this.speeds();
    const bar = make("div", "dynx-steps", "", ...this.buttons(), ...this.jumps(), this.player, this.speed, this.status);
    bar.setAttribute("role", "toolbar");
    bar.setAttribute("aria-label", "Steps");
    this.element = make("div", "dynx-stepper", "", ...(this.strip.overview ? [this.strip.overview] : []), this.strip.element, bar);
  }

  buttons() {
    return [
      makeButton("|◀", () => this.go(0), { label: "First step (Home)" }),
      makeButton("◀", () => this.step(-1), { label: "Step back (left arrow)" }),
      makeButton("▶", () => this.step(1), { label: "Step forward (right arrow)" }),
      makeButton("▶|", () => this.go(Infinity), { label: "Last step (End)" }),
    ];
  }

  speeds() {
    const choice = /** @type {HTMLSelectElement} */ (make("select", "dynx-speed"));
    choice.setAttribute("aria-label", "Playback speed");
    for (const [name, each] of SPEEDS) {
      const option = make("option", "", name);
      option.setAttribute("value", String(each));
      choice.append(option);
    }
    choice.value = "3";
    return choice;
  }

  jumps() {
    this.toBreak = makeButton("Break ›", () => this.goTo(this.breakAt(1)), { label: "Next graph break (b)" });
    this.fromBreak = makeButton("‹ Break", () => this.goTo(this.breakAt(-1)), { label: "Previous graph break (Shift+b)" });
    this.maker = makeButton("Where created", () => this.jump(this.madeAt()), { label: "Go to the step that created the selection (m)" });
    return [this.fromBreak, this.toBreak, this.maker];
  }

  /** @type {Record<string, () => void>} */
  get keys() {
    return {
      ArrowLeft: () => this.step(-1),
      ArrowRight: () => this.step(1),
      Home: () => this.go(0),
      End: () => this.go(Infinity),
      p: () => this.play(),
      b: () => this.goTo(this.breakAt(1)),
      B: () => this.goTo(this.breakAt(-1)),
      a: () => this.goTo(this.attemptAt(1)),
      A: () => this.goTo(this.attemptAt(-1)),
      m: () => this.jump(this.madeAt()),
    };
  }

  /** @param {number} position */
  go(position) {
    this.pause();
    this.explorer.go(position);
  }

  /** One step, from frame to frame. @param {number} by */
  step(by) {
    this.pause();
    this.explorer.step(by);
  }

  // -- playing ---------------------------------------------------------------------------------------------------------

  play() {
    if (this.playing !== undefined) return this.pause();
    const { explorer } = this;
    if (explorer.position >= explorer.frame.states.length - 1) explorer.go(0);
    this.status.setAttribute("aria-live", "off"); // nobody can listen to every step
    this.player.textContent = "Pause";
    const next = () => {
      if (!explorer.root.isConnected || explorer.position >= explorer.frame.states.length - 1) return this.pause();
      explorer.go(explorer.position + 1);
      this.playing = window.setTimeout(next, 1000 / Number(this.speed.value));
    };
    this.playing = window.setTimeout(next, 1000 / Number(this.speed.value));
  }

  pause() {
    window.clearTimeout(this.playing);
    this.playing = undefined;
    this.status.removeAttribute("aria-live");
    this.player.textContent = "Play";
  }

  // -- jumps -----------------------------------------------------------------------------------------------------------

  /** @param {number | undefined} position */
  jump(position) {
    const { explorer } = this;
    this.pause();
    if (position !== undefined) explorer.go(position, position === this.madeAt() ? explorer.chosen : undefined);
  }

  /** @param {{frame: Frame, position: number} | undefined} there in whatever frame */
  goTo(there) {
    this.pause();
    if (there) this.explorer.show(there.frame, there.position);
  }

  /** @param {number} by 1: the next one, -1: the one before */
  breakAt(by) {
    return this.explorer.near(by, (state) => state.kind === "GraphBroke");
  }

  /** @param {number} by */
  attemptAt(by) {
    return this.explorer.near(by, (state) => state.kind === "AttemptStarted");
  }

  /** The step that made what is chosen, unless it is at hand. @returns {number | undefined} */
  madeAt() {
    const { explorer } = this;
    if (!explorer.chosen || explorer.chosen === explorer.state.item) return undefined;
    const [made] = explorer.states().of(explorer.chosen, explorer.links);
    return made === explorer.position ? undefined : made;
  }

  // -- what is shown -----------------------------------------------------------------------------------------------------

  showFrame() {
    this.pause();
  }

  /** @param {import("./types.js").State} state @param {number} position */
  showState(state, position) {
    const attempt = state.attempt ? `, attempt ${state.attempt}` : "";
    const { order, frame } = this.explorer;
    this.status.textContent = `${order.number(frame, position)} of ${order.total}${attempt}: ${state.text}`;
    this.strip.show(position, this.status.textContent);
    this.status.title = [this.status.textContent, ...(state.made ?? [])].join("\n");
    // not `disabled`: a button that had the focus would lose it, and keys would go to the notebook
    this.toBreak?.setAttribute("aria-disabled", String(this.breakAt(1) === undefined));
    this.fromBreak?.setAttribute("aria-disabled", String(this.breakAt(-1) === undefined));
    this.maker?.setAttribute("aria-disabled", String(this.madeAt() === undefined));
  }
}
