// @ts-check
/**
 * The graphs of the function at hand in one picture, from top to bottom: a graph break is a line between two of them. All boxes stand
 * where they stay; those that this step has not made yet are pale, and the newest is marked. The operator comes first, its dtype and
 * shape second, the line of the source in the corner, in the colour of that line. A large graph shows the nodes around the newest; the
 * whole stands in the view "Graph".
 */

import { note, plural } from "../dom.js";
import { nameOf } from "../folded.js";
import { NOTHING, countUntil, isParameter, lastUntil, madeOf, operators } from "../grown.js";
import { shortType } from "../groups.js";
import { layout } from "../layout.js";
import { NUMBER, boxShape, sheet } from "../picture.js";
import { Rows, bestOf } from "../rows.js";
import { shape } from "../svg.js";
import { isFailing } from "./graph.js";

/** So many nodes are drawn, and so many of those not made yet. */
const [MOST, AHEAD] = [40, 10];

/** Pixels above the upper row of a graph that is scrolled. */
const EDGE = 2;

/** So few pixels of a row at the upper edge are not taken for a row. */
const SLIVER = 4;

/** Pixels between the newest node and the right edge. */
const MARGIN = 10;

/**
 * @typedef {import("../types.js").Frame} Frame
 * @typedef {import("../types.js").GraphNode} GraphNode
 * @typedef {import("../page.js").Explorer} Explorer
 * @typedef {import("../grown.js").Grown} Grown  a node, and the state that made it
 * @typedef {import("../grown.js").Made} Made
 * @typedef {{key: string, keys: string[], inputs: string[], lines: string[], part: number, node: GraphNode, frame: Frame}} Drawn
 */

/** @type {import("../types.js").Pane} */
export const growingPane = {
  key: "growing",
  title: "Graph",
  place: "now",
  build(explorer, { body, heading }) {
    const rows = new Nodes(body);
    const pictures = new Pictures(explorer);
    let drawn = "";
    /** @type {{drawn: Drawn, element: Element}[]} those that stand there */
    let nodes = [];
    /** @type {number[]} the numbers of the graphs in the picture */
    let others = [];
    return {
      lists: [rows],
      showState(state, position) {
        const { frame } = explorer;
        const attempt = state.attempt || explorer.states().lastAttempt;
        const { all, placeOf } = pictures.made(frame, attempt);
        const count = state.attempt ? countUntil(all, position) : all.length;
        const code = state.code ?? frame.code;
        const window = pictures.windowOf(frame, attempt, count);
        const key = `${frame.id} ${window} ${code}`;
        if (key !== drawn) {
          rows.clear();
          nodes = [];
          const picture = pictures.of(frame, attempt, count);
          others = [...new Set(picture.flatMap((one) => one.frame.numbers))];
          body.replaceChildren(picture.length ? drawing(explorer, picture, rows, nodes, code) : note(`This part of the function has no operators.${frame.skipped ? ` ${frame.title} runs as plain Python: ${frame.skipped}.` : ""}`));
        }
        const isNewer = key !== drawn;
        drawn = key;
        heading.textContent = headingOf(explorer, frame, attempt, all, count, others) + pictures.cutOf(frame, attempt) + besides(frame, others);
        const ofStep = all.slice(countUntil(all, position - 1), count);
        const failing = ofStep.findLast(({ node }) => isFailing(frame, [node.key]));
        const newest = failing ?? lastUntil(all, count, ({ node }) => node.op.startsWith("call_") || !isParameter(explorer, frame, node));
        const held = new Set(explorer.states().around(position).after.stack.map((value) => explorer.data.values[value].node));
        for (const { drawn: one, element } of nodes) {
          const isLater = one.frame === frame ? !((placeOf.get(one.key) ?? count) < count) : pictures.isAfter(one.frame, frame);
          element.classList.toggle("dynx-node", !isLater);
          element.classList.toggle("dynx-later", isLater);
          element.classList.toggle("dynx-newest", one.frame === frame && one.key === newest?.node.key && newest.at === position);
          element.classList.toggle("dynx-failed", isFailing(one.frame, [one.key]));
          element.classList.toggle("dynx-held", one.frame === frame && held.has(one.node.name));
        }
        const at = nodes.find(({ drawn: one }) => one.frame === frame && one.key === newest?.node.key) ?? nodes.find(({ drawn: one }) => one.frame === frame);
        if (at) rows.reveal(at.element, isNewer);
      },
    };
  },
};

