// @ts-check
/**
 * Tooltips of pane buttons and of badges, which screen readers also read: the meaning of each term.
 *
 * The idea: an unknown word is explained where it appears, also in a file without network access. Each pane has its term, with the
 * first sentence of docs/glossary.md (a test compares them).
 */

/** Key of a pane or a kind of badge (kinds.js) -> its term and what it means. @type {Record<string, [string, string]>} */
const MEANINGS = {
  modified: ["Modified bytecode", "The bytecode that runs instead of the original: it loads the inputs, calls the compiled graph, and stores the results where the program expects them."],
  python: ["Code swap", "Replacing the bytecode of a frame with modified bytecode before its first instruction runs."],
  state: ["Symbolic stack", "CPython's value stack as simulated during capture, with symbolic values in place of real ones."],
  graph: ["Graph", "A list of tensor operations, from inputs to outputs, with no Python between them."],
  guards: ["Guard", "A check of an assumption that the capture made, such as the dtype of an argument or the value of a global."],
  breaks: ["Graph break", "A point where the capture cannot continue, so the graph ends and Python runs the instruction."],
  frames: ["Frame", "One execution of a function: its code, its local variables, and the instruction that runs next."],
  real: ["Real run", "The recorded execution of the call with its actual values, shown next to the capture."],
  artefacts: ["Artifact", "Text output that a compiler produces between the graph and the machine code, such as the joint graph or generated code."],
  "what-if": ["What-if", "A prediction of whether a different input would hit the cache or cause a recompile, and of the guard that would fail."],
  recompile: ["Recompile", "Another capture of a function that was already compiled, because no cache entry matches the call."],
  break: ["Graph break", "A point where the capture cannot continue, so the graph ends and Python runs the instruction."],
  hit: ["Hit", "A call for which the guards of some cache entry hold, so nothing is compiled."],
};

/**
 * The term of a pane or a badge and its meaning, in one line; "" where its title says enough.
 * @param {string} key
 * @returns {string}
 */
export function meaningOf(key) {
  const [term, meaning] = MEANINGS[key] ?? ["", ""];
  return term && `${term}: ${meaning}`;
}
