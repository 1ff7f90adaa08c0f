// @ts-check
/**
 * The overview: what it cost in two lines, a list ranked by the seconds that were lost, the compiled functions, the row that is
 * chosen in full, and a timeline in seconds.
 *
 * Which idea lives here: verdict, list, evidence. Choosing a row fills the detail beside the list; no pane changes its place.
 *
 * In:  `data.overview`, made by views/overview.py.
 */

import { copyText } from "../copying.js";
import { breakable, make, makeButton, note, plural, prose, sentence } from "../dom.js";
import { meaningOf } from "../glossary.js";
import { FAILED, KINDS } from "../kinds.js";
import { secondsOf } from "../seconds.js";
import { restore, splitters } from "../splitter.js";
import { Track, ticksOf } from "../tracks.js";
import { WHOLE_GRAPH } from "../views.js";

/**
 * @typedef {import("../types.js").Cost} Cost
 * @typedef {import("../page.js").Explorer} Explorer
 */

/** The chips that filter the list: the kind that each lets through. @type {[string, string, string][]} */
const CHIPS = [
  ["↻", "Recompiles", "recompile"],
  ["◆", "Graph breaks", "break"],
  ["▷", "Plain Python", "plain"],
];

/** @type {import("../types.js").Pane} */
export const summaryPane = {
  key: "summary",
  title: "Overview",
  place: "overview",
  build(explorer, { section }) {
    const summary = new Summary(explorer);
    section.replaceChildren(...summary.elements);
    return { keys: summary.keys };
  },
};

/** A kind with its sign and its word. @param {string} kind @param {string} [text] in place of the word */
export function badge(kind, text = "") {
  const [sign, word, name] = KINDS[kind] ?? KINDS.plain;
  const mark = make("span", "", sign);
  mark.setAttribute("aria-hidden", "true");
  const badge = make("span", `dynx-badge ${name}`, "", mark, make("span", "", ` ${text || word}`));
  const meaning = meaningOf(kind);
  if (meaning) badge.title = meaning;
  return badge;
}

/** Whether a row is of a kind: a break may have recompiles of the part behind it. @param {Cost} cost @param {string} wanted "" for all */
function isOf({ kind, recompiles = 0 }, wanted) {
  return !wanted || kind === wanted || (wanted === "recompile" && recompiles > 0);
}

/** The frames whose compile time a row is about: of a break the functions that continue after it, else the frame itself. @param {Cost} cost @returns {number[]} */
function compiledFor({ compiled = [], kind, place }) {
  return kind === "break" || compiled.length ? compiled : place.slice(0, 1);
}

/** What the page has once something was compiled. */
const EMPTY = [
  "Once something is compiled: what each graph break and recompile costs, the code that causes it, and the change that removes it.",
  "The other views then show the source with its graphs, the operators, and the guards of each compiled version.",
];

class Summary {
  /** @param {Explorer} explorer */
  constructor(explorer) {
    this.explorer = explorer;
    this.given = explorer.data.overview;
    this.chosen = 0;
    this.filter = "";
    /** @type {HTMLElement[]} */
    this.rows = this.given.rows.map((row, at) => this.row(row, at));
    this.list = make("ol", "dynx-costs", "", ...this.rows);
    this.quiet = make("li", "dynx-cost-group dynx-facts", "No separate action needed");
    const expected = this.given.rows.findIndex(({ isExpected }) => isExpected);
    this.isSplit = expected > 0;
    if (this.isSplit) this.rows[expected].before(this.quiet);
    this.detail = make("div", "dynx-cost-detail");
    this.detail.tabIndex = 0;
    this.detail.setAttribute("role", "group");
    this.detail.setAttribute("aria-label", "The selected row");
    this.list.setAttribute("aria-label", "Costs, sorted by compile time");
    const holds = this.given.rows.length ? this.list : this.nothing();
    const list = make("div", "dynx-list-pane", "", this.chips(), holds.matches(`.${WHOLE_GRAPH}`) ? holds : make("div", "dynx-scrolls", "", holds));
    const time = make("div", "dynx-time-pane", "", ...this.timeline());
    const functions = make("div", "dynx-functions-pane", "", ...this.functions());
    const left = make("div", "dynx-left", "", list, time);
    const right = make("div", "dynx-right", "", functions, make("div", "dynx-detail-pane", "", this.detail));
    const body = make("div", "dynx-overview-body", "", left, right);
    this.split(body, [left, right], [list, time], [functions, /** @type {HTMLElement} */ (right.lastElementChild)]);
    this.elements = [this.verdict(), body];
    this.choose(0);
  }

