// @ts-check
/**
 * The real value beside a symbolic one: found by the node that holds it, by the argument that it is, because it is a
 * constant, or put together from the items of a container; else the reason why there is none. views/real_run.py says what
 * the data means.
 */

import { make } from "./dom.js";

/**
 * @typedef {{kind: number, text: string, numbers: string, grad: string, why: string}} Real  kind: 0 of the call itself,
 *   1 replayed, 2 not observed
 * @typedef {{frame: number, state: number, where: string, text: string}} Divergence
 */

/** Kinds of values that are known while tracing; real_values.py has the same table. */
const KNOWN = new Set(["ConstantVariable", "EnumVariable", "PythonModuleVariable", "BuiltinVariable", "FunctionVariable",
  "ClassVariable"]);

const BADGES = ["real", "replayed", "not observed"];

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
    const [id, kind, text, source, node] = this.explorer.data.values[number];
    const { nodes = {}, unlike = {}, names = {}, contents = {}, why = "" } = this.explorer.frame.real ?? {};
    if (kind === "NULL") return undefined;
    const attempt = this.explorer.frame.states[position].attempt ?? 0;
    if (node && unlike[attempt]?.includes(node)) return missing("this attempt was given up, and its graph never ran");
    const since = /** @type {[number, number][]} */ (nodes[node] ?? []);
    const now = since.filter(([step]) => step <= this.steps[position]).pop() ?? since[0];
    if (node && now) return this.row(now[1]);
    if (!node && KNOWN.has(kind)) return { kind: 0, text, numbers: "", grad: "", why: "" };
    const held = /** @type {[number, number][]} */ (node ? [] : contents[attempt]?.[`${id} ${kind}`] ?? []);
    const content = held.filter(([step]) => step <= this.steps[position]).pop();
    if (content) return this.row(content[1]);
    if (source in names) return this.row(names[source]);
    if (node) return missing(why);
    return missing("only tensors, numbers, containers, objects made here and arguments are followed");
  }

  /** @param {number} number @returns {Real} */
  row(number) {
    const [kind, text, numbers, grad, why] = this.explorer.data.real.values[number];
    return { kind, text, numbers, grad, why };
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
  return { kind: 2, text: "", numbers: "", grad: "", why };
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
  const cell = make("td", "dynx-real-value");
  if (!real) return cell;
  const text = real.numbers || real.text;
  if (real.kind !== 0) cell.append(make("span", "dynx-badge", BADGES[real.kind]), " ");
  if (text) cell.append(text);
  if (real.kind === 2 && real.why) cell.append(make("span", "dynx-why", real.why));
  cell.title = [BADGES[real.kind], real.text, real.numbers, real.grad, real.why].filter(Boolean).join("; ");
  return cell;
}
