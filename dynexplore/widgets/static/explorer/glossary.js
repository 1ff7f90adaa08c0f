// @ts-check
/**
 * What the words on the buttons of panes mean: the pointer rests on one, or a screen reader comes to it, and is told.
 *
 * Which idea lives here: a word that one does not know is asked about where it stands, also in a file without network. Each pane has
 * the term that it is about, with the first sentence of docs/glossary.md (a test compares them).
 */

/** Key of a pane -> its term and what it means. @type {Record<string, [string, string]>} */
const MEANINGS = {
  modified: ["Modified bytecode", "What runs in place of the original: it loads inputs, calls the compiled graph, and puts results where the program expects them."],
  python: ["Code swap", "The frame hook puts modified bytecode into a frame before the frame's first instruction."],
  state: ["Symbolic stack", "CPython's value stack as it is during the capture, with stand-ins in place of values."],
  graph: ["Graph", "A list of tensor operations, from inputs to outputs, with no Python between them."],
  guards: ["Guard", "A check of something that the capture relied on, such as the dtype of an argument or the value of a global."],
  breaks: ["Graph break", "A place where the capture cannot go on, so the graph ends and Python runs that instruction itself."],
  frames: ["Frame", "One run of a function: its code, its locals, and the place that it has come to."],
  real: ["Real run", "The call as it ran, with numbers, beside the capture, which had none."],
  artefacts: ["Artefact", "A text that a compiler makes on the way from the graph to the code: the joint graph, generated code and so on."],
  "what-if": ["What-if", "The question of what another input would do: hit, or compile again, and because of which guard."],
};

/**
 * The term of a pane and its meaning, in one line; "" where its title says enough.
 * @param {string} pane its key
 * @returns {string}
 */
export function meaningOf(pane) {
  const [term, meaning] = MEANINGS[pane] ?? ["", ""];
  return term && `${term}: ${meaning}`;
}
