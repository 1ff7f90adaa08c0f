// @ts-check
/**
 * Recompiles: the functions by the seconds that recompiles cost, and of the chosen one its calls against its compiled versions.
 * The call that is chosen is shown in full beside it (panes/miss.js), and how the new version differs from the one before it, below.
 *
 * In:  `data.timeline`, from views/cache_timeline.py.
 */

import { functionsOf, whyOf } from "../called.js";
import { CALL_COLUMNS } from "../columns.js";
import { differenceTables } from "../difference.js";
import { make, makeButton, makeTable, note, plural, prose } from "../dom.js";
import { secondsOf } from "../seconds.js";
import { badge } from "./summary.js";

/**
 * @typedef {import("../called.js").Called} Called
 * @typedef {import("../called.js").CalledFunction} CalledFunction
 * @typedef {import("../page.js").Explorer} Explorer
 */

/** The event that tells which call is chosen. */
export const CALL_CHOSEN = "dynx-call-chosen";

/** With more versions than this one column names those that did not fit; else each has a column. */
const MANY = 12;

/** With more functions than this a list is chosen from, in place of buttons. */
const MANY_FUNCTIONS = 12;

/** Kind and word of each outcome. @type {Record<string, [string, string]>} */
const RESULTS = {
  "compile": ["good", "First compile"],
  "recompile": ["recompile", "Recompile"],
  "hit": ["hit", "Cache hit"],
  "limit reached": ["plain", "Plain Python"],
  "plain Python": ["plain", "Plain Python"],
  "failed": ["bad", "Failed"],
};

/** Sign, class and meaning of each mark of the table. @type {[string, string, string][]} */
const MARKS = [
  ["✕", "missed", "a guard failed"],
  ["+", "compiled", "compiled"],
  ["✓", "hit", "cache hit"],
  ["·", "none", "not tried"],
];

/** @type {import("../types.js").Pane} */
export const timelinePane = {
  key: "timeline",
  title: "Calls and compiled versions",
  build(explorer, { section }) {
    /** @type {Recompiles | undefined} */
    let shown;
    return {
      showFrame() {
        if (shown) return; // it is the same for all frames; what is never looked at is not built
        shown = new Recompiles(explorer);
        section.replaceChildren(...shown.elements);
        shown.showFunction(0);
      },
      keys: {
        ArrowUp: () => shown?.step(-1),
        ArrowDown: () => shown?.step(1),
        m: () => shown?.nextMiss(),
      },
    };
  },
};

class Recompiles {
  /** @param {Explorer} explorer */
  constructor(explorer) {
    this.explorer = explorer;
    this.functions = functionsOf(explorer.data);
    this.of = this.functions[0];
    /** @type {Called | undefined} */
    this.chosen = undefined;
    /** @type {Map<Called, HTMLElement>} */
    this.rows = new Map();
    this.isOnlyMisses = false;
    this.only = makeButton("Only misses", () => this.filter(), { name: "dynx-chip dynx-order" });
    this.only.setAttribute("aria-pressed", "false");
    this.head = make("div", "dynx-verdict-head");
    this.calls = make("div", "dynx-scrolls dynx-calls");
    this.calls.tabIndex = 0;
    this.calls.setAttribute("role", "group");
    this.calls.setAttribute("aria-label", "Calls and compiled versions");
    this.differs = make("div", "dynx-differs");
    this.differs.tabIndex = 0;
    this.differs.setAttribute("role", "group");
    this.differs.setAttribute("aria-label", "What differs between two versions");
    this.elements = [make("div", "dynx-chips", "", ...this.chooser(), this.only), this.head, this.calls, this.differs];
  }

  /** A button for each function, or a list where there are many. @returns {HTMLElement[]} */
  chooser() {
    const said = (/** @type {CalledFunction} */ { name, recompiles, lost, seconds }) => [name, ` ${recompiles} · ${secondsOf(lost || seconds)}`];
    if (this.functions.length > MANY_FUNCTIONS) {
      const select = /** @type {HTMLSelectElement} */ (make("select"));
      select.setAttribute("aria-label", "Function");
      this.functions.forEach((one, at) => select.append(new Option(said(one).join(""), String(at))));
      select.addEventListener("change", () => this.showFunction(Number(select.value)));
      return [select];
    }
    this.buttons = this.functions.map((one, at) => {
      const [name, facts] = said(one);
      const label = `${name}: ${plural(one.recompiles, "recompile")}, ${secondsOf(one.lost || one.seconds)}`;
      const button = makeButton(name, () => this.showFunction(at), { name: "dynx-chip", label });
      button.append(make("span", "dynx-facts", facts));
      return button;
    });
    return this.buttons;
  }

