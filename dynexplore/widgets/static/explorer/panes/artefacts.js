// @ts-check
/**
 * What AOTAutograd and Inductor made of the graphs of a frame, as texts: each part has a button that shows or hides it.
 *
 * In:  `artifacts` of each graph, in the order in which the compiler made them (views/explorer_data.py).
 */

import { make, makeButton, note } from "../dom.js";
import { graphviz, hasGraphviz } from "../graphviz.js";
import { loweredOf } from "../lowered.js";
import { adopted } from "../svg.js";

/** What the buttons say, and what stands on them when the pointer rests there; in the order of the compiler's work. */
const PARTS = new Map([
  ["joint", ["joint graph", "Forward and backward in one graph, as AOTAutograd traced them"]],
  ["graph", ["forward and backward", "The two graphs that the partitioner splits the joint graph into, in ATen operators"]],
  ["ir", ["IR", "Inductor's loop bodies before fusion, one for each buffer"]],
  ["fused ir", ["IR after fusion", "The loop bodies after fusion, grouped by kernel"]],
  ["diagram", ["kernel diagram", "The kernels, and the buffers they read and write"]],
  ["kernels", ["kernels", "The generated C++ or Triton"]],
  ["code", ["output code", "The whole generated module: kernels, allocations and kernel launches"]],
  ["provenance", ["operators in kernels", "Which operators each kernel computes, and which operators of the captured graph they come from"]],
  ["kernel lines", ["lines in kernels", "Which lines of your program each kernel computes"]],
  ["times", ["times", "Compile time of each phase, in seconds"]],
  ["captured", ["captured graph", "The graph as torch.compile's Dynamo printed it"]],
  ["guards", ["guards", "The tree of guards, as torch.compile printed it"]],
  ["reasons", ["reasons", "Why a graph broke or recompiled, in torch.compile's own words"]],
  ["failure", ["failures", "Tracebacks of what could not be compiled"]],
  ["metrics", ["metrics", "Counts and times of the compilation"]],
  ["symbols", ["sizes", "Sizes and numbers that vary, and where they come from"]],
  ["bytecode", ["bytecode", "Original and modified bytecode, as text"]],
  ["passes", ["passes", "Graphs before and after the compiler's passes"]],
  ["settings", ["settings", "Versions and settings of torch"]],
  ["cache", ["caches", "Lookups in the compiler's caches, and their results"]],
  ["runtime", ["wrappers", "Functions that torch puts around the compiled graphs"]],
  ["runnable", ["runnable", "The graph as a standalone program"]],
  ["other", ["other", "Everything else in the log"]],
]);

/** What is on show when the page opens; all else is a click away. */
const SHOWN = new Set(["graph", "fused ir", "kernels", "captured", "reasons", "failure", "metrics", "provenance", "kernel lines"]);

/** @param {import("../types.js").Data} data @returns {Set<string>} */
function partsIn(data) {
  const holders = [data, ...data.frames, ...data.frames.flatMap(({ graphs }) => graphs)];
  return new Set(holders.flatMap(({ artifacts }) => (artifacts ?? []).map(({ part }) => part)));
}

/** @type {import("../types.js").Pane} */
export const artefactsPane = {
  key: "artefacts",
  title: "Compiler output",
  wanted: (data) => partsIn(data).size > 0,
  build(explorer, { body }) {
    const there = partsIn(explorer.data);
    const shown = new Set([...there].filter((part) => SHOWN.has(part)));
    if (there.has("code") && !there.has("kernels")) shown.add("code"); // the kernels stand in it
    if (!shown.size) for (const part of there) shown.add(part);
    const texts = make("div");
    const chain = make("div", "dynx-chain");
    chain.setAttribute("role", "group");
    chain.setAttribute("aria-label", "What the current line became");
    let shownLine = -1;
    let drawn = "";
    const buttons = make("div", "dynx-parts");
    buttons.setAttribute("role", "group");
    buttons.setAttribute("aria-label", "Parts on show");
    /** Mark what the line at hand became, and offer the way to each. @param {boolean} [isAsked] whether to scroll there */
    const mark = (isAsked = true) => {
      const line = explorer.lineOf(explorer.state) ?? 0;
      if (`${line}` === drawn || (explorer.state.code ?? explorer.frame.code) !== explorer.frame.code) return;
      [shownLine, drawn] = [line, `${line}`];
      const found = [...texts.querySelectorAll("[data-lines]")].filter((block) => {
        const is = (/** @type {HTMLElement} */ (block).dataset.lines ?? "").split(",").includes(String(shownLine));
        block.classList.toggle("dynx-of-line", is);
        return is;
      });
      const first = new Map(found.map((block) => /** @type {const} */ ([block.closest("section"), block])).reverse());
      const links = [...first].reverse().map(([section, block]) => makeButton(section?.querySelector("h4")?.textContent ?? "", () => block.scrollIntoView({ block: "nearest" })));
      chain.replaceChildren(make("span", "dynx-facts", line ? `Line ${line} became ` : ""), ...(links.length ? links : [make("span", "dynx-facts", line ? "nothing that is shown here" : "")]));
      if (isAsked) [...first.values()][0]?.scrollIntoView({ block: "nearest" }); // the last stage: a kernel, where there is one
    };
    const draw = () => {
      texts.replaceChildren(...blocks(explorer, shown));
      drawn = "";
      if (explorer.state) mark(false);
    };
    for (const [part, [text, label]] of PARTS) if (there.has(part)) buttons.append(partButton(text, label, part, shown, draw));
    body.append(buttons, chain, texts);
    texts.addEventListener("click", ({ target }) => {
      const block = /** @type {HTMLElement | null} */ (/** @type {Element} */ (target).closest("[data-lines]"));
      const line = Number(block?.dataset.lines?.split(",")[0] ?? 0);
      const { frame } = explorer;
      const at = frame.states.findIndex((state) => (state.code ?? frame.code) === frame.code && explorer.lineOf(state) === line && explorer.states(frame).lastAttempt === state.attempt);
      if (line && at >= 0) explorer.go(at);
    });
    return {
      copies: { "compiler output": () => wanted(explorer, shown).map(({ title, text }) => `== ${title}\n${text}`).join("\n\n") },
      showFrame: draw,
      showState: () => mark(),
    };
  },
};

