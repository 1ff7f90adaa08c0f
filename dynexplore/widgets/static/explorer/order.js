// @ts-check
/**
 * The order of all steps: frames, attempts and calls as they ran, numbered from 1 without gaps.
 *
 * A frame's states come in runs: what its capture did is one, and a later call that finds its code adds a state behind those of
 * frames that came between. The numbers count what is on show: the engine's own wrappers are left out.
 *
 * In:  `order` of each frame, [place in the frame, number among all events' states] where a run begins (views/explorer_data.py).
 */

/**
 * @typedef {import("./types.js").Frame} Frame
 * @typedef {{frame: Frame, from: number, to: number, first: number, at: number}} Run  states from..to of a frame; `first` of all has number 1
 */

/** The runs of the frames on show, in the order in which they happened. */
export class Order {
  /** @param {Frame[]} frames */
  constructor(frames) {
    const runs = frames.flatMap((frame) =>
      frame.order.map(([from, at], row) => ({ frame, from, to: frame.order[row + 1]?.[0] ?? frame.states.length, at, first: 0 })),
    );
    runs.sort((one, other) => one.at - other.at);
    let first = 1;
    for (const [at, run] of runs.entries()) {
      run.at = at; // from now on its place among the runs
      run.first = first;
      first += run.to - run.from;
    }
    /** @type {Run[]} */
    this.runs = runs;
    this.total = first - 1;
    /** @type {Map<Frame, Run[]>} */
    this.of = new Map(frames.map((frame) => [frame, []]));
    for (const run of runs) this.of.get(run.frame)?.push(run);
  }

  /** The run in which a state stands. @param {Frame} frame @param {number} position @returns {Run | undefined} */
  runAt(frame, position) {
    return this.of.get(frame)?.find(({ from, to }) => from <= position && position < to);
  }

  /** The number of a state among all, from 1. @param {Frame} frame @param {number} position */
  number(frame, position) {
    const run = this.runAt(frame, position);
    return run ? run.first + position - run.from : position + 1;
  }

  /**
   * The nearest state before or behind another one, in whatever frame.
   * @param {Frame} frame @param {number} position
   * @param {number} by 1 or -1
   * @param {(state: import("./types.js").State, frame: Frame, position: number) => boolean} is
   * @returns {{frame: Frame, position: number} | undefined}
   */
  near(frame, position, by, is) {
    const run = this.runAt(frame, position);
    let at = position + by;
    if (!run) {
      // a wrapper of the engine, to which an old address led: it is in no order, and has its own states only
      for (; at >= 0 && at < frame.states.length; at += by) if (is(frame.states[at], frame, at)) return { frame, position: at };
      return undefined;
    }
    for (let number = run.at; number >= 0 && number < this.runs.length; number += by) {
      const here = this.runs[number];
      if (here !== run) at = by > 0 ? here.from : here.to - 1;
      for (; at >= here.from && at < here.to; at += by) if (is(here.frame.states[at], here.frame, at)) return { frame: here.frame, position: at };
    }
    return undefined;
  }
}