  /** @param {HTMLElement} body @param {HTMLElement[]} columns @param {HTMLElement[]} left @param {HTMLElement[]} right */
  split(body, columns, left, right) {
    const named = (/** @type {HTMLElement[]} */ elements, /** @type {string[]} */ names) =>
      elements.map((element, at) => ({ element, size: `--dynx-size-${names[at]}` }));
    const onMove = () => {};
    const rows = [
      { home: body, name: "overview", panes: named(columns, ["list", "side"]), isAcross: true, onMove },
      { home: left[0].parentElement ?? body, name: "overview left", panes: named(left, ["rows", "time"]), isAcross: false, onMove },
      { home: right[0].parentElement ?? body, name: "overview right", panes: named(right, ["functions", "chosen"]), isAcross: false, onMove },
    ];
    for (const row of rows) {
      splitters(row).forEach((edge, at) => row.panes[at].element.after(edge));
      this.explorer.onWidth((width) => restore(row, width));
    }
  }

  // -- verdict ---------------------------------------------------------------------------------------------------------

  verdict() {
    const { verdict, level, seconds } = this.given;
    const [first = "", second = ""] = verdict;
    const sign = make("span", "dynx-sign", level === "good" ? "✓" : level === "bad" ? "✕" : level === "note" ? "i" : "!");
    sign.setAttribute("aria-hidden", "true");
    const text = make("div", "dynx-verdict-text", "", make("h2", "dynx-verdict-line", "", ...prose(first)), make("p", "", "", ...prose(second)));
    return make("div", `dynx-headline dynx-level-${level}`, "", sign, text, ...this.bar(seconds));
  }

  /** Compile, recompile and run as one bar, each with its seconds. @param {Record<string, number>} seconds @returns {HTMLElement[]} */
  bar(seconds) {
    const parts = ["compile", "recompile", "run"].filter((name) => seconds[name] > 0);
    if (!parts.length) return [];
    const all = parts.reduce((sum, name) => sum + seconds[name], 0);
    const pieces = parts.map((name) => {
      const piece = make("span", `dynx-spent dynx-spent-${name}`);
      piece.style.flexGrow = String((100 * seconds[name]) / all); // parts of less than 1 would leave room
      return piece;
    });
    const legend = parts.map((name) => make("span", "", "", make("i", `dynx-swatch dynx-spent-${name}`), make("span", "", `${name === "compile" ? "first compile" : name} `), make("b", "", secondsOf(seconds[name]))));
    const bar = make("div", "dynx-spent-bar", "", ...pieces);
    bar.setAttribute("role", "img");
    bar.setAttribute("aria-label", parts.map((name) => `${name} ${secondsOf(seconds[name])}`).join(", "));
    return [make("div", "dynx-spending", "", bar, make("div", "dynx-legend", "", ...legend))];
  }

  // -- list ------------------------------------------------------------------------------------------------------------

  chips() {
    const { rows } = this.given;
    const count = (/** @type {string} */ wanted) =>
      rows.reduce((sum, { kind, times, recompiles = 0 }) => sum + (kind === wanted ? times : 0) + (wanted === "recompile" ? recompiles : 0), 0);
    const chip = (/** @type {string} */ text, /** @type {number} */ number, /** @type {string} */ kind) => {
      const button = makeButton(text, () => this.show(kind), { name: "dynx-chip" });
      button.append(make("span", "dynx-facts", ` ${number}`));
      button.dataset.kind = kind;
      button.setAttribute("aria-pressed", String(kind === this.filter));
      return button;
    };
    const some = CHIPS.filter(([, , kind]) => count(kind)).map(([sign, title, kind]) => chip(`${sign} ${title}`, count(kind), kind));
    this.buttons = rows.length ? [chip("All causes", rows.length, ""), ...some] : [];
    const order = rows.length ? [make("span", "dynx-facts dynx-order", `Sorted by compile time${this.isSplit ? "; rows that need no action come last" : ""}`)] : [];
    return make("div", "dynx-chips", "", ...this.buttons, ...order);
  }

