// @ts-check
/**
 * The explorer: linked panes over one recording, and a stepper that goes both ways.
 *
 * Which idea lives here: the page holds one selection, the item that was chosen, and one position, the state that is
 * shown. Every row of every pane is known under its link key, so lighting up what belongs together is looking up keys,
 * in whatever pane they stand. All of it happens in the browser: no kernel, no network.
 *
 * In:  the data of views/explorer_data.py, whose functions say what each part holds.
 * Out: `mount(element, data)`; the default export is what anywidget asks for. The same file serves the notebook and
 *      the single HTML file.
 *
 * Every text gets into the page through textContent, so nothing of a recording can become markup.
 */

const SCHEMA = 1;

/** Every so many states the whole stack and locals are kept, so that a jump folds few differences. */
const KEEP_EACH = 64;

/**
 * @typedef {{stack: number[], locals: Map<string, number>}} Hand  a function's stack and locals, as value numbers
 * @typedef {{offset: number, op: string, arg?: string, line?: number, mark?: number, role?: string, origin?: number,
 *   steps?: string[][], span?: number[]}} Row
 * @typedef {{name: string, file: string, first: number, lines: string[], rows: Row[]}} Code
 * @typedef {{kind?: string, offset: number, text: string, attempt?: number, code?: number, new?: number,
 *   calls?: number[], keep?: number, push?: number[], set?: [string, number][], made?: string[], nodes?: string[],
 *   guards?: string[], item?: string}} State
 */

/**
 * An element with a class, text and children.
 * @param {string} tag
 * @param {string} [name] its class
 * @param {string} [text]
 * @param {...Node} children
 * @returns {HTMLElement}
 */
function make(tag, name = "", text = "", ...children) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  if (text) made.textContent = text;
  made.append(...children);
  return made;
}

/**
 * A table with its header row; a header that is empty is spoken as what it stands for.
 * @param {string} label
 * @param {string[]} header
 * @returns {{table: HTMLElement, body: HTMLElement}}
 */
function makeTable(label, header) {
  const row = make("tr");
  for (const name of header) {
    const cell = make("th", "", name);
    cell.setAttribute("scope", "col");
    row.append(cell);
  }
  const body = make("tbody");
  const table = make("table", "", "", make("thead", "", "", row), body);
  table.setAttribute("aria-label", label);
  return { table, body };
}

/** The link table: which items, instructions and spans belong together. The same answers as `Links.related`. */
export class Links {
  /** @param {any} data */
  constructor(data) {
    this.items = new Map(Object.entries(data.links.items));
    /** @type {string[][]} */
    this.places = data.links.places;
    /** @type {string[][]} the items that come from each place */
    this.itemsAt = this.places.map(() => []);
    for (const [item, places] of this.items) for (const place of places) this.itemsAt[place].push(item);
    /** @type {Map<string, number[]>} instruction or span -> places */
    this.placesOf = new Map();
    this.places.forEach((keys, place) => keys.forEach((key) => push(this.placesOf, key, place)));
    /** @type {Map<string, string[]>} instruction -> its span, span -> its instructions */
    this.near = new Map();
    for (const [id, code] of Object.entries(data.codes)) {
      for (const row of code.rows) {
        if (!row.span) continue;
        const span = spanKey(id, row);
        push(this.near, `instruction:${id}:${row.offset}`, span);
        push(this.near, span, `instruction:${id}:${row.offset}`);
      }
    }
  }

  /**
   * @param {string} item
   * @returns {Set<string>} all that belongs to it, itself left out
   */
  related(item) {
    const found = new Set(this.near.get(item) ?? []);
    const own = this.items.get(item);
    for (const place of own ?? this.placesOf.get(item) ?? []) {
      for (const other of this.itemsAt[place]) found.add(other);
      if (own) for (const key of this.places[place]) found.add(key);
    }
    found.delete(item);
    return found;
  }
}

/**
 * @template T
 * @param {Map<string, T[]>} map
 * @param {string} key
 * @param {T} value
 */
function push(map, key, value) {
  const there = map.get(key);
  if (there) there.push(value);
  else map.set(key, [value]);
}

