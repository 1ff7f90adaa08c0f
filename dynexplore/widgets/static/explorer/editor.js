// @ts-check
/**
 * The editor of the source pane: CodeMirror (vendor/README.md says where it is from), loaded when somebody first edits, once per
 * page. The kernel sends it as a binary buffer, so only a live explorer has one.
 *
 * Lines bear the marks of the latest run; they move along while somebody types.
 */

import { make } from "./dom.js";

/**
 * @typedef {Record<string, any>} Library  what the vendored module exports
 * @typedef {typeof globalThis & {dynexploreEditor?: Promise<Library>}} Shared
 * @typedef {{line: number, name: string, notes: string[]}} LineMark  a class for a line, and what stands under it
 */

/**
 * CodeMirror, loaded. Fails with one sentence (Error.message).
 * @param {import("./live.js").Live} live
 * @returns {Promise<Library>}
 */
export function codeMirror(live) {
  const shared = /** @type {Shared} */ (globalThis);
  if (!shared.dynexploreEditor) {
    const loading = live.ask("editor").then(({ buffers }) => loaded(/** @type {any} */ (buffers[0])));
    shared.dynexploreEditor = loading;
    loading.catch(() => delete shared.dynexploreEditor);
  }
  return shared.dynexploreEditor;
}

/** @param {BlobPart} text @returns {Promise<Library>} */
async function loaded(text) {
  const address = URL.createObjectURL(new Blob([text], { type: "text/javascript" }));
  try {
    return await import(address);
  } finally {
    URL.revokeObjectURL(address);
  }
}

/** One text, being edited. */
export class CodeEditor {
  /**
   * @param {Library} library
   * @param {string} text
   * @param {number} first the number of its first line
   * @param {{typed: () => void, run: () => void}} acts
   */
  constructor(library, text, first, { typed, run }) {
    this.library = library;
    this.element = make("div", "dynx-code-editor");
    this.setMarks = library.StateEffect.define();
    this.view = new library.EditorView({ parent: this.element, doc: text, extensions: this.extensions(first, typed, run) });
  }

  /** @param {number} first @param {() => void} typed @param {() => void} run */
  extensions(first, typed, run) {
    const { EditorView, EditorState, keymap } = this.library;
    const runs = { key: "Mod-Enter", run: () => (run(), true), preventDefault: true, stopPropagation: true };
    return [
      keymap.of([runs, this.library.indentWithTab, ...this.library.defaultKeymap, ...this.library.historyKeymap]),
      this.library.history(),
      this.library.lineNumbers({ formatNumber: (/** @type {number} */ line) => String(line + first - 1) }),
      this.library.drawSelection(),
      this.library.bracketMatching(),
      this.library.indentOnInput(),
      this.library.indentUnit.of("    "),
      this.library.pythonLanguage.extension,
      this.library.syntaxHighlighting(this.library.classHighlighter),
      EditorState.tabSize.of(4),
      EditorView.contentAttributes.of({ "aria-label": "source of the function", spellcheck: "false", tabindex: "0" }),
      EditorView.updateListener.of((/** @type {any} */ update) => update.docChanged && typed()),
      this.marksField(),
    ];
  }

  marksField() {
    const { StateField, EditorView, Decoration } = this.library;
    return StateField.define({
      create: () => Decoration.none,
      update: (/** @type {any} */ marks, /** @type {any} */ change) =>
        change.effects.find((/** @type {any} */ effect) => effect.is(this.setMarks))?.value ?? marks.map(change.changes),
      provide: (/** @type {any} */ field) => EditorView.decorations.from(field),
    });
  }

  get text() {
    return this.view.state.doc.toString();
  }

  /** @param {string} text */
  replace(text) {
    this.view.dispatch({ changes: { from: 0, to: this.view.state.doc.length, insert: text } });
  }

  /** Let lines bear these marks, in the order of the lines. @param {LineMark[]} marks */
  mark(marks) {
    const { Decoration, WidgetType } = this.library;
    class Note extends WidgetType {
      /** @param {string} text */
      constructor(text) {
        super();
        this.text = text;
      }

      /** @param {any} other */
      eq(other) {
        return other.text === this.text;
      }

      toDOM() {
        return make("div", "dynx-note-room", "", make("div", "dynx-break-note", this.text));
      }
    }
    const { doc } = this.view.state;
    const there = marks.filter(({ line }) => line >= 1 && line <= doc.lines);
    const made = there.flatMap(({ line, name, notes }) => {
      const { from, to } = doc.line(line);
      const under = notes.map((text) => Decoration.widget({ widget: new Note(text), side: 1, block: true }).range(to));
      return [Decoration.line({ class: name }).range(from), ...under];
    });
    this.view.dispatch({ effects: this.setMarks.of(Decoration.set(made, true)) });
  }

  /** Whether letters are being put together that are no text yet. */
  get isComposing() {
    return this.view.composing;
  }

  /** The editor may have another place in the page after `act`: focus and place in the text stay. @param {() => void} act */
  keep(act) {
    const hadFocus = this.view.hasFocus;
    const { scrollTop, scrollLeft } = this.view.scrollDOM;
    act();
    this.view.requestMeasure();
    Object.assign(this.view.scrollDOM, { scrollTop, scrollLeft });
    if (hadFocus) this.view.focus();
  }

  focus() {
    this.view.focus();
  }

  close() {
    this.view.destroy();
  }
}