  /** Let only rows of one kind stand in the list. @param {string} kind "" for all */
  show(kind) {
    this.filter = kind;
    for (const button of this.buttons ?? []) button.setAttribute("aria-pressed", String(button.dataset.kind === kind));
    this.rows.forEach((row, at) => (row.hidden = !isOf(this.given.rows[at], kind)));
    this.quiet.hidden = !this.given.rows.some((row) => row.isExpected && isOf(row, kind));
    if (this.rows[this.chosen]?.hidden) this.choose(this.rows.findIndex((row) => !row.hidden));
  }

  /** @param {Cost} cost @param {number} at @returns {HTMLElement} */
  row(cost, at) {
    const { kind, function: name, where, cause, more = "", code = "", times, seconds, remedy, change } = cost;
    const head = makeButton("", () => this.choose(at), { name: "dynx-cost-head" });
    head.append(badge(kind), make("b", "", "", ...breakable(name || "the program")), make("code", "dynx-where", "", ...breakable(where)));
    const why = make("p", "dynx-cause", "", ...prose(sentence(cause)), ...(more ? [make("span", "dynx-facts", ` ${more}`)] : []));
    const line = code ? [make("code", "dynx-line-of-code", code)] : [];
    const often = make("span", "dynx-often dynx-facts", times > 1 ? `${times} times` : "once");
    const bar = make("i", `dynx-cost-bar dynx-k-${kind}`);
    const most = Math.max(...this.given.rows.map((row) => row.seconds), 1e-9);
    bar.style.width = `${(100 * seconds) / most}%`;
    const lost = make("span", "dynx-lost", "", ...(FAILED.includes(kind) ? [] : [make("b", "", secondsOf(seconds)), ...(seconds ? [bar] : [])]));
    const fix = make("div", "dynx-fix", "", ...this.fix(cost.isExpected ? "" : change, remedy));
    const row = make("li", "dynx-cost", "", make("span", "dynx-rank", String(at + 1)), head, make("div", "dynx-reasons", "", why, ...line, fix), often, lost);
    row.addEventListener("click", (event) => {
      if (!(/** @type {Element} */ (event.target).closest("button"))) this.choose(at);
    });
    return row;
  }

  /** The change as code to copy, else the advice. @param {string} change @param {string} remedy @returns {HTMLElement[]} */
  fix(change, remedy) {
    if (!change) return remedy ? [make("span", "dynx-facts", "", ...prose(remedy))] : [];
    const copy = makeButton("Copy", () => this.copy(change), { name: "dynx-copy", label: `Copy ${change}` });
    return [make("span", "dynx-facts", "Change: "), make("span", "dynx-change-code", "", make("code", "", change), copy)];
  }

  /** @param {string} text */
  async copy(text) {
    const done = await copyText(text);
    this.explorer.say(done ? "Copied." : "The browser does not let this page use the clipboard.");
  }

  /** @param {number} at */
  choose(at) {
    const cost = this.given.rows[at];
    if (!cost) return this.detail.replaceChildren(...this.checked());
    this.chosen = at;
    this.rows.forEach((row, number) => {
      row.classList.toggle("dynx-picked", number === at);
      row.querySelector(".dynx-cost-head")?.setAttribute("aria-pressed", String(number === at));
    });
    for (const track of this.tracks ?? []) track.mark(compiledFor(cost));
    this.detail.replaceChildren(...this.partsOf(cost, at));
    this.detail.scrollTop = 0;
  }

