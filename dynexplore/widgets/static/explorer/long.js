// @ts-check
/**
 * Lists that may be long: only the rows in view stand in the page, so that 10,000 cost no more than 100.
 *
 * All rows are equally high, so where a row stands is a product. A short list stands there whole. Columns are as wide as the longest
 * text of each wants and the pane allows (fitted.js), or they would jump while one scrolls.
 */

import { make, makeTable, push } from "./dom.js";
import { fitAll, fitTable } from "./fitted.js";
import { Rows, bestOf, roomAbove } from "./rows.js";

/** A list with fewer rows than this stands there whole: its rows need not be equally high. */
const SHORT = 300;

/** The same for a table, which the browser lays out anew whenever one of its rows is lit. */
const SHORT_TABLE = 100;

/** So many rows above and below those in view stand in the page, too. */
const MARGIN = 30;

/** The height of a row until one can be measured: that of page.css. */
const ROW_HEIGHT = 20;

/**
 * @typedef {import("./types.js").Marks} Marks
 * @typedef {object} Long
 * @property {number} count
 * @property {number} [short]  with fewer rows it stands there whole
 * @property {(index: number, rows: Rows) => HTMLElement} row  makes a row, and says its keys to `rows`
 * @property {(index: number) => Iterable<string>} keys  the keys of a row, the one that choosing it chooses first
 * @property {(index: number) => string} text  what a search finds in it
 */

/** A list in a pane. */
export class LongList {
  /**
   * @param {HTMLElement} scroller the pane's body
   * @param {HTMLElement} element what stands in the pane
   * @param {HTMLElement} body what in it holds the rows
   * @param {Long} what
   */
  constructor(scroller, element, body, what) {
    this.scroller = scroller;
    this.element = element;
    this.body = body;
    this.what = what;
    this.rows = new Rows();
    this.whole = what.count < (what.short ?? SHORT);
    this.from = 0;
    this.to = 0;
    this.rowHeight = 0;
    /** @type {Marks} */
    this.marks = new Map();
    /** @type {Set<number>} rows that the last search found */
    this.found = new Set();
    /** @type {Map<string, number[]> | undefined} key -> rows */
    this.indices = undefined;
    /** @type {string[] | undefined} the rows' texts in small letters */
    this.texts = undefined;
    /** @type {number | undefined} the row that should be in view */
    this.target = undefined;
    element.classList.add("dynx-long");
    if (!this.whole) {
      element.setAttribute("aria-rowcount", String(what.count));
      scroller.addEventListener("scroll", () => this.draw(), { passive: true });
    }
    this.put(0, this.whole ? what.count : Math.min(what.count, 2 * MARGIN));
  }

  /** Draw the rows around those in view, when some of them are missing. */
  draw() {
    fitAll(this.scroller);
    if (this.whole || !this.element.isConnected) return;
    const { first, last } = this.inView();
    if (first >= this.from && last <= this.to) return;
    this.put(Math.max(0, first - MARGIN), Math.min(this.what.count, last + MARGIN));
  }

  /** @returns {{first: number, last: number}} the rows that are in view */
  inView() {
    const above = this.scroller.getBoundingClientRect().top - this.element.getBoundingClientRect().top;
    const { height } = this;
    const first = Math.min(Math.max(0, Math.floor(above / height) - 1), this.what.count);
    return { first, last: Math.min(first + Math.ceil(this.scroller.clientHeight / height) + 2, this.what.count) };
  }

  get height() {
    if (!this.rowHeight) this.rowHeight = this.body.querySelector(":scope > :not(.dynx-gap)")?.getBoundingClientRect().height ?? 0;
    return this.rowHeight || ROW_HEIGHT;
  }

  /**
   * Put the rows of a range into the page, and room for the others above and below.
   * @param {number} from
   * @param {number} to
   */
  put(from, to) {
    const rows = [...this.body.querySelectorAll(":scope > :not(.dynx-gap)")];
    const inside = rows.findIndex((row) => row.contains(document.activeElement));
    const focused = inside < 0 ? -1 : this.from + inside;
    const made = [];
    this.rows.clear();
    for (let index = from; index < to; index += 1) {
      const row = this.what.row(index, this.rows);
      if (!this.whole) row.setAttribute("aria-rowindex", String(index + 1));
      if (this.found.has(index)) row.classList.add("dynx-found");
      made.push(row);
    }
    if (from > 0) made.unshift(this.gap(from));
    if (to < this.what.count) made.push(this.gap(this.what.count - to));
    this.body.replaceChildren(...made);
    [this.from, this.to] = [from, to];
    this.rows.light(this.marks);
    if (focused < 0) return;
    // the row that had the focus is another element now, or is far away: keys would go to the notebook
    const again = from <= focused && focused < to ? this.body.querySelectorAll(":scope > :not(.dynx-gap)")[focused - from] : null;
    /** @type {HTMLElement} */ (again ?? this.scroller).focus({ preventScroll: true });
  }

