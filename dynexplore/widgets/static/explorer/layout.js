// @ts-check
/**
 * Where the boxes of a small graph stand: columns from left to right by the longest way from an input, rows close to what they
 * read. Simple and quick: it runs at each step that adds a node. Large graphs are drawn by graphviz, in the tab.
 */

/** Sizes in pixels; page.css has the fonts that they fit. */
const [LETTER, PAD, GAP, ROW, LINE] = [7.9, 14, 26, 50, 15];

/**
 * @typedef {{name: string, inputs: string[], lines: string[]}} Node
 * @typedef {{x: number, y: number, width: number, height: number, lines: string[]}} Box
 */

/**
 * @param {Node[]} nodes in an order in which each comes after what it reads
 * @returns {{boxes: Map<string, Box>, edges: string[], width: number, height: number}} `edges` are paths, which run in the gaps
 *   between boxes
 */
export function layout(nodes) {
  const columns = columnsOf(nodes);
  const rows = rowsOf(nodes, columns);
  /** @type {number[]} */
  const widths = [];
  for (const { name, lines } of nodes) {
    const column = columns.get(name) ?? 0;
    widths[column] = Math.max(widths[column] ?? 0, 40, PAD + LETTER * Math.max(...lines.map((line) => line.length)));
  }
  const starts = widths.map((_, at) => 6 + widths.slice(0, at).reduce((sum, width) => sum + width + GAP, 0));
  /** @type {Map<string, Box>} */
  const boxes = new Map();
  for (const { name, lines } of nodes) {
    const column = columns.get(name) ?? 0;
    const height = 8 + LINE * lines.length;
    boxes.set(name, { x: starts[column], y: 6 + ROW * (rows.get(name) ?? 0) + (ROW - 10 - height) / 2, width: widths[column], height, lines });
  }
  /** @type {string[]} */
  const edges = [];
  for (const { name, inputs } of nodes) {
    for (const input of new Set(inputs)) {
      const [from, to] = [boxes.get(input), boxes.get(name)];
      if (from && to) edges.push(path(from, to, { columns, rows, name, input }, edges.length));
    }
  }
  const last = widths.length - 1;
  return { boxes, edges, width: last < 0 ? 0 : starts[last] + widths[last] + 8, height: 6 + ROW * (Math.max(0, ...rows.values()) + 1) };
}

/** So many edges in one gap stand apart from each other. */
const LANES = 4;

/**
 * An edge: straight where the box that reads is the next in its row, else up or down in the gap before it; one that leads past other
 * columns goes there in the gap below the row of the box that it comes from.
 * @param {Box} from @param {Box} to
 * @param {{columns: Map<string, number>, rows: Map<string, number>, name: string, input: string}} place
 * @param {number} number of the edge, which says its lane
 */
function path(from, to, { columns, rows, name, input }, number) {
  const [x, y, u, v] = [from.x + from.width, from.y + from.height / 2, to.x, to.y + to.height / 2];
  const lane = 3 * (number % LANES);
  const isNext = (columns.get(name) ?? 0) === (columns.get(input) ?? 0) + 1;
  const before = u - GAP / 2 - 5 + lane;
  if (isNext) return y === v ? `M${x},${y} H${u}` : `M${x},${y} H${before} V${v} H${u}`;
  const below = 6 + ROW * ((rows.get(input) ?? 0) + 1) - 8 + lane / 2;
  return `M${x},${y} H${x + 5 + lane} V${below} H${before} V${v} H${u}`;
}

/** The column of each node: one behind the last that it reads; what reads nothing stands just before its first reader. @param {Node[]} nodes */
function columnsOf(nodes) {
  /** @type {Map<string, number>} */
  const columns = new Map();
  for (const { name, inputs } of nodes) {
    columns.set(name, Math.max(-1, ...inputs.map((input) => columns.get(input) ?? -1)) + 1);
  }
  for (const { name, inputs } of nodes) {
    if (inputs.some((input) => columns.has(input))) continue;
    const readers = nodes.filter((node) => node.inputs.includes(name)).map((node) => columns.get(node.name) ?? 1);
    if (readers.length) columns.set(name, Math.max(0, Math.min(...readers) - 1));
  }
  return columns;
}

/** The row of each node: the nearest free one to the middle of what it reads. @param {Node[]} nodes @param {Map<string, number>} columns */
function rowsOf(nodes, columns) {
  /** @type {Map<string, number>} */
  const rows = new Map();
  /** @type {Set<string>} */
  const taken = new Set();
  for (const { name, inputs } of nodes) {
    const column = columns.get(name);
    const near = inputs.flatMap((input) => rows.get(input) ?? []);
    let row = near.length ? Math.min(...near) : 0;
    while (taken.has(`${column} ${row}`)) row += 1;
    taken.add(`${column} ${row}`);
    rows.set(name, row);
  }
  return rows;
}