/**
 * @param {string | number} code
 * @param {Row} row
 * @returns {string} the key of its span: links name columns in bytes
 */
function spanKey(code, row) {
  const [line, , endLine, , column, endColumn] = row.span ?? [];
  return `span:${code}:${line}:${column}:${endLine}:${endColumn}`;
}

/** The states of one frame, folded from differences; `hands(n)` is what each function at hand holds after state n. */
class Fold {
  /** @param {State[]} states */
  constructor(states) {
    this.states = states;
    /** @type {Map<number, Map<string, Hand>>} */
    this.kept = new Map();
  }

  /** @param {number} number @returns {Map<string, Hand>} */
  hands(number) {
    if (number < 0) return new Map();
    let start = number;
    while (start >= 0 && !this.kept.has(start)) start -= 1;
    let hands = new Map(this.kept.get(start) ?? []);
    for (let at = start + 1; at <= number; at += 1) {
      this.apply(this.states[at], hands);
      if (at % KEEP_EACH === 0) this.kept.set(at, new Map(hands));
    }
    return hands;
  }

  /** @param {State} state @param {Map<string, Hand>} hands */
  apply(state, hands) {
    const before = state.new ? undefined : hands.get(handOf(state));
    const locals = new Map(before?.locals ?? []);
    for (const [name, value] of state.set ?? []) {
      if (value < 0) locals.delete(name);
      else locals.set(name, value);
    }
    const stack = [...(before?.stack ?? []).slice(0, state.keep ?? 0), ...(state.push ?? [])];
    hands.set(handOf(state), { stack, locals });
  }
}

/** @param {State} state @returns {string} which function is at hand */
function handOf(state) {
  return `${state.attempt ?? 0}:${(state.calls ?? []).join(",")}`;
}

/** One explorer on the page. */
class Explorer {
  /** @param {HTMLElement} host @param {any} data */
  constructor(host, data) {
    this.data = data;
    this.links = new Links(data);
    this.frame = data.frames[0];
    this.position = 0;
    this.chosen = "";
    /** @type {Set<Element>} */
    this.painted = new Set();
    /** @type {Map<string, Element[]>} key -> rows of the frame's panes */
    this.rows = new Map();
    /** @type {Map<string, Element[]>} key -> rows that this step shows: stack and locals */
    this.liveRows = new Map();
    /** @type {Map<string, {source: HTMLElement, listing: HTMLElement, rows: Map<string, Element[]>}>} */
    this.codes = new Map();
    /** @type {Map<Element, string>} */
    this.keys = new Map();
    this.folds = new Map(data.frames.map((/** @type {any} */ frame) => [frame.id, new Fold(frame.states)]));
    this.root = make("div", "dynexplore");
    this.root.tabIndex = -1; // a click anywhere in it gives it the keys
    this.root.setAttribute("role", "region");
    this.root.setAttribute("aria-label", data.summary);
    this.root.addEventListener("keydown", (event) => this.onKey(event));
    this.root.addEventListener("click", (event) => this.onClick(event));
    this.build();
    host.append(this.root);
    if (this.frame) this.show(this.frame, this.firstStep(this.frame));
  }

  // -- building ------------------------------------------------------------------------------------------------------

  build() {
    const { data, root } = this;
    root.append(make("div", "dynx-head", "", make("strong", "", data.summary), this.buildSearch()));
    if (!this.frame) {
      root.append(make("pre", "dynx-note", data.explanation));
      return;
    }
    this.panes = {
      frames: this.pane("frames", "Frames"),
      source: this.pane("source", "Source"),
      original: this.pane("original", "Original bytecode"),
      modified: this.pane("modified", "Modified bytecode"),
      state: this.pane("state", "Stack and locals"),
      graph: this.pane("graph", "FX graph"),
      guards: this.pane("guards", "Guards"),
      breaks: this.pane("breaks", "Graph breaks"),
      calls: this.pane("calls", "Calls and cache entries"),
    };
    root.append(this.buildStepper(), make("div", "dynx-panes", "", ...Object.values(this.panes).map((pane) => pane.section)));
    this.buildFrames();
    const { table, body } = makeTable("Calls and cache entries", data.calls.header);
    for (const cells of data.calls.rows) body.append(make("tr", "", "", ...cells.map((/** @type {string} */ c) => make("td", "", c))));
    this.panes.calls.body.append(table);
    if (data.cut) root.append(make("p", "dynx-note", `The recording was ${data.cut}.`));
  }