  /** By so many rows of those on show. @param {number} by */
  step(by) {
    const seen = this.rows.flatMap((row, at) => (row.hidden ? [] : [at]));
    const to = seen[Math.max(0, Math.min(seen.length - 1, seen.indexOf(this.chosen) + by))];
    if (to === undefined) return;
    this.choose(to);
    this.rows[to].scrollIntoView({ block: "nearest" });
    /** @type {HTMLElement | null} */ (this.rows[to].querySelector(".dynx-cost-head"))?.focus({ preventScroll: true });
  }

  // -- the row that is chosen --------------------------------------------------------------------------------------------

  /** @param {Cost} cost @param {number} at @returns {Node[]} */
  partsOf(cost, at) {
    const { kind, function: name, where, facts, change, remedy, cause, code } = cost;
    const title = make("h3", "", "", badge(kind, String(at + 1)), make("span", "", ` ${name || "the program"} `), make("code", "dynx-where", "", ...breakable(where)));
    const terms = make("dl", "dynx-terms");
    for (const [label, text, how] of facts) {
      if (how !== "line") terms.append(make("dt", "", label), make("dd", "", "", ...(how === "code" ? [make("code", "", text)] : prose(text))));
      else terms.lastElementChild?.append(make("div", "dynx-said-line", "", make("span", "dynx-number", label), make("code", "", text)));
    }
    const parts = [title, make("p", "", "", ...prose(sentence(cause)))];
    const isSaid = facts.some(([, text, how]) => how === "line" && text === code);
    if (code && !isSaid) parts.push(make("div", "dynx-said-line", "", make("code", "", code)));
    if (terms.childElementCount) parts.push(terms);
    if (remedy && cost.isExpected) parts.push(make("p", "", "", ...prose(remedy)));
    if (change) parts.push(make("h4", "", cost.isExpected ? "Optional change" : "Change"), make("pre", "dynx-added", "", ...breakable(`+ ${change}`)));
    if (remedy && !cost.isExpected) parts.push(make("p", "dynx-facts", "", ...prose(remedy)));
    for (const one of cost.remedies ?? []) parts.push(...(one.text === change ? [] : [make("pre", "dynx-added", "", ...breakable(one.text))]), make("p", "dynx-facts", "", ...prose([one.where, one.tried, one.price].map(sentence).filter(Boolean).join(" "))));
    const open = makeButton("Open the story", () => this.open(), { name: "dynx-first" });
    const guards = kind === "recompile" ? [makeButton("All failing guards", () => this.explorer.tabs.openAgain("recompiles"), { name: "dynx-tool" })] : [];
    const copy = change ? [makeButton("Copy", () => this.copy(change), { name: "dynx-tool", label: "Copy the change (c)" })] : [];
    parts.push(make("div", "dynx-buttons", "", ...(cost.place.length ? [open] : []), ...guards, ...copy));
    return parts;
  }

  /** The story at the row that is chosen. */
  open() {
    const cost = this.given.rows[this.chosen];
    const [id, position = 0] = cost?.place ?? [];
    const frame = this.explorer.data.frames.find((one) => one.id === id) ?? (cost ? undefined : this.explorer.frame);
    this.explorer.tabs.openAgain("story");
    if (frame && cost) this.explorer.show(frame, position);
  }

  /** What is said in place of a row where nothing was lost. @returns {Node[]} */
  checked() {
    const { real, overview, timeline } = this.explorer.data;
    if (overview.empty) return [make("h3", "", "What appears here"), ...EMPTY.map((text) => make("p", "dynx-facts", text))];
    const [calls, versions] = [timeline.calls.length, timeline.entries.length];
    const facts = ["No graph breaks", "No recompiles", ...(calls > 1 ? [`${calls} calls, ${plural(versions, "version")}`] : [])];
    if (real?.verdict && real.verdict.startsWith("Matches")) facts.push("The results match plain Python");
    const list = make("ul", "dynx-checked");
    for (const one of facts) list.append(make("li", "", `✓ ${one}`));
    return [make("h3", "", "Checked"), list, make("div", "dynx-buttons", "", makeButton("Open the story", () => this.open(), { name: "dynx-first" }))];
  }

