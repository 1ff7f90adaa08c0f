// @ts-check
/**
 * The symbolic stack and the locals as boxes: name, dtype and shape, and below them the value that it really had. + pushed or new,
 * ~ changed, − popped or deleted by this step. The tab "Stack & locals" says more of each.
 */

import { make, note } from "../dom.js";
import { RealValues } from "../real.js";
import { Rows } from "../rows.js";

/** The class of a box by its sign. @type {Record<string, string>} */
const SIGNS = { "+": "dynx-pushed", "~": "dynx-changed", "−": "dynx-popped" };

/** Longer texts are cut in a box; the tab has them whole. */
const LONGEST = 26;

/** @type {import("../types.js").Pane} */
export const boxesPane = {
  key: "boxes",
  title: "Stack and locals",
  place: "now",
  build(explorer, { body, heading, tools }) {
    const rows = new Rows();
    const real = new RealValues(explorer);
    const rule = make("span", "dynx-facts dynx-rule");
    tools.append(rule);
    const stack = make("div", "dynx-row-of-boxes");
    const locals = make("div", "dynx-row-of-boxes");
    const diverges = make("div");
    heading.textContent = "Stack";
    const shelves = make("div", "dynx-shelves", "", make("div", "dynx-shelf", "", make("h4", "", "Stack"), stack), make("div", "dynx-shelf", "", make("h4", "", "Locals"), locals));
    body.append(diverges, shelves);
    return {
      lists: [rows],
      showFrame: (frame) => real.showFrame(frame),
      showState(state, position) {
        rows.clear();
        const { before, after } = explorer.states().around(position);
        const keep = state.keep ?? 0;
        const none = explorer.frame.states.some(({ kind }) => !kind) ? ["empty", "none"] : ["not recorded", "not recorded"];
        /** @type {(value: number, sign: string, name: string) => HTMLElement} */
        const box = (value, sign, name) => boxOf(explorer, rows, real, { value, sign, name, position });
        const slots = after.stack.map((value, slot) => box(value, slot >= keep ? "+" : "", ""));
        const popped = (before?.stack ?? []).slice(keep).map((value) => box(value, "−", ""));
        stack.replaceChildren(...(slots.length || popped.length ? [...slots, ...popped] : [note(none[0])]));
        const names = [...after.locals].map(([name, value]) => {
          const old = before?.locals.get(name);
          return box(value, !before || old === value ? "" : old === undefined ? "+" : "~", name);
        });
        const gone = [...(before?.locals ?? [])].filter(([name]) => !after.locals.has(name)).map(([name, value]) => box(value, "−", name));
        locals.replaceChildren(...(names.length || gone.length ? [...names, ...gone] : [note(none[1])]));
        diverges.replaceChildren(...real.said(position));
        const where = state.kind ? "" : (state.rule ?? explorer.data.rules?.[state.text.split(" ")[0]] ?? "");
        rule.textContent = rule.title = where;
        heading.title = headingOf(explorer, state);
        heading.textContent = heading.title.split("; ")[0]; // one line, which the rule shares
      },
    };
  },
};

/** What this step is, in words. @param {import("../page.js").Explorer} explorer @param {import("../types.js").State} state */
function headingOf(explorer, state) {
  const help = explorer.help(state.text.split(" ")[0]);
  return help ? `${state.text}: ${help.slice(help.indexOf("): ") + 3)}` : state.text;
}

/**
 * @param {import("../page.js").Explorer} explorer
 * @param {Rows} rows
 * @param {RealValues} real
 * @param {{value: number, sign: string, name: string, position: number}} what
 */
function boxOf(explorer, rows, real, { value, sign, name, position }) {
  const { id, kind, text, source, node } = explorer.data.values[value];
  const origin = node ? explorer.label(node) : explorer.names(source);
  const title = name || (origin && origin !== text ? origin : "");
  const of = name && origin && origin !== name && origin !== text ? `${origin}: ` : "";
  const box = make("div", `dynx-box ${SIGNS[sign] ?? ""}`);
  if (title) box.append(make("b", "", clipped(`${sign}${title}`)));
  box.append(make("span", "dynx-kind", clipped(`${title ? "" : sign}${of}${text.replace(/ cpu$/, "")}`)));
  const really = real.recorded && sign !== "−" ? real.of(value, position) : undefined;
  const shown = really && really.provenance !== "not observed" ? shortOf(really.elements || really.text, text) : "";
  if (shown && shown !== text) box.append(make("span", "dynx-really", clipped(shown)));
  box.title = [`${kind} ${explorer.value(value)}`, really?.text, really?.elements, really?.why].filter(Boolean).join("; ");
  const attempt = explorer.frame.states[position].attempt ?? 0;
  const own = `value:${explorer.frame.id}:${attempt}:${id}`;
  return rows.choosable(box, explorer.links.items.has(own) ? own : `value:${explorer.frame.id}:0:${id}`);
}

/**
 * The elements of a small tensor as a list; of a larger one from where to where they go.
 * @param {string} real @param {string} symbolic which says the shape
 */
function shortOf(real, symbolic) {
  const found = /^min (\S+) mean (\S+) max (\S+?), first (.*)$/.exec(real);
  if (!found) return real;
  const [, least, , most, first] = found;
  const sizes = /\[(.*?)\]/.exec(symbolic)?.[1].split(", ").filter(Boolean).map(Number) ?? [NaN];
  const all = sizes.reduce((product, size) => product * size, 1) <= first.split(", ").length;
  return all ? `[${first}]` : `${least} … ${most}`;
}

/** @param {string} text */
function clipped(text) {
  if (text.length <= LONGEST) return text;
  return text.includes(" ") ? `${text.slice(0, LONGEST - 1)}…` : `…${text.slice(1 - LONGEST)}`; // of a path the end tells more
}