  /** @param {string} name @param {string} title */
  pane(name, title) {
    const body = make("div", "dynx-body");
    const heading = make("h3", "", title);
    body.tabIndex = 0; // what scrolls can be scrolled by keyboard
    body.setAttribute("role", "group");
    body.setAttribute("aria-label", title);
    return { section: make("section", `dynx-pane dynx-${name}`, "", heading, body), heading, body };
  }

  buildStepper() {
    const bar = make("div", "dynx-stepper");
    bar.setAttribute("role", "toolbar");
    bar.setAttribute("aria-label", "Steps");
    /** @type {[string, string, () => void][]} */
    const buttons = [
      ["|◀", "First step (Home)", () => this.go(0)],
      ["◀", "Step back (left arrow)", () => this.go(this.position - 1)],
      ["▶", "Step forward (right arrow)", () => this.go(this.position + 1)],
      ["▶|", "Last step (End)", () => this.go(Infinity)],
    ];
    for (const [sign, label, act] of buttons) {
      const button = make("button", "", sign);
      button.setAttribute("type", "button");
      button.setAttribute("aria-label", label);
      button.title = label;
      button.addEventListener("click", act);
      bar.append(button);
    }
    this.slider = /** @type {HTMLInputElement} */ (make("input", "dynx-slider"));
    this.slider.type = "range";
    this.slider.min = "0";
    this.slider.setAttribute("aria-label", "Step");
    this.slider.addEventListener("input", () => this.go(Number(this.slider?.value)));
    this.status = make("span", "dynx-status");
    this.status.setAttribute("role", "status");
    this.says = make("div", "dynx-says");
    bar.append(this.slider, this.status, this.says);
    return bar;
  }

  buildSearch() {
    this.search = /** @type {HTMLInputElement} */ (make("input", "dynx-search"));
    this.search.type = "search";
    this.search.placeholder = "Search all panes";
    this.search.setAttribute("aria-label", "Search all panes");
    this.search.addEventListener("input", () => this.find());
    this.hits = make("span", "dynx-hits");
    this.hits.setAttribute("role", "status");
    /** @type {HTMLElement[]} */
    this.found = [];
    this.foundAt = -1;
    return make("label", "dynx-find", "", this.search, this.hits);
  }

  buildFrames() {
    const lists = new Map();
    const top = make("ul");
    for (const frame of this.data.frames) {
      const button = make("button", "dynx-frame", `frame ${frame.id}: ${frame.name}`);
      button.setAttribute("type", "button");
      button.addEventListener("click", () => this.show(frame, this.firstStep(frame)));
      const calls = frame.graphs.reduce((/** @type {number} */ sum, /** @type {any} */ graph) => sum + graph.calls, 0);
      const facts = [frame.outcome, `${calls} ops`, `${frame.guards.length} guards`];
      if (frame.breaks.length) facts.push(`broke: ${frame.breaks.map((/** @type {any} */ b) => b.title.split(":")[0]).join(", ")}`);
      if (frame.skipped) facts.push(`plain Python: ${frame.skipped}`);
      const inner = make("ul");
      this.addCallees(frame, inner);
      lists.set(frame.id, inner);
      push(this.rows, `frame:${frame.id}`, button);
      const item = make("li", "", "", button, make("span", "dynx-facts", ` ${facts.filter(Boolean).join(" · ")}`), inner);
      (lists.get(frame.parent) ?? top).append(item);
    }
    this.panes?.frames.body.append(top);
  }

  /** The inlined callees of a frame's last attempt. @param {any} frame @param {HTMLElement} list */
  addCallees(frame, list) {
    const last = lastAttempt(frame);
    frame.states.forEach((/** @type {State} */ state, /** @type {number} */ at) => {
      if (state.kind !== "InlineEntered" || state.attempt !== last) return;
      const button = make("button", "dynx-frame", state.text);
      button.setAttribute("type", "button");
      button.addEventListener("click", () => this.show(frame, at));
      const item = make("li", "", "", button);
      item.style.marginLeft = `${((state.calls?.length ?? 1) - 1) * 12}px`;
      list.append(item);
    });
  }

