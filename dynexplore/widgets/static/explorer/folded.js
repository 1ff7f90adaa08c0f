// @ts-check
/**
 * A graph as it is read first: operators without parameters, equal layers that follow each other as one layer with "× 12", equal
 * branches beside each other as one branch whose operators say "× 15", and runs of views as one pill.
 *
 * Which idea lives here: twelve equal layers say the same twelve times; layers with other constants, as dilations are, do not. Each
 * node of a later layer stands in the box of the node at its place in the first one; choosing any of them lights that box. Edges
 * between the layers are left out: the frame around the layer says that it is repeated.
 *
 * In:  the nodes of a graph, and their groups by module (views/groups.py).
 * Out: `folded(nodes, root, isParameter)`: boxes for layout.js, and the frames around them.
 */

import { shortType, within } from "./groups.js";

/**
 * @typedef {import("./types.js").GraphNode} GraphNode
 * @typedef {import("./types.js").Group} Group
 * @typedef {{name: string, keys: string[], inputs: string[], lines: string[], part: number, kind: string, node: GraphNode,
 *   numbers: number[]}} FoldedBox  `numbers`: all nodes that it stands for
 * @typedef {{first: number, last: number, starts: number[][], times: number, from: string, to: string}} Fold  nodes first..last, those
 *   of each layer, and the modules of the first and the last layer
 */

/** Operators that give the same elements in another shape. */
const VIEWS = new Set(
  "view reshape permute transpose t unbind getitem contiguous expand expand_as squeeze unsqueeze flatten unflatten chunk split view_as swapaxes movedim".split(" "),
);

/** Whether an operator gives the same elements in another shape. @param {string} target */
export function isView(target) {
  return VIEWS.has(target.split(".").pop() ?? target);
}

/** A layer of fewer operators is not worth a frame, unless there are many. */
const LEAST = 2;

/** So many layers of one operator each, one reading the other, are worth a frame. */
const CHAIN = 4;

/** Fewer equal branches are drawn one by one: query, key and value have names. */
const BRANCHES = 4;

/**
 * @param {GraphNode[]} nodes
 * @param {Group} root
 * @param {(node: GraphNode) => boolean} isParameter which nodes have no box
 * @returns {{boxes: FoldedBox[], frames: {part: number, times: number, from: string, to: string}[]}}
 */
export function folded(nodes, root, isParameter) {
  const isBoxed = (/** @type {number} */ at) => !isParameter(nodes[at]);
  const folds = foldsOf(nodes, root, isBoxed);
  /** @type {Map<number, number>} node -> the node in whose box it stands */
  const home = new Map();
  /** @type {Map<number, string>} node -> the layer that it is in, of those that are folded */
  const layer = new Map();
  folds.forEach(({ starts }, fold) => {
    starts.forEach((all, at) => all.forEach((number, place) => [home.set(number, starts[0][place]), layer.set(number, `${fold} ${at}`)]));
  });
  /** @type {Map<number, number>} node -> how many equal branches its box stands for */
  const times = new Map();
  branchesOf(nodes, isBoxed, folds).forEach((branches, fold) => {
    branches.forEach((all, at) => all.forEach((number, place) => [home.set(number, branches[0][place]), layer.set(number, `branches${fold} ${at}`), times.set(number, branches.length)]));
  });
  const at = (/** @type {number} */ number) => home.get(number) ?? number;
  mergeViews(nodes, isBoxed, home, layer);
  const { partOf, frames } = partsOf(folds);
  /** @type {Map<number, FoldedBox>} */
  const boxes = new Map();
  nodes.forEach((node, number) => {
    if (!isBoxed(number)) return;
    const own = at(number);
    let box = boxes.get(own);
    if (!box) boxes.set(own, (box = { name: nodes[own].key, keys: [], inputs: [], lines: [], part: partOf(own), kind: node.op, node: nodes[own], numbers: [] }));
    box.keys.push(node.key);
    box.numbers.push(number);
    for (const input of node.inputs ?? []) {
      const from = at(input);
      const [mine, its] = [layer.get(number), layer.get(input)];
      const isRepeated = mine !== undefined && its !== undefined && mine !== its && mine.split(" ")[0] === its.split(" ")[0];
      if (from !== own && isBoxed(from) && !isRepeated && !box.inputs.includes(nodes[from].key)) box.inputs.push(nodes[from].key);
    }
  });
  const all = [...boxes.values()];
  for (const box of all) box.lines = linesOf(box, nodes, layer, times.get(box.numbers[0]));
  return { boxes: sorted(all), frames };
}

