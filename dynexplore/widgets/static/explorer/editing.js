// @ts-check
/**
 * Editing the source in a live explorer: what is typed is explained again by the kernel, on copies of the inputs, and all of the
 * page shows that run. Each run can be undone.
 *
 * Which idea lives here: a run costs what it costs, and may do things outside of its copies. So Ctrl+Enter (or Run) runs; typing
 * runs by itself only where the kernel says that the last run was quick and harmless, after a moment of rest. There is one question
 * at a time, and what was typed meanwhile comes after it; while a cell runs the kernel says that it is busy. A text that cannot run
 * leaves the page as it is.
 *
 * In:  the kernel's answers about `source` and `rerun` (widgets/live.py).
 * Out: `explorer.load(data)` for each run, and `change`, of which the headline tells.
 */

import { make, makeButton } from "./dom.js";
import { CodeEditor, codeMirror } from "./editor.js";
import { colourOf } from "./strip.js";

const REST = 300; // milliseconds after the last letter until it runs
const AGAIN = 400; // milliseconds until a busy kernel is asked again
const PATIENCE = 300_000; // how long a run may take, in milliseconds
const MOST = 20; // so many runs can be undone; the kernel keeps as many

/** @typedef {{graphs: number, breaks: number}} Counts */
/** @typedef {{run: number, data: import("./types.js").Data, source: string, counts: Counts}} Run  `run` 0: as it was recorded */

const NOT_YET = "Edits re-run automatically once a run has been fast and free of side effects.";

/** Whether an event happened in the editor, which has keys of its own. @param {EventTarget | null} target */
export function isInEditor(target) {
  return Boolean(/** @type {Element | null} */ (target)?.closest?.(".dynx-code-editor"));
}

/** The source that is edited, and its runs. */
export class Editing {
  /** @param {import("./live.js").Live} live @param {(given: any) => import("./types.js").Data} read unpacks the data of a run */
  constructor(live, read) {
    /** @type {import("./page.js").Explorer | undefined} that of the run on show */
    this.explorer = undefined;
    this.live = live;
    this.read = read;
    /** @type {CodeEditor | undefined} while it is open */
    this.editor = undefined;
    /** @type {Run[]} the one on show is the last */
    this.runs = [];
    this.frame = 0; // the question is about the frame that was on show when it was opened, of run `of`
    this.first = 1;
    this.file = "";
    this.automatic = NOT_YET;
    this.timer = 0;
    this.isAsking = false;
    this.runButton = makeButton("Run", () => this.run(), { name: "dynx-tool dynx-run", label: "Run the edited source on copies of the inputs (Ctrl+Enter)" });
    this.undoButton = makeButton("Undo run", () => this.undo(), { name: "dynx-tool", label: "Back to the previous run" });
    this.said = make("span", "dynx-facts dynx-edit-said");
    this.said.setAttribute("role", "status");
    const close = makeButton("Close", () => this.close(), { name: "dynx-tool", label: "Close the editor; the displayed run does not change" });
    this.bar = make("div", "dynx-edit-bar", "", this.runButton, this.undoButton, close, this.said);
  }

  /** The explorer of another run takes the place of the one before. @param {import("./page.js").Explorer} explorer */
  follow(explorer) {
    this.explorer?.root.remove();
    this.explorer = explorer;
  }

  /**
   * All of the recording has come, of which there was the first view.
   * @param {import("./types.js").Data} data
   */
  complete(data) {
    for (const run of this.runs) if (run.data.isFirstView) run.data = data; // the way back leads to it
    if (!this.explorer?.data.isFirstView) return; // another run is on show
    const complete = () => this.explorer?.complete(data);
    if (this.editor) this.editor.keep(complete);
    else complete();
  }

  /** Graphs and breaks of the run before and of the one on show. @returns {[Counts, Counts] | null} */
  get change() {
    const [before, now] = this.runs.slice(-2);
    return now ? [before.counts, now.counts] : null;
  }

  /** Load the editor, and the source of the frame on show. */
  async open() {
    const { explorer, live } = this;
    if (!explorer) return;
    const { frame } = explorer;
    try {
      const [library, { body }] = await Promise.all([codeMirror(live), live.ask("source", { frame: frame.id })]);
      if (this.editor || explorer !== this.explorer || explorer.frame !== frame) return;
      this.frame = frame.id;
      this.first = body.first;
      this.file = explorer.data.codes[frame.code].file;
      const { graphs, breaks } = explorer.data.story;
      this.runs = [{ run: live.run, data: explorer.data, source: body.source, counts: { graphs, breaks } }];
      this.automatic = NOT_YET;
      this.editor = new CodeEditor(library, body.source, body.first, { typed: () => this.typed(), run: () => this.run() });
      this.say(NOT_YET);
      explorer.paint();
      this.editor.focus();
    } catch (error) {
      explorer.say(/** @type {Error} */ (error).message);
    }
  }

  close() {
    clearTimeout(this.timer);
    this.editor?.close();
    this.editor = undefined;
    this.bar.remove();
    this.explorer?.paint();
    this.explorer?.root.focus({ preventScroll: true });
  }

