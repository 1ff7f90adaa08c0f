// @ts-check
/**
 * The boxes and edges of a picture of a graph: the operator first, its dtype and shape second, the number of its line in the corner,
 * in the colour of that line (bands.js). layout.js says where they stand.
 */

import { shape } from "./svg.js";

/** The room that the number of a line needs in a box, in letters. */
export const NUMBER = "0000 ";

/** The same where only these lines occur; nothing where there is none. @param {(number | undefined)[]} lines */
export function roomOf(lines) {
  const most = Math.max(0, ...lines.map((line) => String(line ?? "").length));
  return most ? "0".repeat(most + 1) : "";
}

/** An empty picture with the arrowheads of its edges. @param {number} width @param {number} height @param {string[]} edges their paths */
export function sheet(width, height, edges) {
  const svg = shape("svg", { width, height, viewBox: `0 0 ${width} ${height}`, role: "group", class: "dynx-drawing" });
  const head = `dynx-head-${Math.random().toString(36).slice(2)}`;
  const arrow = shape("marker", { id: head, viewBox: "0 0 8 8", refX: 8, refY: 4, markerWidth: 8, markerHeight: 8, orient: "auto", markerUnits: "userSpaceOnUse" });
  arrow.append(shape("path", { d: "M0,0 L8,4 L0,8 z", class: "dynx-arrow" }));
  svg.append(shape("defs", {}, arrow));
  for (const d of edges) svg.append(shape("path", { d, class: "dynx-edge", "marker-end": `url(#${head})` }));
  return svg;
}

/**
 * @param {import("./layout.js").Box} box where it stands
 * @param {{lines: string[], title: string, kind: string, line?: number, label?: string}} what it says
 */
export function boxShape({ x, y, width, height }, { lines, title, kind, line, label }) {
  const text = (/** @type {string} */ letters, /** @type {number} */ at) =>
    shape("text", { x: x + width / 2 + (line && !at ? 10 : 0), y: y + 16 + 15 * at, class: at ? "dynx-small" : "dynx-first-line" }, letters);
  return shape(
    "g",
    { class: `dynx-node ${kind}`, tabindex: -1, role: "button", "aria-label": label ?? [...lines, line ? `line ${line}` : ""].filter(Boolean).join(", ") },
    shape("title", {}, title),
    shape("rect", { x, y, width, height, rx: kind === "dynx-pill" ? height / 2 : 4 }),
    ...(line ? [shape("text", { x: x + 5, y: y + 16, class: "dynx-corner" }, String(line))] : []),
    ...lines.map(text),
  );
}

/** How far right edges run down past a height, in order. @param {string[]} edges their paths: M, V and H @param {number} height */
export function crossings(edges, height) {
  /** @type {Set<number>} */
  const found = new Set();
  for (const path of edges) {
    let [x, y] = [0, 0];
    for (const [, command, one, other] of path.matchAll(/([MVH])(-?[\d.]+)(?:,(-?[\d.]+))?/g)) {
      const [before, to] = [y, command === "H" ? y : Number(command === "V" ? one : other)];
      if (command === "V" && Math.min(before, to) <= height + 8 && Math.max(before, to) >= height - 8) found.add(x);
      if (command !== "V") x = Number(one);
      y = to;
    }
  }
  return [...found].sort((one, other) => one - other);
}
