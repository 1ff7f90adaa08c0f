// @ts-check
/**
 * The headline: what happened, where (a button that goes there), what to do.
 *
 * In:  `data.story`, made by views/story.py.
 */

import { make, makeButton } from "./dom.js";

/** Signs that say the level without colour. @type {Record<string, string>} */
const SIGNS = { good: "✓", note: "i", break: "!", bad: "✕" };

/**
 * What an edited source changed: "3 → 1 graphs", and the way back.
 * @param {import("./page.js").Explorer} explorer
 * @returns {HTMLElement[]}
 */
function changed({ editing }) {
  if (!editing?.change) return [];
  const [before, now] = editing.change;
  const told = [`${before.graphs} → ${now.graphs} graphs`, `${before.breaks} → ${now.breaks} breaks`];
  const undo = makeButton("Undo", () => editing.undo(), { name: "dynx-tool", label: "Undo: show the run before the edit" });
  return [make("span", "dynx-change", told.join(", ")), undo];
}

/**
 * @param {import("./page.js").Explorer} explorer
 * @returns {HTMLElement}
 */
export function headline(explorer) {
  const { lines, level, place } = explorer.data.story;
  const [what = "", where = "", remedy = ""] = lines;
  const sign = make("span", "dynx-sign", SIGNS[level] ?? "i");
  sign.setAttribute("aria-hidden", "true");
  const told = make("div", "dynx-what", "", make("strong", "", what), ...changed(explorer));
  const answer = make("div", "dynx-answer");
  const text = make("div", "dynx-lines-of-headline", "", told, answer);
  const go = () => {
    const frame = explorer.data.frames.find(({ id }) => id === place[0]);
    if (frame) explorer.show(frame, place[1]);
  };
  if (where && place.length) answer.append(makeButton(where, go, { name: "dynx-where" }));
  else if (where) answer.append(make("span", "", where));
  if (remedy) answer.append(make("span", "dynx-remedy", remedy));
  return make("div", `dynx-headline dynx-level-${level}`, "", sign, text);
}