  /** What stands in place of the list: that there is nothing to fix, or why there is nothing at all. */
  nothing() {
    const { empty } = this.given;
    if (!empty) return make("div", WHOLE_GRAPH); // views.js puts the pane there
    const { why, next, command } = empty;
    const copy = command ? [make("span", "dynx-change-code", "", make("code", "", command), makeButton("Copy", () => this.copy(command), { name: "dynx-copy", label: `Copy ${command}` }))] : [];
    return make("div", "dynx-empty", "", ...(why ? [make("p", "", "", ...prose(why))] : []), ...(next ? [make("p", "", "", ...prose(next))] : []), ...copy);
  }

  // -- functions and timeline ------------------------------------------------------------------------------------------

  /** @returns {HTMLElement[]} */
  functions() {
    const { functions } = this.given;
    const title = make("h3", "dynx-pane-title", "", make("span", "", "Compiled functions "), make("span", "dynx-count", String(functions.length)), make("span", "dynx-facts dynx-order", "compile time"));
    const table = make("div", "dynx-scrolls dynx-functions");
    table.tabIndex = 0;
    table.setAttribute("role", "group");
    table.setAttribute("aria-label", "Compiled functions");
    for (const { name, kind, verdict, operators, seconds, frame } of functions) {
      const there = this.explorer.data.frames.find(({ id }) => id === frame);
      const go = () => {
        this.explorer.tabs.openAgain("story");
        if (there) this.explorer.show(there, this.explorer.states(there).first);
      };
      const button = makeButton("", go, { name: "dynx-frame", label: `Open the story of ${name}` });
      button.append(...breakable(name));
      const size = make("span", "dynx-facts", operators ? plural(operators, "operator") : "");
      const row = make("div", "dynx-function", "", button, make("div", "dynx-verdict-of", "", badge(kind, verdict), size), make("span", "dynx-lost", secondsOf(seconds)));
      table.append(row);
    }
    if (!functions.length) table.append(note("No function was compiled."));
    return [title, table];
  }

  /** @returns {HTMLElement[]} */
  timeline() {
    const { tracks, seconds } = this.given.timeline;
    const key = (/** @type {string} */ kind, /** @type {string} */ text) => make("span", "dynx-facts", "", make("i", `dynx-swatch dynx-spent-${kind}`), make("span", "", text));
    const kinds = new Set(tracks.flatMap(({ spans }) => spans.map(({ kind }) => kind)));
    const keys = [
      ...(kinds.has("compile") ? [key("compile", "first compile")] : []),
      ...(kinds.has("recompile") ? [key("recompile", "recompile")] : []),
      ...(tracks.some(({ hits }) => hits.length) ? [key("hit", "cache hits, with their number")] : []),
    ];
    const legend = make("span", "dynx-order dynx-legend", "", ...keys);
    const title = make("h3", "dynx-pane-title", "", make("span", "", "Timeline "), make("span", "dynx-facts", "compile time in seconds, in the order of calls"), legend);
    const go = (/** @type {number} */ id) => {
      const at = this.given.rows.findIndex((row) => compiledFor(row).includes(id));
      if (at >= 0) return this.choose(at);
      for (const track of this.tracks ?? []) track.mark([id]);
    };
    this.tracks = tracks.map((track) => new Track(track, seconds, go));
    const box = make("div", "dynx-scrolls dynx-tracks", "", ticksOf(seconds), ...this.tracks.map(({ element }) => element));
    box.tabIndex = 0;
    box.setAttribute("role", "group");
    box.setAttribute("aria-label", "Timeline");
    return [title, tracks.length && seconds ? box : make("div", "dynx-empty", tracks.length ? "The recording has no compile times." : "Nothing was compiled.")];
  }

  /** @type {Record<string, () => void>} */
  get keys() {
    return {
      ArrowUp: () => this.step(-1),
      ArrowDown: () => this.step(1),
      c: () => {
        const { change } = this.given.rows[this.chosen] ?? {};
        if (change) this.copy(change);
        else this.explorer.say("This row has no change to copy.");
      },
    };
  }
}