  /**
   * A row that can be chosen, under its key.
   * @param {string} key
   * @param {string[]} cells
   * @param {Map<string, Element[]>} [into]
   */
  row(key, cells, into = this.rows) {
    const row = make("tr", "dynx-row");
    for (const text of cells) row.append(make("td", "", text));
    return this.choosable(row, key, into);
  }

  /** @template {HTMLElement} T @param {T} element @param {string} key @param {Map<string, Element[]>} into @returns {T} */
  choosable(element, key, into) {
    element.tabIndex = -1; // arrow keys move between the rows of a pane
    this.keys.set(element, key);
    push(into, key, element);
    return element;
  }

  // -- panes of a frame ----------------------------------------------------------------------------------------------

  fillFrame() {
    const { panes, frame } = this;
    if (!panes) return;
    const frames = [...this.rows].filter(([key]) => key.startsWith("frame:"));
    this.rows = new Map(frames);
    for (const [key, [button]] of frames) {
      if (key === `frame:${frame.id}`) button.setAttribute("aria-current", "true");
      else button.removeAttribute("aria-current");
    }
    this.codes.clear();
    this.keys.clear();
    panes.modified.body.replaceChildren(this.emitted(frame.modified, "Modified bytecode"));
    panes.graph.body.replaceChildren(...frame.graphs.map((/** @type {any} */ graph) => this.graph(graph)));
    if (!frame.graphs.length) panes.graph.body.append(make("p", "dynx-facts", "no graph"));
    const { table, body } = makeTable("Guards", ["#", "source", "kind", "expected", "check", "because"]);
    for (const guard of frame.guards) body.append(this.row(guard.key, guard.cells));
    panes.guards.body.replaceChildren(table);
    panes.guards.heading.textContent = `Guards (${frame.guards.length})`;
    panes.breaks.body.replaceChildren(...frame.breaks.map((/** @type {any} */ b) => this.breakBlock(b)));
    panes.breaks.body.append(...frame.resume.map((/** @type {any} */ made) => this.resume(made)));
    if (!panes.breaks.body.children.length) panes.breaks.body.append(make("p", "dynx-facts", "no graph break"));
    if (this.slider) this.slider.max = String(frame.states.length - 1);
  }

  /** @param {Row[] | null} rows @param {string} label */
  emitted(rows, label) {
    if (!rows) return make("p", "dynx-facts", "the frame was not compiled");
    const { table, body } = makeTable(label, ["offset", "opcode", "argument", "role", "from"]);
    for (const row of rows) {
      const cells = [String(row.offset), row.op, row.arg ?? "", row.role ?? "", (row.origin ?? -1) >= 0 ? String(row.origin) : ""];
      body.append(this.row(`modified:${this.frame.id}:${row.offset}`, cells));
    }
    return table;
  }

  /** @param {any} graph */
  graph(graph) {
    const { table, body } = makeTable(graph.name, ["opcode", "name", "target", "args", "kwargs", "result", "module", "line"]);
    for (const node of graph.nodes) body.append(this.row(node.key, [...node.cells, node.line ? String(node.line) : ""]));
    return make("div", "", "", make("p", "dynx-facts", `${graph.name}: ${graph.calls} operators, backend ${graph.backend}`), table);
  }

  /** @param {any} broke */
  breakBlock(broke) {
    const block = this.choosable(make("div", "dynx-row dynx-block", "", make("pre", "", broke.report)), broke.key, this.rows);
    const { table, body } = makeTable("Stack and locals at the break", ["where", "value"]);
    broke.stack.forEach((/** @type {number} */ value, /** @type {number} */ slot) => body.append(plainRow(`stack ${slot}`, this.value(value))));
    for (const [name, value] of broke.locals) body.append(plainRow(name, this.value(value)));
    block.append(table);
    return block;
  }

