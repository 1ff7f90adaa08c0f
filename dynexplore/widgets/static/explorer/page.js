// @ts-check
/**
 * The explorer: five views of one recording in one frame, which is one screen high.
 *
 * Which idea lives here: the overview answers first what it cost and what to fix; the story shows where (the source, marked), what is
 * going on (stack, locals, the graph), when (the strip of time). The page holds one selection, the item that was chosen, and one
 * position, the state that is shown. Every row of every pane is known under its link key, so lighting up what belongs together is looking up keys,
 * in whatever pane they stand. All of it happens in the browser; the kernel, where there is one, is asked only by panes
 * that need a live program (`live`).
 */

import { Bands } from "./bands.js";
import { make, makeButton, prose } from "./dom.js";
import { isInEditor } from "./editing.js";
import { tellWhole } from "./fitted.js";
import { States } from "./fold.js";
import { keepKeys } from "./keptkeys.js";
import { FAILED } from "./kinds.js";
import { Links } from "./links.js";
import { Order } from "./order.js";
import { isThePages } from "./pagekeys.js";
import { PANES } from "./panes/index.js";
import { copyButton } from "./copying.js";
import { follow } from "./controls/place.js";
import { meaningOf } from "./glossary.js";
import { Rest } from "./rest.js";
import { keyOf } from "./rows.js";
import { Search } from "./search.js";
import { restore, splitters } from "./splitter.js";
import { Stepper } from "./stepper.js";
import { Views } from "./views.js";
import { CONTROLS } from "./controls/index.js";

/**
 * @typedef {import("./editing.js").Editing} Editing
 * @typedef {import("./types.js").Frame} Frame
 * @typedef {import("./types.js").View} View
 */

/** The file of the engine's wrappers, as views/names.py has it. */
const WRAPPER = "<dynexplore entry>";

/** From so many pixels on the story has three columns, and from so many two; below that, one. */
const [WIDE, MIDDLE] = [1280, 880];

/** The views in which steps are seen: the arrows step there. */
const STEPPED = ["story", "graph", "recompiles"];

/** The keys that the foot of each view names. @type {Record<string, [string, string][]>} */
const FEET = {
  overview: [["↑ ↓", "choose a row"], ["Enter", "open its story"], ["c", "copy the change"], ["1 to 5", "switch views"]],
  story: [["← →", "step"], ["l i k", "by line, instruction, call"], ["b", "next graph break"], ["m", "where it was created"]],
  graph: [["/", "search"], ["f", "fit"], ["x", "fold or open"], ["← →", "step"], ["1 to 5", "switch views"]],
  recompiles: [["↑ ↓", "call"], ["m", "next miss"], ["c", "copy the change"], ["1 to 5", "switch views"]],
  compare: [["↑ ↓", "function"], ["n", "next difference"], ["p", "previous"], ["s", "swap A and B"], ["1 to 5", "switch views"]],
};

/** What a page without a compilation can do. @type {[string, string][]} */
const SWITCH = [["1 to 5", "switch views"]];

