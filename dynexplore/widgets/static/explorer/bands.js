// @ts-check
/**
 * Bands of colour: what comes from one line of the source has the colour of that line, in the source, the graph and the bytecode.
 *
 * Which idea lives here: one line, one colour, and never colour alone: each band says the number of its line, and bands that follow
 * each other are light and less light in turn, so that they are told apart without hue. Where the pointer rests on a part of a band,
 * all of the band is marked.
 */

/** So many colours there are (page.css: dynx-band-1 ...); a light one is followed by one that is less light. */
const COLOURS = 6;

/** @typedef {import("./types.js").Frame} Frame */

/** The lines of functions that have a band, and what comes from them. */
export class Bands {
  /** @param {import("./page.js").Explorer} explorer */
  constructor(explorer) {
    this.explorer = explorer;
    /** @type {Map<number, Map<number, number>>} code -> line -> its number among the lines that have a band */
    this.numbers = new Map();
    /** @type {Map<Frame, Map<string, Map<number, number>>>} */
    this.lines = new Map();
    /** @type {Element[]} what is marked while the pointer rests on a band */
    this.marked = [];
    const { root } = explorer;
    root.addEventListener("pointerover", ({ target }) => this.mark(/** @type {Element} */ (target).closest?.("[data-band]")?.getAttribute("data-band") ?? ""));
    root.addEventListener("pointerleave", () => this.mark(""));
  }

  /** Give an element the band of a line, if that has one. @param {Element} element @param {number} code @param {number | undefined} line */
  dress(element, code, line) {
    const number = line ? this.of(code).get(line) : undefined;
    for (const name of [...element.classList]) if (name.startsWith("dynx-band")) element.classList.remove(name);
    element.removeAttribute("data-band");
    if (number === undefined) return;
    element.classList.add("dynx-band", `dynx-band-${1 + (number % COLOURS)}`);
    element.setAttribute("data-band", `${code}:${line}`);
  }

  /** @param {number} code */
  of(code) {
    let numbers = this.numbers.get(code);
    if (!numbers) {
      const { codes, frames } = this.explorer.data;
      const marked = Object.keys(codes[code]?.marks ?? {}).map(Number);
      // of a function that no backend compiled no line is marked: then those from which its nodes come
      const inGraph = marked.length ? marked : frames.flatMap((frame) => (frame.code === code ? [...this.linesOf(frame).values()].flatMap((of) => of.get(code) ?? []) : []));
      const lines = [...new Set(inGraph)].sort((one, other) => one - other);
      this.numbers.set(code, (numbers = new Map(lines.map((line, at) => [line, at]))));
    }
    return numbers;
  }

  /** The lines from which the nodes of a frame come: node -> code -> line, of the function itself and of all that it called on the way. @param {Frame} frame */
  linesOf(frame) {
    let lines = this.lines.get(frame);
    if (lines) return lines;
    this.lines.set(frame, (lines = new Map()));
    /** @type {[number, number][]} code and line of each function at hand, the outermost first */
    const here = [];
    for (const state of frame.states) {
      const depth = (state.calls ?? []).length;
      const line = state.kind ? undefined : this.explorer.lineOf(state);
      if (line) {
        here.length = depth;
        here[depth] = [state.code ?? frame.code, line];
      }
      if (!state.nodes?.length) continue;
      const places = new Map(here.filter(Boolean)); // one for all nodes of the step
      for (const key of state.nodes) lines.set(key, places);
    }
    return lines;
  }

  /** Mark all that has a band. @param {string} band */
  mark(band) {
    for (const element of this.marked) element.classList.remove("dynx-hovered");
    this.marked = band ? [...this.explorer.root.querySelectorAll(`[data-band="${band}"]`)] : [];
    for (const element of this.marked) element.classList.add("dynx-hovered");
  }
}
