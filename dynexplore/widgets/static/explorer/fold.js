// @ts-check
/**
 * The states of one frame: the stack and locals of each function after each of them, and which of them an item belongs to.
 *
 * States come as differences. Folding starts at the state that was asked last, so that a step forward applies one
 * difference, or at the nearest of those that are kept.
 */

import { push } from "./dom.js";

/** Every so many states the stack and locals of all functions are kept, so that a jump folds few differences. */
const KEEP_EACH = 64;

/**
 * @typedef {import("./types.js").State} State
 * @typedef {import("./types.js").StackAndLocals} StackAndLocals
 */

/** The states of a frame. */
export class States {
  /** @param {State[]} states */
  constructor(states) {
    this.states = states;
    this.lastAttempt = states.reduce((last, state) => Math.max(last, state.attempt ?? 0), 0);
    /** @type {Map<number, Map<string, StackAndLocals>>} */
    this.kept = new Map();
    /** @type {{number: number, byCallPath: Map<string, StackAndLocals>}} what was asked last */
    this.last = { number: -1, byCallPath: new Map() };
    /** @type {Map<string, number[]> | undefined} item -> the states that made it or that are it */
    this.made = undefined;
    /** @type {Map<string, number> | undefined} step -> its state */
    this.steps = undefined;
    /** @type {number | undefined} */
    this.ends = undefined;
    /** @type {number[] | undefined} */
    this.breaks = undefined;
  }

  /** The first instruction of the last attempt, 0 when there is none. */
  get first() {
    return Math.max(this.states.findIndex((state) => !state.kind && (state.attempt ?? 0) === this.lastAttempt), 0);
  }

  /** The last instruction of the last attempt, -1 when there is none. */
  get lastInstruction() {
    this.ends ??= this.states.findLastIndex((state) => !state.kind && (state.attempt ?? 0) === this.lastAttempt);
    return this.ends;
  }

  /** The graph breaks that discarded attempts met; none where the kept one has no instruction. @returns {number[]} */
  get discardedBreaks() {
    if (!this.breaks) {
      const isDiscarded = (/** @type {State} */ state) => state.kind === "GraphBroke" && (state.attempt ?? this.lastAttempt) !== this.lastAttempt;
      this.breaks = this.lastInstruction < 0 ? [] : [...this.states.keys()].filter((at) => isDiscarded(this.states[at]));
    }
    return this.breaks;
  }

  /**
   * The stack and locals of the function of a state, before and after it; nothing before when it has just begun.
   * @param {number} number
   * @returns {{before: StackAndLocals | undefined, after: StackAndLocals}}
   */
  around(number) {
    const state = this.states[number];
    const before = state.new ? undefined : this.byCallPath(number - 1).get(callPathOf(state));
    return { before, after: folded(state, before) };
  }

  /**
   * The stack and locals of each function after a state, by the calls that lead to it.
   * @param {number} number
   * @returns {Map<string, StackAndLocals>}
   */
  byCallPath(number) {
    if (number < 0) return new Map();
    let start = this.last.number <= number && this.last.number > number - KEEP_EACH ? this.last.number : number;
    let byCallPath = start === this.last.number ? this.last.byCallPath : undefined;
    if (!byCallPath) {
      while (start >= 0 && !this.kept.has(start)) start -= 1;
      byCallPath = new Map(this.kept.get(start));
    }
    for (let at = start + 1; at <= number; at += 1) {
      const state = this.states[at];
      if (state.isSketch) continue; // nobody steps there, and those that are told stand on each other
      byCallPath.set(callPathOf(state), folded(state, byCallPath.get(callPathOf(state))));
      if (at % KEEP_EACH === 0 && !this.kept.has(at)) this.kept.set(at, new Map(byCallPath));
    }
    this.last = { number, byCallPath };
    return byCallPath;
  }

  /**
   * The states that an item belongs to: the one that made it, else those of all that belongs to it, in the last attempt
   * when it has some.
   * @param {string} item
   * @param {import("./links.js").Links} links
   * @returns {number[]}
   */
  of(item, links) {
    this.index();
    const made = this.made?.get(item);
    if (made) return made.slice(-1);
    const all = [];
    for (const other of links.related(item)) {
      const at = this.steps?.get(other);
      if (at !== undefined) all.push(at);
    }
    all.sort((a, b) => a - b);
    const last = all.filter((at) => (this.states[at].attempt ?? 0) === this.lastAttempt);
    return last.length ? last : all;
  }

  index() {
    if (this.made) return;
    this.made = new Map();
    this.steps = new Map();
    for (const [at, state] of this.states.entries()) {
      for (const item of [...(state.nodes ?? []), ...(state.guards ?? [])]) push(this.made, item, at);
      if (state.item) push(this.made, state.item, at);
      if (state.item) this.steps.set(state.item, at);
    }
  }
}

/**
 * What a function holds after a state, from what it held before.
 * @param {State} state
 * @param {StackAndLocals | undefined} held
 * @returns {StackAndLocals}
 */
function folded(state, held) {
  const before = state.new ? undefined : held;
  let locals = before?.locals ?? new Map();
  if (state.set) {
    locals = new Map(locals);
    for (const [name, value] of state.set) {
      if (value < 0) locals.delete(name);
      else locals.set(name, value);
    }
  }
  return { stack: [...(before?.stack ?? []).slice(0, state.keep ?? 0), ...(state.push ?? [])], locals };
}

/**
 * The attempt, and the calls that lead to the function of a state: each has a stack and locals of its own.
 * @param {State} state
 * @returns {string}
 */
export function callPathOf(state) {
  return `${state.attempt ?? 0}:${(state.calls ?? []).join(",")}`;
}