/** One explorer on the page. */
export class Explorer {
  /**
   * @param {HTMLElement} host
   * @param {import("./types.js").Data} data
   * @param {import("./live.js").Live | null} [live]
   * @param {boolean} [ownsAddress] whether the page's address may name the step at hand: the page is nothing else
   * @param {Editing | null} [editing] the source being edited, where there is a kernel
   */
  constructor(host, data, live = null, ownsAddress = false, editing = null) {
    this.host = host;
    this.data = data;
    this.live = live;
    this.ownsAddress = ownsAddress;
    this.editing = editing;
    this.links = new Links(data);
    /** @type {Frame[]} the frames that stepping goes through, one after the other */
    this.walk = data.frames.filter(({ hidden }) => !hidden);
    this.order = new Order(this.walk);
    this.frame = this.walk[0];
    this.position = 0;
    this.chosen = "";
    /** @type {[number, number, string?] | null} frame, position and item to which somebody wanted to go, and that are not told yet */
    this.wanted = null;
    /** @type {Rest | undefined} of a first view: what is said of all that follows */
    this.rest = undefined;
    /** @type {((files: File[]) => Promise<void>) | undefined} compares this recording with the one in a file (panes/compare.js) */
    this.compareWith = undefined;
    /** @type {(() => void) | null} what is to follow each step: another explorer beside this one */
    this.follower = null;
    /** @type {Map<Frame, States>} */
    this.folds = new Map();
    /** @type {Map<number, Map<number, number>>} code -> offset -> line */
    this.lines = new Map();
    /** @type {View[]} panes, controls and stepper */
    this.views = [];
    /** @type {Map<View, HTMLElement>} the panes among them, and where they stand */
    this.sections = new Map();
    /** @type {Map<View, Frame>} the frame that each of them shows */
    this.shown = new Map();
    this.root = make("div", "dynexplore");
    this.root.tabIndex = -1; // a click anywhere in it gives it the keys
    this.root.setAttribute("role", "region");
    this.root.setAttribute("aria-label", data.summary);
    keepKeys();
    this.root.addEventListener("keydown", (event) => this.onKey(event));
    this.root.addEventListener("click", (event) => this.onClick(event));
    tellWhole(this.root);
    this.bands = new Bands(this);
    if (live) live.frame = this.frame?.id;
    this.search = new Search(this);
    this.stepper = new Stepper(this);
    this.hints = make("div", "dynx-hints");
    /** @type {((width: string) => void)[]} what is to know the class of widths */
    this.ofWidth = [];
    this.tabs = new Views(this);
    this.said = make("div", "dynx-said");
    this.said.setAttribute("role", "status");
    editing?.follow(this);
    host.append(this.root); // first, so that what is built can be measured
    this.build();
    // a notebook puts it into the page when it is built: until then nothing can be measured, and what is painted is painted twice
    if (this.frame && host.isConnected && !(ownsAddress && follow(this))) this.open();
    this.keepInView();
  }

  /** What is at hand stays in view when the explorer gets its size, which in a notebook is after it was built, or another one. */
  keepInView() {
    let height = this.root.clientHeight;
    this.measure();
    let isNew = height > 0; // the first size that is told is the one that it was built in
    new ResizeObserver(() => {
      const { clientHeight } = this.root;
      this.measure();
      if (clientHeight && this.frame && !this.shown.size) this.open();
      else if (clientHeight && clientHeight !== height && !isNew && this.shown.size) this.paint();
      [height, isNew] = [clientHeight, false];
    }).observe(this.root);
  }

  /** Which class of widths this is: how many columns there is room for. */
  measure() {
    const { clientWidth } = this.root;
    const width = !clientWidth || clientWidth >= WIDE ? "wide" : clientWidth >= MIDDLE ? "middle" : "narrow";
    if (this.root.dataset.width === width) return;
    this.root.dataset.width = width;
    for (const tell of this.ofWidth) tell(width);
    this.tabs.mark();
    if (this.shown.size) this.paint();
  }

  /** Be told the class of widths, now and whenever it is another one. @param {(width: string) => void} tell */
  onWidth(tell) {
    this.ofWidth.push(tell);
    if (this.root.dataset.width) tell(this.root.dataset.width);
  }

  /** The keys of a view, at the foot of the page. @param {string} view */
  foot(view) {
    const { rows } = this.data.overview;
    /** @type {Record<string, boolean>} what a key needs to do anything */
    const does = { "choose a row": rows.length > 1, "open its story": rows.length > 0, "copy the change": view !== "overview" || rows.some(({ change }) => change) };
    const keys = this.frame ? (FEET[view] ?? []).filter(([, text]) => does[text] ?? true) : SWITCH;
    const hints = keys.map(([key, text]) => make("span", "", "", make("kbd", "", key), make("span", "", ` ${text}`)));
    this.hints.replaceChildren(...hints);
  }

  /**
   * Another run of the program takes the place of this one; what is open stays open.
   * @param {import("./types.js").Data} data
   * @param {number} run its number, for the kernel
   */
  load(data, run) {
    if (this.live) this.live.run = run;
    const next = this.replaced(data);
    next.root.focus({ preventScroll: true }); // keys must not go to the notebook
  }

  /**
   * All of the recording takes the place of its first view, where it stands.
   * @param {import("./types.js").Data} data
   */
  complete(data) {
    const { frame, position, chosen, stepper } = this;
    const hadFocus = this.root.contains(document.activeElement);
    const isPlaying = stepper.playing !== undefined;
    const [id, to, item] = this.wanted ?? [frame?.id, position, chosen];
    const next = this.replaced(data);
    const there = next.data.frames.find((one) => one.id === id);
    if (there) next.show(there, to, item);
    if (isPlaying) next.stepper.play();
    if (hadFocus) next.root.focus({ preventScroll: true });
  }