/** What is drawn of each frame. */
class Pictures {
  /** @param {Explorer} explorer */
  constructor(explorer) {
    this.explorer = explorer;
    /** @type {Map<Frame, Map<number, Made>>} */
    this.frames = new Map();
  }

  /** What an attempt at a frame added. @param {Frame} frame @param {number} attempt @returns {Made} */
  made(frame, attempt) {
    let there = this.frames.get(frame);
    if (!there) this.frames.set(frame, (there = madeOf(this.explorer, frame)));
    return there.get(attempt) ?? NOTHING;
  }

  /** Which attempt stands in the picture: one that was given up only where the last has other nodes. @param {Frame} frame @param {number} attempt */
  shownAttempt(frame, attempt) {
    return this.made(frame, attempt).isKept ? this.explorer.states(frame).lastAttempt : attempt;
  }

  /** What says whether another picture is to be drawn. @param {Frame} frame @param {number} attempt @param {number} count so many nodes are there */
  windowOf(frame, attempt, count) {
    const shown = this.shownAttempt(frame, attempt);
    return this.isLarge(frame, shown) ? `${shown} ${count}` : String(shown);
  }

  /** The nodes of an attempt that get a box: parameters would hide the operators, and the table has them. @param {Frame} frame @param {number} attempt */
  boxed(frame, attempt) {
    return this.made(frame, attempt).boxed;
  }

  /** @param {Frame} frame @param {number} attempt */
  isLarge(frame, attempt) {
    return this.boxed(frame, attempt).length > MOST;
  }

  /** How much of a large graph is drawn, in words. @param {Frame} frame @param {number} attempt */
  cutOf(frame, attempt) {
    const count = this.boxed(frame, this.shownAttempt(frame, attempt)).length;
    return count > MOST ? ` (${MOST} of ${count} nodes drawn)` : "";
  }

  /** The frames of a function, in their order: its beginning, and what goes on behind each graph break. @param {Frame} frame @returns {Frame[]} */
  chain(frame) {
    const { frames } = this.explorer.data;
    const goesOn = (/** @type {Frame} */ { resumes }) => (resumes ?? -1) >= 0;
    const chain = [frame];
    while (goesOn(chain[0])) {
      const before = frames.find(({ id }) => id === chain[0].parent);
      if (!before || chain.includes(before)) break;
      chain.unshift(before);
    }
    for (;;) {
      const next = frames.find((one) => goesOn(one) && one.parent === chain[chain.length - 1].id && !one.hidden && !chain.includes(one));
      if (!next) return chain;
      chain.push(next);
    }
  }

  /** @param {Frame} one @param {Frame} other */
  isAfter(one, other) {
    const chain = this.chain(other);
    return chain.indexOf(one) > chain.indexOf(other);
  }

  /** The boxes of the picture. @param {Frame} frame @param {number} attempt @param {number} made so many nodes are there @returns {Drawn[]} */
  of(frame, attempt, made) {
    const shown = this.shownAttempt(frame, attempt);
    const chain = this.chain(frame);
    const nodesOf = (/** @type {Frame} */ one) => this.boxed(one, one === frame ? shown : this.explorer.states(one).lastAttempt);
    const count = chain.reduce((sum, one) => sum + nodesOf(one).length, 0);
    const isAlone = this.isLarge(frame, shown) || (count > 2 * MOST && chain.length > 1);
    /** @type {Map<string, string>} what the next part calls its input -> the box that gives it */
    const given = new Map();
    return (isAlone ? [frame] : chain).flatMap((one, part) => this.part(one, isAlone ? around(nodesOf(one), this.lastBoxed(frame, attempt, made)) : nodesOf(one), part, given));
  }

  /** The place of the newest node that has a box, -1 before there is one. @param {Frame} frame @param {number} attempt @param {number} made so many nodes are there */
  lastBoxed(frame, attempt, made) {
    const shown = this.made(frame, this.shownAttempt(frame, attempt));
    const newest = lastUntil(this.made(frame, attempt).all, made, ({ node }) => shown.boxedAt.has(node.key));
    return newest ? /** @type {number} */ (shown.boxedAt.get(newest.node.key)) : -1;
  }