  /** @param {number} at */
  showFunction(at) {
    this.of = this.functions[at];
    this.buttons?.forEach((button, number) => button.setAttribute("aria-pressed", String(number === at)));
    if (!this.of) {
      this.calls.replaceChildren(make("div", "dynx-empty", "", note("No call was recorded, so there are no versions to compare.")));
      return;
    }
    this.head.replaceChildren(this.said(), this.legend());
    this.table();
    const miss = this.of.rows.find(({ frame }) => Object.keys(frame.missed).length) ?? this.of.rows[0];
    this.choose(miss, false);
  }

  /** What the calls of the function cost, in two lines. */
  said() {
    const { name, calls, hits, recompiles, lost } = this.of;
    const cost = this.costOf();
    const { isUncounted } = this;
    const again = recompiles ? plural(recompiles, "recompile") : "no recompiles";
    const first = isUncounted ? [again] : [plural(calls, "call"), hits ? plural(hits, "cache hit") : "no cache hits", again];
    const verdict = `${name}: ${first.join(", ")}${lost ? `, ${secondsOf(lost).replace(" ", "\u00a0")}` : ""}.`;
    const why = cost ? [cost.cause, cost.more].filter(Boolean).map((text) => String(text).replace(/[.]?$/, ".")).join(" ") : recompiles || isUncounted ? "" : "Every call after the first one ran what was compiled.";
    const alone = isUncounted ? "" : "It was called once.";
    const uncounted = isUncounted ? " Calls that hit the cache are not in this recording." : "";
    return make("div", "dynx-verdict-text", "", make("h2", "dynx-verdict-line", verdict), make("p", "", "", ...prose(`${calls > 1 || cost ? why : alone}${uncounted}`.trim())));
  }

  /** Whether calls that hit the cache are not told: torch.compile does not say them, so that what is numbered are compilations. */
  get isUncounted() {
    return this.explorer.data.engine !== "dynexplore" && !this.functions.some(({ hits }) => hits);
  }

  /** The row of the overview that is about these recompiles. */
  costOf(wanted = this.of.rows.map(({ frame }) => frame.frame)) {
    return this.explorer.data.overview.rows.find(({ kind, frames }) => kind === "recompile" && frames?.some((frame) => wanted.includes(frame)));
  }

  legend() {
    return make("div", "dynx-marks", "", ...MARKS.map(([sign, name, text]) => make("span", "", "", make("i", `dynx-mark dynx-mark-${name}`, sign), make("span", "", ` ${text}`))));
  }

  table() {
    const { versions, rows } = this.of;
    const isWide = versions.length <= MANY;
    const marked = isWide ? versions.map((_, at) => String(at + 1)) : ["versions"];
    const first = this.isUncounted ? "no." : CALL_COLUMNS[0];
    const { table, body } = makeTable("Calls and compiled versions", [first, ...marked, ...CALL_COLUMNS.slice(1)]);
    this.rows = new Map(rows.map((row) => [row, this.row(row, isWide)]));
    body.append(...this.rows.values());
    this.calls.replaceChildren(table);
    this.show();
  }

  /** @param {Called} called @param {boolean} isWide */
  row(called, isWide) {
    const { frame, first, last, seconds, given, call } = called;
    const [kind, word] = RESULTS[frame.outcome] ?? ["plain", frame.outcome];
    const number = first === last ? String(first) : `${first} to ${last}`;
    const choose = makeButton(number, () => this.choose(called), { name: "dynx-frame", label: `${this.isUncounted ? "Compilation" : "Call"} ${number}: ${word}` });
    const marks = isWide ? this.of.versions.map((entry) => make("td", "dynx-cell", "", this.mark(frame, entry))) : [make("td", "", this.named(frame))];
    const result = make("td", "", "", badge(kind, word));
    const why = make("td", "dynx-wrapped dynx-why", "", ...prose(whyOf(called, this.of)));
    const row = make("tr", "dynx-called", "", make("td", "dynx-cell", "", choose), ...marks, result, why, make("td", "dynx-cell", secondsOf(seconds)));
    row.title = given ? `call ${call} of the program: ${given}` : "";
    row.addEventListener("click", () => this.choose(called));
    return row;
  }

