// @ts-check
/**
 * The symbolic stack and the locals of the function at hand, and what the step did to them: + pushed or new, − popped or
 * deleted, ~ changed. Beside each symbolic value stands the real one, where the real run was recorded.
 */

import { PLACE_COLUMNS, STATE_LOCAL_COLUMNS, STATE_STACK_COLUMNS } from "../columns.js";
import { textTable } from "../copying.js";
import { make, makeTable, note, plural } from "../dom.js";
import { RealValues, realCell } from "../real.js";
import { Rows } from "../rows.js";

/** The class of a row by its sign. @type {Record<string, string>} */
const SIGNS = { "+": "dynx-new", "~": "dynx-new", "−": "dynx-gone" };

/** @type {import("../types.js").Pane} */
export const statePane = {
  key: "state",
  title: "Stack and locals",
  build(explorer, place) {
    const rows = new Rows();
    const real = new RealValues(explorer);
    return {
      lists: [rows],
      copies: { "stack and locals": () => textOf(explorer) },
      showFrame: (frame) => real.showFrame(frame),
      showState(state, position) {
        rows.clear();
        const { before, after } = explorer.states().around(position);
        /** @type {(value: number, sign: string, where: string) => HTMLElement} */
        const row = (value, sign, where) => {
          const made = valueRow(explorer, rows, value, state.attempt ?? 0, sign, where);
          if (real.recorded) made.append(sign === "−" ? realCell(undefined) : realCell(real.of(value, position)));
          return made;
        };
        const shown = (/** @type {string[]} */ columns) => columns.filter((name) => real.recorded || name !== "real value");
        const stack = makeTable("Symbolic stack, top first", shown(STATE_STACK_COLUMNS));
        const keep = state.keep ?? 0;
        const gone = (before?.stack ?? []).slice(keep).reverse();
        const slots = after.stack.map((value, slot) => row(value, slot >= keep ? "+" : "", String(slot))).reverse();
        stack.body.append(...gone.map((value) => row(value, "−", "popped")), ...slots);
        const names = makeTable("Locals", shown(STATE_LOCAL_COLUMNS));
        for (const [name, value] of after.locals) {
          const old = before?.locals.get(name);
          const local = row(value, !before || old === value ? "" : old === undefined ? "+" : "~", name);
          local.append(make("td", "dynx-was dynx-wrapped", old === undefined || old === value ? "" : explorer.value(old)));
          names.body.append(local);
        }
        for (const [name, value] of before?.locals ?? []) if (!after.locals.has(name)) names.body.append(row(value, "−", name));
        const pushed = after.stack.length - Math.min(keep, after.stack.length);
        const set = (state.set ?? []).length && before ? (state.set ?? []).length : 0;
        const facts = [count(gone.length, "popped"), count(pushed, "pushed"), set ? `${plural(set, "local")} changed` : ""].filter(Boolean);
        place.heading.textContent = `Stack and locals${facts.length ? `: ${facts.join(", ")}` : ""}`;
        const rule = state.kind ? "" : (state.rule ?? explorer.data.rules?.[state.text.split(" ")[0]] ?? "");
        const said = [...real.said(position), ...(rule ? [note(`rule: ${rule}`)] : [])];
        place.body.replaceChildren(...said, stack.body.children.length ? stack.table : note("the stack is empty"), names.table);
      },
    };
  },
};

/** @param {number} number @param {string} what */
function count(number, what) {
  return number ? `${number} ${what}` : "";
}

/** @param {import("../page.js").Explorer} explorer @returns {string} */
function textOf(explorer) {
  const { after } = explorer.states().around(explorer.position);
  const stack = after.stack.map((value, slot) => [`stack ${slot}`, explorer.value(value)]).reverse();
  const locals = [...after.locals].map(([name, value]) => [name, explorer.value(value)]);
  return textTable(Object.keys(PLACE_COLUMNS), [...stack, ...locals]);
}

/**
 * @param {import("../page.js").Explorer} explorer
 * @param {Rows} rows
 * @param {number} number of the value
 * @param {number} attempt
 * @param {string} sign of what happened
 * @param {string} where it is
 */
function valueRow(explorer, rows, number, attempt, sign, where) {
  const { id, kind } = explorer.data.values[number];
  const own = `value:${explorer.frame.id}:${attempt}:${id}`;
  const key = explorer.links.items.has(own) ? own : `value:${explorer.frame.id}:0:${id}`;
  const row = rows.row(key, [sign, where, explorer.value(number)]);
  row.title = kind;
  if (sign) row.classList.add(SIGNS[sign]);
  return row;
}