  /** @param {any} made */
  resume(made) {
    const title = `${made.name}(${made.parameters.join(", ")}) goes on at offset ${made.offset}`;
    const { table, body } = makeTable(made.name, ["offset", "opcode", "argument", "role", "from"]);
    for (const row of made.rows) {
      body.append(plainRow(String(row.offset), row.op, row.arg ?? "", row.role, row.origin >= 0 ? String(row.origin) : ""));
    }
    const block = make("div", "dynx-row dynx-block", "", make("details", "", "", make("summary", "", title), table));
    return this.choosable(block, made.key, this.rows);
  }

  /** Source and listing of a code object, made once per frame. @param {number} id */
  code(id) {
    const there = this.codes.get(String(id));
    if (there) return there;
    const code = this.data.codes[id];
    /** @type {Map<string, Element[]>} */
    const rows = new Map();
    const made = { source: this.source(String(id), code, rows), listing: this.listing(String(id), code, rows), rows };
    this.codes.set(String(id), made);
    return made;
  }

  /** @param {string} id @param {Code} code @param {Map<string, Element[]>} rows */
  listing(id, code, rows) {
    const { table, body } = makeTable("Original bytecode", ["line", "offset", "opcode", "argument", "canonical"]);
    let line = 0;
    for (const row of code.rows) {
      const number = row.line && row.line !== line ? String(row.line) : "";
      line = row.line || line;
      const steps = row.steps ?? [[row.op, row.arg ?? ""]];
      const same = steps.length === 1 && steps[0][0] === row.op;
      const canonical = same ? "=" : steps.map(([op, arg]) => `${op} ${arg}`.trim()).join("; ") || "-";
      const cells = [number, `${row.mark ? "»" : ""}${row.offset}`, row.op, row.arg ?? "", canonical];
      const made = this.row(`instruction:${id}:${row.offset}`, cells, rows);
      made.title = steps.map(([op]) => this.help(op)).filter(Boolean).join("\n");
      body.append(made);
    }
    return table;
  }

  /** @param {string} op @returns {string} */
  help(op) {
    const [effect, sentence] = this.data.help[op] ?? ["", ""];
    return sentence ? `${op} (${effect}): ${sentence}` : "";
  }

  /** The lines of a function, cut where spans begin and end. @param {string} id @param {Code} code @param {Map<string, Element[]>} rows */
  source(id, code, rows) {
    const box = make("div", "dynx-lines");
    if (!code.lines.length) box.append(make("p", "dynx-facts", "no source"));
    /** @type {Map<string, number[]>} */
    const spans = new Map();
    for (const row of code.rows) if (row.span && row.span[1] >= 0) spans.set(spanKey(id, row), row.span);
    /** @type {Map<number, [string, number, number][]>} line -> (key, from, to) */
    const onLine = new Map();
    for (const [key, [line, column, endLine, endColumn]] of spans) {
      for (let at = line; at <= Math.min(endLine, code.first + code.lines.length - 1); at += 1) {
        const part = /** @type {[string, number, number]} */ ([key, at === line ? column : 0, at === endLine ? endColumn : Infinity]);
        if (part[2] > part[1]) onLine.set(at, [...(onLine.get(at) ?? []), part]);
      }
    }
    code.lines.forEach((text, index) => {
      const number = make("span", "dynx-number", String(code.first + index));
      box.append(make("div", "dynx-line", "", number, ...this.segments([...text], onLine.get(code.first + index) ?? [], rows)));
    });
    return box;
  }

  /** @param {string[]} letters @param {[string, number, number][]} parts @param {Map<string, Element[]>} rows */
  segments(letters, parts, rows) {
    const cuts = new Set([0, letters.length]);
    for (const [, from, to] of parts) cuts.add(Math.min(from, letters.length)).add(Math.min(to, letters.length));
    const ends = [...cuts].sort((a, b) => a - b);
    return ends.slice(1).map((end, at) => {
      const begin = ends[at];
      const over = parts.filter(([, from, to]) => from <= begin && end <= to).sort((a, b) => a[2] - a[1] - (b[2] - b[1]));
      const piece = make("span", "", letters.slice(begin, end).join(""));
      if (over.length) {
        piece.className = "dynx-span";
        this.keys.set(piece, over[0][0]);
      }
      for (const [key] of over) push(rows, key, piece);
      return piece;
    });
  }

