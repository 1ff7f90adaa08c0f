// @ts-check
/**
 * The source of the current function. Its lines are cut where the spans of instructions begin and end, so that what an
 * instruction stands for can be chosen and lights up. Where there is a kernel, it can be edited (editing.js): then the editor
 * stands in its place, with the same marks.
 */

import { make, makeButton, note, prose } from "../dom.js";
import { shortType } from "../groups.js";
import { spanKey } from "../links.js";
import { LongList } from "../long.js";
import { colourOf } from "../strip.js";

/**
 * @typedef {import("../types.js").Code} Code
 * @typedef {{is: string, from: number, to: number}} Part  a key or a kind, and where it stands, in letters of the line
 */

/** The kinds of pieces by their letters in the data; page.css has their colours. @type {Record<string, string>} */
const KINDS_OF_TOKENS = { k: "keyword", s: "string", n: "number", c: "comment", d: "definition", a: "decorator", b: "builtin" };

/** @type {import("../types.js").Pane} */
export const sourcePane = {
  key: "source",
  title: "Source",
  place: "source",
  build(explorer, { section, body, heading, tools }) {
    const { codes } = explorer.data;
    const { editing } = explorer;
    const edit = makeButton("Edit", () => editing?.open(), { name: "dynx-tool", label: "Edit the source, and explain it again" });
    if (editing) tools.append(edit);
    const toKernel = () => {
      explorer.tabs.openAgain("story", "artefacts");
      const stages = /** @type {NodeListOf<HTMLElement>} */ (explorer.root.querySelectorAll(".dynx-chain button"));
      [...stages].find(({ textContent }) => /kernels|code/.test(textContent ?? ""))?.click();
    };
    const hasKernels = explorer.data.frames.some(({ graphs }) => graphs.some(({ artifacts }) => artifacts?.length));
    if (hasKernels) tools.append(makeButton("Kernels", toKernel, { name: "dynx-tool", label: "Show the compiled code of the current line (g)" }));
    /** @type {Map<number, LongList>} */
    const made = new Map();
    const shapes = new Shapes(explorer);
    /** @type {import("../types.js").View} */
    const view = {
      keys: hasKernels ? { g: toKernel } : {},
      copies: { "source": () => codes[explorer.state.code ?? explorer.frame.code].lines.join("\n") },
      showState(state) {
        if (editing && editing.explorer !== explorer) return; // another run took its place, and has the editor
        const id = state.code ?? explorer.frame.code;
        const code = codes[id];
        const list = made.get(id) ?? sourceOf(String(id), code, explorer.data.colours?.[id] ?? [], body, shapes);
        made.set(id, list);
        shapes.follow(body);
        heading.replaceChildren(...titleOf(explorer, state, code));
        edit.hidden = Boolean(editing?.editor);
        if (editing?.editor) {
          if (editing.editor.element.parentElement !== body) {
            section.insertBefore(editing.bar, body);
            body.replaceChildren(editing.editor.element);
            view.lists = [];
          }
          editing.mark(state);
          return;
        }
        if (view.lists?.[0] === list) return;
        view.lists = [list];
        body.replaceChildren(code.lines.length ? list.element : note(`The source of ${code.name} is not available: its file is gone, or it was compiled from a string.`));
        list.draw();
      },
    };
    return view;
  },
};

/** What the last operator of each line gives: dtype and shape, at the end of the line. */
class Shapes {
  /** @param {import("../page.js").Explorer} explorer */
  constructor(explorer) {
    this.explorer = explorer;
    /** @type {Map<string, string> | undefined} */
    this.at = undefined;
    /** @type {import("../types.js").Frame | undefined} whose shapes go before those of others */
    this.frame = undefined;
  }

  /** @param {string} line its key @returns {string} */
  of(line) {
    this.at ??= this.read();
    return this.at.get(line) ?? "";
  }

  /** The frame on show has shapes of its own: another version of the same lines has others. @param {HTMLElement} body */
  follow(body) {
    const { frame } = this.explorer;
    if (this.frame === frame) return;
    [this.frame, this.at] = [frame, undefined];
    for (const shape of /** @type {NodeListOf<HTMLElement>} */ (body.querySelectorAll(".dynx-shape"))) shape.textContent = this.of(shape.dataset.line ?? "");
  }

  read() {
    const { data, links, frame } = this.explorer;
    /** @type {Map<string, string>} instruction -> its line */
    const lines = new Map();
    for (const [id, { rows }] of Object.entries(data.codes)) {
      for (const { offset, line } of rows) if (line) lines.set(`instruction:${id}:${offset}`, `line:${id}:${line}`);
    }
    const at = new Map();
    const others = data.frames.filter((one) => one !== frame).reverse(); // what is told later holds: the first version, and the frame on show
    for (const { key, op, result } of [...others, frame].flatMap(({ graphs }) => graphs.flatMap(({ nodes }) => nodes))) {
      if (!op.startsWith("call_") || !result) continue;
      for (const place of links.items.get(key) ?? []) {
        for (const instruction of links.places[place]) if (lines.has(instruction)) at.set(lines.get(instruction), shortType(result));
      }
    }
    return at;
  }
}

