// @ts-check
/**
 * Copying: what a pane shows, as text that can be pasted elsewhere.
 */

import { make, makeButton } from "./dom.js";

/**
 * Put a text where pasting finds it. The browser's clipboard is closed to pages that are not served securely; a hidden
 * field does it there.
 * @param {string} text
 * @returns {Promise<boolean>} whether it is there
 */
export function copyText(text) {
  const clipboard = navigator.clipboard?.writeText(text) ?? Promise.reject(new Error("no clipboard"));
  return clipboard.then(() => true, () => copyByField(text));
}

/** @param {string} text @returns {boolean} */
function copyByField(text) {
  const focused = /** @type {HTMLElement | null} */ (document.activeElement);
  const field = /** @type {HTMLTextAreaElement} */ (make("textarea", "dynx-unseen"));
  field.value = text;
  document.body.append(field);
  field.select();
  const done = document.execCommand("copy");
  field.remove();
  focused?.focus({ preventScroll: true });
  return done;
}

/**
 * A button that copies, and says in a status line that it did.
 * @param {import("./page.js").Explorer} explorer
 * @param {string} what is copied, for the label
 * @param {() => string} text
 * @param {string} [sign] what stands on it
 * @returns {HTMLElement}
 */
export function copyButton(explorer, what, text, sign = "Copy") {
  const act = async () => {
    const done = await copyText(text());
    explorer.say(done ? `${what} copied` : "the browser does not let this page use the clipboard");
  };
  return makeButton(sign, act, { name: "dynx-tool", label: `Copy ${what}` });
}

/**
 * Rows of cells as text, the columns below each other.
 * @param {string[]} header
 * @param {string[][]} rows
 * @returns {string}
 */
export function textTable(header, rows) {
  const widths = header.map((name, at) => rows.reduce((most, cells) => Math.max(most, cells[at]?.length ?? 0), name.length));
  const line = (/** @type {string[]} */ cells) => cells.map((text, at) => text.padEnd(widths[at])).join("  ").trimEnd();
  return [line(header), widths.map((width) => "-".repeat(width)).join("  "), ...rows.map(line)].join("\n");
}
