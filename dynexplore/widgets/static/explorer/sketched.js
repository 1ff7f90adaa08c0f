// @ts-check
/**
 * The frames of a first view as ordinary frames: a state that is not told yet is a sketch in its place.
 *
 * In:  `sketch` of each frame (views/first_view.py): `counts` of equal `sketches`, and in `at` where the states that are told stand.
 * Out: the same data, in which `states` of each frame has them all, and `told` the range in which one can step.
 */

/**
 * @param {any} data
 * @returns {any}
 */
export function withSketches(data) {
  for (const frame of data?.isFirstView ? data.frames : []) {
    const { at, told, counts, sketches } = frame.sketch;
    const states = counts.flatMap((/** @type {number} */ count, /** @type {number} */ run) =>
      Array(count).fill({ isSketch: 1, offset: -1, text: "", ...sketches[run] }),
    );
    at.forEach((/** @type {number} */ place, /** @type {number} */ number) => (states[place] = frame.states[number]));
    Object.assign(frame, { states, told });
  }
  return data;
}
