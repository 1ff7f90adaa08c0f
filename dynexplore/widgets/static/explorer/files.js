// @ts-check
/**
 * The data of an explorer in a file that a person drops on the page or chooses: a saved page, or the data itself as JSON.
 * Nothing leaves the machine: the browser reads the file.
 */

import { withSketches } from "./sketched.js";
import { inflated, unpacked } from "./unpack.js";

/** The version of the data's shape that this reads. */
export const SCHEMA = 5;

const RECORDING = /<script type="text\/plain" id="recording">([^<]+)<\/script>/;

/** A file that holds no data of an explorer; the message says what to do. */
export class NoRecording extends Error {}

/**
 * @param {{name: string, text: () => Promise<string>}} file
 * @returns {Promise<import("./types.js").Data>}
 */
export async function dataIn(file) {
  const text = await file.text();
  const data = text.trimStart().startsWith("{") ? parsed(text) : await ofPage(text);
  if (!data?.frames && data) throw new NoRecording(`${file.name} is a recording without a page. Run dynexplore open ${file.name} --html page.html and drop page.html.`);
  if (!data) throw new NoRecording(`${file.name} has no recording. Drop a page that --html, --save or save_html wrote.`);
  if (data.schema !== SCHEMA) throw new NoRecording(`${file.name} was made by another version of dynexplore.`);
  return withSketches(unpacked(data));
}

/** @param {string} text @returns {any} */
function parsed(text) {
  try {
    return JSON.parse(text);
  } catch {
    return null;
  }
}

/** @param {string} text of a saved page @returns {Promise<any>} */
async function ofPage(text) {
  const found = RECORDING.exec(text);
  return found ? parsed(await inflated(found[1])) : null;
}

/**
 * Let files be dropped on an element.
 * @param {HTMLElement} element
 * @param {(files: File[]) => void} act
 */
export function takesFiles(element, act) {
  element.addEventListener("dragover", (event) => {
    if (event.dataTransfer?.types.includes("Files")) event.preventDefault();
  });
  element.addEventListener("drop", (event) => {
    const files = [...(event.dataTransfer?.files ?? [])];
    if (!files.length) return;
    event.preventDefault();
    event.stopPropagation();
    act(files);
  });
}

/**
 * A button with which a person chooses files.
 * @param {string} text @param {(files: File[]) => void} act @returns {HTMLElement}
 */
export function fileButton(text, act) {
  const field = /** @type {HTMLInputElement} */ (document.createElement("input"));
  field.type = "file";
  field.multiple = true;
  field.accept = ".html,.json";
  field.addEventListener("change", () => act([...(field.files ?? [])]));
  const label = document.createElement("label");
  label.className = "dynx-file";
  field.className = "dynx-unseen"; // the label is the button; the field has the focus
  label.append(text, field);
  return label;
}
