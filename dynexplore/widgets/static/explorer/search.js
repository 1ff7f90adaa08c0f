// @ts-check
/**
 * Search over all panes and frames: rows on show that hold the text are marked and counted, those of other frames are
 * counted, and Enter leads from one to the next, from frame to frame. Compare holds two other frames, which are counted as
 * such: it is searched while it is open.
 *
 * Long lists search their texts themselves, since most of their rows do not stand in the page; of all else on show the page
 * is searched, and of other frames their texts (findings.js).
 */

import { make, makeButton, plural } from "./dom.js";
import { Findings } from "./findings.js";
import { keyOf } from "./rows.js";

/** What in a pane counts as one row. */
const ROW = "tbody tr, .dynx-line, .dynx-block, .dynx-frame";

/** The search field. */
export class Search {
  /** @param {import("./page.js").Explorer} explorer */
  constructor(explorer) {
    this.explorer = explorer;
    this.findings = new Findings(explorer.data);
    this.field = /** @type {HTMLInputElement} */ (make("input", "dynx-search"));
    this.field.type = "search";
    this.field.placeholder = "Search (/)";
    this.field.setAttribute("aria-label", "Search all panes");
    this.field.addEventListener("input", () => this.find());
    this.scope = /** @type {HTMLSelectElement} */ (make("select", "dynx-scope"));
    this.scope.setAttribute("aria-label", "Search in");
    for (const [value, text] of [["all", "all frames"], ["one", "this frame"]]) {
      const option = make("option", "", text);
      option.setAttribute("value", value);
      this.scope.append(option);
    }
    this.scope.addEventListener("change", () => this.find());
    this.count = make("span", "dynx-hits");
    this.count.setAttribute("role", "status");
    /** @type {import("./types.js").Hit[]} rows on show */
    this.hits = [];
    /** @type {import("./findings.js").Finding[]} rows of other frames, from the next frame on */
    this.others = [];
    this.at = -1;
    const next = makeButton("›", () => this.next(), { name: "dynx-tool", label: "Next match (Enter)" });
    const more = make("div", "dynx-find-more", "", ...(explorer.data.frames.length > 1 ? [this.scope] : []), this.count, next);
    this.element = make("div", "dynx-find", "", this.field, more);
    this.element.setAttribute("role", "search");
  }

  find() {
    const { root, sections, tabs } = this.explorer;
    for (const row of root.querySelectorAll(".dynx-found")) row.classList.remove("dynx-found");
    for (const view of sections.keys()) for (const list of view.lists ?? []) list.forget?.();
    const wanted = this.field.value.toLowerCase();
    this.element.classList.toggle("dynx-searching", Boolean(wanted));
    this.hits = [];
    for (const [view, section] of wanted ? sections : []) {
      if (tabs.isAside(view)) continue;
      this.explorer.frameOf(view);
      const hits = [...inPage(section, wanted), ...(view.lists ?? []).flatMap((list) => list.find?.(wanted) ?? [])];
      this.hits.push(...hits.map(({ key, reveal }) => ({ key, reveal: () => (tabs.reveal(view), reveal()) })));
    }
    this.others = wanted && this.scope.value === "all" ? this.elsewhere(wanted) : [];
    this.at = -1;
    this.count.textContent = wanted ? this.counted() : "";
  }

  /** What other frames hold, the frame after the one on show first. @param {string} wanted */
  elsewhere(wanted) {
    const { data, frame } = this.explorer;
    const here = data.frames.indexOf(frame);
    const frames = [...data.frames.slice(here + 1), ...data.frames.slice(0, here)];
    return frames.flatMap((other) => this.findings.find(other, wanted));
  }

  /** How many rows hold the text, in words. */
  counted() {
    const { hits, others } = this;
    const frames = new Set(others.map(({ frame }) => frame)).size;
    return `${hits.length} found${others.length ? ` here, ${others.length} in ${plural(frames, "other frame")}` : ""}`;
  }

  /** Go to the next match, or to the one before in the frame on show. @param {number} [by] 1 or -1 */
  next(by = 1) {
    const { explorer, hits, others } = this;
    if (!hits.length && !others.length) return;
    if (by > 0 && this.at + 1 >= hits.length && others.length) this.leave(others[0]);
    else if (hits.length) this.at = (Math.max(this.at, by > 0 ? -1 : 0) + by + hits.length) % hits.length;
    const hit = this.hits[this.at];
    hit?.reveal(); // its tab is open from now on
    if (hit?.key) explorer.choose(hit.key);
    hit?.reveal()?.scrollIntoView({ block: "nearest" });
    const where = this.others.length ? ` in frame ${explorer.frame.id}, ${this.others.length} in others` : "";
    this.count.textContent = `${this.at + 1} of ${this.hits.length}${where}`;
  }

  /** Show another frame, where the search goes on. @param {import("./findings.js").Finding} finding */
  leave({ frame, key, code }) {
    const { explorer } = this;
    const states = explorer.states(frame);
    const inCode = code < 0 ? -1 : frame.states.findIndex((state) => state.code === code);
    const [made = inCode] = key ? states.of(key, explorer.links) : [];
    explorer.show(frame, made < 0 ? states.first : made); // which finds anew, there
    this.at = Math.max(0, key ? this.hits.findIndex((hit) => hit.key === key) : 0);
  }
}

/**
 * The rows of a pane outside its long lists.
 * @param {HTMLElement} section
 * @param {string} wanted
 * @returns {import("./types.js").Hit[]}
 */
function inPage(section, wanted) {
  const rows = /** @type {HTMLElement[]} */ ([...section.querySelectorAll(ROW)]);
  const hits = rows.filter((row) => !row.closest(".dynx-long") && row.textContent?.toLowerCase().includes(wanted));
  return hits.map((row) => {
    row.classList.add("dynx-found");
    return { key: keyOf(row) ?? "", reveal: () => row };
  });
}
