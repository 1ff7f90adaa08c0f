// @ts-check
/**
 * The stepper: forward, back, to the ends and anywhere, and what is said about the state at hand.
 */

import { make, makeButton } from "./dom.js";

/** The bar of steps. */
export class Stepper {
  /** @param {import("./page.js").Explorer} explorer */
  constructor(explorer) {
    this.explorer = explorer;
    this.slider = /** @type {HTMLInputElement} */ (make("input", "dynx-slider"));
    this.slider.type = "range";
    this.slider.min = "0";
    this.slider.setAttribute("aria-label", "Step");
    this.slider.addEventListener("input", () => explorer.go(Number(this.slider.value)));
    this.status = make("span", "dynx-status");
    this.status.setAttribute("role", "status");
    this.says = make("div", "dynx-says");
    this.element = make("div", "dynx-stepper", "", ...this.buttons(), this.slider, this.status, this.says);
    this.element.setAttribute("role", "toolbar");
    this.element.setAttribute("aria-label", "Steps");
  }

  buttons() {
    const { explorer } = this;
    return [
      makeButton("|◀", () => explorer.go(0), { label: "First step (Home)" }),
      makeButton("◀", () => explorer.go(explorer.position - 1), { label: "Step back (left arrow)" }),
      makeButton("▶", () => explorer.go(explorer.position + 1), { label: "Step forward (right arrow)" }),
      makeButton("▶|", () => explorer.go(Infinity), { label: "Last step (End)" }),
    ];
  }

  /** @type {Record<string, () => void>} */
  get keys() {
    const { explorer } = this;
    return {
      ArrowLeft: () => explorer.go(explorer.position - 1),
      ArrowRight: () => explorer.go(explorer.position + 1),
      Home: () => explorer.go(0),
      End: () => explorer.go(Infinity),
    };
  }

  /** @param {import("./types.js").Frame} frame */
  showFrame(frame) {
    this.slider.max = String(Math.max(0, frame.states.length - 1));
  }

  /** @param {import("./types.js").State} state @param {number} position */
  showState(state, position) {
    this.slider.value = String(position);
    const attempt = state.attempt ? `, attempt ${state.attempt}` : "";
    this.status.textContent = `${position + 1} of ${this.explorer.frame.states.length}${attempt}: ${state.text}`;
    const lines = (state.made ?? []).map((text) => make("li", "", text));
    const help = this.explorer.help(state.text.split(" ")[0]);
    this.says.replaceChildren(make("p", "dynx-help", help), make("ul", "dynx-made", "", ...lines));
  }
}