  // -- going to a state ----------------------------------------------------------------------------------------------

  /** @param {any} frame @returns {number} the first instruction of its last attempt */
  firstStep(frame) {
    const last = lastAttempt(frame);
    const at = frame.states.findIndex((/** @type {State} */ s) => !s.kind && (s.attempt ?? 0) === last);
    return Math.max(at, 0);
  }

  /** @param {any} frame @param {number} position */
  show(frame, position) {
    const another = frame !== this.frame || !this.status?.textContent;
    this.frame = frame;
    if (another) this.keepFocus(() => this.fillFrame());
    this.go(position);
    if (another) this.find();
  }

  /** @param {number} position @param {string} [item] what is chosen, when it is not the step itself */
  go(position, item) {
    const { states } = this.frame;
    this.position = Math.max(0, Math.min(position, states.length - 1));
    this.chosen = item ?? states[this.position]?.item ?? "";
    this.keepFocus(() => this.paint());
  }

  /** A row that had the focus may be gone after `act`: keys must not go to the notebook then. @param {() => void} act */
  keepFocus(act) {
    const focused = document.activeElement;
    const inside = focused && this.root.contains(focused);
    act();
    if (inside && !this.root.contains(focused)) this.root.focus({ preventScroll: true });
  }

  /** Choose an item: light up what belongs to it, and go to the step that made it. @param {string} item */
  choose(item) {
    const steps = this.stepsOf(item);
    const later = steps.find((step) => step > this.position);
    const again = this.chosen === item && steps.includes(this.position);
    this.go(again ? (later ?? steps[0]) : (steps[0] ?? this.position), item);
  }

  /** The states that an item belongs to, those of the last attempt when it has some. @param {string} item @returns {number[]} */
  stepsOf(item) {
    const states = /** @type {State[]} */ (this.frame.states);
    const made = states.findLastIndex((s) => s.nodes?.includes(item) || s.guards?.includes(item) || s.item === item);
    if (made >= 0) return [made];
    const related = this.links.related(item);
    const all = states.flatMap((state, at) => (state.item && related.has(state.item) ? [at] : []));
    const last = all.filter((at) => (states[at].attempt ?? 0) === lastAttempt(this.frame));
    return last.length ? last : all;
  }

  paint() {
    const { frame, position, panes } = this;
    const state = /** @type {State} */ (frame.states[position]);
    if (!panes || !state) return;
    const code = this.code(state.code ?? frame.code);
    if (code.source.parentNode !== panes.source.body) {
      panes.source.body.replaceChildren(code.source);
      panes.original.body.replaceChildren(code.listing);
      const { name, file, first } = this.data.codes[state.code ?? frame.code];
      panes.source.heading.textContent = `Source: ${name}, ${file} line ${first}`;
    }
    this.paintState(state);
    if (this.slider) this.slider.value = String(position);
    const attempt = state.attempt ? `, attempt ${state.attempt}` : "";
    if (this.status) this.status.textContent = `${position + 1} of ${frame.states.length}${attempt}: ${state.text}`;
    this.paintSays(state);
    this.light(state, code.rows);
  }

  /** @param {State} state */
  paintSays(state) {
    const help = this.help(state.text.split(" ")[0]);
    const lines = (state.made ?? []).map((text) => make("li", "", text));
    this.says?.replaceChildren(make("p", "dynx-help", help), make("ul", "dynx-made", "", ...lines));
  }

  /** @param {State} state @param {Map<string, Element[]>} codeRows */
  light(state, codeRows) {
    for (const element of this.painted) {
      element.classList.remove("dynx-lit", "dynx-chosen", "dynx-now");
      if (element.tagName === "TR") element.removeAttribute("aria-current");
    }
    this.painted.clear();
    /** @type {(key: string, name: string) => void} */
    const mark = (key, name) => {
      for (const rows of [this.rows, codeRows, this.liveRows]) {
        for (const element of rows.get(key) ?? []) {
          element.classList.add(name);
          this.painted.add(element);
        }
      }
    };
    for (const key of this.chosen ? this.links.related(this.chosen) : []) mark(key, "dynx-lit");
    mark(this.chosen, "dynx-chosen");
    mark(`instruction:${state.code}:${state.offset}`, "dynx-now");
    for (const element of codeRows.get(`instruction:${state.code}:${state.offset}`) ?? []) element.setAttribute("aria-current", "step");
    this.scroll();
  }

