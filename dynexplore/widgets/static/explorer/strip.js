// @ts-check
/**
 * The strip of time: every call, every frame of it and every attempt at that frame, in the order in which they ran. Click or drag
 * to go there. What an attempt gave up is pale, a kept one is blue, a break is a red edge; a call that found
 * its code compiled is a dot, and equal ones next to each other are one dot with a count. A long strip has a line above it, in
 * which all of the recording is seen at once.
 */

import { make, plural, withoutCode } from "./dom.js";

/**
 * @typedef {import("./types.js").Frame} Frame
 * @typedef {{frame: Frame, from: number, to: number, element: HTMLElement}} Segment  states from..to of a frame
 */

/** More segments than this are many screens: a line above the strip then shows all of them. */
const MANY = 60;

/** The strip of one explorer. */
export class Strip {
  /** @param {import("./page.js").Explorer} explorer */
  constructor(explorer) {
    this.explorer = explorer;
    /** @type {Segment[]} */
    this.segments = [];
    /** @type {Map<Frame, Segment[]>} */
    this.ofFrame = new Map(explorer.walk.map((frame) => [frame, []]));
    const frames = new Map(explorer.data.frames.map((frame) => [frame.id, frame]));
    /** @type {Map<number, Frame | undefined>} entry -> the frame that was compiled for it */
    this.made = new Map(explorer.data.timeline.entries.map(({ entry, frame }) => [entry, frames.get(frame)]));
    /** @type {Map<Frame, import("./order.js").Run[]>} what a frame's code did in later calls, and no dot stands for yet */
    this.later = new Map([...explorer.order.of].map(([frame, runs]) => [frame, runs.slice(1)]));
    this.playhead = make("i", "dynx-playhead");
    this.hasDiscarded = false;
    this.element = make("div", "dynx-strip");
    this.element.tabIndex = 0;
    this.element.setAttribute("role", "slider");
    this.element.setAttribute("aria-label", "Step");
    this.element.setAttribute("aria-valuemin", "1");
    this.element.setAttribute("aria-valuemax", String(explorer.order.total));
    this.element.append(...this.calls());
    for (const one of [this.element, ...this.overviewOf()]) {
      one.addEventListener("pointerdown", (event) => this.onPointer(event));
      one.addEventListener("pointermove", (event) => event.buttons && this.onPointer(event));
    }
  }

  /** Where the strip is many screens long, the whole of it as a line above: a click leads anywhere. @returns {HTMLElement[]} */
  overviewOf() {
    const elements = [...new Set(this.segments.map(({ element }) => element))];
    if (elements.length < MANY) return [];
    this.element.classList.add("dynx-many");
    this.here = make("i", "dynx-playhead");
    const bits = elements.map((element) => {
      const bit = make("i", element.className.replace("dynx-segment", "").replace("dynx-dot", ""));
      bit.style.flexGrow = element.style.flexGrow || "1";
      return bit;
    });
    this.bits = new Map(elements.map((element, at) => [element, bits[at]]));
    const widths = bits.map((bit) => Number(bit.style.flexGrow));
    const whole = widths.reduce((sum, width) => sum + width, 0);
    let before = 0;
    this.places = new Map(elements.map((element, at) => [element, (100 * ((before += widths[at]) - widths[at] / 2)) / whole]));
    this.overview = make("div", "dynx-overview", "", ...bits, this.here);
    this.overview.setAttribute("aria-hidden", "true"); // the strip itself is what is told of it
    this.overview.title = "All of the recording: click to go there";
    return [this.overview];
  }

  /** @param {Segment} segment */
  add(segment) {
    this.segments.push(segment);
    this.ofFrame.get(segment.frame)?.push(segment);
  }

  /** The calls, each with what ran in it; frames that belong to no call come last. */
  calls() {
    const { data, walk } = this.explorer;
    const left = new Map(walk.map((frame) => [frame.id, frame]));
    const groups = runsOf(data.timeline.calls).map(({ first, last, frames }) => {
      const parts = this.parts(frames, left);
      const many = last === first ? `call ${first.number}` : `calls ${first.number} to ${last.number}`;
      const label = data.timeline.calls.length > 1 ? [make("span", "dynx-call-label", many)] : [];
      const group = make("div", "dynx-call", "", ...label, ...parts);
      const says = last === first && first.arguments ? `: ${first.arguments}` : "";
      group.title = `${many}${says}${first.error ? `, raised ${first.error}` : ""}`;
      return group;
    });
    if (left.size) groups.push(make("div", "dynx-call", "", ...[...left.values()].flatMap((frame) => this.attempts(frame))));
    return groups;
  }

