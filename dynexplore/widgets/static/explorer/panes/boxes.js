// @ts-check
/**
 * The symbolic stack and the locals as boxes: name, dtype and shape, and below them the value that it really had. + pushed or new,
 * ~ changed, − popped or deleted by this step. The tab "Stack & locals" says more of each.
 */

import { saidOf } from "../called.js";
import { make, note, push } from "../dom.js";
import { shortType } from "../groups.js";
import { RealValues } from "../real.js";
import { MARKS, Rows, bestOf } from "../rows.js";

/** The class of a box by its sign. @type {Record<string, string>} */
const SIGNS = { "+": "dynx-pushed", "~": "dynx-changed", "−": "dynx-popped" };

/** Texts go on below themselves in a box; longer ones are cut: the pointer's text and the tab have them whole. */
const LONGEST = 160;

/** Pixels above the first row where the boxes are scrolled. */
const EDGE = 2;

/** Pixels from one row of those that take a line each to the next (page.css). */
const PITCH = 22;

/** Pixels that the line at the lower edge needs. */
const LINE = 18;

/** @type {import("../types.js").Pane} */
export const boxesPane = {
  key: "boxes",
  title: "Stack and locals",
  place: "now",
  build(explorer, { body, heading, tools }) {
    const rows = new Boxes(body);
    const real = new RealValues(explorer);
    const rule = make("span", "dynx-facts dynx-rule");
    tools.append(rule);
    const stack = make("div", "dynx-row-of-boxes");
    const locals = make("div", "dynx-row-of-boxes");
    const diverges = make("div");
    heading.textContent = "Stack";
    const shelves = make("div", "dynx-shelves", "", make("div", "dynx-shelf", "", make("h4", "", "Stack"), stack), make("div", "dynx-shelf", "", make("h4", "", "Locals"), locals));
    body.append(diverges, shelves, make("div", "dynx-edge-of-boxes", "", rows.more));
    /** @type {Map<string, HTMLElement[]>} what they tell -> the boxes of the last step: most of them stay */
    let kept = new Map();
    /** @type {boolean[]} */
    let restored = [];
    return {
      lists: [rows],
      showFrame(frame) {
        rows.spread();
        real.showFrame(frame);
        restored = restoredIn(frame);
      },
      showState(state, position) {
        rows.clear();
        const { before, after } = explorer.states().around(position);
        const keep = state.keep ?? 0;
        const none = explorer.frame.states.some(({ kind }) => !kind) ? ["empty", "none"] : ["not recorded", "not recorded"];
        const there = kept;
        kept = new Map();
        /** @type {(value: number, sign: string, name: string) => HTMLElement} */
        const box = (value, sign, name) => {
          const what = { value, sign, name, attempt: state.attempt ?? 0, really: real.recorded && sign !== "−" ? real.of(value, position) : undefined };
          const told = `${explorer.frame.id} ${what.attempt} ${value} ${sign} ${name} ${what.really?.text} ${what.really?.elements}`;
          const one = there.get(told)?.pop() ?? boxOf(explorer, what);
          push(kept, told, one);
          return rows.choosable(one, linkOf(explorer, what));
        };
        const slots = after.stack.map((value, slot) => box(value, slot >= keep ? "+" : "", ""));
        const popped = (before?.stack ?? []).slice(keep).map((value) => box(value, "−", ""));
        const isSlot = (/** @type {[string, number]} */ [name]) => SLOT.test(name);
        const received = restored[position] ? [] : [...after.locals].filter(isSlot).map(([name, value]) => box(value, "", name));
        const stacked = [...slots, ...popped, ...received];
        stand(stack, stacked.length ? stacked : [note(none[0])]);
        const isShown = (/** @type {[string, number]} */ one) => !isSlot(one) && !OF_LIBRARY.test(one[0]);
        const names = [...after.locals].filter(isShown).map(([name, value]) => {
          const old = before?.locals.get(name);
          return box(value, !before || old === value ? "" : old === undefined ? "+" : "~", name);
        });
        const gone = [...(before?.locals ?? [])].filter((one) => !after.locals.has(one[0]) && isShown(one)).map(([name, value]) => box(value, "−", name));
        stand(locals, names.length || gone.length ? [...names, ...gone] : [note(none[1])]);
        diverges.replaceChildren(...real.said(position));
        const where = state.kind ? "" : (state.rule ?? explorer.data.rules?.[state.text.split(" ")[0]] ?? "");
        rule.textContent = rule.title = where;
        heading.title = [headingOf(explorer, state), where].filter(Boolean).join("\n");
        heading.textContent = state.kind === "Recompiled" ? headingOf(explorer, state) : headingOf(explorer, state).split("; ")[0].replace(/ \([^()]*\)/g, ""); // one line, which the rule shares
      },
    };
  },
};

