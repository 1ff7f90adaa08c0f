// @ts-check
/**
 * The stepper: forward, back, to the ends and anywhere; playing; jumps to breaks, attempts and to what made the chosen
 * item; and what is said about the state at hand.
 */

import { make, makeButton } from "./dom.js";

/** How many steps a second playing makes, by what is chosen. @type {[string, number][]} */
const SPEEDS = [
  ["slow", 1],
  ["normal", 3],
  ["fast", 10],
  ["very fast", 40],
];

/** The bar of steps. */
export class Stepper {
  /** @param {import("./page.js").Explorer} explorer */
  constructor(explorer) {
    this.explorer = explorer;
    this.slider = /** @type {HTMLInputElement} */ (make("input", "dynx-slider"));
    this.slider.type = "range";
    this.slider.min = "0";
    this.slider.setAttribute("aria-label", "Step");
    this.slider.addEventListener("input", () => this.go(Number(this.slider.value)));
    this.marks = make("div", "dynx-marks");
    this.marks.setAttribute("aria-hidden", "true"); // the jumps lead there, too
    this.status = make("span", "dynx-status");
    this.status.setAttribute("role", "status");
    this.says = make("div", "dynx-says");
    this.says.tabIndex = 0; // what scrolls can be scrolled by keyboard
    this.says.setAttribute("role", "group");
    this.says.setAttribute("aria-label", "What this step did");
    this.attempts = make("div", "dynx-attempts");
    /** @type {number | undefined} the timer, while the steps are played */
    this.playing = undefined;
    this.player = makeButton("Play", () => this.play(), { name: "dynx-play", label: "Play the steps (p)" });
    this.speed = this.speeds();
    const track = make("div", "dynx-track", "", this.slider, this.marks);
    this.element = make("div", "dynx-stepper", "", ...this.buttons(), this.player, this.speed, track, this.status);
    this.element.append(...this.jumps(), this.attempts, this.says);
    this.element.setAttribute("role", "toolbar");
    this.element.setAttribute("aria-label", "Steps");
  }

  buttons() {
    return [
      makeButton("|◀", () => this.go(0), { label: "First step (Home)" }),
      makeButton("◀", () => this.go(this.explorer.position - 1), { label: "Step back (left arrow)" }),
      makeButton("▶", () => this.go(this.explorer.position + 1), { label: "Step forward (right arrow)" }),
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
    this.toBreak = makeButton("Break ›", () => this.jump(this.breakAt(1)), { label: "Next graph break (b)" });
    this.fromBreak = makeButton("‹ Break", () => this.jump(this.breakAt(-1)), { label: "Previous graph break (Shift+b)" });
    this.maker = makeButton("Where created", () => this.jump(this.madeAt()), { label: "Go to the step that created the selection (m)" });
    return [this.fromBreak, this.toBreak, this.maker];
  }

  /** @type {Record<string, () => void>} */
  get keys() {
    const { explorer } = this;
    return {
      ArrowLeft: () => this.go(explorer.position - 1),
      ArrowRight: () => this.go(explorer.position + 1),
      Home: () => this.go(0),
      End: () => this.go(Infinity),
      p: () => this.play(),
      b: () => this.jump(this.breakAt(1)),
      B: () => this.jump(this.breakAt(-1)),
      a: () => this.jump(this.attemptAt(1)),
      A: () => this.jump(this.attemptAt(-1)),
      m: () => this.jump(this.madeAt()),
    };
  }

  /** @param {number} position */
  go(position) {
    this.pause();
    this.explorer.go(position);
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

  /** @param {number} by 1: the next one, -1: the one before @returns {number | undefined} */
  breakAt(by) {
    return this.near(by, (state) => state.kind === "GraphBroke");
  }

  /** @param {number} by @returns {number | undefined} */
  attemptAt(by) {
    return this.near(by, (state) => state.kind === "AttemptStarted");
  }

  /** @param {number} by @param {(state: import("./types.js").State) => boolean} is @returns {number | undefined} */
  near(by, is) {
    const { states } = this.explorer.frame;
    for (let at = this.explorer.position + by; at >= 0 && at < states.length; at += by) if (is(states[at])) return at;
    return undefined;
  }

  /** The step that made what is chosen, unless it is at hand. @returns {number | undefined} */
  madeAt() {
    const { explorer } = this;
    if (!explorer.chosen || explorer.chosen === explorer.state.item) return undefined;
    const [made] = explorer.states().of(explorer.chosen, explorer.links);
    return made === explorer.position ? undefined : made;
  }

  // -- what is shown -----------------------------------------------------------------------------------------------------

  /** @param {import("./types.js").Frame} frame */
  showFrame({ states }) {
    this.pause();
    const last = Math.max(0, states.length - 1);
    this.slider.max = String(last);
    /** @type {HTMLElement[]} */
    const marks = [];
    /** @type {{at: number, button: HTMLElement}[]} */
    this.tries = [];
    states.forEach((state, at) => {
      if (state.kind === "AttemptStarted") this.tries?.push({ at, button: this.attempt(states, at) });
      const name = { GraphBroke: "dynx-break", AttemptStarted: "dynx-attempt" }[state.kind ?? ""];
      if (!name) return;
      const mark = make("i", name);
      mark.title = state.text;
      mark.style.left = `${(100 * at) / (last || 1)}%`;
      marks.push(mark);
    });
    this.marks.replaceChildren(...marks);
    this.attempts.replaceChildren(...(this.tries.length > 1 ? this.tries.map(({ button }) => button) : []));
  }

  /** A button for the attempt that starts at a state, with what became of it. @param {import("./types.js").State[]} states @param {number} at */
  attempt(states, at) {
    const { attempt } = states[at];
    const restart = states.find((state) => state.kind === "AttemptRestarted" && state.attempt === attempt);
    const end = restart ? `discarded: ${restart.text.replace(/^restart: /, "")}` : "kept";
    return makeButton(`Attempt ${attempt}, ${end}`, () => this.go(at), { name: "dynx-try" });
  }

  /** @param {import("./types.js").State} state @param {number} position */
  showState(state, position) {
    this.slider.value = String(position);
    const attempt = state.attempt ? `, attempt ${state.attempt}` : "";
    this.status.textContent = `${position + 1} of ${this.explorer.frame.states.length}${attempt}: ${state.text}`;
    this.slider.setAttribute("aria-valuetext", this.status.textContent);
    const lines = (state.made ?? []).map((text) => make("li", "", text));
    const help = this.explorer.help(state.text.split(" ")[0]);
    this.says.replaceChildren(make("p", "dynx-help", help), make("ul", "dynx-made", "", ...lines));
    const at = this.tries?.findLastIndex((start) => start.at <= position);
    this.tries?.forEach(({ button }, number) => button.setAttribute("aria-current", String(number === at)));
    // not `disabled`: a button that had the focus would lose it, and keys would go to the notebook
    this.toBreak?.setAttribute("aria-disabled", String(this.breakAt(1) === undefined));
    this.fromBreak?.setAttribute("aria-disabled", String(this.breakAt(-1) === undefined));
    this.maker?.setAttribute("aria-disabled", String(this.madeAt() === undefined));
  }
}