  /** Bring what is lit in each pane into view, without moving the page. */
  scroll() {
    /** @type {Map<Element, Element>} pane -> what to show of it: the first that is lit, better what was chosen */
    const targets = new Map();
    for (const element of this.painted) {
      const body = element.closest(".dynx-body");
      if (body && (!targets.has(body) || !element.classList.contains("dynx-lit"))) targets.set(body, element);
    }
    for (const [body, target] of targets) {
      const box = body.getBoundingClientRect();
      const at = target.getBoundingClientRect();
      if (at.top < box.top + 20 || at.bottom > box.bottom) body.scrollTop += at.top - box.top - box.height / 3;
    }
  }

  // -- stack and locals ----------------------------------------------------------------------------------------------

  /** @param {State} state */
  paintState(state) {
    const fold = this.folds.get(this.frame.id);
    const before = state.new ? undefined : fold.hands(this.position - 1).get(handOf(state));
    const after = fold.hands(this.position).get(handOf(state)) ?? { stack: [], locals: new Map() };
    for (const rows of this.liveRows.values()) for (const row of rows) this.keys.delete(row);
    this.liveRows = new Map();
    const keep = state.keep ?? 0;
    const stack = makeTable("Symbolic stack, top first", ["", "slot", "value"]);
    after.stack.forEach((/** @type {number} */ value, /** @type {number} */ slot) => {
      stack.body.prepend(this.valueRow(value, state, [slot >= keep ? "+" : "", String(slot)]));
    });
    for (const value of before?.stack.slice(keep) ?? []) stack.body.prepend(this.valueRow(value, state, ["−", "popped"]));
    const names = makeTable("Locals", ["", "local", "value"]);
    for (const [name, value] of after.locals) {
      const old = before?.locals.get(name);
      const sign = !before || old === value ? "" : old === undefined ? "+" : "~";
      names.body.append(this.valueRow(value, state, [sign, name]));
    }
    for (const [name, value] of before?.locals ?? []) {
      if (!after.locals.has(name)) names.body.append(this.valueRow(value, state, ["−", name]));
    }
    const nothing = make("p", "dynx-facts", "the stack is empty");
    this.panes?.state.body.replaceChildren(stack.body.children.length ? stack.table : nothing, names.table);
  }

  /** @param {number} number @param {State} state @param {string[]} cells a sign of what happened, and where it is */
  valueRow(number, state, cells) {
    const own = `value:${this.frame.id}:${state.attempt ?? 0}:${this.data.values[number][0]}`;
    const key = this.links.items.has(own) ? own : `value:${this.frame.id}:0:${this.data.values[number][0]}`;
    const row = this.row(key, [...cells, this.value(number)], this.liveRows);
    row.title = this.data.values[number][1];
    if (cells[0]) row.classList.add({ "+": "dynx-new", "~": "dynx-new", "−": "dynx-gone" }[cells[0]] ?? "");
    return row;
  }

  /** @param {number} number @returns {string} */
  value(number) {
    const [, , text, source, node] = this.data.values[number];
    const origin = node || source;
    return origin && origin !== text ? `${origin}: ${text}` : text;
  }

  // -- search --------------------------------------------------------------------------------------------------------

  find() {
    for (const row of this.found ?? []) row.classList.remove("dynx-found");
    const wanted = this.search?.value.toLowerCase() ?? "";
    const rows = wanted ? [...this.root.querySelectorAll(".dynx-panes tr, .dynx-line, .dynx-block, .dynx-frame")] : [];
    this.found = /** @type {HTMLElement[]} */ (
      rows.filter((row) => !row.closest("thead") && row.textContent?.toLowerCase().includes(wanted))
    );
    for (const row of this.found) row.classList.add("dynx-found");
    this.foundAt = -1;
    if (this.hits) this.hits.textContent = wanted ? `${this.found.length} found` : "";
  }