  /** @param {import("./types.js").CalledFrame[]} called @param {Map<number, Frame>} left frames that stand nowhere yet @returns {HTMLElement[]} */
  parts(called, left) {
    /** @type {HTMLElement[]} */
    const parts = [];
    /** @type {{key: string, count: number, element: HTMLElement} | undefined} */
    let dot;
    for (const one of called) {
      const frame = left.get(one.frame);
      if (frame) {
        left.delete(frame.id);
        dot = undefined;
        parts.push(...this.attempts(frame));
      } else if (one.outcome === "hit") {
        if (dot) dot = this.count(dot, one);
        else parts.push((dot = this.dot(one)).element);
      }
    }
    return parts;
  }

  /** A call that found its code: it leads to where that was compiled. @param {import("./types.js").CalledFrame} called */
  dot(called) {
    const frame = this.made.get(called.entry);
    const element = make("span", `dynx-dot ${graphClass(frame)}`, "1");
    const dot = { key: called.function, count: 1, element };
    element.title = `1 call found compiled code: ${titleOf(frame, called)}`;
    this.reach(element, frame);
    return dot;
  }

  /** A dot leads to the state in which the graph ran again; where there is none, to the frame. @param {HTMLElement} element @param {Frame} [frame] */
  reach(element, frame) {
    if (!frame) return;
    const { from, to } = this.later.get(frame)?.shift() ?? { from: 0, to: 1 };
    this.add({ frame, from, to, element });
  }

  /** @param {{key: string, count: number, element: HTMLElement}} dot @param {import("./types.js").CalledFrame} called */
  count(dot, called) {
    dot.count += 1;
    this.reach(dot.element, this.made.get(called.entry));
    if (dot.key !== called.function) dot.element.className = "dynx-dot";
    dot.element.textContent = String(dot.count);
    dot.element.title = `${plural(dot.count, "call")} found compiled code`;
    return dot;
  }

  /** The attempts at a frame, one segment each. @param {Frame} frame @returns {HTMLElement[]} */
  attempts(frame) {
    const starts = frame.states.flatMap((state, at) => (state.kind === "AttemptStarted" ? [at] : []));
    if (!starts.length) starts.push(0);
    return starts.map((start, number) => {
      const from = number ? start : 0;
      const to = starts[number + 1] ?? this.explorer.order.of.get(frame)?.[0]?.to ?? frame.states.length;
      const isKept = number === starts.length - 1;
      if (!isKept) this.hasDiscarded = true;
      const states = frame.states.slice(from, to);
      const restart = states.find(({ kind }) => kind === "AttemptRestarted");
      const became = isKept ? (frame.skipped ? `plain Python: ${frame.skipped}` : graphWords(frame)) : `attempt ${number + 1}, discarded: ${withoutCode(restart?.text.replace(/^restart: /, "") ?? "")}`;
      const element = make("div", `dynx-segment ${isKept ? graphClass(frame) : "dynx-thrown"}`, isKept ? labelOf(frame) : "");
      if (states.some(({ kind }) => kind === "GraphBroke") || (isKept && frame.resume.length)) element.classList.add("dynx-breaks");
      element.style.flexGrow = String(Math.ceil(Math.sqrt(to - from) * (isKept ? 1 : 0.4)));
      element.title = `${frame.title}: ${became}`;
      this.add({ frame, from, to, element });
      return element;
    });
  }

  /** Discarded attempts are seen where somebody wants them. @param {boolean} isWanted */
  showDiscarded(isWanted) {
    this.isAll = isWanted;
    for (const one of [this.element, this.overview]) one?.classList.toggle("dynx-kept-only", !isWanted);
  }

