// @ts-check
/**
 * Sliders and switches with what they show below them (widgets/controls.py). The kernel draws that; here a hand moves them.
 */

import { SUPPRESSES, isThePages } from "../explorer/pagekeys.js";

/**
 * @typedef {{name: string, label: string, most?: number}} Control  a slider from 0 to `most`; a switch where there is none
 */

export default {
  /** @param {{model: any, el: HTMLElement}} context */
  render({ model, el }) {
    const row = document.createElement("div");
    const below = document.createElement("div");
    row.className = "dynx-controls";
    el.append(row, below);
    el.addEventListener("keydown", (event) => isThePages(event) || event.stopPropagation());
    const keep = (/** @type {KeyboardEvent} */ event) => {
      const target = /** @type {Element} */ (event.composedPath()[0]);
      if (el.contains(target)) target.toggleAttribute(SUPPRESSES, !isThePages(event));
    };
    window.addEventListener("keydown", keep, true);
    /** @type {(() => void)[]} */
    const marks = [];
    const set = (/** @type {string} */ name, /** @type {number | boolean} */ value) => {
      model.set("values", { ...model.get("values"), [name]: value });
      model.save_changes();
    };
    for (const { name, label, most } of /** @type {Control[]} */ (model.get("controls"))) {
      const value = () => model.get("values")[name];
      if (most === undefined) {
        const button = document.createElement("button");
        button.type = "button";
        button.textContent = label;
        button.addEventListener("click", () => set(name, !value()));
        row.append(button);
        marks.push(() => button.setAttribute("aria-pressed", String(value())));
      } else {
        const [slider, number] = [document.createElement("input"), document.createElement("output")];
        Object.assign(slider, { type: "range", min: "0", max: String(most), step: "1" });
        slider.addEventListener("input", () => set(name, Number(slider.value)));
        const title = document.createElement("label");
        title.append(`${label} `, slider, " ", number);
        row.append(title);
        marks.push(() => (slider.value = number.textContent = String(value())));
      }
    }
    const mark = () => marks.forEach((one) => one());
    const draw = () => (below.innerHTML = model.get("html"));
    model.on("change:values", mark);
    model.on("change:html", draw);
    mark();
    draw();
    return () => {
      window.removeEventListener("keydown", keep, true);
      model.off("change:values", mark);
      model.off("change:html", draw);
    };
  },
};