/** @param {string} id @param {Code} code @param {string[]} colours @param {HTMLElement} scroller @param {Shapes} shapes */
function sourceOf(id, code, colours, scroller, shapes) {
  const parts = partsOf(id, code);
  const box = make("div", code.lines.length < LONG ? "dynx-lines dynx-wraps" : "dynx-lines");
  return new LongList(scroller, box, box, {
    count: code.lines.length,
    row(index, rows) {
      const line = code.first + index;
      const { graphs = [], breaks = [] } = code.marks?.[line] ?? {};
      const number = make("span", "dynx-number", String(line));
      const gutter = make("span", `dynx-gutter ${breaks.length ? "dynx-broke" : colourOf(graphs[0] ?? 0)}`, breaks.length ? "◆" : signOf(graphs));
      if (graphs.length) gutter.title = `in graph ${graphs.join(", ")}`;
      const row = make("div", `dynx-line ${breaks.length ? "dynx-broken" : ""}`, "", number, gutter);
      shapes.explorer.bands.dress(row, Number(id), line);
      const shape = shapes.of(`line:${id}:${line}`);
      const end = make("span", "dynx-shape", shape);
      end.dataset.line = `line:${id}:${line}`;
      if (shape) row.append(end); // it stands at the right edge, before the code that may need two lines
      row.append(...segments([...code.lines[index]], parts[index], kindsOf(colours[index]), rows));
      if (code.lines.length < LONG) row.append(...once(breaks).map((broke) => breakNote(broke, rows)));
      else row.title = breaks.map(({ cause, remedy }) => `${cause}. ${remedy}`).join(" ");
      rows.under(row, [`line:${id}:${line}`], "");
      return row;
    },
    keys: (index) => [...parts[index].map(({ is }) => is), `line:${id}:${code.first + index}`],
    text: (index) => code.lines[index],
  });
}

/** From so many lines on all are equally high: what broke is said by the pointer and in the tab. */
const LONG = 300;

/** @param {number[]} graphs */
function signOf(graphs) {
  return graphs.length ? `${graphs[0]}${graphs.length > 1 ? "+" : ""}` : "";
}

/** Breaks of one line: the same advice is given once, under the cause that is told first. @param {import("../types.js").BreakMark[]} breaks */
function once(breaks) {
  return breaks.filter(({ remedy }, at) => breaks.findIndex((other) => other.remedy === remedy) === at);
}

/** What broke here, and what to do. @param {import("../types.js").BreakMark} broke @param {import("../rows.js").Rows} rows */
function breakNote({ key, cause, remedy }, rows) {
  const text = make("div", "dynx-break-note", "", make("b", "", "", ...prose(`The graph breaks: ${cause}.`)), ...(remedy ? [make("span", "", "", ...prose(` ${remedy}`))] : []));
  rows.under(text, [], key); // it leads to the break; the line above it is what is lit and scrolled to
  text.tabIndex = -1;
  return text;
}

/**
 * The current function, and the callers that were traced through on the way to it, each a way back.
 * @param {import("../page.js").Explorer} explorer @param {import("../types.js").State} state @param {Code} code
 */
function titleOf(explorer, state, code) {
  const calls = state.calls ?? [];
  const { frame } = explorer;
  const outer = calls.slice(explorer.isWrapper(frame) ? 1 : 0).map((_, below) => {
    const depth = below + (explorer.isWrapper(frame) ? 1 : 0);
    const at = callersState(frame, explorer.position, calls.slice(0, depth), state.attempt ?? 0);
    const name = nameOf(frame, depth, explorer.data.codes[frame.states[at]?.code ?? frame.code]);
    return makeButton(shortName(name), () => explorer.go(at), { name: "dynx-frame", label: `back to ${name}` });
  });
  const here = shortName(nameOf(frame, calls.length, code));
  const crumbs = withFolded(outer, here).flatMap((button) => [button, make("span", "dynx-facts", " › ")]);
  return [...crumbs, make("span", "", here), make("span", "dynx-facts", ` ${code.file.split(/[\\/]/).pop()}:${code.first}`)];
}

/** So many callers have a way back of their own; those in the middle of more share one. */
const MOST_CALLERS = 4;

/** So many letters leave the source its height: where names are long, the outer callers share one, too, and the nearest never. */
const MOST_LETTERS = 60;

/** The ways back, of which many share one. @param {HTMLElement[]} callers the outermost first @param {string} here */
function withFolded(callers, here) {
  const [first, last] = callers.length > MOST_CALLERS ? [1, callers.length - MOST_CALLERS + 1] : [0, 0];
  const shown = callers.filter((_, at) => at < first || at >= last);
  let [left, near] = [MOST_LETTERS - here.length, 0];
  while (near < shown.length && (left -= shown[shown.length - 1 - near].textContent?.length ?? 0) >= 0) near += 1;
  const [from, to] = near < shown.length ? [0, callers.length - Math.max(near, 1)] : [first, last];
  return to > from ? [...callers.slice(0, from), folded(callers.slice(from, to)), ...callers.slice(to)] : callers;
}

