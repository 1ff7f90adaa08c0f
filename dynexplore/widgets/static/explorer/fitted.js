// @ts-check
/**
 * Tables that are as wide as their pane: what is longer ends with an ellipsis, and all of it is one look away.
 *
 * Which idea lives here: a column behind the right edge is a column that nobody knows of. Short columns stand there whole, the long
 * ones share what is left (letters are equally wide, so that a text's length says its width). What an ellipsis hides is said by
 * the pointer's text, and in a line below the table while its row has the focus. Where rows may be of any height, a text goes on
 * below itself instead.
 */

import { make } from "./dom.js";

/** The width of a letter of a table in pixels (page.css: --dynx-code at --dynx-text). */
const LETTER = 7.9;

/** The widest column, in letters. */
const WIDEST = 56;

/** So many of a column's texts say how wide it should be: one that is far longer does not take the place of other columns. */
const MOST = 0.9;

/** Columns that are never cut: the others have what these leave. */
const WHOLE = ["line", "offset", "opcode"];

/** How a table is fitted into a pane. @type {WeakMap<Element, (room: Room) => void>} */
const FITS = new WeakMap();

/**
 * What panes have room for. It is kept, for a step puts another table into a pane, and to ask the page then would lay it out twice.
 * @typedef {{width: number, paddings: number[]}} Room  of the pane, and of each column, in pixels: below 0 where it is folded
 * @type {WeakMap<Element, Room>}
 */
const ROOMS = new WeakMap();

/**
 * Give a table columns that fit its pane, whatever size that gets.
 * @param {HTMLElement} scroller the pane's body
 * @param {HTMLElement} table
 * @param {string[]} header
 * @param {{cells: string[]}[]} rows
 */
export function fitTable(scroller, table, header, rows) {
  const lengths = header.map((name, at) => [name.length, ...rows.map(({ cells }) => cells[at].length)].sort((one, other) => one - other));
  const longest = lengths.map((some) => some[some.length - 1]);
  const usual = lengths.map((some, at) => (WHOLE.includes(header[at]) ? longest[at] : Math.max(header[at].length, some[Math.floor(MOST * (some.length - 1))])));
  fit(scroller, table, usual, longest, header.map((name) => WHOLE.includes(name)));
}

/**
 * A table in a box of its own, as wide as its place, whose texts go on below themselves: between words, while these have room.
 * @param {HTMLElement} table
 * @returns {HTMLElement}
 */
export function fitting(table) {
  const rows = [...table.querySelectorAll("tr")].map((row) => [...row.children].map(({ textContent }) => textContent ?? ""));
  const most = (/** @type {(text: string) => number} */ letters) => rows[0].map((_, at) => Math.max(...rows.map((row) => letters(row[at]))));
  const box = make("div", "dynx-fits", "", table);
  fit(box, table, most((text) => Math.max(...text.split(" ").map(({ length }) => length))), most(({ length }) => length));
  return box;
}

/**
 * Columns that are as wide as these letters, as far as a place has room.
 * @param {HTMLElement} scroller
 * @param {HTMLElement} table
 * @param {number[]} usual of each column: what it has first
 * @param {number[]} longest what it has where there is more
 * @param {boolean[]} [isWhole] whether it has that in any case
 */