  /**
   * The boxes of one frame. An input that an earlier part has is no box of its own: its readers read the box there.
   * @param {Frame} frame @param {Grown[]} some @param {number} part @param {Map<string, string>} given
   * @returns {Drawn[]}
   */
  part(frame, some, part, given) {
    const { explorer } = this;
    /** @type {Map<string, string>} node -> its box */
    const boxes = new Map();
    /** @type {Drawn[]} */
    const drawn = [];
    for (const { node, inputs } of some) {
      const label = frame.inputs?.[node.name] ?? node.name;
      const known = node.op === "placeholder" && part ? given.get(label) : undefined;
      boxes.set(node.name, known ?? node.key);
      if (known) continue;
      const reads = [...new Set(inputs.flatMap((name) => boxes.get(name) ?? []))];
      const lines = linesOf(node, label);
      if (isFailing(frame, [node.key])) lines[0] = `✕ ${lines[0]}`;
      drawn.push({ key: node.key, keys: [node.key], inputs: reads, lines, part, node, frame });
    }
    const last = frame.states.findLastIndex(({ kind, attempt }) => !kind && attempt === explorer.states(frame).lastAttempt);
    if (last >= 0) {
      for (const [name, value] of explorer.states(frame).around(last).after.locals) {
        const box = boxes.get(explorer.data.values[value]?.node ?? "");
        if (box) given.set(name, box);
      }
    }
    return drawn;
  }
}

/** The nodes around the newest of a large graph. @param {Grown[]} all @param {number} newest */
function around(all, newest) {
  const end = Math.min(all.length, Math.max(MOST, newest + 1 + AHEAD));
  return all.slice(Math.max(0, end - MOST), end);
}

/** The nodes that are drawn: the pane is scrolled so that what is chosen is seen whole. */
class Nodes extends Rows {
  /** @param {HTMLElement} body what they stand in */
  constructor(body) {
    super();
    this.body = body;
  }

  /** @param {Map<string, string>} marks */
  aim(marks) {
    this.goal = undefined;
    const target = bestOf(this.at, marks)?.[0];
    if (!target) return;
    const [view, at] = [this.body.getBoundingClientRect(), target.getBoundingClientRect()];
    if (at.top < view.top || at.bottom > view.bottom) this.goal = { scroller: this.body, top: this.place(target) };
  }

  /** Show a node: where it is in view nothing moves. @param {Element} node @param {boolean} isNew whether the picture is another one */
  reveal(node, isNew) {
    const [view, at] = [this.body.getBoundingClientRect(), node.getBoundingClientRect()];
    if (at.left < view.left || at.right + MARGIN > view.right) this.body.scrollLeft += (at.left + at.right) / 2 - (view.left + view.right) / 2;
    if (isNew || at.top < view.top || at.bottom > view.bottom) this.body.scrollTop = this.place(node);
  }

  /**
   * How far down the pane is scrolled so that a node is about half-way down, and the upper edge cuts no other, where there is such a
   * place.
   * @param {Element} node
   */
  place(node) {
    const { body } = this;
    const home = body.getBoundingClientRect().top - body.scrollTop;
    const limit = Math.max(0, body.scrollHeight - body.clientHeight);
    const boxOf = (/** @type {Element} */ element) => {
      const { top, bottom } = element.getBoundingClientRect();
      return { top: top - home, bottom: bottom - home };
    };
    const at = boxOf(node);
    const all = [...this.at.values()].flat().map(boxOf);
    const middle = (at.top + at.bottom - body.clientHeight) / 2;
    const places = [0, limit, ...all.map(({ top }) => top - EDGE)].filter((to) => {
      const isSeen = to <= at.top && at.bottom <= to + body.clientHeight;
      return isSeen && to >= 0 && to <= limit && !all.some(({ top, bottom }) => top < to && bottom > to + SLIVER);
    });
    return places.sort((one, other) => Math.abs(one - middle) - Math.abs(other - middle))[0] ?? middle;
  }
}

/**
 * What stands above the picture: of a part without operators, which graphs are before and behind it.
 * @param {Explorer} explorer @param {Frame} frame @param {number} attempt @param {Grown[]} all @param {number} made so many of them are there @param {number[]} others
 */
function headingOf(explorer, frame, attempt, all, made, others) {
  const isKept = attempt === explorer.states(frame).lastAttempt;
  const whole = explorer.data.isFirstView && isKept ? frame.graphs.reduce((sum, { calls }) => sum + calls, 0) : operators(all, all.length);
  const [number = 0] = frame.numbers;
  if (!whole && !number) return others.length ? `Graph${others.length > 1 ? "s" : ""} ${others.join(" and ")}: no operators in this part` : "No graphs in this part of the function";
  const count = operators(all, made);
  const so = count < whole ? `${count} of ${plural(whole, "operator")} so far` : plural(whole, "operator");
  const module = explorer.names(all[made - 1]?.node.module ?? "");
  return `${number ? `Graph ${number}` : "Graph"}: ${so}${module ? `, in ${module}` : ""}`;
}