/**
 * Boxes that are read whole: where those of a step do not fit, name, type and value share lines in each of this frame from then on
 * (they are not to jump from step to step); where that is not enough, each box takes one line. What does not fit even so is scrolled
 * by whole rows, and a line at the lower edge counts it.
 */
class Boxes extends Rows {
  /** @param {HTMLElement} body what they stand in */
  constructor(body) {
    super();
    this.body = body;
    this.more = make("div", "dynx-more-boxes");
    this.more.hidden = true;
    body.addEventListener("scroll", () => this.count(), { passive: true });
  }

  /** Most boxes of a step are those of the next, but unmarked. */
  clear() {
    for (const element of this.marked) element.classList.remove(...MARKS);
    super.clear();
  }

  /** Another frame may have room for more. */
  spread() {
    this.body.classList.remove("dynx-tight", "dynx-dense");
  }

  /** @param {Map<string, string>} marks */
  aim(marks) {
    const { body } = this;
    const isFull = () => body.scrollHeight > body.clientHeight;
    if (isFull() && !body.classList.contains("dynx-dense")) body.classList.add("dynx-tight");
    if (isFull()) body.classList.replace("dynx-tight", "dynx-dense");
    const chosen = [...this.at.keys()].find((key) => marks.get(key)?.includes("dynx-chosen"));
    const wanted = this.at.get(chosen ?? "")?.[0] ?? body.querySelector(".dynx-pushed, .dynx-changed") ?? bestOf(this.at, marks)?.[0];
    const boxes = [...body.querySelectorAll(".dynx-box")].map((box) => box.getBoundingClientRect());
    const from = body.getBoundingClientRect().top - body.scrollTop;
    const target = wanted?.getBoundingClientRect();
    const fits = boxes.every(({ bottom }) => bottom - from <= body.clientHeight);
    const least = target && !fits ? target.bottom - from - body.clientHeight + LINE : 0;
    const above = least > 0 ? boxes[0].top - from - EDGE : 0;
    this.goal = { scroller: body, top: least > 0 ? above + Math.max(0, Math.ceil((least - above) / PITCH)) * PITCH : 0 };
  }

  /** @param {Map<string, string>} marks */
  light(marks) {
    super.light(marks);
    this.count();
  }

  /** The line at the lower edge: it covers the row that is cut there, and says how many boxes stand in it and below. */
  count() {
    const { body, more } = this;
    const isDense = body.classList.contains("dynx-dense");
    if (!isDense && more.hidden) return; // nothing is measured where all boxes have room
    const edge = body.getBoundingClientRect().bottom;
    const boxes = isDense ? [...body.querySelectorAll(".dynx-box")].map((box) => box.getBoundingClientRect()) : [];
    const whole = boxes.filter(({ bottom }) => bottom <= edge - LINE);
    const below = whole.length && boxes.some(({ bottom }) => bottom > edge) ? boxes.length - whole.length : 0;
    more.textContent = below ? `${below} more below` : "";
    more.style.height = below ? `${edge - Math.max(...whole.map(({ bottom }) => bottom)) - 1}px` : "";
    more.hidden = !below;
  }
}

/** Let these elements stand in a row; those that stand there already are not touched. @param {HTMLElement} row @param {HTMLElement[]} wanted */
function stand(row, wanted) {
  const isWanted = new Set(wanted);
  for (const one of [...row.children]) if (!isWanted.has(/** @type {HTMLElement} */ (one))) one.remove();
  wanted.forEach((one, at) => one !== row.children[at] && row.insertBefore(one, row.children[at] ?? null));
}

/** What this step is, in words. @param {import("../page.js").Explorer} explorer @param {import("../types.js").State} state */
function headingOf(explorer, state) {
  const help = explorer.help(state.text.split(" ")[0]);
  return help ? `${state.text}: ${help.slice(help.indexOf("): ") + 3)}` : saidOf(explorer, state);
}

