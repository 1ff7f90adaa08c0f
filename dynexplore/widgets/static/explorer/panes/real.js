// @ts-check
/**
 * The real run: whether anything in it diverges from the symbolic one, how long each graph took, and what the locals of
 * the modified code were as it ran.
 */

import { RAN_COLUMNS, RUN_COLUMNS, tableOf } from "../columns.js";
import { make, makeButton, makeTable, note, plainRow } from "../dom.js";
import { RealValues, divergences, goToDivergence, realCell } from "../real.js";

/** @type {import("../types.js").Pane} */
export const realPane = {
  key: "real",
  title: "Real run",
  wanted: (data) => Boolean(data.real?.verdict),
  build(explorer, place) {
    const { data } = explorer;
    const values = new RealValues(explorer);
    const diverging = divergences(data);
    const said = make("p", diverging.length ? "dynx-diverges" : "dynx-clean", (diverging.length ? "⚑ " : "✓ ") + data.real.verdict);
    const runs = tableOf("Runs of the graphs", RUN_COLUMNS, data.real.runs);
    const locals = make("div");
    place.body.append(said, ...diverging.length ? [divergenceList(explorer)] : [], runs, locals);
    return {
      showFrame(frame) {
        const ran = frame.real?.ran ?? [];
        const table = makeTable("Locals of the modified code at run time", RAN_COLUMNS);
        for (const { moment, name, value } of ran) {
          const row = plainRow(moment, name);
          row.append(realCell(values.row(value)));
          table.body.append(row);
        }
        const title = note(`Locals of the modified code of ${frame.name} at run time:`);
        locals.replaceChildren(...(ran.length ? [title, table.table] : []));
      },
    };
  },
};

/** Every divergence, each a button that goes there. @param {import("../page.js").Explorer} explorer */
function divergenceList(explorer) {
  const list = make("ul", "dynx-divergences");
  for (const one of divergences(explorer.data)) {
    const go = makeButton(one.text, () => goToDivergence(explorer, one), { name: "dynx-jump", label: "" });
    list.append(make("li", "", `frame ${one.frame}: `, go));
  }
  return list;
}
