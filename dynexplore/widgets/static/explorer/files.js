// @ts-check
/**
 * The data of an explorer in a file that a person drops on the page or chooses: a saved page, or a recording that `save` or --pack
 * wrote (`.json`, `.json.gz`), whose key `page` is the data.
 * Nothing leaves the machine: the browser reads the file.
 */

import { withSketches } from "./sketched.js";
import { inflated, opened } from "./unpack.js";

/** The version of the data's shape that this reads. */
export const SCHEMA = 5;

const RECORDING = /<script type="text\/plain" id="recording">([^<]+)<\/script>/;

/** A page of ranks, or of two engines. */
const SEVERAL = /<script type="text\/plain" id="recording\w/;

/** A file that holds no data of an explorer; the message says what to do. */
export class NoRecording extends Error {}

/** @typedef {{name: string, arrayBuffer: () => Promise<ArrayBuffer>}} Dropped a file of this computer, or one of the page's server */

/**
 * @param {Dropped} file
 * @returns {Promise<import("./types.js").Data>}
 */
export async function dataIn(file) {
  const text = await textOf(file);
  const data = text.trimStart().startsWith("{") ? await ofRecording(file.name, parsed(text)) : await ofPage(text);
  if (!data && SEVERAL.test(text)) throw new NoRecording(`${file.name} has several recordings: open that page itself.`);
  if (!data) throw new NoRecording(`${file.name} has no recording. Drop a page that --html or save_html wrote, or a file of --pack or --json.`);
  if (data.schema !== SCHEMA) throw new NoRecording(`${file.name} was saved by a different version of dynexplore.`);
  return withSketches(opened(data));
}

/** @param {Dropped} file @returns {Promise<string>} its text; of a packed one, unpacked */
async function textOf(file) {
  const bytes = new Uint8Array(await file.arrayBuffer());
  if (bytes[0] !== 0x1f || bytes[1] !== 0x8b) return new TextDecoder().decode(bytes);
  const stream = new Blob([bytes]).stream().pipeThrough(new DecompressionStream("gzip"));
  return new Response(stream).text().catch(() => ""); // a damaged file has no recording
}

/** @param {string} name @param {any} recording @returns {Promise<any>} */
async function ofRecording(name, recording) {
  if (!recording || recording.frames) return recording; // the data itself
  if (recording.page) return parsed(await inflated(recording.page));
  throw new NoRecording(`${name} is a recording without a page. Run dynexplore open ${name} --pack packed.json.gz and drop packed.json.gz.`);
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
  field.accept = ".html,.json,.gz";
  field.addEventListener("change", () => act([...(field.files ?? [])]));
  const label = document.createElement("label");
  label.className = "dynx-file";
  field.className = "dynx-unseen"; // the label is the button; the field has the focus
  label.append(text, field);
  return label;
}
