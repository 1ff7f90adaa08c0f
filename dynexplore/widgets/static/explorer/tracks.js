// @ts-check
/**
 * The timeline of the overview: one track for each function, its compilations as long as they took, cache hits as dots.
 *
 * In:  `data.overview.timeline`, made by views/overview.py.
 */

import { breakable, make, makeButton, plural } from "./dom.js";
import { secondsOf } from "./seconds.js";

/** About so many marks stand on the axis. */
const MARKS = 6;

/** An axis of fewer seconds is one of milliseconds. */
const SHORT = 0.1;

/** The text of a mark behind this part of the axis stands before the mark: it would end outside. */
const LAST = 0.85;

/** The axis: round numbers of seconds, from 0 on. @param {number} whole @returns {HTMLElement} */
export function ticksOf(whole) {
  const axis = make("div", "dynx-ticks", "", make("span", "dynx-track-name"));
  const line = make("div", "dynx-track-line");
  const step = roundStep(whole / MARKS);
  const isShort = whole < SHORT;
  const digits = Math.max(0, -Math.floor(Math.log10(isShort ? 1000 * step : step) + 1e-9)); // all marks have the same
  for (let number = 0; whole && number * step <= whole; number += 1) {
    const at = number * step;
    const tick = make("span", "dynx-tick", isShort ? `${(1000 * at).toFixed(digits)} ms` : `${at.toFixed(digits)} s`);
    tick.style.left = `${(100 * at) / whole}%`;
    tick.classList.toggle("dynx-last-tick", at > whole * LAST);
    line.append(tick);
  }
  axis.append(line);
  return axis;
}

/** The next of 1, 2 and 5 times a power of ten. @param {number} least */
function roundStep(least) {
  const power = 10 ** Math.floor(Math.log10(least || 1));
  return power * ([1, 2, 5].find((one) => one * power >= least) ?? 10);
}

/** The part of the track that two dots of cache hits need. */
const DOTS = 9;

/** A dot behind this part of the track, in percent, would stand beyond its end. */
const MOST = 97;

/** So much of a track, in percent, lies between two dots at least: nearer ones are one dot, which counts them together. */
const BETWEEN = 4;

/** @param {[number, number][]} dots part of the track and count of each, in order @returns {[number, number][]} */
export function apart(dots) {
  /** @type {[number, number][]} */
  const found = [];
  for (const [at, count] of dots) {
    const last = found.at(-1);
    if (last && at - last[0] < BETWEEN) last[1] += count;
    else found.push([at, count]);
  }
  return found;
}

/** A function's compilations and hits. */
export class Track {
  /**
   * @param {import("./types.js").TrackData} track
   * @param {number} whole seconds of all tracks
   * @param {(frame: number) => void} go
   */
  constructor(track, whole, go) {
    const line = make("div", "dynx-track-line");
    /** @type {Map<number, HTMLElement>} */
    this.spans = new Map();
    const part = (/** @type {number} */ seconds) => (100 * seconds) / (whole || 1);
    for (const { kind, start, seconds, frame, call } of track.spans) {
      const text = `${kind} ${secondsOf(seconds)}`;
      const span = makeButton("", () => go(frame), { name: `dynx-span-of-time dynx-spent-${kind}`, label: `${track.function}, call ${call}: ${text}` });
      const isCovered = track.hits.some(([at]) => at >= start && at < start + seconds); // dots at its edges leave the middle
      if (part(seconds) > text.length * 1.4 + (isCovered ? DOTS : 0)) span.textContent = text;
      span.style.left = `${part(start)}%`;
      span.style.width = `${part(seconds)}%`;
      this.spans.set(frame, span);
      line.append(span);
    }
    for (const [at, count] of apart(track.hits.map(([at, count]) => [Math.min(part(at), MOST), count]))) {
      const dot = make("span", "dynx-hit-dot", count > 1 ? String(count) : "");
      dot.style.left = `${at}%`;
      dot.title = plural(count, "cache hit");
      line.append(dot);
    }
    const name = make("span", "dynx-track-name", "", ...breakable(track.function));
    name.title = track.function;
    this.element = make("div", "dynx-track", "", name, line);
  }

  /** @param {number[]} frames that are chosen */
  mark(frames) {
    for (const [id, span] of this.spans) span.classList.toggle("dynx-picked", frames.includes(id));
  }
}
