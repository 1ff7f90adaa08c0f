// @ts-check
/**
 * The source of the function at hand. Its lines are cut where the spans of instructions begin and end, so that what an
 * instruction stands for can be chosen and lights up.
 */

import { make, note } from "../dom.js";
import { spanKey } from "../links.js";
import { LongList } from "../long.js";

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
  span: 4,
  build(explorer, { body, heading }) {
    const { codes } = explorer.data;
    /** @type {Map<number, LongList>} */
    const made = new Map();
    /** @type {import("../types.js").View} */
    const view = {
      copies: { "source": () => codes[explorer.state.code ?? explorer.frame.code].lines.join("\n") },
      showState(state) {
        const id = state.code ?? explorer.frame.code;
        const code = codes[id];
        const list = made.get(id) ?? sourceOf(String(id), code, explorer.data.colours?.[id] ?? [], body);
        made.set(id, list);
        if (view.lists?.[0] === list) return;
        view.lists = [list];
        body.replaceChildren(code.lines.length ? list.element : note(`The source of ${code.name} is not available: its file is gone, or it was compiled from a string.`));
        list.draw();
        heading.textContent = `Source: ${code.name}, ${code.file} line ${code.first}`;
      },
    };
    return view;
  },
};

/** @param {string} id @param {Code} code @param {string[]} colours @param {HTMLElement} scroller */
function sourceOf(id, code, colours, scroller) {
  const parts = partsOf(id, code);
  const box = make("div", "dynx-lines");
  return new LongList(scroller, box, box, {
    count: code.lines.length,
    row(index, rows) {
      const number = make("span", "dynx-number", String(code.first + index));
      return make("div", "dynx-line", "", number, ...segments([...code.lines[index]], parts[index], kindsOf(colours[index]), rows));
    },
    keys: (index) => parts[index].map(({ is }) => is),
    text: (index) => code.lines[index],
  });
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
