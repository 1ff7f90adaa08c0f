// @ts-check
/**
 * Live stepping: the real translation and the real run of the call, one moment at a time, in a thread of the kernel that waits
 * between the steps. What the call prints and changes, happens; its inputs are copies. In the explorer of a notebook's cell it
 * is the call of the frame that was on show when it was started.
 */

import { make, makeButton, makeTable, note, plainRow, scrollable } from "../dom.js";

const QUICK_STEP = 10_000; // how long an answer may take, in milliseconds: the kernel gives one within a tenth of a second
const AGAIN = 250; // milliseconds until a call that still runs is looked at again

/** @type {[string, Record<string, any>, string][]} */
const MOVES = [
  ["Step", { act: "step" }, "One moment further"],
  ["10 steps", { act: "step", count: 10 }, "Ten moments further"],
  ["To a break", { act: "until", what: "break" }, "To the next graph break"],
  ["To a graph", { act: "until", what: "graph" }, "To the next graph that is compiled or run"],
  ["To the end", { act: "until", what: "end" }, "To the end of the call"],
  ["Stop", { act: "stop" }, "End the call where it stands"],
];

/** @type {import("../types.js").Pane} */
export const liveRunPane = {
  key: "live",
  title: "Live run",
  span: 5,
  build(explorer, { body }) {
    const { live } = explorer;
    if (live) new LiveRun(live, body);
    else body.append(note("To step through a call that really runs, show the explanation in a notebook: a file has no program behind it."));
    return {};
  },
};

/** The buttons, and where the run stands. */
class LiveRun {
  /** @param {import("../live.js").Live} live @param {HTMLElement} body */
  constructor(live, body) {
    this.live = live;
    this.bar = make("p", "dynx-form");
    this.said = make("p", "dynx-verdict", "Start it, and step.");
    this.said.setAttribute("role", "status");
    this.about = note("");
    this.place = make("pre", "dynx-place");
    this.shown = make("div", "dynx-detail");
    this.bar.append(makeButton("Start", () => this.ask({ act: "start" }), { label: "Run the call anew, and stop before its first moment" }));
    /** @type {HTMLElement[]} */
    this.moves = MOVES.map(([text, body, label]) => makeButton(text, () => this.ask(body), { label }));
    this.bar.append(...this.moves);
    body.append(this.bar, this.about, this.said, this.place, this.shown);
    this.able(false);
  }

  /** @param {boolean} isParked */
  able(isParked) {
    this.moves.forEach((button, at) => button.toggleAttribute("disabled", !isParked && (MOVES[at][1].act !== "stop" || !this.isOn)));
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
    const stack = makeTable("Stack of the live run, top first", ["stack"]);
    for (const value of body.stack) stack.body.append(plainRow(value));
    const names = makeTable("Locals of the live run", ["local", "value"]);
    for (const cells of body.locals) names.body.append(plainRow(...cells));
    const made = make("ul", "dynx-fails");
    for (const text of body.made) made.append(make("li", "", text));
    const values = makeTable("Real values so far, the latest first", ["frame", "of", "name", "real value", "range", "first elements"]);
    for (const cells of body.values) values.body.append(plainRow(...cells));
    const real = body.values.length ? scrollable(values.table) : note("no real value was seen yet");
    this.shown.replaceChildren(made, body.stack.length ? stack.table : note("the stack is empty"), names.table, real);
  }
}

/** @param {Record<string, any>} body */
function saying(body) {
  const where = body.moment < 0 ? "before its first moment" : `at moment ${body.moment}, frame ${body.frame} ${body.function}: ${body.text}`;
  if (body.status === "finished") return `It is over, and gave ${body.value}.`;
  if (body.status === "failed") return `It is over: ${body.raised}`;
  if (body.status === "stopped") return `Stopped ${where}.`;
  return body.status === "running" ? "It runs …" : `It stands ${where}.`;
}
