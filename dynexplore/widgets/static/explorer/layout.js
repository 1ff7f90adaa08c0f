// @ts-check
/**
 * Where the boxes of a graph stand: rows from top to bottom by the longest way from an input, and edges in the gaps between them.
 *
 * Which idea lives here: an edge that leads past a row has a place of its own in that row, as a box has, so that no edge runs behind
 * a box. Between two rows each edge that turns has a lane. Parts of one picture (the graphs before and behind a break) follow each
 * other: a part begins below all rows of the part before it. It is quick: it runs when a step adds nodes.
 */

/** Sizes in pixels; page.css has the fonts that they fit. */
const [LETTER, PAD, GAP, LINE, EDGE] = [7.9, 14, 14, 15, 6];

/** Between two rows: what an arrowhead needs, and each lane; between two parts there is room for a line of text, too. */
const [ARROW, LANE, SEAM] = [18, 6, 34];

/** The width that an edge takes in a row that it leads past. */
const CHANNEL = 8;

/** So often are the boxes of a row put in the order of what they read, and of what reads them. */
const SWEEPS = 4;

/**
 * @typedef {{name: string, inputs: string[], lines: string[], part?: number}} Node
 * @typedef {{x: number, y: number, width: number, height: number, lines: string[]}} Box
 * @typedef {{name: string, x: number, width: number, above: Place[], below: Place[], box?: Box, source: string}} Place  a box in a
 *   row, or an edge that leads past it; `above` and `below` are its neighbours in the rows beside it
 * @typedef {{from: Place, to: Place, x: number, u: number, lane: number}} Turn  a piece of an edge between two rows
 */

/**
 * @param {Node[]} nodes in an order in which each comes after what it reads
 * @returns {{boxes: Map<string, Box>, edges: string[], width: number, height: number, seams: number[]}} `edges` are paths; `seams`:
 *   how far down the line between two parts stands
 */
export function layout(nodes) {
  const levels = levelsOf(nodes);
  const { rows, ends } = placed(nodes, levels);
  for (let sweep = 0; sweep < SWEEPS; sweep += 1) {
    for (const row of rows) settle(row, ({ above }) => above);
    for (const row of [...rows].reverse()) settle(row, ({ below }) => below);
  }
  for (const row of rows) settle(row, ({ above }) => above);
  const left = Math.min(0, ...rows.flatMap((row) => row.map(({ x, width }) => x - width / 2)));
  for (const place of rows.flat()) place.x = Math.round(place.x - left) + EDGE;
  const firsts = firstLevels(nodes, levels);
  /** @type {Map<string, Box>} */
  const boxes = new Map();
  /** @type {Map<string, string>} edge -> its path so far */
  const paths = new Map();
  /** @type {number[]} */
  const seams = [];
  let y = EDGE;
  rows.forEach((row, level) => {
    if (level) {
      const turns = turnsOf(row);
      const lanes = Math.max(0, ...turns.map(({ lane }) => lane + 1));
      const seam = firsts.includes(level) ? SEAM : 0;
      const top = y;
      y += ARROW + LANE * lanes + seam;
      if (seam) seams.push(top + (y - top - ARROW + 8) / 2 + 2);
      for (const { from, to, x, u, lane } of turns) {
        const bottom = from.box ? from.box.y + from.box.height : top;
        const at = top + seam + 5 + LANE * lane;
        const piece = `${x === u ? "" : `V${at} H${u} `}V${y}`;
        extend(paths, from, to, `M${x},${bottom} `, piece);
      }
    }
    const height = Math.max(CHANNEL, ...row.map(({ box }) => box?.height ?? 0));
    for (const { name, x, width, box } of row) if (box) boxes.set(name, Object.assign(box, { x: x - width / 2, y }));
    y += height;
  });
  const width = Math.max(0, ...rows.flat().map((place) => place.x + place.width / 2)) + EDGE;
  return { boxes, edges: ends.flatMap((end) => paths.get(end) ?? []), width, height: y + EDGE, seams };
}

/** The row of each node: below all that it reads and all parts before its own; what reads nothing stands just above its first reader. @param {Node[]} nodes */
function levelsOf(nodes) {
  /** @type {Map<string, number>} */
  const levels = new Map();
  const parts = [...new Set(nodes.map(({ part = 0 }) => part))];
  let first = 0;
  for (const part of parts) {
    const own = nodes.filter((node) => (node.part ?? 0) === part);
    const level = (/** @type {Node} */ { inputs }) => Math.max(first, ...inputs.map((input) => (levels.get(input) ?? -1) + 1));
    for (const node of own) levels.set(node.name, level(node));
    for (const { name, inputs } of own) {
      if (inputs.some((input) => levels.has(input))) continue;
      const readers = own.filter((node) => node.inputs.includes(name)).map((node) => levels.get(node.name) ?? 1);
      if (readers.length) levels.set(name, Math.max(first, Math.min(...readers) - 1));
    }
    first = Math.max(first, ...own.map(({ name }) => (levels.get(name) ?? 0) + 1));
  }
  return levels;
}

/** The rows at which parts begin, without the first. @param {Node[]} nodes @param {Map<string, number>} levels */
function firstLevels(nodes, levels) {
  /** @type {Map<number, number>} */
  const first = new Map();
  for (const { name, part = 0 } of nodes) first.set(part, Math.min(first.get(part) ?? Infinity, levels.get(name) ?? 0));
  return [...first.values()].filter((level) => level > 0);
}