/** Layers that follow each other and are equal: groups with a number at the end of their names. @param {GraphNode[]} nodes @param {Group} root @param {(at: number) => boolean} isBoxed @returns {Fold[]} */
function foldsOf(nodes, root, isBoxed) {
  /** @type {Fold[]} */
  const folds = [];
  const visit = (/** @type {Group} */ group) => {
    /** @type {{group: Group, all: number[], like: string}[]} */
    let run = [];
    const close = () => {
      const all = run.flatMap((one) => one.all);
      const isWhole = all.every((number, place) => !place || number > all[place - 1]) && onlyThese(all, isBoxed);
      const isChain = run.length >= CHAIN && all.every((number, at) => !at || (nodes[number].inputs ?? []).includes(all[at - 1]));
      if (run.length > 1 && isWhole && (run[0].all.length >= LEAST || isChain)) {
        const [first, last] = [run[0].group.path, run[run.length - 1].group.path]; // of modules
        folds.push({ first: all[0], last: all[all.length - 1], starts: run.map((one) => one.all), times: run.length, from: first, to: last });
      } else for (const one of run) visit(one.group);
      run = [];
    };
    for (const inner of group.inner) {
      const all = within(inner).filter(isBoxed).sort((one, other) => one - other);
      const like = all.map((number) => `${nodes[number].op} ${sameness(nodes[number], nodes)}`).join("\n");
      const isLayer = /\d\]?$/.test(inner.path) && all.length > 0;
      if (run.length && (!isLayer || run[0].like !== like)) close();
      if (isLayer) run.push({ group: inner, all, like });
      else visit(inner);
    }
    close();
  };
  visit(root);
  return folds.sort((one, other) => one.first - other.first);
}

/**
 * What equal operators have in common: target, result and constant arguments; which nodes they read is told elsewhere.
 * @param {GraphNode} node @param {GraphNode[]} nodes
 */
function sameness({ target, result, args, kwargs, inputs = [] }, nodes) {
  const names = inputs.map((input) => nodes[input].name);
  const read = new Set(names);
  const constants = `${withNames(args, names, kwargs)} ${kwargs}`.replace(STRING_OR_NAME, (text) => (read.has(text) ? "_" : text)).replace(/,\s*/g, ",");
  return `${target} ${result} ${constants}`;
}

/**
 * Arguments that were cut within the names of two inputs, one after the other, with both names: a parameter of a nested module has a
 * long one, which is another in each layer. A cut anywhere else stays.
 * @param {string} args @param {string[]} names of what the operator reads, in the order of its arguments @param {string} kwargs
 */
function withNames(args, names, kwargs) {
  const [, before, start, end, after] = CUT.exec(args) ?? [];
  if (start === undefined) return args;
  const namesIn = (/** @type {string} */ text) => names.filter((name) => text.match(STRING_OR_NAME)?.some((word) => word === name));
  const [earlier, later] = [namesIn(before), namesIn(`${after} ${kwargs}`)];
  const cut = names.filter((name) => !earlier.includes(name) && !later.includes(name));
  const isWhole = cut.length > 0 && cut.length <= 2 && cut[0].startsWith(start) && cut[cut.length - 1].endsWith(end);
  return isWhole ? `${before}${cut.join(", ")}${after}` : args;
}

/** What is before a cut, the name that it cuts, the one that goes on behind it, and the rest. */
const CUT = /^(.*?)((?:[A-Za-z_]\w*)?)\.\.\.(\w*)(.*)$/s;

/** A string, whose words are no nodes, or a name. */
const STRING_OR_NAME = /'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*"|[A-Za-z_]\w*/g;

/**
 * Equal branches: chains of equal operators that read the same, and that one operator reads.
 * @param {GraphNode[]} nodes @param {(at: number) => boolean} isBoxed @param {Fold[]} folds layers, which are folded already
 * @returns {number[][][]} the nodes of each branch, of those that are equal
 */