  /** @param {import("../types.js").CalledFrame} frame @param {number} entry */
  mark(frame, entry) {
    const at = String(entry) in frame.missed ? 0 : frame.entry !== entry ? 3 : frame.outcome === "hit" ? 2 : 1;
    const [sign, name, text] = MARKS[at];
    const mark = make("i", `dynx-mark dynx-mark-${name}`, sign);
    mark.setAttribute("role", "img");
    mark.setAttribute("aria-label", text);
    return mark;
  }

  /** The versions in words, where there is no room for a column each. @param {import("../types.js").CalledFrame} frame */
  named(frame) {
    const number = (/** @type {number} */ entry) => this.of.versions.indexOf(entry) + 1;
    const missed = Object.keys(frame.missed).map((entry) => number(Number(entry)));
    const misses = missed.length > 1 ? `✕ ${Math.min(...missed)} to ${Math.max(...missed)}` : missed.map((one) => `✕ ${one}`).join("");
    const own = frame.entry > 0 ? `${frame.outcome === "hit" ? "✓" : "+"} ${number(frame.entry)}` : "";
    return [misses, own].filter(Boolean).join(", ");
  }

  filter() {
    this.isOnlyMisses = !this.isOnlyMisses;
    this.only.setAttribute("aria-pressed", String(this.isOnlyMisses));
    this.show();
  }

  show() {
    for (const [{ frame }, row] of this.rows) row.hidden = this.isOnlyMisses && !Object.keys(frame.missed).length;
  }

  /** @param {Called | undefined} called @param {boolean} [isAsked] whether a person wants its guards, too */
  choose(called, isAsked = true) {
    if (!called) return;
    this.chosen = called;
    for (const [one, row] of this.rows) {
      row.classList.toggle("dynx-picked", one === called);
      row.querySelector("button")?.setAttribute("aria-pressed", String(one === called));
    }
    this.rows.get(called)?.scrollIntoView({ block: "nearest" });
    const { explorer } = this;
    const { frame } = called;
    this.differs.replaceChildren(...this.difference(frame));
    const detail = { called, of: this.of, cost: this.costOf([frame.frame]), isUncounted: this.isUncounted };
    explorer.root.dispatchEvent(new CustomEvent(CALL_CHOSEN, { detail }));
    const there = explorer.data.frames.find(({ id }) => id === frame.frame);
    if (isAsked && there && there !== explorer.frame && explorer.isTold(there, 0)) explorer.show(there, explorer.states(there).first);
  }

  /** What the new version has that the one before had not. @param {import("../types.js").CalledFrame} frame @returns {Node[]} */
  difference({ frame, entry }) {
    const { misses, entries } = this.explorer.data.timeline;
    const miss = misses[frame];
    const before = entries.find((one) => one.frame === miss?.with);
    if (!miss?.difference || !before) return [];
    const number = (/** @type {number} */ one) => this.of.versions.indexOf(one) + 1;
    const count = Object.values(miss.difference).flat().filter(({ sign }) => sign !== "=").length;
    const title = `Versions ${number(before.entry)} and ${number(entry)} ${count ? "differ" : "have the same graph, guards and breaks"}`;
    return [make("h3", "dynx-pane-title", title), differenceTables(miss.difference, `version ${number(before.entry)}`, `version ${number(entry)}`, true)];
  }

  /** By so many of the calls on show. @param {number} by */
  step(by) {
    const focused = /** @type {HTMLElement | null} */ (document.activeElement);
    if (focused?.closest(".dynx-pane:not(.dynx-timeline)")) return this.explorer.move(focused, by);
    const seen = [...this.rows].filter(([, row]) => !row.hidden).map(([called]) => called);
    const to = seen[Math.max(0, Math.min(seen.length - 1, seen.indexOf(/** @type {Called} */ (this.chosen)) + by))];
    this.choose(to);
    if (to) this.rows.get(to)?.querySelector("button")?.focus({ preventScroll: true });
  }

  /** The next call that no version fitted, of whatever function. */
  nextMiss() {
    const isMiss = (/** @type {Called} */ { frame }) => Object.keys(frame.missed).length > 0;
    const rows = this.of?.rows ?? [];
    const next = rows.slice(rows.indexOf(/** @type {Called} */ (this.chosen)) + 1).find(isMiss);
    if (next) return this.choose(next);
    const at = this.functions.findIndex((one, number) => number > this.functions.indexOf(this.of) && one.rows.some(isMiss));
    if (at < 0) return this.explorer.say("No more cache misses.");
    this.showFunction(at);
    this.choose(this.of.rows.find(isMiss));
  }
}
