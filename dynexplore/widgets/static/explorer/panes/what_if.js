// @ts-check
/**
 * What if an input were another one? A control for each input; the kernel says which guards would fail, which entry would be
 * hit, and what a new capture would have that the old one has not. The function is not run for that.
 *
 * In the explorer of a notebook's cell it is about the call of the frame on show; which one, stands above the form.
 *
 * Without a kernel it says why it cannot. Out: the event `dynx-verdicts` on the explorer's root, with what each guard said.
 */

import { differenceTables } from "../difference.js";
import { make, makeButton, note } from "../dom.js";

/**
 * @typedef {{path: string, kind: string, text: string, shape: number[], dtype: string, device: string, grad: boolean}} Input
 * @typedef {{entry: number, frame: number, function: string, hits: boolean,
 *   guards: {index: number, verdict: string, alone: string, expected: string, actual: string, guard: string}[]}} EntryVerdict
 */

export const VERDICTS = "dynx-verdicts";

const NO_KERNEL = "What-if, live runs and editing need a notebook kernel; this is a saved file. In a notebook, %%dynamo and explain(f)(x) show an explorer that has one.";
const NO_GUARDS =
  "What-if evaluates torch's own guards, which exist only in the process that compiled. In a notebook, explain(f, engine=\"torch.compile\")(x) shows an explorer that can evaluate them.";
const NOTHING_READ =
  "This code has no input that can be changed: no tensor, number or string. For a function that it calls, run the cell with %%dynamo -f NAME.";
const SOON = 120; // milliseconds after the last change until the kernel is asked
const QUICK = 15_000; // how long it may take, in milliseconds

/** @type {import("../types.js").Pane} */
export const whatIfPane = {
  key: "what-if",
  title: "What if",
  build(explorer, { body }) {
    const { live } = explorer;
    if (!live) {
      body.append(note(explorer.data.engine === "torch.compile" ? NO_GUARDS : NO_KERNEL));
      return {};
    }
    const asking = new WhatIf(explorer, live, body);
    return { showFrame: () => asking.follow() };
  },
};

/** The form and its answers. */
class WhatIf {
  /** @param {import("../page.js").Explorer} explorer @param {import("../live.js").Live} live @param {HTMLElement} body */
  constructor(explorer, live, body) {
    this.explorer = explorer;
    this.live = live;
    this.about = note("");
    this.form = make("form", "dynx-form");
    this.said = make("p", "dynx-verdict");
    this.said.setAttribute("role", "status");
    this.answer = make("div", "dynx-detail");
    /** @type {(() => [string, Record<string, any>] | null)[]} what each control has changed */
    this.readers = [];
    this.asked = 0;
    this.timer = 0;
    this.begun = 0;
    this.form.addEventListener("submit", (event) => {
      event.preventDefault();
      this.ask();
    });
    this.form.addEventListener("input", () => this.soon());
    body.append(this.about, this.form, this.said, this.answer);
    this.begin();
  }

  async begin() {
    this.form.replaceChildren(note("reading the inputs from the kernel …"));
    await this.learn();
  }

  /** Another frame is on show: where it belongs to another call, that call's inputs. */
  async follow() {
    if (this.about.textContent) await this.learn();
  }

  async learn() {
    const begun = (this.begun += 1);
    try {
      const { body } = await this.live.ask("inputs", {}, 4 * QUICK);
      const about = body.about ? `About ${body.about}.` : "";
      if (begun !== this.begun || (about && about === this.about.textContent)) return;
      this.about.textContent = about;
      this.forget();
      this.fill(body.inputs, body.dtypes, body.devices);
    } catch (error) {
      if (begun !== this.begun) return;
      this.about.textContent &&= "About the frame shown.";
      this.forget();
      const again = makeButton("Try again", () => this.begin());
      this.form.replaceChildren(note(/** @type {Error} */ (error).message), again);
    }
  }

  /** @param {Input[]} inputs @param {string[]} dtypes @param {string[]} devices */
  fill(inputs, dtypes, devices) {
    this.readers = [];
    this.form.replaceChildren();
    for (const input of inputs) this.form.append(this.control(input, dtypes, devices));
    if (!inputs.length) this.form.append(note(this.about.textContent ? NOTHING_READ : "The call has no inputs that can be changed."));
    else this.form.append(makeButton("Reset", () => this.reset(inputs, dtypes, devices)));
    this.said.textContent = inputs.length ? "Change an input to see what the engine would do." : "";
  }

  /** @param {Input[]} inputs @param {string[]} dtypes @param {string[]} devices */
  reset(inputs, dtypes, devices) {
    this.forget();
    this.fill(inputs, dtypes, devices);
  }

  /** No answer holds any more. */
  forget() {
    this.said.textContent = "";
    this.answer.replaceChildren();
    this.asked += 1;
    this.tell([]);
  }

  /** @param {Input} input @param {string[]} dtypes @param {string[]} devices */
  control(input, dtypes, devices) {
    const box = make("fieldset", "", "", make("legend", "", input.path));
    if (input.kind === "tensor") this.tensorControl(box, input, dtypes, devices);
    else if (input.kind === "value") this.valueControl(box, input);
    else box.append(note(`${input.text}: only tensors and plain values can be changed here`));
    return box;
  }