function branchesOf(nodes, isBoxed, folds) {
  /** @type {number[]} */
  const readers = nodes.map(() => 0);
  for (const node of nodes) for (const input of new Set(node.inputs ?? [])) readers[input] += 1;
  const isOwn = (/** @type {number} */ number) => isBoxed(number) && readers[number] === 1 && nodes[number].op.startsWith("call_");
  const chain = (/** @type {number} */ last) => {
    const all = [];
    let like = "";
    for (let number = last; ; ) {
      const inputs = (nodes[number].inputs ?? []).filter(isBoxed);
      const own = inputs.filter(isOwn);
      const others = own.length === 1 ? inputs.filter((input) => input !== own[0]) : inputs;
      all.unshift(number);
      const { target, result } = nodes[number];
      like += `${isView(target) ? `${target} ${result}` : sameness(nodes[number], nodes)} ${others.join(",")}\n`; // each takes its part
      if (own.length !== 1) return { all, like };
      number = own[0];
    }
  };
  return nodes.flatMap((node) => {
    /** @type {Map<string, number[][]>} */
    const equal = new Map();
    for (const input of new Set((node.inputs ?? []).filter(isOwn))) {
      const { all, like } = chain(input);
      equal.set(like, [...(equal.get(like) ?? []), all]);
    }
    const isApart = (/** @type {number[]} */ all) => folds.every(({ first, last }) => last < Math.min(...all) || first > Math.max(...all));
    return [...equal.values()].filter((branches) => branches.length >= BRANCHES && isApart(branches.flat()));
  });
}

/** Whether no other box stands between these. @param {number[]} all @param {(at: number) => boolean} isBoxed */
function onlyThese(all, isBoxed) {
  let count = 0;
  for (let at = all[0]; at <= all[all.length - 1]; at += 1) if (isBoxed(at)) count += 1;
  return count === all.length;
}

/** Views that read each other share a box. @param {GraphNode[]} nodes @param {(at: number) => boolean} isBoxed @param {Map<number, number>} home @param {Map<number, string>} layer */
function mergeViews(nodes, isBoxed, home, layer) {
  const isViewAt = (/** @type {number} */ number) => nodes[number].op.startsWith("call_") && isView(nodes[number].target);
  nodes.forEach((node, number) => {
    const reads = (node.inputs ?? []).filter(isBoxed);
    if (reads.length !== 1 || !isViewAt(number) || !isViewAt(reads[0]) || layer.get(number) !== layer.get(reads[0])) return;
    home.set(number, home.get(reads[0]) ?? reads[0]);
  });
}

/** Parts of the picture: what comes before a frame, what is in it, and what comes behind it. @param {Fold[]} folds */
function partsOf(folds) {
  const frames = folds.map(({ times, from, to }, at) => ({ part: 2 * at + 1, times, from, to }));
  const partOf = (/** @type {number} */ number) => {
    const before = folds.findIndex(({ last }) => number <= last);
    if (before < 0) return 2 * folds.length;
    return number >= folds[before].first && folds[before].starts[0].includes(number) ? 2 * before + 1 : 2 * before;
  };
  return { partOf, frames };
}

/** What stands in a box: the operator and its shape; of several views how many there are in one layer. @param {FoldedBox} box @param {GraphNode[]} nodes @param {Map<number, string>} layer @param {number} [times] the equal branches */
function linesOf({ node, numbers }, nodes, layer, times) {
  const views = numbers.filter((number) => layer.get(number) === layer.get(numbers[0]));
  const repeated = times ? ` × ${times}` : "";
  if (views.length > 1) return [`${views.length} views${repeated}`, shortType(nodes[views[views.length - 1]].result).replaceAll(", ", ",")].filter(Boolean);
  const name = node.op === "call_module" || node.op === "placeholder" ? node.target : nameOf(node);
  return [node.op === "output" ? "output" : `${name}${repeated}`, shortType(node.result).replaceAll(", ", ",")].filter(Boolean);
}

/** The wrappers of NumPy's functions, and of methods of its arrays. */
const OF_NUMPY = /^(?:torch\._dynamo\.utils|dynexplore\.engine\.graph\.numpy_operators)\.wrapped_(ndarray_)?(\w+)$/;

/** What an operator is called: the end of its path; a function of NumPy as the program calls it. @param {{target: string}} node */
export function nameOf({ target }) {
  const [, isMethod, name] = OF_NUMPY.exec(target) ?? [];
  return name ? `${isMethod ? "" : "np."}${name}` : (target.split(".").pop() ?? target);
}

/** The boxes in an order in which each comes after what it reads, part by part. @param {FoldedBox[]} boxes */
function sorted(boxes) {
  const by = new Map(boxes.map((box) => [box.name, box]));
  const done = new Set();
  /** @type {FoldedBox[]} */
  const order = [];
  const put = (/** @type {FoldedBox} */ box) => {
    if (done.has(box)) return;
    done.add(box);
    for (const input of box.inputs) {
      const from = by.get(input);
      if (from) put(from);
    }
    order.push(box);
  };
  boxes.forEach(put);
  return order.sort((one, other) => one.part - other.part);
}
