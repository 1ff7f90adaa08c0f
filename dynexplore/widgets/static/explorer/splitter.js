// @ts-check
/**
 * The edges between panes: drag one, move it with the arrow keys, double-click it to have it where it was. Where it stands is
 * remembered, for each view and each class of widths; a file opened without storage remembers it as long as it is open.
 *
 * In:  the element whose style holds the sizes, and the panes along one axis, each with the name of its size there. A size is a
 *      share (`fr`), so that all of them grow with the page.
 */

import { make } from "./dom.js";

/** Pixels that an arrow key moves an edge by, and the least that a pane keeps. */
const [STEP, LEAST] = [24, 96];

/** @type {Map<string, string>} what is remembered where the browser keeps nothing */
const kept = new Map();

/** @param {string} name @returns {string} */
export function remembered(name) {
  try {
    return localStorage.getItem(`dynexplore ${name}`) ?? kept.get(name) ?? "";
  } catch {
    return kept.get(name) ?? "";
  }
}

/** @param {string} name @param {string} value "" forgets it */
export function remember(name, value) {
  kept.set(name, value);
  try {
    if (value) localStorage.setItem(`dynexplore ${name}`, value);
    else localStorage.removeItem(`dynexplore ${name}`);
  } catch {
    // a page without storage
  }
}

/**
 * @typedef {{size: string, element: HTMLElement}} Sized  a pane, and the name of its share
 * @typedef {{home: HTMLElement, name: string, panes: Sized[], isAcross: boolean, onMove: () => void}} Row  panes along one axis;
 *   `isAcross`: from left to right
 */

/**
 * The edges between the panes of a row, one fewer than there are panes.
 * @param {Row} row
 * @returns {HTMLElement[]}
 */
export function splitters(row) {
  return row.panes.slice(1).map((_, at) => splitter(row, at));
}

/** Give the panes of a row the shares that are remembered, or those of the style sheet. @param {Row} row @param {string} width */
export function restore({ home, name, panes }, width) {
  home.dataset.sizes = width;
  const shares = remembered(`${name} ${width}`).split(",");
  panes.forEach(({ size }, at) => {
    if (shares.length === panes.length && Number(shares[at]) > 0) home.style.setProperty(size, `${shares[at]}fr`);
    else home.style.removeProperty(size);
  });
}

/** @param {Row} row @param {number} at the edge behind the pane of that number */
function splitter(row, at) {
  const { home, name, panes, isAcross, onMove } = row;
  const edge = make("div", `dynx-edge-between ${isAcross ? "dynx-across" : "dynx-down"} dynx-edge-${panes[at].size.replace(/^-+dynx-size-/, "")}`);
  edge.tabIndex = 0;
  edge.setAttribute("role", "separator");
  edge.setAttribute("aria-orientation", isAcross ? "vertical" : "horizontal");
  edge.setAttribute("aria-label", "Border between two panes: move it with the arrow keys, reset it with a double-click");
  const lengthOf = (/** @type {HTMLElement} */ element) => {
    const { width, height } = element.getBoundingClientRect();
    return isAcross ? width : height;
  };
  const tell = () => {
    const [one, other] = [lengthOf(panes[at].element), lengthOf(panes[at + 1].element)];
    edge.setAttribute("aria-valuenow", String(Math.round((100 * one) / (one + other || 1))));
  };
  edge.setAttribute("aria-valuenow", "50");
  const move = (/** @type {number} */ by) => {
    const lengths = panes.map(({ element }) => lengthOf(element));
    const most = lengths[at + 1] - LEAST;
    const moved = Math.max(LEAST - lengths[at], Math.min(by, most));
    lengths[at] += moved;
    lengths[at + 1] -= moved;
    panes.forEach(({ size }, number) => home.style.setProperty(size, `${lengths[number]}fr`));
    remember(`${name} ${home.dataset.sizes ?? ""}`, lengths.map((length) => length.toFixed(0)).join());
    tell();
    onMove();
  };
  edge.addEventListener("pointerdown", (event) => {
    edge.setPointerCapture(event.pointerId);
    let last = isAcross ? event.clientX : event.clientY;
    const drag = (/** @type {PointerEvent} */ moved) => {
      const now = isAcross ? moved.clientX : moved.clientY;
      move(now - last);
      last = now;
    };
    edge.addEventListener("pointermove", drag);
    edge.addEventListener("lostpointercapture", () => edge.removeEventListener("pointermove", drag), { once: true });
    event.preventDefault();
    edge.focus();
  });
  edge.addEventListener("dblclick", () => {
    remember(`${name} ${home.dataset.sizes ?? ""}`, "");
    for (const { size } of panes) home.style.removeProperty(size);
    tell();
    onMove();
  });
  edge.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -STEP, ArrowUp: -STEP, ArrowRight: STEP, ArrowDown: STEP }[event.key];
    if (!by || isAcross !== /Left|Right/.test(event.key)) return;
    move(by);
    event.preventDefault();
    event.stopPropagation();
  });
  return edge;
}