/**
 * @typedef {{value: number, sign: string, name: string, attempt: number, really: import("../types.js").Real | undefined}} Told  what a
 *   box tells
 */

/** @param {import("../page.js").Explorer} explorer @param {Told} what */
function boxOf(explorer, { value, sign, name, really }) {
  const { kind, text, source, node } = explorer.data.values[value];
  const origin = node ? explorer.label(node) : explorer.names(source);
  const title = ofProgram(name || (origin && origin !== text ? origin : ""));
  const box = make("div", `dynx-box ${SIGNS[sign] ?? ""}`);
  if (title) box.append(make("b", "", clipped(`${sign}${title}`)));
  box.append(make("span", "dynx-kind", clipped(`${title ? "" : sign}${shortType(text).replace(/( cpu)?( \(not looked at yet\))?$/, "").replace(/^([A-Z]\w*)Variable$/, (_, words) => words.replace(/(?<=[a-z])(?=[A-Z])/g, " ").toLowerCase())}`)));
  const shown = really && really.provenance !== "not observed" ? shortOf(really.elements || really.text.replace(/, as passed in$/, ""), text) : "";
  if (shown && shown !== text && !/^an? [\w.]+$/.test(shown)) box.append(make("span", "dynx-really", clipped(shown)));
  box.title = [`${kind} ${explorer.value(value)}`, really?.text, really?.elements, really?.why].filter(Boolean).join("; ");
  return box;
}

/** A parameter of a resume function that is no local of the program: what the stack held at the graph break. */
const SLOT = /^___stack\d+$/;

/** A parameter of a resume function that holds a function, or a local of one that no person wrote: what a module's call runs through. */
const OF_LIBRARY = /(?:^|\.)_\w+:|:<function>$|:___/;

/** Such a parameter by a name of the program's terms. @param {string} name */
function ofProgram(name) {
  return name.replace(/\b___stack(\d+)\b/, "stack slot $1").replace(/^([\w.<>]+):(\w+)$/, "$2 of $1");
}

/**
 * Whether, at each state of a frame, its code has restored the stack from such parameters, which is done before its first instruction.
 * @param {import("../types.js").Frame} frame
 */
function restoredIn({ states }) {
  let isRestored = false;
  return states.map(({ kind, push: pushed = [] }) => (isRestored = !kind || pushed.length > 0 || (isRestored && kind !== "AttemptStarted")));
}

/** What a click on a box chooses. @param {import("../page.js").Explorer} explorer @param {Told} what */
function linkOf(explorer, { value, attempt }) {
  const { id } = explorer.data.values[value];
  const own = `value:${explorer.frame.id}:${attempt}:${id}`;
  return explorer.links.items.has(own) ? own : `value:${explorer.frame.id}:0:${id}`;
}

/**
 * The elements of a small tensor as a list; of a larger one from where to where they go.
 * @param {string} real @param {string} symbolic which says the shape
 */
function shortOf(real, symbolic) {
  const found = /^min (\S+) mean (\S+) max (\S+?), first (.*)$/.exec(real);
  if (!found) return real;
  const [, least, , most, first] = found;
  const sizes = /\[(.*?)\]/.exec(symbolic)?.[1].split(", ").filter(Boolean).map(Number) ?? [NaN];
  const all = sizes.reduce((product, size) => product * size, 1) <= first.split(", ").length;
  if (all) return `[${first}]`;
  return least === most ? `all ${least}` : `${least} to ${most}`;
}

/**
 * A text that is too long for a box, without a part that could be read as another one: it ends behind a word or a number, and of a
 * path the end is kept, which tells more.
 * @param {string} text
 */
function clipped(text) {
  text = text.replace(/(?<![\w.])-?\d+\.\d{7,}(?:e-?\d+)?/g, (number) => String(Number(Number(number).toPrecision(6)))); // the pointer says all digits
  if (text.length > LONGEST) text = text.replace(/^an? (?=[\w.]+$)/, ""); // of a type, the article goes first
  if (text.length <= LONGEST) return text;
  const end = text.lastIndexOf(" ", LONGEST - 2);
  return end > 0 ? `${text.slice(0, end)} …` : `…${text.slice(1 - LONGEST)}`;
}
