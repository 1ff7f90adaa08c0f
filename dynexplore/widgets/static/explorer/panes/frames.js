// @ts-check
/**
 * The tree of frames: resume functions below the frame that made them, and the inlined callees of each. Below it, for a log of
 * torch.compile, the callers of all compilations as a trie.
 *
 * In:  `data.stacks`, made by views/stack_trie.py.
 */

import { make, makeButton, plural, withoutCode } from "../dom.js";

/**
 * @typedef {import("../types.js").Frame} Frame
 * @typedef {import("../page.js").Explorer} Explorer
 */

/** @type {import("../types.js").Pane} */
export const framesPane = {
  key: "frames",
  title: "Frames",
  build(explorer, { body }) {
    const top = make("ul");
    /** @type {Map<number, HTMLElement>} frame -> the list of what belongs to it */
    const lists = new Map();
    /** @type {Map<Frame, HTMLElement>} */
    const buttons = new Map();
    /** @type {Map<Frame, Map<string, HTMLElement>>} frame -> the calls that lead to a callee -> its button */
    const entries = new Map();
    for (const frame of explorer.data.frames) {
      if (frame.hidden) {
        lists.set(frame.id, lists.get(frame.parent ?? -1) ?? top); // the engine's wrapper around a module
        continue;
      }
      const show = () => explorer.show(frame, explorer.states(frame).first);
      const button = makeButton(`frame ${frame.id}: ${frame.title}`, show, { name: "dynx-frame" });
      if (frame.name !== frame.title) button.title = frame.name; // what the engine calls a resume function: no one wrote that
      const inner = make("ul", "", "", ...callees(explorer, frame, entries));
      lists.set(frame.id, inner);
      buttons.set(frame, button);
      const item = make("li", "", "", button, make("span", "dynx-facts", ` ${factsOf(frame)}`), inner);
      (lists.get(frame.parent ?? -1) ?? top).append(item);
    }
    if (buttons.size > MANY) body.append(filterOf(top));
    body.append(top);
    if (explorer.data.stacks) body.append(make("h4", "", "Callers of the compilations"), trieOf(explorer, explorer.data.stacks));
    /** @type {HTMLElement | undefined} the call of a callee that is at hand */
    let inside;
    for (const button of /** @type {NodeListOf<HTMLElement>} */ (top.querySelectorAll(".dynx-frame"))) button.tabIndex = -1;
    return {
      showFrame(shown) {
        for (const button of buttons.values()) {
          button.removeAttribute("aria-current");
          button.tabIndex = -1; // arrow keys move between them; Tab leads to the one on show
        }
        const button = buttons.get(shown);
        button?.setAttribute("aria-current", "true");
        if (button) button.tabIndex = 0;
        button?.scrollIntoView?.({ block: "nearest" });
      },
      showState(state) {
        inside?.removeAttribute("aria-current");
        inside = entries.get(explorer.frame)?.get((state.calls ?? []).join()) ?? undefined;
        if (!inside || (state.attempt ?? 0) !== explorer.states().lastAttempt) return void (inside = undefined);
        inside.setAttribute("aria-current", "step");
        inside.scrollIntoView({ block: "nearest" });
      },
    };
  },
};

/**
 * The callers, each with the compilations that its line began.
 * @param {Explorer} explorer @param {NonNullable<import("../types.js").Data["stacks"]>} rows
 */
function trieOf(explorer, rows) {
  const items = rows.map(({ depth, text, code, frame }) => {
    const found = explorer.data.frames.find(({ id }) => id === frame);
    const item = found
      ? make("li", "dynx-stack-frame", "", makeButton(text, () => explorer.show(found, explorer.states(found).first), { name: "dynx-frame" }))
      : make("li", "dynx-stack-caller", "", make("span", "", text), make("code", "dynx-facts", code ? ` ${code}` : ""));
    item.style.marginLeft = `${depth * 12}px`;
    return item;
  });
  const list = make("ul", "dynx-stacks", "", ...items);
  list.setAttribute("aria-label", "Callers of the compilations");
  return list;
}

/** From so many frames on the tree has a filter. */
const MANY = 5;

/** A field that leaves only those frames in the tree that hold its text, and the frames around them. @param {HTMLElement} top */
function filterOf(top) {
  const field = /** @type {HTMLInputElement} */ (make("input", "dynx-filter"));
  field.type = "search";
  field.placeholder = "Filter frames";
  field.setAttribute("aria-label", "Filter frames");
  field.addEventListener("input", () => {
    const wanted = field.value.toLowerCase();
    // inner ones come after those around them, and are asked first
    for (const item of [.../** @type {NodeListOf<HTMLElement>} */ (top.querySelectorAll("li"))].reverse()) {
      const own = [...item.children].filter((part) => part.tagName !== "UL").map((part) => part.textContent).join(" ");
      item.hidden = !own.toLowerCase().includes(wanted) && !item.querySelector("li:not([hidden])");
    }
  });
  return field;
}

/** @param {Frame} frame @returns {string} */
function factsOf(frame) {
  const calls = frame.graphs.reduce((sum, graph) => sum + graph.calls, 0);
  const facts = [frame.outcome, plural(calls, "operator"), plural(frame.guards.length, "guard")];
  if (frame.breaks.length) facts.push(`graph break: ${frame.breaks.map(({ title }) => withoutCode(title)).join(", ")}`);
  if (frame.skipped) facts.push(`plain Python: ${frame.skipped}`);
  return facts.filter(Boolean).join(" · ");
}

/**
 * The inlined callees of a frame's last attempt.
 * @param {Explorer} explorer @param {Frame} frame @param {Map<Frame, Map<string, HTMLElement>>} entries is told their buttons
 */
function callees(explorer, frame, entries) {
  const last = explorer.states(frame).lastAttempt;
  /** @type {HTMLElement[]} */
  const items = [];
  frame.states.forEach((state, at) => {
    if (state.kind !== "InlineEntered" || state.attempt !== last) return;
    const button = makeButton(state.text, () => explorer.show(frame, at), { name: "dynx-frame" });
    const item = make("li", "", "", button);
    const own = entries.get(frame) ?? new Map();
    entries.set(frame, own.set((state.calls ?? []).join(), button));
    item.style.marginLeft = `${((state.calls?.length ?? 1) - 1) * 12}px`;
    items.push(item);
  });
  return items;
}