  /** @param {number} rows */
  gap(rows) {
    const gap = make(this.body.tagName === "TBODY" ? "tr" : "div", "dynx-gap");
    gap.setAttribute("aria-hidden", "true");
    gap.style.height = `${rows * this.height}px`;
    return gap;
  }

  // -- light -----------------------------------------------------------------------------------------------------------

  /** @param {Marks} marks */
  aim(marks) {
    this.target = undefined;
    this.rows.goal = undefined;
    if (this.whole) return this.rows.aim(marks);
    this.target = bestOf(this.indexed(), marks)?.[0];
    if (this.target !== undefined) this.inside = this.inView();
  }

  /** @param {Marks} marks */
  light(marks) {
    this.marks = marks;
    const { target, inside } = this;
    this.target = undefined;
    if (target !== undefined && inside && (target <= inside.first + 1 || target >= inside.last - 2)) {
      this.reveal(target);
    }
    this.rows.light(marks);
  }

  /**
   * Bring a row into view, about a third from the top.
   * @param {number} index
   * @returns {HTMLElement | undefined}
   */
  reveal(index) {
    if (!this.whole) {
      if (index < this.from + 2 || index > this.to - 3) {
        const rows = Math.ceil(this.scroller.clientHeight / this.height);
        this.put(Math.max(0, index - rows - MARGIN), Math.min(this.what.count, index + rows + MARGIN));
      }
      const head = this.element.querySelector("thead")?.offsetHeight ?? 0;
      const first = this.element.getBoundingClientRect().top - this.scroller.getBoundingClientRect().top + head;
      this.scroller.scrollTop += first + index * this.height - roomAbove(this.scroller.clientHeight, this.height, head);
    }
    return /** @type {HTMLElement | undefined} */ (this.body.querySelectorAll(":scope > :not(.dynx-gap)")[index - this.from]);
  }

  /**
   * Move the focus from one row to the next that can be chosen. Rows that do not stand in the page yet are put there.
   * @param {HTMLElement} focused
   * @param {number} by
   * @returns {boolean}
   */
  move(focused, by) {
    if (this.whole || focused.parentElement !== this.body) return false;
    const rows = [...this.body.querySelectorAll(":scope > :not(.dynx-gap)")];
    let index = this.from + rows.indexOf(focused) + by;
    while (this.what.count > index && index >= 0 && ![...this.what.keys(index)].length) index += by;
    if (index < 0 || index >= this.what.count) return true;
    this.reveal(index)?.focus({ preventScroll: true });
    return true;
  }

  indexed() {
    if (!this.indices) {
      this.indices = new Map();
      for (let index = 0; index < this.what.count; index += 1) {
        for (const key of this.what.keys(index)) push(this.indices, key, index);
      }
    }
    return this.indices;
  }

  // -- search ------------------------------------------------------------------------------------------------------------

  /** @param {string} wanted @returns {import("./types.js").Hit[]} */
  find(wanted) {
    const { count, text, keys } = this.what;
    this.texts ??= Array.from({ length: count }, (_, index) => text(index).toLowerCase());
    const hits = [];
    for (let index = 0; index < count; index += 1) {
      if (!this.texts[index].includes(wanted)) continue;
      this.found.add(index);
      const [key = ""] = keys(index);
      hits.push({ key, reveal: () => this.reveal(index) });
    }
    this.paintFound();
    return hits;
  }

  forget() {
    this.found.clear();
    this.paintFound();
  }

  paintFound() {
    let index = this.from;
    for (const row of this.body.children) {
      if (!row.classList.contains("dynx-gap")) row.classList.toggle("dynx-found", this.found.has(index++));
    }
  }
}

/**
 * A table that may be long.
 * @param {HTMLElement} scroller the pane's body
 * @param {string} label
 * @param {string[]} header
 * @param {{key: string, cells: string[], title?: string, dress?: (row: HTMLElement) => void}[]} rows  a row without a key is
 *   a gap; `dress` adds to a row what is more than text
 * @returns {LongList}
 */
export function longTable(scroller, label, header, rows) {
  const { table, body } = makeTable(label, header);
  const list = new LongList(scroller, table, body, {
    count: rows.length,
    short: SHORT_TABLE,
    row: (index, register) => {
      const { key, cells, title, dress } = rows[index];
      if (!key) return blankRow(cells);
      const row = register.row(key, cells);
      if (title) row.title = title;
      dress?.(row);
      return row;
    },
    keys: (index) => (rows[index].key ? [rows[index].key] : []),
    text: (index) => (rows[index].key ? rows[index].cells.join(" ") : ""),
  });
  table.classList.toggle("dynx-stands-whole", list.whole);
  fitTable(scroller, table, header, rows);
  return list;
}

/** A row that stands for nothing: beside it, in another table, is a row without a counterpart. @param {string[]} cells */
function blankRow(cells) {
  const row = make("tr", "dynx-blank", "", ...cells.map((text) => make("td", "", text || "\u00a0")));
  row.setAttribute("aria-hidden", "true");
  return row;
}
