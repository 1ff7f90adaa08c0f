// @ts-check
/**
 * The real run: whether anything in it diverges from the symbolic one, how long each graph took, and what the locals of
 * the modified code were as it ran.
 */

import { make, makeButton, makeTable, note, plainRow } from "../dom.js";
import { RealValues, divergences, goToDivergence, realCell } from "../real.js";

/** @type {import("../types.js").Pane} */
export const realPane = {
  key: "real",
  title: "Real run",
  span: 12,
  wanted: (data) => Boolean(data.real?.verdict),
  build(explorer, place) {
    const { data } = explorer;
    const values = new RealValues(explorer);
    const found = divergences(data);
    const said = make("p", found.length ? "dynx-diverges" : "dynx-clean", (found.length ? "⚑ " : "✓ ") + data.real.verdict);
    const runs = makeTable("Runs of the graphs", ["frame", "graph", "run", "wall time", "compared with the replay"]);
    for (const cells of data.real.runs) runs.body.append(plainRow(...cells));
    const locals = make("div");
    place.body.append(said, ...found.length ? [divergenceList(explorer)] : [], runs.table, locals);
    return {
      showFrame(frame) {
        const ran = /** @type {[string, string, number][]} */ (frame.real?.ran ?? []);
        const table = makeTable("Locals of the modified code as it ran", ["when", "name", "real value"]);
        for (const [moment, name, number] of ran) {
          const row = plainRow(moment, name);
          row.append(realCell(values.row(number)));
          table.body.append(row);
        }
        const title = note(`Locals of the modified code of ${frame.name}, as it ran:`);
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
