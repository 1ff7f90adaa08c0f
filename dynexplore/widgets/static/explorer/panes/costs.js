// @ts-check
/**
 * Beside the diagram: its operators ranked by time or by bytes, which is the legend of its colors, the operator that is chosen, and the map.
 *
 * In:  shares.js, for the graphs of the frame on show.
 */

import { make, makeButton, note, plural } from "../dom.js";
import { graphsOf } from "./graph.js";
import { percentOf, textOf } from "../shares.js";

/**
 * @typedef {import("../shares.js").By} By
 * @typedef {import("../shares.js").Share} Share
 * @typedef {import("../page.js").Explorer} Explorer
 */

/** So many operators are ranked; the others are one row. */
const MOST = 8;

/** Title of the list. @type {Record<By, string>} */
const TITLES = { line: "Operators by line", time: "Time by operator", bytes: "Bytes by operator" };

/** The place beside a diagram. */
export class CostsAside {
  /** @param {Explorer} explorer @param {HTMLElement} map */
  constructor(explorer, map) {
    this.explorer = explorer;
    this.list = make("div", "dynx-shares");
    this.chosen = make("div", "dynx-share-chosen");
    this.map = make("div", "dynx-map-pane", "", make("h4", "", "Map"), map);
    this.element = make("aside", "dynx-aside", "", this.list, this.chosen, this.map);
    this.element.tabIndex = 0; // what scrolls can be scrolled by keyboard
    this.element.setAttribute("role", "group");
    this.element.setAttribute("aria-label", "Costs of the operators, and the map");
  }

  /**
   * The ranking.
   * @param {By} by @param {Share[]} shares @param {number} all what they cost together @param {number} runs of the graphs
   * @param {import("../types.js").Frame} frame whose graphs they are
   */
  rank(by, shares, all, runs, frame) {
    this.frame = frame;
    this.element.hidden = !graphsOf(frame).length;
    const whole = all ? ` ${textOf(by, all)}` : "";
    const rows = [...shares.slice(0, MOST), ...rest(shares.slice(MOST))].map((share) => this.row(by, share, shares[0].cost, all));
    const list = make("ol", "", "", ...rows);
    const about = by === "time" ? `each operator by itself${runs > 1 ? `, mean of ${plural(runs, "run")}` : ""}` : by === "bytes" ? "of the tensors that the operators return" : "";
    this.list.replaceChildren(make("h4", "", "", make("span", "", TITLES[by]), make("span", "dynx-facts", whole)), ...(about && all ? [note(about)] : []), ...(rows.length ? [list] : [this.none(by)]));
  }

  /** @param {By} by @param {Share} share @param {number} most @param {number} all */
  row(by, { name, times, cost, keys, code: of, line }, most, all) {
    const bar = make("i", "dynx-share-bar");
    const { explorer } = this;
    const code = of === undefined ? undefined : explorer.data.codes[of];
    const text = line && code ? (code.lines[line - code.first] ?? "").trim() : "";
    if (of !== undefined) explorer.bands.dress(bar, of, line);
    bar.style.width = `${Math.min(100, (100 * cost) / most)}%`;
    const value = by === "line" ? plural(cost, "operator") : percentOf(cost, all);
    const choose = makeButton("", () => keys[0] && this.explorer.choose(keys[0]), { name: "dynx-share", label: `${name}${times > 1 ? `, ${times} times` : ""}: ${value}` });
    choose.append(make("span", "dynx-share-name", "", make("b", "", name), make("span", "dynx-facts", by !== "line" && times > 1 ? ` × ${times}` : "")), make("span", "dynx-share-room", "", bar), make("span", "dynx-share-value", value));
    if (text) choose.append(make("code", "dynx-share-code", text));
    choose.title = by === "line" ? "" : textOf(by, cost);
    return make("li", "", "", choose);
  }

  /** Why there is nothing to rank, and how to get it. @param {By} by @returns {HTMLElement} */
  none(by) {
    if (by === "line") return note("This graph has no operators.");
    if (by === "bytes") return note("The sizes of these tensors are not known.");
    const { title, engine } = this.explorer.data;
    const script = title.endsWith(".py") ? title : "SCRIPT.py";
    const command = `dynexplore explain ${script}${engine === "dynexplore" ? "" : " --engine dynexplore"}`;
    return make("p", "dynx-facts", "", make("span", "", "This recording has no times of operators. To measure each operator in a real run: "), make("code", "", command));
  }

  /** The operator that is chosen. @param {By} by @param {import("../types.js").GraphNode | undefined} node @param {number | undefined} cost */
  choose(by, node, cost) {
    if (!node) return this.chosen.replaceChildren(make("h4", "", "Chosen"), note("Click an operator."));
    const { explorer } = this;
    const terms = make("dl", "dynx-terms");
    const term = (/** @type {string} */ name, /** @type {string} */ text) => text && terms.append(make("dt", "", name), make("dd", "", text));
    if (cost !== undefined && by !== "line") term(by, textOf(by, cost));
    term("output", node.result);
    term("module", explorer.names(node.module));
    term("line", node.line ? String(node.line) : "");
    const open = makeButton("Open in story", () => explorer.tabs.openAgain("story"), { name: "dynx-tool" });
    this.chosen.replaceChildren(make("h4", "", `Chosen: ${explorer.label(node.name)}`), terms, open);
  }
}

/** The operators behind those that are ranked, as one. @param {Share[]} shares @returns {Share[]} */
function rest(shares) {
  if (!shares.length) return [];
  const sum = (/** @type {(share: Share) => number} */ of) => shares.reduce((all, share) => all + of(share), 0);
  return [{ name: "all other", code: undefined, line: undefined, times: sum(({ times }) => times), cost: sum(({ cost }) => cost), keys: [] }];
}