/** One button for many callers, which leads to the last of them: the tab "Frames" has them all. @param {HTMLElement[]} callers */
function folded(callers) {
  const names = callers.map(({ textContent }) => textContent).join(" › ");
  return makeButton("…", () => callers[callers.length - 1].click(), { name: "dynx-frame", label: `back to ${names}` });
}

/**
 * What the function at some depth is called: the frame by its title, which for a decorator's function is what stands behind it.
 * @param {import("../types.js").Frame} frame @param {number} depth @param {Code | undefined} code
 */
function nameOf(frame, depth, code) {
  return code && (depth || code.name.startsWith("@")) ? code.name : frame.title;
}

/** @param {string} name @returns {string} without the functions that it was defined in */
function shortName(name) {
  return name.split("<locals>.").pop() ?? name;
}

/**
 * The states of each function, once per frame: those of an outer caller may lie thousands of steps back. A first view has states of
 * its own, and so a table of its own.
 * @type {WeakMap<import("../types.js").State[], Map<string, number[]>>}
 */
const TABLES = new WeakMap();

/** @param {number[]} calls the callees on the way to the function @param {number} attempt */
const functionKey = (calls, attempt) => `${attempt}:${calls.join()}`;

/** @param {import("../types.js").State[]} states @returns {Map<string, number[]>} the states of each function, ascending */
function statesByFunction(states) {
  const known = TABLES.get(states);
  if (known) return known;
  /** @type {Map<string, number[]>} */
  const table = new Map();
  states.forEach(({ calls = [], attempt = 0, isSketch }, at) => {
    if (isSketch) return; // it does not say in which function it is
    const key = functionKey(calls, attempt);
    const all = table.get(key);
    if (all) all.push(at);
    else table.set(key, [at]);
  });
  TABLES.set(states, table);
  return table;
}

/**
 * The last state before this one that is in a caller: a first view has it, too (views/first_view.py).
 * @param {import("../types.js").Frame} frame @param {number} position @param {number[]} calls @param {number} attempt
 */
function callersState({ states }, position, calls, attempt) {
  const all = statesByFunction(states).get(functionKey(calls, attempt)) ?? [];
  let [low, high] = [0, all.length];
  while (low < high) {
    const middle = (low + high) >> 1;
    if (all[middle] <= position) low = middle + 1;
    else high = middle;
  }
  return all[low - 1] ?? 0;
}

/** What of each line belongs to which span. @param {string} id @param {Code} code @returns {Part[][]} */
function partsOf(id, code) {
  /** @type {Map<string, import("../types.js").Row>} */
  const spans = new Map();
  for (const row of code.rows) if ((row.column ?? -1) >= 0) spans.set(spanKey(id, row), row);
  /** @type {Part[][]} */
  const parts = code.lines.map(() => []);
  for (const [key, { line = 0, column = 0, endLine = line, endColumn = column }] of spans) {
    for (let at = line; at <= endLine; at += 1) {
      const from = at === line ? column : 0;
      const to = at === endLine ? endColumn : Infinity;
      if (to > from) parts[at - code.first]?.push({ is: key, from, to });
    }
  }
  return parts;
}

/** What Pygments says of a line, as pieces from one letter to another. @param {string} [line] @returns {Part[]} */
function kindsOf(line = "") {
  /** @type {Part[]} */
  const kinds = [];
  let from = 0;
  for (const [, count, kind] of line.matchAll(/(\d+)(\D)/g)) {
    const to = from + Number(count);
    if (KINDS_OF_TOKENS[kind]) kinds.push({ is: KINDS_OF_TOKENS[kind], from, to });
    from = to;
  }
  return kinds;
}

/** @param {string[]} letters @param {Part[]} parts @param {Part[]} kinds @param {import("../rows.js").Rows} rows */
function segments(letters, parts, kinds, rows) {
  const cuts = new Set([0, letters.length]);
  for (const { from, to } of [...parts, ...kinds]) cuts.add(Math.min(from, letters.length)).add(Math.min(to, letters.length));
  const ends = [...cuts].sort((a, b) => a - b);
  return ends.slice(1).map((end, at) => {
    const begin = ends[at];
    const holds = (/** @type {Part} */ { from, to }) => from <= begin && end <= to;
    const over = parts.filter(holds).sort((a, b) => a.to - a.from - (b.to - b.from));
    const kind = kinds.find(holds)?.is;
    const names = `${over.length ? "dynx-span" : ""} ${kind ? `dynx-py-${kind}` : ""}`.trim();
    const piece = make("span", names, letters.slice(begin, end).join(""));
    rows.under(piece, over.map(({ is }) => is));
    return piece;
  });
}
