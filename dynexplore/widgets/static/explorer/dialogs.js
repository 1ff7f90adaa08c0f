// @ts-check
/**
 * Small dialogs over the explorer: bubbles of the tour, the list of keys. Esc closes one, and the focus goes back to
 * where it was, so that keys stay in the explorer.
 */

import { make, makeButton } from "./dom.js";

/** A dialog that stands in the explorer, or does not. */
export class Dialog {
  /**
   * @param {import("./page.js").Explorer} explorer
   * @param {string} label
   */
  constructor(explorer, label) {
    this.explorer = explorer;
    this.element = make("div", "dynx-dialog");
    this.element.setAttribute("role", "dialog");
    this.element.setAttribute("aria-label", label);
    this.element.addEventListener("keydown", (event) => this.onKey(event));
    /** @type {() => void} */
    this.onClose = () => {};
    /** @type {Record<string, () => void>} what it does on keys, next to Escape */
    this.keys = {};
    /** @type {Element | null} */
    this.before = null;
  }

  get isOpen() {
    return this.element.isConnected;
  }

  /** @param {...Node} content */
  open(...content) {
    if (!this.isOpen) this.before = document.activeElement;
    this.element.replaceChildren(...content);
    if (!this.isOpen) this.explorer.root.append(this.element);
    /** @type {HTMLElement | null} */ (this.element.querySelector(".dynx-first"))?.focus({ preventScroll: true });
  }

  close() {
    if (!this.isOpen) return;
    const { root } = this.explorer;
    const inside = this.element.contains(document.activeElement);
    this.element.remove();
    this.onClose();
    const back = this.before instanceof HTMLElement && root.contains(this.before) ? this.before : root;
    if (inside) back.focus({ preventScroll: true });
  }

  /** The dialog's own keys; no other key does anything while it has the focus. @param {KeyboardEvent} event */
  onKey(event) {
    if (event.ctrlKey || event.metaKey || event.altKey || (event.shiftKey && event.key === "Enter")) return;
    const act = event.key === "Escape" ? () => this.close() : this.keys[event.key];
    if (act) {
      act();
      event.preventDefault();
    }
    event.stopPropagation();
  }

  /** @param {string} text @returns {HTMLElement} a button that closes it */
  closeButton(text) {
    return makeButton(text, () => this.close());
  }
}
