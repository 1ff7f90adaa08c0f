// @ts-check
/**
 * Live stepping: the real translation and the real run of the call, one step at a time, in a thread of the kernel that waits
 * between the steps. What the call prints and changes, happens; its inputs are copies. In the explorer of a notebook's cell it
 * is the call of the frame that was on show when it was started.
 */

import { LIVE_LOCAL_COLUMNS, LIVE_STACK_COLUMNS, OBSERVED_COLUMNS, tableOf } from "../columns.js";
import { make, makeButton, note } from "../dom.js";
import { fitting } from "../fitted.js";

const QUICK_STEP = 10_000; // how long an answer may take, in milliseconds: the kernel gives one within a tenth of a second
const AGAIN = 250; // milliseconds until a call that still runs is looked at again

/** @type {{text: string, body: {act: string} & Record<string, any>, label: string}[]} */
const MOVES = [
  { text: "Step", body: { act: "step" }, label: "Run one step" },
  { text: "10 steps", body: { act: "step", count: 10 }, label: "Run ten steps" },
  { text: "To a break", body: { act: "until", what: "break" }, label: "Run to the next graph break" },
  { text: "To a graph", body: { act: "until", what: "graph" }, label: "Run until a graph is compiled or called" },
  { text: "To the end", body: { act: "until", what: "end" }, label: "Run to the end of the call" },
  { text: "Stop", body: { act: "stop" }, label: "Abort the call at this step" },
];

/** @type {import("../types.js").Pane} */
export const liveRunPane = {
  key: "live",
  title: "Live run",
  wanted: (_data, live) => Boolean(live), // what a file cannot do is said once, by the pane beside this one
  build(explorer, { body }) {
    const { live } = explorer;
    if (live) new LiveRun(live, body);
    return {};
  },
};

/** The buttons, and where the run stands. */
class LiveRun {
  /** @param {import("../live.js").Live} live @param {HTMLElement} body */
  constructor(live, body) {
    this.live = live;
    this.bar = make("p", "dynx-form");
    this.said = make("p", "dynx-verdict", "Press Start to run the call step by step.");
    this.said.setAttribute("role", "status");
    this.about = note("");
    this.place = make("pre", "dynx-place");
    this.shown = make("div", "dynx-detail");
    this.bar.append(makeButton("Start", () => this.ask({ act: "start" }), { label: "Run the call again, paused before its first step" }));
    /** @type {HTMLElement[]} */
    this.moves = MOVES.map(({ text, body, label }) => makeButton(text, () => this.ask(body), { label }));
    this.bar.append(...this.moves);
    body.append(this.bar, this.about, this.said, this.place, this.shown);
    this.able(false);
  }

  /** @param {boolean} isParked */
  able(isParked) {
    this.moves.forEach((button, at) => button.toggleAttribute("disabled", !isParked && (MOVES[at].body.act !== "stop" || !this.isOn)));
  }

  /** @param {Record<string, any>} body */
  async ask(body) {
    const focused = document.activeElement;
    try {
      this.show((await this.live.ask("live", body, QUICK_STEP)).body);
    } catch (error) {
      this.isOn = false;
      this.said.textContent = /** @type {Error} */ (error).message;
      this.able(false);
    }
    if (focused instanceof HTMLElement && this.bar.contains(focused)) focused.focus();
  }

  /** @param {Record<string, any>} body */
  show(body) {
    this.isOn = body.status === "parked" || body.status === "running";
    this.able(body.status === "parked");
    this.said.textContent = saying(body);
    this.about.textContent = body.about ? `This runs ${body.about}.` : "";
    if (body.status === "running") setTimeout(() => this.ask({ act: "look" }), AGAIN);
    if (body.moment < 0) {
      this.place.textContent = "";
      this.shown.replaceChildren();
      return;
    }
    this.place.textContent = body.source ? `line ${body.line}: ${body.source.trim()}` : "";
    const stack = tableOf("Stack of the live run, top first", LIVE_STACK_COLUMNS, body.stack);
    const names = tableOf("Locals of the live run", LIVE_LOCAL_COLUMNS, body.locals);
    const made = make("ul", "dynx-fails");
    for (const text of body.made) made.append(make("li", "", text));
    const values = tableOf("Real values so far, the latest first", OBSERVED_COLUMNS, body.values);
    const real = body.values.length ? fitting(values) : note("no real values yet");
    this.shown.replaceChildren(made, body.stack.length ? stack : note("the stack is empty"), names, real);
  }
}

/** @param {Record<string, any>} body */
function saying(body) {
  const where = body.moment < 0 ? "before its first step" : `at step ${body.moment + 1}, frame ${body.frame} ${body.function}: ${body.text}`;
  if (body.status === "finished") return `Finished with the result ${body.value}.`;
  if (body.status === "failed") return `Failed: ${body.raised}`;
  if (body.status === "stopped") return `Stopped ${where}.`;
  return body.status === "running" ? "Running …" : `Paused ${where}.`;
}