/** The other graphs in the picture, whose boxes the heading does not count. @param {Frame} frame @param {number[]} others */
function besides(frame, others) {
  const [own = 0] = frame.numbers;
  const span = (/** @type {number[]} */ all) => (all.length > 2 && all[all.length - 1] - all[0] === all.length - 1 ? `${all[0]} to ${all[all.length - 1]}` : all.join(" and "));
  const named = (/** @type {number[]} */ numbers) => `graph${numbers.length > 1 ? "s" : ""} ${span(numbers)}`;
  const [before, after] = [others.filter((number) => number < own), others.filter((number) => number > own)];
  const words = [...(before.length ? [`after ${named(before)}`] : []), ...(after.length ? [`then ${named(after)}`] : [])];
  return own && words.length ? `; ${words.join(", ")}` : "";
}

/**
 * @param {Explorer} explorer @param {Drawn[]} picture @param {Rows} rows
 * @param {{drawn: Drawn, element: Element}[]} nodes is told the element of each node
 * @param {number} code the function whose lines have their colours now
 */
function drawing(explorer, picture, rows, nodes, code) {
  const { boxes, edges, width: own, height, seams } = layout(picture.map(({ key, inputs, lines, part }) => ({ name: key, inputs, lines: [`${NUMBER}${lines[0]}`, ...lines.slice(1)], part })));
  const width = Math.max(own, seams.length ? SEAM : 0);
  const svg = sheet(width, height, edges);
  svg.setAttribute("aria-label", "graph so far");
  const parts = [...new Set(picture.map(({ part }) => part))];
  seams.forEach((y, at) => svg.append(seam(explorer, picture, parts, at, y, width)));
  for (const drawn of picture) {
    const box = boxes.get(drawn.key);
    if (!box) continue;
    const { node, frame, lines } = drawn;
    const kind = node.op === "placeholder" ? "dynx-input" : "dynx-operator";
    const line = node.op === "placeholder" ? undefined : explorer.bands.linesOf(frame).get(node.key)?.get(code);
    const group = boxShape(box, { lines, title: `${node.name} = ${node.target}${node.args}: ${node.result}`, kind, line });
    explorer.bands.dress(group, code, line);
    rows.under(/** @type {any} */ (group), drawn.keys);
    nodes.push({ drawn, element: group });
    svg.append(group);
  }
  return svg;
}

/** The least width of a picture with the line of a graph break, which says something. */
const SEAM = 330;

/** The line of a graph break between two parts. @param {Explorer} explorer @param {Drawn[]} picture @param {number[]} parts @param {number} at @param {number} y @param {number} width */
function seam(explorer, picture, parts, at, y, width) {
  const before = picture.findLast(({ part }) => part === parts[at])?.frame;
  const after = picture.find(({ part }) => part === parts[at + 1])?.frame;
  const broke = before?.states.find(({ kind }) => kind === "GraphBroke");
  const line = broke && explorer.lineOf({ ...broke, code: broke.code ?? before?.code });
  const [number = 0] = after?.numbers ?? [];
  const text = `◆ graph break${line ? ` at line ${line}` : ""}${number ? `, then graph ${number}` : ""}`;
  const long = 8 + 7.6 * text.length;
  return shape(
    "g",
    { class: "dynx-seam" },
    shape("path", { d: `M2,${y} H${Math.max(width, long + 12) - 2}` }),
    shape("rect", { x: 6, y: y - 9, width: long, height: 18, rx: 3 }),
    shape("text", { x: 10, y: y + 5 }, text),
  );
}

/** The operator, or an input by its name; and dtype and shape in short. @param {GraphNode} node @param {string} label */
function linesOf({ op, target, result }, label) {
  const name = op === "placeholder" ? label : op === "call_module" ? target : nameOf({ target });
  return [cut(name), shortType(result).replaceAll(", ", ",")].filter(Boolean);
}

/** Of a long path the end tells more. @param {string} text */
function cut(text) {
  return text.length > 40 ? `…${text.slice(-39)}` : text;
}