  /** Another explorer where this one stood, with what was open. @param {import("./types.js").Data} data @returns {Explorer} */
  replaced(data) {
    const { shown, front } = this.tabs;
    this.host.style.minHeight = `${this.host.offsetHeight}px`; // the notebook is not to scroll while nothing is there
    const next = new Explorer(this.host, data, this.live, false, this.editing);
    this.host.style.minHeight = "";
    next.tabs.front = front;
    next.tabs.openAgain(shown?.key, shown?.one?.key);
    return next;
  }

  /** The state that is shown. */
  get state() {
    return this.frame.states[this.position];
  }

  // -- building ------------------------------------------------------------------------------------------------------

  build() {
    const { data, root, live, tabs } = this;
    const { file, how } = data.overview;
    const tools = make("div", "dynx-tools");
    const more = make("div", "dynx-tools");
    const name = make("div", "dynx-name", "", make("b", "", file), make("span", "dynx-facts", how));
    const foot = make("div", "dynx-foot", "", this.hints, this.said, more);
    root.append(make("div", "dynx-head", "", name, tabs.list, ...this.changed(), tools), tabs.panels, foot);
    for (const control of CONTROLS) {
      if (control.wanted && !control.wanted(data, live)) continue;
      const place = make("div", `dynx-control dynx-control-${control.key}`);
      (control.key === "keys" ? tools : more).append(place);
      this.views.push(control.build(this, place));
    }
    root.classList.add("dynx-has-story");
    if (this.frame) tools.prepend(this.search.element);
    for (const pane of PANES) {
      if (data.isFirstView && !pane.place) continue; // what else there is follows
      if (!this.frame && pane.place !== "overview") continue;
      if (pane.wanted && !pane.wanted(data, live)) continue;
      const place = this.place(pane);
      const take = tabs.take(pane.key, place.section);
      const view = pane.build(this, place);
      take(view);
      for (const [what, text] of Object.entries(view.copies ?? {})) {
        place.tools.append(copyButton(this, what, text, Object.keys(view.copies ?? {}).length > 1 ? `Copy ${what}` : "Copy"));
      }
      this.views.push(view);
      this.sections.set(view, place.section);
    }
    if (this.frame) this.buildStory();
    else for (const tab of tabs.tabs) if (tab.key !== "overview") tab.panel.append(make("div", "dynx-empty", "", ...this.nothing()));
    tabs.finish();
    this.badge();
    if (data.isFirstView) {
      this.search.field.disabled = true;
      this.rest = new Rest(this);
      tabs.panels.append(this.rest.element);
    }
    if (data.cut) this.say(`The recording was ${data.cut}.`);
    tabs.open(tabs.named("overview"));
  }

  /** What an edited source changed: "3 → 1 graphs", and the way back. @returns {HTMLElement[]} */
  changed() {
    const { editing } = this;
    if (!editing?.change) return [];
    const [before, now] = editing.change;
    const changes = [`${before.graphs} → ${now.graphs} graphs`, `${before.breaks} → ${now.breaks} breaks`];
    const undo = makeButton("Undo", () => editing.undo(), { name: "dynx-tool", label: "Undo: show the run before the edit" });
    return [make("span", "dynx-change", changes.join(", ")), undo];
  }

  /** Why a view is empty where nothing was captured. @returns {Node[]} */
  nothing() {
    const { why = "", next = "", command = "" } = this.data.overview.empty ?? {};
    const copy = command ? [make("span", "dynx-change-code", "", make("code", "", command), copyButton(this, "command", () => command, "Copy"))] : [];
    return [make("p", "", why), ...(next ? [make("p", "dynx-facts", next)] : []), ...copy];
  }

  /** The bar above the story, the strip of time below it, and the edges between its panes. */
  buildStory() {
    const { panel, turns } = this.tabs.named("story");
    const part = (/** @type {string} */ name) => /** @type {HTMLElement} */ (panel.querySelector(`.dynx-${name}`));
    panel.prepend(...this.firstWords(), this.stepper.element);
    panel.append(this.stepper.times);
    this.views.push(this.stepper);
    const onMove = () => this.paint();
    const sized = (/** @type {string} */ size, /** @type {HTMLElement} */ element) => ({ size: `--dynx-size-${size}`, element });
    const across = { home: panel, name: "story", panes: [sized("code", part("source")), sized("drawn", part("growing")), sized("more", turns)], isAcross: true, onMove };
    const down = { home: panel, name: "story left", panes: [sized("lines", part("source")), sized("state", part("boxes"))], isAcross: false, onMove };
    const recompiles = this.tabs.named("recompiles");
    for (const row of [across, down]) {
      panel.append(...splitters(row));
      this.onWidth((width) => restore(row, width));
    }
    const timeline = /** @type {HTMLElement | null} */ (recompiles.panel.querySelector(".dynx-timeline"));
    if (!timeline) return;
    const row = { home: recompiles.panel, name: "recompiles", panes: [sized("calls", timeline), sized("guards", recompiles.turns)], isAcross: true, onMove };
    recompiles.panel.append(...splitters(row));
    this.onWidth((width) => restore(row, width));
  }

