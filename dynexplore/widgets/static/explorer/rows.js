// @ts-check
/**
 * Rows under their link keys: what is chosen by a click, and what lights up.
 *
 * A row has one key that choosing it chooses; a piece of source may stand under several, one for each span around it.
 */

import { make, makeCell, push } from "./dom.js";

/** @typedef {import("./types.js").Marks} Marks */

/** @type {WeakMap<Element, string>} what a click on an element chooses */
const KEY_OF = new WeakMap();

/** The classes that marks give and take. */
export const MARKS = ["dynx-lit", "dynx-chosen", "dynx-now"];

/**
 * @param {Element} element
 * @returns {string | undefined} the key of a row
 */
export function keyOf(element) {
  return KEY_OF.get(element);
}

/**
 * The room above a row that is brought into view: a third of what is seen; below the head of a table whole rows, none of them cut.
 * @param {number} seen
 * @param {number} row its height
 * @param {number} head the height of the table's head, 0 without one
 */
export function roomAbove(seen, row, head) {
  return head ? Math.max(0, Math.floor((seen / 3 - head) / row)) * row + head : seen / 3;
}

/** The rows of a pane that stand in the page, under their keys. */
export class Rows {
  constructor() {
    /** @type {Map<string, HTMLElement[]>} */
    this.at = new Map();
    /** @type {Set<HTMLElement>} */
    this.marked = new Set();
    /** @type {{scroller: Element, top: number, left?: number} | undefined} */
    this.goal = undefined;
  }

  /** Forget all rows: others will stand there. */
  clear() {
    this.at.clear();
    this.marked.clear();
  }

  /**
   * A row of a table that can be chosen.
   * @param {string} key
   * @param {string[]} cells
   * @returns {HTMLElement}
   */
  row(key, cells) {
    const row = make("tr", "dynx-row");
    for (const text of cells) row.append(makeCell(text));
    return this.choosable(row, key);
  }

  /**
   * Make an element something that can be chosen; arrow keys move between those of a pane.
   * @param {HTMLElement} element
   * @param {string} key
   * @returns {HTMLElement}
   */
  choosable(element, key) {
    element.tabIndex = -1;
    KEY_OF.set(element, key);
    push(this.at, key, element);
    return element;
  }

  /**
   * An element under several keys; choosing it chooses the first, or another, or nothing ("").
   * @param {HTMLElement} element
   * @param {string[]} keys
   * @param {string} [chosen]
   */
  under(element, keys, chosen = keys[0]) {
    if (chosen) KEY_OF.set(element, chosen);
    for (const key of keys) push(this.at, key, element);
  }

  /** @param {Marks} marks */
  aim(marks) {
    this.goal = undefined;
    const target = bestOf(this.at, marks)?.[0];
    const scroller = target?.closest(".dynx-body");
    if (!target || !scroller) return;
    const box = scroller.getBoundingClientRect();
    const at = target.getBoundingClientRect();
    const head = target.closest("table")?.tHead?.offsetHeight ?? 0;
    if (at.top >= box.top + (head || 20) && at.bottom <= box.bottom) return;
    this.goal = { scroller, top: scroller.scrollTop + at.top - box.top - roomAbove(box.height, at.height, head) };
  }

  /** @param {Marks} marks */
  light(marks) {
    for (const element of this.marked) {
      element.classList.remove(...MARKS);
      if (element.getAttribute("aria-current") === "step") element.removeAttribute("aria-current");
    }
    this.marked.clear();
    /** @type {Map<HTMLElement, string>} the marks that an element got: one box may stand for thousands of nodes with the same */
    const done = new Map();
    for (const key of common(this.at, marks)) {
      const mark = /** @type {string} */ (marks.get(key));
      const names = mark.split(" ");
      for (const element of this.at.get(key) ?? []) {
        if (done.get(element) === mark) continue;
        done.set(element, mark);
        element.classList.add(...names);
        if (names.includes("dynx-now") && element.tagName === "TR") element.setAttribute("aria-current", "step");
        this.marked.add(element);
      }
    }
    if (this.goal) this.goal.scroller.scrollTop = this.goal.top;
    if (this.goal?.left !== undefined) this.goal.scroller.scrollLeft = this.goal.left;
  }
}

/**
 * The keys that both maps have, by way of the smaller one.
 * @param {Map<string, unknown>} map
 * @param {Marks} marks
 * @returns {string[]}
 */
function common(map, marks) {
  const [few, many] = map.size < marks.size ? [map, marks] : [marks, map];
  return [...few.keys()].filter((key) => many.has(key));
}

/**
 * What stands under the key that should be in view: what was chosen or is at hand, else the first that is lit.
 * @template T
 * @param {Map<string, T>} map
 * @param {Marks} marks
 * @returns {T | undefined}
 */
export function bestOf(map, marks) {
  const keys = common(map, marks);
  const best = keys.find((key) => marks.get(key) !== "dynx-lit") ?? keys[0];
  return best === undefined ? undefined : map.get(best);
}
