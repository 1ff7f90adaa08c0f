// @ts-check
/**
 * Two explorers beside each other, of two engines' captures of one call: a step in one moves the other to the same instruction.
 *
 * In:  the data of both, and `beside` (widgets/engines_page.py): the pairs of moments and the places where the two part.
 */

import { make, makeButton } from "./dom.js";
import { Explorer } from "./page.js";

/**
 * @typedef {{what: string, pair: number}} Parting  one sentence, and the pair at which it shows
 * @typedef {{names: string[], pairs: number[][], places: number[][][], partings: Parting[], first: number}} Beside  each pair
 *   is frame and state of both sides, one after the other, [1, 12, 2, 40]; -1 where a side never came there. `places` has for
 *   each side rows of frame, state and number of the pair, sorted, with those of attempts that were given up
 */

const SIDES = [0, 1];

/** Both explorers, and the bar above them. */
export class Together {
  /**
   * @param {HTMLElement} host
   * @param {any[]} both the data of the two
   * @param {Beside} beside
   */
  constructor(host, both, beside) {
    this.beside = beside;
    this.isMoving = false;
    this.at = 0;
    this.said = make("p", "dynx-together-said");
    this.said.setAttribute("role", "status");
    const columns = make("div", "dynx-together");
    host.append(this.bar(), columns);
    this.explorers = both.map((data, side) => {
      const column = make("section", "", "", make("h2", "", beside.names[side]));
      column.setAttribute("aria-label", beside.names[side]);
      columns.append(column);
      const explorer = new Explorer(column, data);
      if (explorer.frame) explorer.tabs.openAgain("story");
      explorer.stepper.unit = "instruction"; // what the two are paired by
      explorer.stepper.markUnit();
      explorer.stepper.showAttempts(true);
      explorer.follower = () => this.moved(side);
      return explorer;
    });
    this.goTo(beside.first);
  }

  bar() {
    const back = makeButton("‹ Difference", () => this.jump(-1), { label: "Previous difference" });
    const on = makeButton("Difference ›", () => this.jump(1), { label: "Next difference" });
    const bar = make("div", "dynx-together-bar", "", back, on, this.said);
    bar.setAttribute("role", "toolbar");
    bar.setAttribute("aria-label", "Differences");
    return bar;
  }

  /** An explorer was stepped: the other one follows, where it came to the same instruction. @param {number} side */
  moved(side) {
    if (this.isMoving) return;
    const { frame, position } = this.explorers[side];
    this.at = nearest(this.beside.places[side], frame?.id, position) ?? this.at;
    this.show(1 - side);
    this.say();
  }

  /** @param {number} number a pair: both sides go there, or as near as they came */
  goTo(number) {
    this.at = Math.max(0, Math.min(number, this.beside.pairs.length - 1));
    for (const side of SIDES) this.show(side);
    this.say();
  }

  /** Let one side show the pair at hand; where it never came there, it stays at the last moment before that it has. @param {number} side */
  show(side) {
    const { pairs } = this.beside;
    for (let number = this.at; number >= 0; number -= 1) {
      const [id, position] = pairs[number].slice(2 * side, 2 * side + 2);
      const explorer = this.explorers[side];
      const frame = explorer.data.frames.find((/** @type {{id: number}} */ one) => one.id === id);
      if (!frame) continue;
      this.isMoving = true;
      explorer.show(frame, position);
      this.isMoving = false;
      return;
    }
  }

  /** The nearest place before or behind the pair at hand where the two part. @param {number} by */
  jump(by) {
    const places = this.beside.partings.map(({ pair }) => pair).filter((pair) => pair >= 0 && (by > 0 ? pair > this.at : pair < this.at));
    if (places.length) this.goTo(by > 0 ? Math.min(...places) : Math.max(...places));
    else this.say(by > 0 ? "No differences after this step." : "No differences before this step.");
  }

  /** What is said about the pair at hand. @param {string} [instead] */
  say(instead) {
    const pair = this.beside.pairs[this.at] ?? [];
    const here = this.beside.partings.filter(({ pair: number }) => number === this.at).map(({ what }) => what);
    const alone = SIDES.filter((side) => pair[2 * side] < 0).map((side) => `${this.beside.names[1 - side]} alone came here.`);
    this.said.textContent = instead ?? ([...here, ...alone].join(" ") || "Both engines reached this step.");
  }
}

/**
 * The pair of the last state of a frame up to a position; of its first, where there is none.
 * @param {number[][]} places
 * @param {number} frame
 * @param {number} position
 * @returns {number | undefined}
 */
function nearest(places, frame, position) {
  const here = places.filter(([id]) => id === frame);
  return (here.findLast(([, state]) => state <= position) ?? here[0])?.[2];
}