/**
 * A button that shows a part, or hides it.
 * @param {string} text
 * @param {string} label
 * @param {string} part
 * @param {Set<string>} shown
 * @param {() => void} draw
 */
function partButton(text, label, part, shown, draw) {
  const button = makeButton(text, () => {
    if (!shown.delete(part)) shown.add(part);
    button.setAttribute("aria-pressed", String(shown.has(part)));
    draw();
  });
  button.title = label;
  button.setAttribute("aria-pressed", String(shown.has(part)));
  return button;
}

/**
 * The artefacts on show: those of the frame, their graph in the title, and those of the whole recording.
 * @param {import("../page.js").Explorer} explorer
 * @param {Set<string>} shown
 * @returns {(import("../types.js").Artefact & {blocks?: import("../lowered.js").Block[]})[]}
 */
function wanted({ frame, data }, shown) {
  const ofGraphs = frame.graphs.flatMap(({ artifacts = [], nodes }, at) => {
    const lowered = loweredOf(artifacts, nodes);
    const of = frame.graphs.length > 1 ? ` of graph ${frame.numbers[at] ?? at + 1}` : "";
    return artifacts.map((made, number) => ({ ...made, title: `${made.title}${of}`, blocks: lowered[number] }));
  });
  return [...ofGraphs, ...(frame.artifacts ?? []), ...(data.artifacts ?? [])].filter(({ part }) => shown.has(part));
}

/** @param {import("../page.js").Explorer} explorer @param {Set<string>} shown @returns {HTMLElement[]} */
function blocks(explorer, shown) {
  const sections = wanted(explorer, shown).map(({ title, text, language, blocks: parts = [] }) => {
    const pieces = parts.map(({ text: piece, lines }) => {
      const block = make("span", lines.length ? "dynx-lowered" : "", `${piece}\n`);
      if (lines.length) {
        block.dataset.lines = lines.join();
        block.title = `From line ${lines.join(", ")}`;
      }
      return block;
    });
    const holder = make("div", "", "", pieces.length ? make("pre", "dynx-text", "", ...pieces) : make("pre", "dynx-text", text));
    if (language === "dot" && hasGraphviz(explorer.live)) drawInto(holder, explorer.live, title, text);
    return make("section", "dynx-block", "", make("h4", "", title), holder);
  });
  if (sections.length) return sections;
  const there = [explorer.data, explorer.frame, ...explorer.frame.graphs].some(({ artifacts }) => artifacts);
  return [note(there ? "all parts are hidden" : "nothing was compiled for this frame")];
}

/**
 * Put the drawing in the place of its text; where it cannot be drawn the text stays.
 * @param {HTMLElement} holder
 * @param {import("../live.js").Live | null} live
 * @param {string} title
 * @param {string} text
 */
async function drawInto(holder, live, title, text) {
  try {
    const drawing = adopted((await graphviz(live)).dot(text));
    drawing.setAttribute("role", "img");
    drawing.setAttribute("aria-label", title);
    holder.replaceChildren(drawing);
  } catch (error) {
    holder.prepend(note(error instanceof Error ? error.message : String(error)));
  }
}