  /** The segment of a state; that of one in an attempt that is not seen is the kept one of its frame. @param {Frame} frame @param {number} position */
  segmentAt(frame, position) {
    const all = this.ofFrame.get(frame) ?? [];
    const segment = all.find((one) => one.from <= position && position < one.to);
    const isSeen = this.isAll || !segment?.element.classList.contains("dynx-thrown");
    return isSeen ? segment : all.find(({ element }) => element.matches(".dynx-segment:not(.dynx-thrown)"));
  }

  /** @param {PointerEvent} event */
  onPointer(event) {
    const at = document.elementFromPoint(event.clientX, event.clientY);
    const there = this.segments.filter(({ element }) => element === at || (at && (element.contains(at) || this.bits?.get(element) === at)));
    if (!there.length) return;
    const box = (this.bits?.get(there[0].element) === at ? at : there[0].element)?.getBoundingClientRect() ?? { left: 0, width: 1 };
    const part = Math.min(0.999, Math.max(0, (event.clientX - box.left) / (box.width || 1)));
    const segment = there[Math.floor(part * there.length)]; // a dot with a count stands for several
    const within = part * there.length - Math.floor(part * there.length);
    const position = segment.from + Math.floor(within * (segment.to - segment.from));
    const { explorer } = this;
    if (explorer.frame !== segment.frame || explorer.position !== position) explorer.show(segment.frame, position);
  }

  /** @param {number} position in the frame on show @param {string} text of the step */
  show(position, text) {
    const { explorer } = this;
    const { frame } = explorer;
    const segment = this.segmentAt(frame, position);
    this.element.setAttribute("aria-valuenow", String(explorer.order.number(frame, position)));
    this.element.setAttribute("aria-valuetext", text);
    if (!segment) return this.playhead.remove();
    const { element, from, to } = segment;
    const part = (position - from + 0.5) / (to - from);
    this.playhead.style.left = `${100 * (part > 0 ? part : 1)}%`; // a graph break that an attempt before met ends the kept one
    if (this.playhead.parentElement === element) return;
    this.playhead.parentElement?.removeAttribute("aria-current");
    element.append(this.playhead);
    element.setAttribute("aria-current", "true");
    const box = element.getBoundingClientRect();
    const home = this.element.getBoundingClientRect();
    if (this.here) this.here.style.left = `${this.places?.get(element)}%`;
    if (box.left < home.left || box.right > home.right) this.element.scrollLeft += box.left - home.left - home.width / 3;
  }
}

/**
 * Calls, those next to each other that only found compiled code taken together.
 * @param {import("./types.js").Call[]} calls
 * @returns {{first: import("./types.js").Call, last: import("./types.js").Call, frames: import("./types.js").CalledFrame[]}[]}
 */
export function runsOf(calls) {
  /** @type {{first: import("./types.js").Call, last: import("./types.js").Call, frames: import("./types.js").CalledFrame[], quiet: boolean}[]} */
  const runs = [];
  for (const call of calls) {
    const quiet = !call.error && call.frames.length > 0 && call.frames.every(({ outcome }) => outcome === "hit");
    const before = runs.at(-1);
    if (quiet && before?.quiet) {
      before.last = call;
      before.frames.push(...call.frames);
    } else runs.push({ first: call, last: call, frames: [...call.frames], quiet });
  }
  return runs;
}

/** The class of the colour of a graph by its number. @param {number} number @returns {string} */
export function colourOf(number) {
  return number ? `dynx-g dynx-g${((number - 1) % 6) + 1}` : "";
}

/** @param {Frame} [frame] */
function graphClass(frame) {
  return colourOf(frame?.numbers[0] ?? 0);
}

/** @param {Frame} frame @returns {string} */
function labelOf(frame) {
  const [number] = frame.numbers;
  const line = /, from (line \d+) on$/.exec(frame.title)?.[1];
  const name = line ?? frame.title;
  return number ? `${name}: graph ${number}` : name;
}

/** @param {Frame} frame */
function graphWords({ numbers, graphs, outcome }) {
  return numbers.length ? `graph ${numbers.join(", ")}, ${plural(graphs.reduce((sum, { calls }) => sum + calls, 0), "operator")}` : `${outcome || "no graph"}, no graph`;
}

/** @param {Frame | undefined} frame @param {import("./types.js").CalledFrame} called */
function titleOf(frame, called) {
  return frame?.title ?? called.function;
}