  nextFound() {
    if (!this.found?.length) return;
    this.foundAt = ((this.foundAt ?? -1) + 1) % this.found.length;
    const row = this.found[this.foundAt];
    const key = this.keys.get(row);
    if (key) this.choose(key);
    row.scrollIntoView({ block: "nearest" });
    if (this.hits) this.hits.textContent = `${this.foundAt + 1} of ${this.found.length}`;
  }

  // -- events --------------------------------------------------------------------------------------------------------

  /** @param {MouseEvent} event */
  onClick(event) {
    const key = this.keyAt(event.target);
    if (key) this.choose(key);
  }

  /** @param {EventTarget | null} target @returns {string} the key of the row around it */
  keyAt(target) {
    for (let at = /** @type {Element | null} */ (target); at && at !== this.root; at = at.parentElement) {
      const key = this.keys.get(at);
      if (key) return key;
      if (at.tagName === "SUMMARY" || at.tagName === "BUTTON") return "";
    }
    return "";
  }

  /** Keys that are the page's own (Ctrl, Cmd, Shift+Enter) pass; no other leaves the explorer. @param {KeyboardEvent} event */
  onKey(event) {
    if (event.ctrlKey || event.metaKey || (event.shiftKey && event.key === "Enter")) return;
    event.stopPropagation();
    if (event.altKey || event.key === "Tab") return;
    const field = event.target instanceof HTMLInputElement ? event.target : null;
    if (field === this.search) {
      if (event.key === "Enter") this.nextFound();
      return;
    }
    if (field === this.slider || !this.frame) return; // the slider has arrow keys of its own
    /** @type {Record<string, () => void>} */
    const acts = {
      ArrowLeft: () => this.go(this.position - 1),
      ArrowRight: () => this.go(this.position + 1),
      Home: () => this.go(0),
      End: () => this.go(Infinity),
      ArrowUp: () => this.move(event.target, -1),
      ArrowDown: () => this.move(event.target, 1),
    };
    const act = acts[event.key];
    if (act) {
      act();
      event.preventDefault();
    } else if ((event.key === "Enter" || event.key === " ") && this.keyAt(event.target)) {
      this.choose(this.keyAt(event.target));
      event.preventDefault();
    }
  }

  /** Move the focus to the row above or below in the same pane. @param {EventTarget | null} target @param {number} by */
  move(target, by) {
    const pane = /** @type {Element | null} */ (target)?.closest(".dynx-body");
    if (!pane) return;
    const rows = /** @type {HTMLElement[]} */ ([...pane.querySelectorAll(".dynx-row, .dynx-frame")]);
    const at = rows.indexOf(/** @type {HTMLElement} */ (document.activeElement ?? this.root.getRootNode()));
    rows[Math.max(0, Math.min(rows.length - 1, at < 0 ? 0 : at + by))]?.focus();
  }
}

/** @param {...string} cells */
function plainRow(...cells) {
  return make("tr", "", "", ...cells.map((text) => make("td", "", text)));
}

/** @param {any} frame @returns {number} */
function lastAttempt(frame) {
  return Math.max(0, ...frame.states.slice(-1).map((/** @type {State} */ s) => s.attempt ?? 0), ...attempts(frame));
}

/** @param {any} frame @returns {number[]} */
function attempts(frame) {
  return frame.states.filter((/** @type {State} */ s) => s.kind === "AttemptStarted").map((/** @type {State} */ s) => s.attempt ?? 0);
}

/**
 * Show the explorer of `data` in `host`.
 * @param {HTMLElement} host
 * @param {any} data
 */
export function mount(host, data) {
  if (data?.schema !== SCHEMA) {
    host.append(make("p", "dynexplore", "This recording was made by another version of dynexplore."));
    return null;
  }
  return new Explorer(host, data);
}

export default {
  /** @param {{model: {get(name: string): string}, el: HTMLElement}} context */
  render({ model, el }) {
    mount(el, JSON.parse(model.get("data")));
  },
};