  /** What happened and what it cost, where the page opens here and not with the overview; what failed stands below the bar. @returns {HTMLElement[]} */
  firstWords() {
    const { opens, verdict, rows } = this.data.overview;
    return opens.view === "story" && !FAILED.includes(rows[0]?.kind) ? [make("p", "dynx-story-verdict", "", ...prose(verdict[0]))] : [];
  }

  /** How many recompiles there are stands on the button of their view. */
  badge() {
    const { recompiles } = this.data.story;
    if (recompiles) this.tabs.named("recompiles").button.append(" ", make("span", "dynx-count", String(recompiles)));
  }

  /** Where something happened, or begins: views/story.py says where. */
  open() {
    const { opens } = this.data.overview;
    const [id, position = 0] = opens.place.length ? opens.place : this.data.story.opening;
    const frame = this.data.frames.find((one) => one.id === id);
    this.tabs.openAgain(opens.view);
    this.show(frame ?? this.frame, frame ? position : 0);
  }

  /** @param {import("./types.js").Pane} pane @returns {import("./types.js").Place} */
  place({ key, title }) {
    const heading = make("h3", "", title);
    const body = make("div", "dynx-body");
    body.tabIndex = 0; // what scrolls can be scrolled by keyboard
    body.setAttribute("role", "group");
    body.setAttribute("aria-label", title);
    const tools = make("div", "dynx-tools");
    const section = make("section", `dynx-pane dynx-${key}`, "", make("div", "dynx-title", "", heading, tools), body);
    heading.addEventListener("click", ({ target }) => !(/** @type {Element} */ (target).closest("button")) && this.enlarge(section));
    heading.title = [meaningOf(key), "Click to enlarge this pane (z), and again to restore it"].filter(Boolean).join("\n");
    return { section, heading, tools, body };
  }

  /** Let one pane have all of its view, or put it back. @param {HTMLElement | null} section */
  enlarge(section) {
    const isLarge = section?.classList.toggle("dynx-large") ?? false;
    for (const other of this.sections.values()) if (other !== section) other.classList.remove("dynx-large");
    this.tabs.panels.classList.toggle("dynx-has-large", isLarge);
    this.paint();
  }

  // -- what panes ask --------------------------------------------------------------------------------------------------

  /** @param {Frame} [frame] @returns {States} */
  states(frame = this.frame) {
    const there = this.folds.get(frame);
    if (there) return there;
    const made = new States(frame.states);
    this.folds.set(frame, made);
    return made;
  }

  /** Say something that is seen and heard: what a button did. @param {string} text */
  say(text) {
    this.said.textContent = text;
  }

  /** What an opcode does, in one sentence. @param {string} op @returns {string} */
  help(op) {
    const [effect, sentence] = this.data.help[op] ?? ["", ""];
    return sentence ? `${op} (${effect}): ${sentence}` : "";
  }

  /**
   * What something is called in the program: the engine's wrapper around a module calls it `target`, the program knows its path.
   * @param {string} source @returns {string}
   */
  names(source) {
    if (!this.isWrapper(this.frame)) return source;
    return source === "target" ? this.data.title : source.replace(/^target\./, "");
  }

  /** What the program calls a node of the frame on show: an input has a name there. @param {string} node @returns {string} */
  label(node) {
    return this.frame.inputs?.[node] ?? node;
  }

  /** Whether a frame is the engine's own wrapper around a module or a callable object. @param {Frame} frame */
  isWrapper({ code }) {
    return this.data.codes[code]?.file === WRAPPER;
  }

  /** The text of a value, with where it comes from. @param {number} number @returns {string} */
  value(number) {
    const { text, source, node } = this.data.values[number];
    const origin = node ? this.label(node) : this.names(source);
    return origin && origin !== text ? `${origin}: ${text}` : text;
  }

  // -- a first view -----------------------------------------------------------------------------------------------------

