// @ts-check
/**
 * Compare: two captures of a function side by side, source and operators aligned. One recording has the versions of a function that
 * recompiled; a second recording, dropped on the page, is compared function by function.
 *
 * In:  `data.overview`, `data.timeline`, frames and codes, of one recording or of two.
 */

import { BESIDE_COLUMNS, PAIR_COLUMNS } from "../columns.js";
import { aligned } from "../compared.js";
import { copyButton } from "../copying.js";
import { asCall, make, makeButton, makeTable, plural, withoutCode } from "../dom.js";
import { NoRecording, dataIn, fileButton, takesFiles } from "../files.js";
import { secondsOf } from "../seconds.js";
import { badge } from "./summary.js";

/**
 * @typedef {import("../types.js").Data} Data
 * @typedef {import("../types.js").Frame} Frame
 * @typedef {{kind: string, said: string, seconds: number, data: Data, frames: Frame[]}} Side  one capture of a function
 * @typedef {{name: string, before?: Side, after?: Side}} Pair
 * @typedef {{text: string, key: string, line: number, mark?: string}} Item  a line of source, an operator or a graph break
 */

/** Equal rows after each other are folded from so many on; so many of them stay beside a difference. */
const [FOLDED, KEPT] = [6, 2];

/** @type {import("../types.js").Pane} */
export const comparePane = {
  key: "compare",
  title: "Compare",
  build(explorer, { body }) {
    const compare = new Compare(explorer, body);
    explorer.compareWith = (files) => compare.read(files);
    takesFiles(explorer.root, (files) => compare.read(files));
    let isBuilt = false;
    return {
      showFrame() {
        if (!isBuilt) compare.draw();
        isBuilt = true;
      },
      keys: { n: () => compare.go(1), p: () => compare.go(-1), s: () => compare.swap(), ArrowUp: () => compare.step(-1), ArrowDown: () => compare.step(1) },
    };
  },
};

class Compare {
  /** @param {import("../page.js").Explorer} explorer @param {HTMLElement} body */
  constructor(explorer, body) {
    this.explorer = explorer;
    this.body = body;
    /** @type {{name: string, data: Data}[]} one recording, or two */
    this.sides = [{ name: explorer.data.overview.file, data: explorer.data }];
    this.isAll = false;
    this.at = 0;
    /** @type {HTMLElement[]} */
    this.differences = [];
  }

  /** Compare with a file: the second recording. @param {File[]} files @returns {Promise<void>} */
  async read([file]) {
    try {
      this.sides = [this.sides[0], { name: file.name, data: await dataIn(file) }];
    } catch (error) {
      if (!(error instanceof NoRecording)) throw error;
      return this.explorer.say(error.message);
    }
    this.explorer.tabs.openAgain("compare");
    this.draw();
  }

  swap() {
    if (this.sides.length < 2) return;
    this.sides.reverse();
    this.draw();
  }

  draw() {
    const isTwo = this.sides.length > 1;
    this.pairs = isTwo ? pairsOfFiles(this.sides[0].data, this.sides[1].data) : pairsOfVersions(this.explorer.data);
    const which = isTwo ? [make("b", "", "A "), make("span", "", this.sides[0].name), make("span", "", " → "), make("b", "", "B "), make("span", "", this.sides[1].name)] : [make("span", "", "Versions of a function in this recording")];
    const other = fileButton(isTwo ? "Another file for B" : "Compare with a saved file (or drop it here)", (files) => this.read(files));
    const bar = make("div", "dynx-chips", "", ...which, make("span", "dynx-order", "", other));
    this.shown = make("div", "dynx-sides");
    this.body.replaceChildren(bar, ...(isTwo ? [this.verdict()] : []), ...(this.pairs.length ? [this.table(), this.shown] : [this.nothing()]));
    if (this.pairs.length) this.choose(this.pairs[0]);
  }

