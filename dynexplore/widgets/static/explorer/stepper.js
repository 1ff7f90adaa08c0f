// @ts-check
/**
 * The stepper: forward and back, from frame to frame, and by the strip of time anywhere; playing; jumps to breaks, attempts and to what made the chosen
 * item; and what is said about the state at hand.
 */

import { make, makeButton, prose, sentence } from "./dom.js";
import { saidOf } from "./called.js";
import { FAILED, KINDS } from "./kinds.js";
import { remember, remembered } from "./splitter.js";
import { Strip } from "./strip.js";

/** How many steps a second playing makes. */
const SPEED = 3;

/** How far a step goes: the key, and what stands on the button. @type {Record<string, [string, string]>} */
const UNITS = { line: ["l", "Line"], instruction: ["i", "Instruction"], call: ["k", "Call"] };

/** The moments at which a call begins or ends. */
const CALLS = ["InlineEntered", "InlineLeft", "FrameEntered", "CacheHit", "FrameFinished"];

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
    this.unit = remembered("unit") in UNITS ? remembered("unit") : "line";
    this.choice = this.functions();
    this.attempts = makeButton("Attempts", () => this.toggleAttempts(), { name: "dynx-attempts", label: "Show discarded attempts (a)" });
    this.attempts.hidden = !this.strip.hasDiscarded;
    this.showAttempts(remembered("attempts") === "shown");
    const by = make("span", "dynx-by", "", make("span", "dynx-facts", "Step by "), this.units());
    const bar = make("div", "dynx-steps", "", this.choice, this.status, by, ...this.buttons(), ...this.jumps(), this.attempts, this.player);
    bar.setAttribute("role", "toolbar");
    bar.setAttribute("aria-label", "Steps");
    this.element = make("div", "dynx-stepper", "", bar, ...this.failure());
    this.times = make("div", "dynx-times", "", ...(this.strip.overview ? [this.strip.overview] : []), this.strip.element);
  }

  /** What failed stands above the story as long as it is open: it is what one looks for there. @returns {HTMLElement[]} */
  failure() {
    const [{ kind = "", cause = "", where = "", remedy = "" } = {}] = this.explorer.data.overview.rows;
    const [sign, word] = FAILED.includes(kind) ? (KINDS[kind] ?? []) : [];
    if (!word) return [];
    const next = remedy && !cause.includes(remedy) ? [make("span", "dynx-facts", "", ...prose(` ${remedy}`))] : [];
    return [make("p", "dynx-failure", "", make("b", "", `${sign} ${word}${where ? ` at ${where}` : ""}. `), make("span", "", "", ...prose(sentence(cause))), ...next)];
  }

  /** The functions to choose from. */
  functions() {
    const { explorer } = this;
    const choice = /** @type {HTMLSelectElement} */ (make("select", "dynx-functions-to-choose"));
    choice.setAttribute("aria-label", "Function");
    for (const { id, title, numbers } of explorer.walk) {
      const option = make("option", "", numbers.length ? `${title}: graph ${numbers.join(", ")}` : title);
      option.setAttribute("value", String(id));
      choice.append(option);
    }
    choice.addEventListener("change", () => {
      const frame = explorer.walk.find(({ id }) => String(id) === choice.value);
      if (frame) explorer.show(frame, explorer.states(frame).first);
    });
    return choice;
  }

  /** How far a step goes: a button for each. */
  units() {
    const buttons = Object.entries(UNITS).map(([unit, [key, title]]) => {
      const button = makeButton(title, () => this.stepBy(unit), { name: "dynx-unit" });
      button.dataset.unit = unit;
      button.title = `Step by ${unit} (${key})`;
      return button;
    });
    this.unitButtons = buttons;
    const group = make("span", "dynx-units", "", ...buttons);
    group.setAttribute("role", "group");
    group.setAttribute("aria-label", "Step by");
    this.markUnit();
    return group;
  }

  /** @param {string} unit */
  stepBy(unit) {
    this.unit = unit;
    remember("unit", unit);
    this.markUnit();
    this.showAgain();
  }

  /** Attempts that were discarded are walked and seen only if somebody wants them. @param {boolean} withAttempts */
  showAttempts(withAttempts) {
    this.withAttempts = withAttempts;
    this.attempts.setAttribute("aria-pressed", String(withAttempts));
    this.strip.showDiscarded(withAttempts);
    this.showAgain();
  }

  /** What is said about the state at hand, in other words. */
  showAgain() {
    const { frame, position, order } = this.explorer;
    if (frame && order) this.showState(frame.states[position], position);
  }

  toggleAttempts() {
    this.showAttempts(!this.withAttempts);
    remember("attempts", this.withAttempts ? "shown" : "");
  }

  /** The next attempt, or the one before: who asks for it wants to see them. @param {number} by */
  toAttempt(by) {
    this.showAttempts(true);
    this.goTo(this.explorer.near(by, (state) => state.kind === "AttemptStarted"));
  }

  markUnit() {
    for (const button of this.unitButtons ?? []) button.setAttribute("aria-pressed", String(button.dataset.unit === this.unit));
  }

  buttons() {
    return [
      makeButton("|◀", () => this.go(0), { label: "First step (Home)" }),
      makeButton("◀", () => this.step(-1), { label: "Step back (left arrow)" }),
      makeButton("▶", () => this.step(1), { label: "Step forward (right arrow)" }),
      makeButton("▶|", () => this.go(Infinity), { label: "Last step (End)" }),
    ];
  }

  jumps() {
    this.toBreak = makeButton("Break ›", () => this.goTo(this.breakAt(1)), { label: "Next graph break (b)" });
    this.fromBreak = makeButton("‹ Break", () => this.goTo(this.breakAt(-1)), { label: "Previous graph break (Shift+b)" });
    this.maker = makeButton("Where created", () => this.jump(this.madeAt()), { name: "dynx-maker", label: "Go to the step that created the selection (m)" });
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
      a: () => this.toAttempt(1),
      A: () => this.toAttempt(-1),
      m: () => this.jump(this.madeAt()),
      ...Object.fromEntries(Object.entries(UNITS).map(([unit, [key]]) => [key, () => this.stepBy(unit)])),
    };
  }

  /** @param {number} position */
  go(position) {
    this.pause();
    this.explorer.go(position);
  }

  /** One step, from frame to frame, as far as the unit says. @param {number} by */
  step(by) {
    this.pause();
    const { explorer, unit } = this;
    if (unit === "instruction" && this.withAttempts) return explorer.step(by);
    const to = unit === "instruction" ? this.walked(by) : explorer.near(by, by > 0 ? this.beginsAnother() : this.beginsBefore());
    if (to) explorer.show(to.frame, to.position);
    else explorer.go(by > 0 ? Infinity : 0);
  }

  /**
   * The state one instruction on, or back, where discarded attempts are not seen. A graph break, which only they have, stands behind
   * the last instruction of the kept attempt, which ends where the break was met.
   * @param {number} by
   */
  walked(by) {
    const { explorer } = this;
    const { frame, position } = explorer;
    const { lastInstruction, discardedBreaks } = explorer.states(frame);
    const isKept = (/** @type {import("./types.js").State} */ state, /** @type {Frame} */ of) => this.isKept(of, state);
    const at = position === lastInstruction ? -1 : discardedBreaks.indexOf(position);
    if (at >= 0 || (by > 0 && position === lastInstruction)) {
      const next = at + by;
      if (next in discardedBreaks) return { frame, position: discardedBreaks[next] };
      return by > 0 ? explorer.order.near(frame, lastInstruction, 1, isKept) : { frame, position: lastInstruction };
    }
    const to = explorer.near(by, isKept);
    const there = to && by < 0 ? explorer.states(to.frame) : undefined;
    if (to && there && there.lastInstruction === to.position && there.discardedBreaks.length) return { frame: to.frame, position: there.discardedBreaks[there.discardedBreaks.length - 1] };
    return to;
  }

  /** Whether a state begins another line, or another call, than the one at hand; discarded attempts have none. */
  beginsAnother() {
    const { explorer, unit } = this;
    const here = this.placeOf(explorer.frame, explorer.position);
    return (/** @type {import("./types.js").State} */ state, /** @type {Frame} */ frame, /** @type {number} */ position) => {
      if (!this.isKept(frame, state)) return false;
      if (state.kind === "GraphBroke") return true;
      if (unit === "call") return Boolean(state.kind && CALLS.includes(state.kind));
      const there = this.placeOf(frame, position);
      return Boolean(there) && there !== here;
    };
  }

  /** The same backwards: the first state of the line before. */
  beginsBefore() {
    const is = this.beginsAnother();
    return (/** @type {import("./types.js").State} */ state, /** @type {Frame} */ frame, /** @type {number} */ position) => {
      if (!is(state, frame, position)) return false;
      if (this.unit === "call" || state.kind === "GraphBroke") return true;
      const before = frame.states[position - 1];
      return !before || !this.isKept(frame, before) || this.placeOf(frame, position - 1) !== this.placeOf(frame, position);
    };
  }

  /** The line that a state is at, "" where it is none. @param {Frame} frame @param {number} position @returns {string} */
  placeOf(frame, position) {
    const state = frame.states[position];
    if (!state || (state.kind && state.kind !== "GraphBroke")) return "";
    const code = state.code ?? frame.code;
    const line = this.explorer.lineOf(state);
    return line ? `${frame.id} ${code} ${line}` : "";
  }

  /** Whether a state belongs to what was kept: a discarded attempt is walked by instruction only. @param {Frame} frame @param {import("./types.js").State} state */
  isKept(frame, state) {
    return !state.attempt || state.attempt === this.explorer.states(frame).lastAttempt;
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
      this.playing = window.setTimeout(next, 1000 / SPEED);
    };
    this.playing = window.setTimeout(next, 1000 / SPEED);
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

  /** What stands at a state: who steps by line reads the line, not the instruction. @param {import("./types.js").State} state */
  saidOf(state) {
    const line = this.unit === "line" && !state.kind ? this.explorer.lineOf(state) : 0;
    return line ? `line ${line}` : saidOf(this.explorer, state);
  }

  /** @param {import("./types.js").State} state @param {number} position */
  showState(state, position) {
    const { order, frame } = this.explorer;
    const attempt = !this.withAttempts || this.isKept(frame, state) ? "" : `, attempt ${state.attempt}`; // the last one needs no number
    this.status.textContent = `${order.number(frame, position)} of ${order.total}${attempt}: ${this.saidOf(state)}`;
    this.choice.value = String(frame.id);
    this.strip.show(position, this.status.textContent);
    this.status.title = [this.status.textContent, ...(state.made ?? [])].join("\n");
    // not `disabled`: a button that had the focus would lose it, and keys would go to the notebook
    this.toBreak?.setAttribute("aria-disabled", String(this.breakAt(1) === undefined));
    this.fromBreak?.setAttribute("aria-disabled", String(this.breakAt(-1) === undefined));
    this.maker?.setAttribute("aria-disabled", String(this.madeAt() === undefined));
  }
}