function fit(scroller, table, usual, longest, isWhole = []) {
  const columns = usual.map(() => make("col"));
  /** @type {Room | undefined} */
  let fitted;
  FITS.set(table, (room) => {
    if (room === fitted) return;
    fitted = room;
    const { width, paddings } = room;
    const space = paddings.reduce((sum, padding) => sum + Math.max(0, padding), 0);
    const only = (/** @type {number[]} */ some) => some.map((letters, at) => (paddings[at] < 0 ? 0 : letters));
    const letters = (width - space) / LETTER;
    const whole = usual.map((some, at) => (isWhole[at] && paddings[at] >= 0 ? some : 0));
    const taken = whole.reduce((sum, some) => sum + some, 0);
    const others = (/** @type {number[]} */ some) => only(some).map((one, at) => (whole[at] ? 0 : one));
    const widths = shared(others(usual), others(longest), Math.max(0, letters - taken)).map((some, at) => whole[at] || some);
    columns.forEach((column, at) => {
      column.style.width = `${widths[at] * LETTER + paddings[at]}px`;
      table.classList.toggle(`dynx-clips-${at + 1}`, longest[at] > widths[at]); // a cell that clips is painted by itself: not all do
    });
  });
  table.classList.add("dynx-fixed");
  table.prepend(make("colgroup", "", "", ...columns));
  if (ROOMS.has(scroller)) return;
  ROOMS.set(scroller, { width: 0, paddings: [] });
  new ResizeObserver(() => {
    if (scroller.clientWidth) ROOMS.set(scroller, { width: scroller.clientWidth, paddings: [] });
    fitAll(scroller);
  }).observe(scroller);
}

/** Fit the tables that stand in a pane whose size is known. @param {Element} scroller */
export function fitAll(scroller) {
  for (const table of scroller.querySelectorAll(".dynx-fixed")) {
    let room = ROOMS.get(scroller);
    if (!room?.width) return;
    const heads = [...table.querySelectorAll("th")];
    if (room.paddings.length !== heads.length) {
      const paddings = heads.map((head) => {
        const { display, paddingLeft } = getComputedStyle(head);
        return display === "none" ? -1 : 2 * Number.parseFloat(paddingLeft); // narrow panes fold columns (bytecode.css)
      });
      ROOMS.set(scroller, (room = { ...room, paddings }));
    }
    FITS.get(table)?.(room);
  }
}

/**
 * The letters of each column: as many as its texts usually have; where there is no room for them, the long columns have equally many;
 * where there is more, those with longer texts have it.
 * @param {number[]} usual
 * @param {number[]} longest
 * @param {number} room
 */
function shared(usual, longest, room) {
  const most = shareOf(usual, room);
  const widths = usual.map((letters) => Math.min(letters, most));
  const rest = room - widths.reduce((sum, letters) => sum + letters, 0);
  const more = shareOf(longest.map((letters, at) => letters - widths[at]), rest);
  return widths.map((letters, at) => (rest > 0 ? Math.min(WIDEST, longest[at], letters + more) : letters));
}

/**
 * The most letters that a column may have, so that all fit: the short ones have what they want, the others equally much.
 * @param {number[]} wanted by each column
 * @param {number} room
 */
function shareOf(wanted, room) {
  let [left, columns] = [room, wanted.length];
  for (const letters of [...wanted].sort((one, other) => one - other)) {
    if (letters > left / columns) return Math.max(0, left / columns);
    left -= letters;
    columns -= 1;
  }
  return WIDEST;
}

/** What an ellipsis hides is said where the pointer is, and below the table where the focus is. @param {HTMLElement} root */
export function tellWhole(root) {
  root.addEventListener("pointerover", ({ target }) => {
    const cell = /** @type {Element} */ (target).closest?.("td, th");
    if (!(cell instanceof HTMLElement) || !isCut(cell)) return;
    cell.title = [cell.textContent, cell.parentElement?.title].filter(Boolean).join("\n");
  });
  const line = make("p", "dynx-whole");
  line.setAttribute("aria-hidden", "true"); // a screen reader reads the cells
  root.addEventListener("focusin", ({ target }) => {
    line.remove();
    const row = /** @type {Element} */ (target).closest("tr:focus-visible");
    const heads = row?.closest("table")?.querySelectorAll("th") ?? [];
    const cut = [...(row?.children ?? [])].map((cell, at) => (isCut(cell) ? `${heads[at]?.textContent}: ${cell.textContent}` : ""));
    line.textContent = cut.filter(Boolean).join("\n");
    if (line.textContent) row?.closest(".dynx-pane")?.append(line);
  });
  root.addEventListener("focusout", () => line.remove());
}

/** @param {Element} cell */
function isCut({ scrollWidth, clientWidth }) {
  return clientWidth > 0 && scrollWidth > clientWidth;
}