  /** What changed from A to B, in two lines. */
  verdict() {
    const [a, b] = this.sides.map(({ data }) => data);
    const [before, after] = [a, b].map(({ overview }) => (overview.seconds.compile ?? 0) + (overview.seconds.recompile ?? 0));
    const verdict = before === after ? "Both took the same compile time." : `B compiles ${secondsOf(Math.abs(after - before))} ${after < before ? "faster" : "slower"}: ${secondsOf(before)} became ${secondsOf(after)}.`;
    const counts = /** @type {const} */ (["recompile", "graph break", "graph"]).map((noun) => {
      const [was, is] = [a, b].map(({ story }) => ({ "recompile": story.recompiles, "graph break": story.breaks, "graph": story.graphs })[noun]);
      return was === is ? `${plural(was, noun)} in both` : `${plural(was, noun)} became ${is}`;
    });
    const said = make("p", "", `${counts.join("; ")}. Whether the results are equal was not recorded.`);
    return make("div", "dynx-verdict-head", "", make("div", "dynx-verdict-text", "", make("h2", "dynx-verdict-line", verdict), said));
  }

  /** A row for each function, or for each version that was compiled again. */
  table() {
    const { table, body } = makeTable("Functions side by side", PAIR_COLUMNS);
    this.rows = new Map((this.pairs ?? []).map((pair) => {
      const { name, before, after } = pair;
      const cell = (/** @type {Side | undefined} */ side) => [make("td", "", "", ...(side ? [badge(side.kind, side.said)] : [make("span", "dynx-facts", "not compiled")])), make("td", "", side ? secondsOf(side.seconds) : "")];
      const change = (after?.seconds ?? 0) - (before?.seconds ?? 0);
      const difference = Math.abs(change) < 0.0005 ? "0 s" : `${change < 0 ? "−" : "+"}${secondsOf(Math.abs(change))}`;
      const choose = makeButton(name, () => this.choose(pair), { name: "dynx-frame" });
      const row = make("tr", "dynx-called", "", make("td", "", "", choose), ...cell(before), ...cell(after), make("td", "", difference));
      row.addEventListener("click", () => this.choose(pair));
      body.append(row);
      return [pair, row];
    }));
    const box = make("div", "dynx-scrolls dynx-calls dynx-pairs", "", table);
    box.tabIndex = 0;
    box.setAttribute("role", "group");
    box.setAttribute("aria-label", "Functions side by side");
    return box;
  }

  /** @param {Pair} pair */
  choose(pair) {
    this.chosen = pair;
    for (const [one, row] of this.rows ?? []) {
      row.classList.toggle("dynx-picked", one === pair);
      row.querySelector("button")?.setAttribute("aria-pressed", String(one === pair));
    }
    this.beside();
  }

  /** By so many rows. @param {number} by */
  step(by) {
    /** @type {Pair[]} */
    const pairs = this.pairs ?? [];
    const to = pairs[Math.max(0, Math.min(pairs.length - 1, pairs.indexOf(/** @type {Pair} */ (this.chosen)) + by))];
    if (!to) return;
    this.choose(to);
    this.rows?.get(to)?.querySelector("button")?.focus();
  }

  /** Source and operators of the chosen pair. */
  beside() {
    const { before, after, name } = /** @type {Pair} */ (this.chosen);
    const { table, body } = makeTable(`${name}, before and after`, BESIDE_COLUMNS);
    this.differences = [];
    let first = "";
    for (const [title, items] of /** @type {[string, (side: Side) => Item[]][]} */ ([["Source", linesOf], ["Operators", operatorsOf]])) {
      const rows = aligned(before ? items(before) : [], after ? items(after) : [], ({ key }) => key, ({ text }) => text);
      const count = rows.filter(({ sign }) => sign !== "=").length;
      const head = make("th", "", `${title}: ${count ? `${count} of ${plural(rows.length, "row")} ${count === 1 ? "differs" : "differ"}` : "the same"}`);
      head.setAttribute("colspan", "5");
      body.append(make("tr", "dynx-part", "", head));
      const different = rows.find(({ sign }) => sign !== "=");
      if (different && !first) first = `First difference: ${placeOf(/** @type {Item} */ (different.before ?? different.after))}`;
      this.fill(body, rows);
    }
    const all = makeButton("Only differences", () => {
      this.isAll = !this.isAll;
      this.beside();
    }, { name: "dynx-chip" });
    all.setAttribute("aria-pressed", String(!this.isAll));
    this.counted = make("span", "dynx-facts");
    const buttons = [this.counted, makeButton("◀", () => this.go(-1), { name: "dynx-tool", label: "Previous difference (p)" }), makeButton("▶", () => this.go(1), { name: "dynx-tool", label: "Next difference (n)" }), all];
    const box = make("div", "dynx-scrolls", "", table);
    box.tabIndex = 0;
    box.setAttribute("role", "group");
    box.setAttribute("aria-label", "Source and operators side by side");
    this.shown?.replaceChildren(make("h3", "dynx-pane-title", "", make("span", "", `${name}. ${first || (this.sides.length > 1 ? "Nothing differs" : "Source and operators are the same; the guards differ (see Recompiles)")}. `), make("span", "dynx-order dynx-buttons", "", ...buttons)), box);
    this.at = 0;
    this.count();
  }