  /** Whether a state is told: of a first view few are. @param {Frame} frame @param {number} position */
  isTold({ told, states }, position) {
    const at = Math.max(0, Math.min(position, states.length - 1));
    return !told || (told[0] <= at && at < told[1]);
  }

  /** Go there as soon as it is told. @param {Frame} frame @param {number} position @param {string} [item] */
  wait(frame, position, item) {
    this.wanted = [frame.id, position, item];
    if (this.rest?.isInterrupted) this.rest.ask();
    this.say("This step is still loading.");
  }

  // -- going to a state ------------------------------------------------------------------------------------------------

  /** @param {Frame} frame @param {number} position @param {string} [item] */
  show(frame, position, item) {
    if (!this.isTold(frame, position)) return this.wait(frame, position, item);
    const another = frame !== this.frame;
    this.frame = frame;
    if (this.live) this.live.frame = frame.id;
    this.go(position, item);
    if (another && this.search.field.value) this.search.find();
  }

  /** One step, from frame to frame: what comes next is what happened next. @param {number} by */
  step(by) {
    const to = this.order.near(this.frame, this.position, by, () => true);
    if (to?.frame === this.frame) this.go(to.position);
    else if (to) this.show(to.frame, to.position);
  }

  /**
   * The nearest state before or behind this one, in whatever frame.
   * @param {number} by 1 or -1
   * @param {(state: import("./types.js").State, frame: Frame, position: number) => boolean} is
   * @returns {{frame: Frame, position: number} | undefined}
   */
  near(by, is) {
    return this.order.near(this.frame, this.position, by, is);
  }

  /** The views that are seen: those of tabs that are not open wait. @returns {View[]} */
  get seen() {
    return this.views.filter((view) => !this.tabs.hides(view));
  }

  /** Let views show the frame and the state at hand, which they did not follow while they were hidden. @param {View[]} views */
  catchUp(views) {
    if (!this.shown.size) return; // nothing is on show yet
    this.keepFocus(() => this.paint(views));
  }

  /** Let a view show the frame at hand. @param {View} view */
  frameOf(view) {
    if (this.shown.get(view) === this.frame) return;
    this.shown.set(view, this.frame);
    view.showFrame?.(this.frame);
  }

  /** @param {number} position @param {string} [item] what is chosen, when it is not the step itself */
  go(position, item) {
    const { states } = this.frame;
    if (!this.isTold(this.frame, position)) return this.wait(this.frame, position, item);
    this.wanted = null;
    this.position = Math.max(0, Math.min(position, states.length - 1));
    this.chosen = item ?? this.state?.item ?? "";
    this.keepFocus(() => this.paint());
    this.follower?.();
  }

  /** A row that had the focus may be gone after `act`: keys must not go to the notebook then. @param {() => void} act */
  keepFocus(act) {
    const focused = document.activeElement;
    const inside = focused && this.root.contains(focused);
    act();
    if (inside && !this.root.contains(focused) && !this.root.contains(document.activeElement)) this.root.focus({ preventScroll: true });
  }

  /** Choose an item: light up what belongs to it, and go to the step that made it. @param {string} item */
  choose(item) {
    const steps = this.states().of(item, this.links);
    const later = steps.find((step) => step > this.position);
    const again = this.chosen === item && steps.includes(this.position);
    this.go(again ? (later ?? steps[0]) : (steps[0] ?? this.position), item);
  }

  paint(views = this.seen) {
    const { state, position } = this;
    for (const view of views) this.frameOf(view);
    if (!state) return;
    for (const view of views) view.showState?.(state, position);
    const marks = this.marks();
    const lists = views.flatMap((view) => view.lists ?? []);
    for (const list of lists) list.aim(marks); // all that reads the layout comes before all that changes it
    for (const list of lists) list.light(marks);
  }

  /** What is lit: all that belongs to what was chosen, that itself, and the instruction at hand. */
  marks() {
    const marks = new Map();
    const mark = (/** @type {string} */ key, /** @type {string} */ name) => marks.set(key, marks.has(key) ? `${marks.get(key)} ${name}` : name);
    if (this.chosen) {
      for (const key of this.links.related(this.chosen)) mark(key, "dynx-lit");
      mark(this.chosen, "dynx-chosen");
    }
    mark(`instruction:${this.state.code}:${this.state.offset}`, "dynx-now");
    const line = this.lineOf(this.state);
    if (line) mark(`line:${this.state.code}:${line}`, "dynx-now");
    return marks;
  }