  /** Text was typed: it runs by itself where it may. */
  typed() {
    clearTimeout(this.timer);
    if (this.automatic) this.say(`Press Ctrl+Enter to run. ${this.automatic}`);
    else this.timer = window.setTimeout(() => this.run(true), REST);
  }

  /** Run the text; what is typed meanwhile comes afterwards. @param {boolean} [byItself] because somebody typed */
  async run(byItself = false) {
    const { editor } = this;
    clearTimeout(this.timer);
    if (!editor || this.isAsking) return;
    if (byItself && editor.isComposing) return this.typed();
    const source = editor.text;
    if (byItself && source === this.runs.at(-1)?.source) return;
    this.isAsking = true;
    this.runButton.setAttribute("aria-disabled", "true");
    if (!byItself) this.say("running …");
    try {
      const { body } = await this.live.ask("rerun", { frame: this.frame, run: this.runs[0].run, source }, PATIENCE);
      this.answered(source, body, byItself);
    } catch (error) {
      this.say(/** @type {Error} */ (error).message);
    }
    this.isAsking = false;
    this.runButton.removeAttribute("aria-disabled");
    if (this.editor === editor && editor.text !== source) this.typed();
  }

  /** @param {string} source @param {Record<string, any>} body @param {boolean} byItself */
  answered(source, body, byItself) {
    if (!this.editor) return;
    if (body.busy) {
      this.say("A cell is running. The edited source runs after it.");
      this.timer = window.setTimeout(() => this.run(byItself), AGAIN);
      return;
    }
    const line = body.line ? ` (line ${body.line + this.first - 1})` : "";
    if (!body.data || (byItself && body.said)) {
      this.say(`${body.said.replace(/ in line \d+/, line)} The last run that worked is shown.`, true);
      return;
    }
    this.automatic = body.automatic ? `Edits do not re-run automatically: ${body.automatic}.` : "";
    const data = this.read(JSON.parse(body.data));
    const { graphs, breaks } = data.story;
    if (this.runs.length === 1) this.runs[0].counts = body.before; // of what is edited: the recording may hold more
    this.runs.push({ run: body.run, data, source, counts: { graphs, breaks } });
    if (this.runs.length > MOST) this.runs.splice(1, 1);
    this.show();
    const printed = body.printed ? ` It printed: ${body.printed}` : "";
    this.say(`${body.said || "Ran on copies of the inputs."}${printed} ${this.automatic || "Edits re-run automatically."}`, Boolean(body.said));
  }

  /** Back to the previous run, with its text. */
  undo() {
    if (this.runs.length < 2 || this.isAsking) return;
    this.runs.pop();
    const { source } = this.runs[this.runs.length - 1];
    this.editor?.replace(source);
    clearTimeout(this.timer);
    this.show();
    this.say("The previous run is shown.");
  }

  /** The whole page shows the latest run. */
  show() {
    const { run, data } = this.runs[this.runs.length - 1];
    const load = () => this.explorer?.load(data, run);
    if (this.editor) this.editor.keep(load);
    else load();
  }

  /** @param {string} text @param {boolean} [isWrong] */
  say(text, isWrong = false) {
    this.said.textContent = text.trim();
    this.said.title = text.trim();
    this.said.classList.toggle("dynx-wrong", isWrong);
    this.undoButton.toggleAttribute("disabled", this.runs.length < 2);
  }

  // -- marks of lines ---------------------------------------------------------------------------------------------------

  /** Mark the lines of the text as the run on show has them. @param {import("./types.js").State} state */
  mark(state) {
    const { editor, explorer } = this;
    if (!editor || !explorer || editor.text !== this.runs.at(-1)?.source) return; // those that are there move along
    const { codes } = explorer.data;
    const isOriginal = this.runs.length === 1;
    const from = isOriginal ? this.first : 1;
    const isOwn = (/** @type {import("./types.js").Code} */ { file }) => (isOriginal ? file === this.file : file.startsWith("<edited "));
    /** @type {Map<number, import("./editor.js").LineMark>} */
    const marks = new Map();
    for (const code of Object.values(codes).filter(isOwn)) {
      for (const [line, { graphs, breaks = [] }] of Object.entries(code.marks ?? {})) {
        const name = breaks.length ? "dynx-broken" : colourOf(graphs[0] ?? 0);
        const notes = breaks.map(({ cause, remedy }) => `The graph breaks: ${cause}. ${remedy}`);
        marks.set(Number(line), { line: Number(line) - from + 1, name, notes });
      }
    }
    const code = codes[state.code ?? explorer.frame.code];
    const now = code?.rows.find(({ offset }) => offset === state.offset)?.line ?? state.line;
    if (code && now && isOwn(code)) {
      const there = marks.get(now) ?? { line: now - from + 1, name: "", notes: [] };
      marks.set(now, { ...there, name: `${there.name} dynx-now` });
    }
    editor.mark([...marks.values()].sort((one, other) => one.line - other.line));
  }
}