  /** @param {HTMLElement} body @param {import("../compared.js").Aligned<Item>[]} rows */
  fill(body, rows) {
    /** @type {import("../compared.js").Aligned<Item>[]} */
    let equal = [];
    const flush = (/** @type {boolean} */ isLast) => {
      const from = body.lastElementChild?.matches(".dynx-part") ? 0 : KEPT;
      const hidden = this.isAll ? 0 : equal.length - from - (isLast ? 0 : KEPT);
      const shown = hidden < FOLDED ? equal : [...equal.slice(0, from), null, ...equal.slice(from + hidden)];
      for (const row of shown) body.append(row ? rowOf(row) : foldedRow(hidden));
      equal = [];
    };
    for (const row of rows) {
      if (row.sign === "=") {
        equal.push(row);
        continue;
      }
      flush(false);
      const element = rowOf(row);
      body.append(element);
      this.differences.push(element);
    }
    flush(true);
  }

  /** @param {number} by to the next difference, or back */
  go(by) {
    const { differences } = this;
    if (!differences.length) return this.explorer.say("Nothing differs here.");
    this.at = (this.at + by + differences.length) % differences.length;
    this.count();
    differences[this.at].scrollIntoView({ block: "nearest" });
  }

  count() {
    this.differences.forEach((row, at) => row.classList.toggle("dynx-picked", at === this.at));
    if (this.counted) this.counted.textContent = this.differences.length ? `${this.at + 1} of ${this.differences.length}` : "";
  }

  /** @returns {HTMLElement} */
  nothing() {
    const script = this.explorer.data.title.endsWith(".py") ? this.explorer.data.title : "SCRIPT.py";
    const command = `dynexplore compare ${script} --engines --html compare.html`;
    const copy = copyButton(this.explorer, "the command", () => command);
    const none = make("p", "dynx-facts", "No function in this recording recompiled, so there are no two versions to compare.");
    const files = make("p", "", "To compare two recordings, before and after an edit: drop the other saved page here.");
    const why = make("p", "", "To compare torch.compile and dynexplore on the same call, side by side:");
    return make("div", "dynx-empty", "", none, files, why, make("span", "dynx-change-code", "", make("code", "", command), copy));
  }
}

/** Each version that was compiled again beside the one that was tried first. @param {Data} data @returns {Pair[]} */
function pairsOfVersions(data) {
  const { timeline, frames } = data;
  const number = (/** @type {Frame} */ frame) => timeline.entries.filter((one) => frames.find(({ id }) => id === one.frame)?.title === frame.title && one.frame <= frame.id).length;
  const side = (/** @type {Frame} */ frame) => ({ kind: number(frame) > 1 ? "recompile" : "good", said: `version ${number(frame)}`, seconds: timeline.seconds?.[frame.id] ?? 0, data, frames: [frame] });
  return Object.entries(timeline.misses).flatMap(([id, miss]) => {
    const [before, after] = [miss.with, Number(id)].map((wanted) => frames.find((frame) => frame.id === wanted));
    return before && after ? [{ name: after.title, before: side(before), after: side(after) }] : [];
  }).sort((one, other) => changeOf(other) - changeOf(one));
}

/** By how much the compile time of a pair changed. @param {Pair} pair */
function changeOf({ before, after }) {
  return before && after ? Math.abs(after.seconds - before.seconds) : -1;
}

