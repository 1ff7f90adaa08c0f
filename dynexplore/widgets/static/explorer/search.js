// @ts-check
/**
 * Search over all panes: rows that hold the text are marked and counted, and Enter leads from one to the next.
 *
 * Long lists search their texts themselves, since most of their rows do not stand in the page; of all else the page is
 * searched.
 */

import { make } from "./dom.js";
import { keyOf } from "./rows.js";

/** What in a pane counts as one row. */
const ROW = "tbody tr, .dynx-line, .dynx-block, .dynx-frame";

/** The search field. */
export class Search {
  /** @param {import("./page.js").Explorer} explorer */
  constructor(explorer) {
    this.explorer = explorer;
    this.field = /** @type {HTMLInputElement} */ (make("input", "dynx-search"));
    this.field.type = "search";
    this.field.placeholder = "Search all panes";
    this.field.setAttribute("aria-label", "Search all panes");
    this.field.addEventListener("input", () => this.find());
    this.count = make("span", "dynx-hits");
    this.count.setAttribute("role", "status");
    /** @type {import("./types.js").Hit[]} */
    this.hits = [];
    this.at = -1;
    this.element = make("label", "dynx-find", "", this.field, this.count);
  }

  find() {
    const { root, sections } = this.explorer;
    for (const row of root.querySelectorAll(".dynx-found")) row.classList.remove("dynx-found");
    for (const view of sections.keys()) for (const list of view.lists ?? []) list.forget?.();
    const wanted = this.field.value.toLowerCase();
    this.hits = [];
    for (const [view, section] of wanted ? sections : []) {
      this.hits.push(...inPage(section, wanted), ...(view.lists ?? []).flatMap((list) => list.find?.(wanted) ?? []));
    }
    this.at = -1;
    this.count.textContent = wanted ? `${this.hits.length} found` : "";
  }

  next() {
    if (!this.hits.length) return;
    this.at = (this.at + 1) % this.hits.length;
    const hit = this.hits[this.at];
    if (hit.key) this.explorer.choose(hit.key);
    hit.reveal()?.scrollIntoView({ block: "nearest" });
    this.count.textContent = `${this.at + 1} of ${this.hits.length}`;
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
  const found = rows.filter((row) => !row.closest(".dynx-long") && row.textContent?.toLowerCase().includes(wanted));
  return found.map((row) => {
    row.classList.add("dynx-found");
    return { key: keyOf(row) ?? "", reveal: () => row };
  });
}