/**
 * The rows with their boxes and the places of edges that lead past them. `ends`: the edges, by name.
 * @param {Node[]} nodes @param {Map<string, number>} levels
 */
function placed(nodes, levels) {
  /** @type {Place[][]} */
  const rows = Array.from({ length: Math.max(-1, ...levels.values()) + 1 }, () => []);
  /** @type {Map<string, Place>} box, or box and row -> place */
  const at = new Map();
  const ends = [];
  for (const { name, lines } of nodes) {
    const width = Math.max(44, PAD + LETTER * Math.max(...lines.map((line) => line.length)));
    const place = { name, x: 0, width, above: [], below: [], source: name, box: { x: 0, y: 0, width, height: 8 + LINE * lines.length, lines } };
    at.set(name, place);
    rows[levels.get(name) ?? 0].push(place);
  }
  for (const { name, inputs } of nodes) {
    for (const input of new Set(inputs)) {
      let [from, to] = [at.get(input), at.get(name)];
      if (!from || !to) continue;
      ends.push(endOf(input, name));
      for (let level = (levels.get(input) ?? 0) + 1; level < (levels.get(name) ?? 0); level += 1) {
        const key = `${input}\n${level}`;
        let past = at.get(key);
        if (!past) {
          past = { name: key, x: 0, width: CHANNEL, above: [], below: [], source: input };
          at.set(key, past);
          rows[level].push(past);
          join(from, past);
        }
        from = past;
      }
      join(from, to);
    }
  }
  for (const row of rows) {
    let x = 0;
    for (const place of row) [place.x, x] = [x + place.width / 2, x + place.width + GAP];
  }
  return { rows, ends };
}

/** @param {Place} above @param {Place} below */
function join(above, below) {
  above.below.push(below);
  below.above.push(above);
}

/** @param {string} from @param {string} to */
function endOf(from, to) {
  return `${from}\n\n${to}`;
}

/** Bring each place of a row as near as possible to the middle of its neighbours. @param {Place[]} row @param {(place: Place) => Place[]} near */
function settle(row, near) {
  const wanted = new Map(row.map((place) => [place, middle(near(place)) ?? place.x]));
  row.sort((one, other) => /** @type {number} */ (wanted.get(one)) - /** @type {number} */ (wanted.get(other)));
  let edge = -Infinity;
  let off = 0;
  for (const place of row) {
    const goal = /** @type {number} */ (wanted.get(place));
    place.x = Math.max(goal, edge + place.width / 2);
    edge = place.x + place.width / 2 + GAP;
    off += place.x - goal;
  }
  for (const place of row) place.x -= off / (row.length || 1);
}

/** @param {Place[]} places @returns {number | undefined} */
function middle(places) {
  return places.length ? places.reduce((sum, { x }) => sum + x, 0) / places.length : undefined;
}

/** The pieces of edges between two rows, each with the lane in which it turns: those of one box may share theirs. @param {Place[]} below @returns {Turn[]} */
function turnsOf(below) {
  /** @type {Turn[]} */
  const turns = [];
  for (const to of below) {
    const reads = [...to.above].sort((one, other) => one.x - other.x);
    reads.forEach((from, at) => turns.push({ from, to, x: from.x, u: entry(from, to, at, reads.length), lane: -1 }));
  }
  /** @type {{source: string, from: number, to: number}[][]} */
  const lanes = [];
  const bent = turns.filter(({ x, u }) => x !== u).sort((one, other) => Math.abs(one.x - one.u) - Math.abs(other.x - other.u));
  for (const turn of bent) {
    const [from, to] = [Math.min(turn.x, turn.u) - 3, Math.max(turn.x, turn.u) + 3];
    const isFree = (/** @type {{source: string, from: number, to: number}[]} */ lane) => lane.every((one) => one.source === turn.from.source || one.to < from || to < one.from);
    let lane = lanes.findIndex(isFree);
    if (lane < 0) lane = lanes.push([]) - 1;
    lanes[lane].push({ source: turn.from.source, from, to });
    turn.lane = lane;
  }
  return turns;
}

/** Where an edge comes into a box: straight from above where it is the only one, else in its order among them. @param {Place} from @param {Place} to @param {number} at @param {number} count */
function entry(from, to, at, count) {
  if (count === 1) return to.box && Math.abs(from.x - to.x) < to.width / 2 - EDGE ? from.x : to.x;
  return Math.round(to.x - to.width / 2 + (to.width * (at + 1)) / (count + 1));
}

/**
 * A piece goes to every edge that runs through it: those of the same box, to the boxes below the place that it leads to.
 * @param {Map<string, string>} paths @param {Place} from @param {Place} to @param {string} start @param {string} piece
 */
function extend(paths, from, to, start, piece) {
  for (const name of readersOf(to)) {
    const end = endOf(from.source, name);
    const before = paths.get(end);
    paths.set(end, before === undefined ? `${start}${piece}` : `${before} ${piece}`);
  }
}

/** The boxes that a place leads to. @param {Place} place @returns {string[]} */
function readersOf({ box, name, below }) {
  return box ? [name] : below.flatMap(readersOf);
}
