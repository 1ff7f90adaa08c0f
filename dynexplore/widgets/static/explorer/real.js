// @ts-check
/**
 * The real value beside a symbolic one: found by the node that holds it, by the argument that it is, because it is a
 * constant, or put together from the items of a container; else the reason why there is none. views/real_run.py says what
 * the data means.
 */

import { make } from "./dom.js";

/**
 * @typedef {import("./types.js").Real} Real
 * @typedef {import("./types.js").Divergence} Divergence
 */

/** Kinds of values that are known while tracing; real_values.py has the same table. */
const KNOWN = new Set(["ConstantVariable", "EnumVariable", "PythonModuleVariable", "BuiltinVariable", "FunctionVariable",
  "ClassVariable"]);

/** The real values of the frame on show. */
export class RealValues {
  /** @param {import("./page.js").Explorer} explorer */
  constructor(explorer) {
    this.explorer = explorer;
    /** @type {number[]} for each state of the frame, the number of its step within its attempt */
    this.steps = [];
  }

  /** Whether the real run was recorded at all. */
  get recorded() {
    return Boolean(this.explorer.data.real?.verdict);
  }

  /** @param {import("./types.js").Frame} frame */
  showFrame(frame) {
    /** @type {Map<number, number>} */
    const counts = new Map();
    this.steps = frame.states.map((state) => {
      const attempt = state.attempt ?? 0;
      const count = counts.get(attempt) ?? 0;
      if (!state.kind) counts.set(attempt, count + 1);
      return count;
    });
  }

  /**
   * What a value really was.
   * @param {number} number of the value
   * @param {number} position of the state
   * @returns {Real | undefined} nothing for an empty slot
   */
  of(number, position) {
    const { id, kind, text, source, node } = this.explorer.data.values[number];
    const { nodes = {}, unlike = {}, names = {}, contents = {}, why = "" } = this.explorer.frame.real ?? {};
    if (kind === "NULL") return undefined;
    const attempt = this.explorer.frame.states[position].attempt ?? 0;
    if (node && unlike[attempt]?.includes(node)) return missing("this attempt was discarded, and its graph never ran");
    const since = nodes[node] ?? [];
    const [first] = since;
    const [, now] = this.latest(since, position) ?? first ?? [];
    if (node && now !== undefined) return this.row(now);
    if (!node && KNOWN.has(kind)) return { provenance: "real", text, elements: "", grad: "", why: "" };
    const [, content] = this.latest(node ? [] : contents[attempt]?.[`${id} ${kind}`] ?? [], position) ?? [];
    if (content !== undefined) return this.row(content);
    if (source in names) return this.row(names[source]);
    if (node) return missing(why);
    return missing("only arguments, tensors, numbers, containers and new objects are tracked");
  }

  /**
   * The last of the changes that came before a state.
   * @param {[number, number][]} changes each the step from which on, and the value
   * @param {number} position
   */
  latest(changes, position) {
    return changes.filter(([step]) => step <= this.steps[position]).pop();
  }

  /** @param {number} number @returns {Real} */
  row(number) {
    return this.explorer.data.real.values[number];
  }

  /** What is to be said at a state: the divergences that belong to it. @param {number} position @returns {HTMLElement[]} */
  said(position) {
    const { frame, data } = this.explorer;
    const here = divergences(data).filter((one) => one.frame === frame.id && one.state === position);
    return here.map((one) => make("p", "dynx-diverges", `⚑ diverges here: ${one.text}`));
  }
}

/** @param {string} why @returns {Real} */
function missing(why) {
  return { provenance: "not observed", text: "", elements: "", grad: "", why };
}

/** @param {import("./types.js").Data} data @returns {Divergence[]} in order, the first one first */
export function divergences(data) {
  return data.real?.divergences ?? [];
}

/**
 * Go to the state of a divergence.
 * @param {import("./page.js").Explorer} explorer
 * @param {Divergence} divergence
 */
export function goToDivergence(explorer, divergence) {
  const frame = explorer.data.frames.find(({ id }) => id === divergence.frame);
  if (frame) explorer.show(frame, divergence.state);
}

/**
 * The cell of a table with a real value: its elements where there are some, and a badge that says where it is from.
 * @param {Real | undefined} real
 * @returns {HTMLElement}
 */
export function realCell(real) {
  const cell = make("td", "dynx-real-value dynx-wrapped");
  if (!real) return cell;
  const { provenance, text, elements, grad, why } = real;
  if (provenance !== "real") cell.append(make("span", "dynx-badge", provenance), " ");
  if (elements || text) cell.append(elements || text);
  if (provenance === "not observed" && why) cell.append(make("span", "dynx-why", why));
  cell.title = [provenance, text, elements, grad, why].filter(Boolean).join("; ");
  return cell;
}