/** The functions of both, those first whose compile time changed most. @param {Data} a @param {Data} b @returns {Pair[]} */
function pairsOfFiles(a, b) {
  const sides = [a, b].map((data) => new Map(data.overview.functions.map((one) => [one.name, sideOf(data, one)])));
  const names = [...new Set(sides.flatMap((side) => [...side.keys()]))];
  return names.map((name) => ({ name, before: sides[0].get(name), after: sides[1].get(name) })).sort((one, other) => changeOf(other) - changeOf(one));
}

/** The first versions of a function and of its resume functions. @param {Data} data @param {Data["overview"]["functions"][0]} of @returns {Side} */
function sideOf(data, { kind, verdict, seconds, frames }) {
  const again = new Set(data.timeline.calls.flatMap((call) => call.frames.filter(({ outcome }) => outcome === "recompile").map(({ frame }) => frame)));
  return { kind, said: verdict, seconds, data, frames: data.frames.filter(({ id }) => frames.includes(id) && !again.has(id)) };
}

/** @param {Side} side @returns {Item[]} */
function linesOf({ data, frames }) {
  const code = data.codes[frames[0]?.code];
  return (code?.lines ?? []).map((text, at) => ({ text, key: text.trim(), line: code.first + at }));
}

/** @param {Side} side @returns {Item[]} */
function operatorsOf({ data, frames }) {
  return frames.flatMap((frame) => {
    const { graphs, breaks, inputs = {} } = frame;
    const lines = ownLines(data, frame);
    return [
      ...graphs.flatMap(({ nodes }) => nodes.filter(({ op }) => op !== "output").map((node) => operatorOf(node, inputs, lines.get(node.key) ?? 0))),
      ...breaks.slice(0, 1).map(({ title }) => ({ text: `◆ ${withoutCode(`graph break: ${title}`).replace(/: (?:DX|GB)\d+:? /, ": ")}`, key: "◆", line: 0, mark: "break" })),
    ];
  });
}

/** The line of the function itself from which each node comes, also where it was added in a module that the line calls. @param {Data} data @param {Frame} frame */
function ownLines(data, frame) {
  const offsets = new Map((data.codes[frame.code]?.rows ?? []).flatMap(({ offset, line }) => (line ? [[offset, line]] : [])));
  /** @type {Map<string, number>} */
  const lines = new Map();
  let here = 0;
  for (const { kind, calls = [], code = frame.code, offset, line = 0, nodes = [] } of frame.states) {
    if (!kind && !calls.length && code === frame.code) here = offsets.get(offset) ?? line;
    for (const key of nodes) lines.set(key, here);
  }
  return lines;
}

/** Where a row stands: on its line; what has none is named. @param {Item} item */
function placeOf({ line, text }) {
  return line ? `line ${line}` : text.replace(/^◆ /, "");
}

/** @param {import("../types.js").GraphNode} node @param {Record<string, string>} inputs what the program calls the inputs @param {number} line @returns {Item} */
function operatorOf({ op, name, target, args, result }, inputs, line) {
  const named = asCall(args).replace(/\b[A-Za-z_]\w*/g, (word) => (Object.hasOwn(inputs, word) ? inputs[word] : word));
  const short = op === "placeholder" ? `input ${inputs[name] ?? name}` : `${target.split(".").at(-1)}${named}`;
  return { text: `${short}  ${result}`, key: op === "placeholder" ? `input ${target}` : target, line };
}

/** @param {import("../compared.js").Aligned<Item>} row */
function rowOf({ sign, before, after }) {
  const words = { "=": "the same", "~": "changed", "-": "only before", "+": "only after" }[sign] ?? "";
  const mark = make("td", "", sign === "=" ? "" : sign);
  mark.setAttribute("aria-label", words);
  const cells = [before, after].flatMap((item) => [make("td", "dynx-facts", item?.line ? String(item.line) : ""), make("td", `dynx-wrapped ${item ? (item.mark ? "dynx-badge dynx-k-break" : "") : "dynx-none"}`, item?.text ?? "")]);
  return make("tr", sign === "=" ? "" : `dynx-differs-${sign === "-" ? "gone" : sign === "+" ? "new" : "changed"}`, "", mark, ...cells);
}

/** @param {number} count */
function foldedRow(count) {
  const cell = make("td", "dynx-facts", `… ${count} equal rows`);
  cell.setAttribute("colspan", "5");
  return make("tr", "", "", cell);
}