  /** The line of the source that a state is at. @param {import("./types.js").State} state @returns {number | undefined} */
  lineOf(state) {
    const { code: id = -1, offset } = state;
    let lines = this.lines.get(id);
    if (!lines) {
      lines = new Map();
      for (const row of this.data.codes[id]?.rows ?? []) {
        if (row.line) lines.set(row.offset, row.line);
      }
      this.lines.set(id, lines);
    }
    return lines.get(offset) ?? state.line;
  }

  // -- events ----------------------------------------------------------------------------------------------------------

  /** @param {MouseEvent} event */
  onClick(event) {
    const key = this.keyAt(event.target);
    if (key) this.choose(key);
  }

  /** @param {EventTarget | null} target @returns {string} the key of the row around it */
  keyAt(target) {
    for (let at = /** @type {Element | null} */ (target); at && at !== this.root; at = at.parentElement) {
      const key = keyOf(at);
      if (key) return key;
      if (at.matches("summary, button, a, input, select, textarea, .dynx-code-editor")) return "";
    }
    return "";
  }

  /** Keys that are the page's own (Ctrl, Cmd, Shift+Enter) pass; no other leaves the explorer. @param {KeyboardEvent} event */
  onKey(event) {
    if (isInEditor(event.target)) {
      if (event.defaultPrevented || !(event.ctrlKey || event.metaKey)) event.stopPropagation();
      return;
    }
    if (isThePages(event)) return;
    event.stopPropagation();
    if (event.altKey || event.key === "Tab") return;
    if (event.target === this.search.field) {
      if (event.key === "Enter") this.search.next();
      else if (event.key === "Escape") {
        this.root.focus({ preventScroll: true });
        event.preventDefault(); // a browser would empty the field
      }
      return;
    }
    // fields and sliders have keys of their own
    if (/** @type {Element} */ (event.target).matches("input, select, textarea")) return;
    const act = this.keyActs(event.target)[event.key];
    if (act) {
      act();
      event.preventDefault();
    } else if ((event.key === "Enter" || event.key === " ") && this.keyAt(event.target)) {
      this.choose(this.keyAt(event.target));
      event.preventDefault();
    }
  }

  /** @param {EventTarget | null} target @returns {Record<string, () => void>} */
  keyActs(target) {
    const arrows = { ArrowUp: () => this.move(target, -1), ArrowDown: () => this.move(target, 1) };
    const steps = this.frame && STEPPED.includes(this.tabs.shown.key) ? [this.stepper.keys] : [];
    const own = this.seen.filter((view) => view !== this.stepper).map((view) => view.keys ?? {});
    const onOverview = this.tabs.shown.key === "overview" && !/** @type {Element | null} */ (target)?.closest?.("button.dynx-copy, button.dynx-tool, button.dynx-first, button.dynx-chip, button.dynx-frame");
    const enter = onOverview ? [{ Enter: () => /** @type {HTMLElement | null} */ (this.tabs.shown.panel.querySelector(".dynx-cost-detail .dynx-first"))?.click() }] : [];
    const isLarge = this.tabs.panels.classList.contains("dynx-has-large");
    const back = isLarge ? [{ Escape: () => this.enlarge(null) }] : [];
    const found = this.search.field.value ? [{ n: () => this.search.next(), p: () => this.search.next(-1) }] : [];
    const pane = /** @type {Element | null} */ (target)?.closest?.(".dynx-pane");
    const large = [...this.sections.values()].includes(/** @type {any} */ (pane)) ? [{ z: () => this.enlarge(/** @type {HTMLElement} */ (pane)) }] : [];
    return Object.assign({ "/": () => this.search.field.focus() }, arrows, this.tabs.keys, ...steps, ...own, ...enter, ...found, ...large, ...back);
  }

  /** Move the focus to the row above or below in the same pane. @param {EventTarget | null} target @param {number} by */
  move(target, by) {
    const pane = /** @type {Element | null} */ (target)?.closest(".dynx-body");
    if (!pane) return;
    const focused = /** @type {HTMLElement} */ (document.activeElement);
    for (const list of this.seen.flatMap((view) => view.lists ?? [])) if (list.move?.(focused, by)) return;
    const rows = /** @type {HTMLElement[]} */ ([...pane.querySelectorAll(".dynx-row, .dynx-frame")]).filter((row) => row.offsetParent);
    const at = rows.indexOf(focused);
    rows[Math.max(0, Math.min(rows.length - 1, at < 0 ? 0 : at + by))]?.focus();
  }
}