  /** @param {HTMLElement} box @param {Input} input @param {string[]} dtypes @param {string[]} devices */
  tensorControl(box, input, dtypes, devices) {
    const shape = textField(box, "shape", input.shape.join(", "), `shape of ${input.path}`);
    const dtype = choice(box, "dtype", dtypes, input.dtype, `dtype of ${input.path}`);
    const device = choice(box, "device", devices, input.device, `device of ${input.path}`);
    const grad = /** @type {HTMLInputElement} */ (make("input"));
    grad.type = "checkbox";
    grad.checked = input.grad;
    box.append(make("label", "", "requires_grad ", grad));
    this.readers.push(() => {
      /** @type {Record<string, any>} */
      const change = {};
      const sizes = sizesOf(shape.value);
      if (sizes.join() !== input.shape.join()) change.shape = sizes;
      if (dtype.value !== input.dtype) change.dtype = dtype.value;
      if (device.value !== input.device) change.device = device.value;
      if (grad.checked !== input.grad) change.requires_grad = grad.checked;
      return Object.keys(change).length ? [input.path, change] : null;
    });
  }

  /** @param {HTMLElement} box @param {Input} input */
  valueControl(box, input) {
    const field = textField(box, "value", input.text, `value of ${input.path}`);
    this.readers.push(() => (field.value === input.text ? null : [input.path, { value: field.value }]));
  }

  soon() {
    clearTimeout(this.timer);
    this.timer = window.setTimeout(() => this.ask(), SOON);
  }

  async ask() {
    clearTimeout(this.timer);
    const asked = (this.asked += 1);
    const changed = this.readers.map((read) => read()).filter((change) => change !== null);
    const changes = Object.fromEntries(/** @type {any} */ (changed));
    try {
      // what guards say comes at once; to translate a whole model takes longer
      const began = performance.now();
      const { body } = await this.live.ask("what_if", { changes, quick: true }, QUICK);
      if (asked !== this.asked) return;
      const misses = body.outcome === "recompile" || body.outcome === "compile";
      this.show(body, performance.now() - began, misses);
      if (!misses) return;
      const whole = await this.live.ask("what_if", { changes }, 8 * QUICK);
      if (asked === this.asked) this.show(whole.body, performance.now() - began, false);
    } catch (error) {
      if (asked !== this.asked) return;
      this.said.textContent = /** @type {Error} */ (error).message;
      this.answer.replaceChildren();
      this.tell([]);
    }
  }

  /** @param {Record<string, any>} body @param {number} took in milliseconds @param {boolean} isFirst whether the new capture is still tried */
  show(body, took, isFirst) {
    const said = String(body.said);
    this.said.textContent = `${said[0].toUpperCase()}${said.slice(1)}.`;
    this.said.dataset.outcome = body.outcome;
    const numbers = body.entries.map((/** @type {EntryVerdict} */ { entry }) => entry).sort((/** @type {number} */ one, /** @type {number} */ other) => one - other);
    const failing = body.entries.flatMap((/** @type {EntryVerdict} */ entry) => failuresOf(entry, numbers.indexOf(entry.entry) + 1));
    const list = make("ul", "dynx-fails");
    for (const text of failing) list.append(make("li", "", text));
    this.answer.replaceChildren(list);
    for (const broke of body.breaks) this.answer.append(note(`graph break in the new version: ${broke}`));
    if (body.difference) this.answer.append(differenceTables(body.difference, `version ${numbers.indexOf(body.entries[0].entry) + 1}`, "the new version"));
    const more = isFirst ? "; capturing again …" : "; nothing was run, and the cache is unchanged";
    this.answer.append(note(`answered in ${took.toFixed(0)} ms${more}`));
    this.tell(body.entries);
  }

  /** @param {EntryVerdict[]} entries */
  tell(entries) {
    this.explorer.root.dispatchEvent(new CustomEvent(VERDICTS, { detail: entries }));
  }
}

/** @param {EntryVerdict} entry @param {number} version its number among the compiled versions @returns {string[]} */
function failuresOf(entry, version) {
  return entry.guards
    .filter((guard) => guard.alone === "fail")
    .map(({ guard, actual, verdict }) => `version ${version}: ${guard}, found ${actual.split(" (tensor ")[0]}${verdict === "fail" ? "" : " (not reached)"}`);
}

/** "2, 3" or "[2, 3]" as sizes; a word that is no number is left for the kernel to refuse. @param {string} text */
function sizesOf(text) {
  const words = text.replace(/[[\]()]/g, " ").split(/[,\s×x]+/).filter(Boolean);
  return words.map((word) => (/^\d+$/.test(word) ? Number(word) : word));
}

/** @param {HTMLElement} box @param {string} name @param {string} value @param {string} label */
function textField(box, name, value, label) {
  const field = /** @type {HTMLInputElement} */ (make("input"));
  field.type = "text";
  field.value = value;
  field.spellcheck = false;
  field.setAttribute("aria-label", label);
  box.append(make("label", "", `${name} `, field));
  return field;
}

/** @param {HTMLElement} box @param {string} name @param {string[]} options @param {string} value @param {string} label */
function choice(box, name, options, value, label) {
  const field = /** @type {HTMLSelectElement} */ (make("select"));
  for (const option of options) field.append(new Option(option, option, false, option === value));
  field.setAttribute("aria-label", label);
  box.append(make("label", "", `${name} `, field));
  return field;
}
