// @ts-check
/**
 * The graph breaks of a frame, each with its report and what was on the stack and in the locals there, and the resume
 * functions that go on behind them.
 */

import { make, makeTable, note, plainRow } from "../dom.js";
import { Rows } from "../rows.js";
import { EMITTED, emittedCells } from "./bytecode.js";

/**
 * @typedef {import("../page.js").Explorer} Explorer
 * @typedef {import("../types.js").Break} Break
 */

/** @type {import("../types.js").Pane} */
export const breaksPane = {
  key: "breaks",
  title: "Graph breaks",
  span: 5,
  build(explorer, { body }) {
    const rows = new Rows();
    return {
      lists: [rows],
      copies: { "graph break as an issue": () => issueText(explorer) },
      showFrame({ breaks, resume }) {
        rows.clear();
        body.replaceChildren(
          ...breaks.map((broke) => rows.choosable(breakBlock(explorer, broke), broke.key)),
          ...resume.map((made) => rows.choosable(resumeBlock(made), made.key)),
        );
        if (!body.children.length) body.append(note("no graph break"));
      },
    };
  },
};

/** The chosen break, or all of the frame, as the text of a bug report. @param {Explorer} explorer @returns {string} */
function issueText({ data, frame, chosen }) {
  const some = frame.breaks.filter(({ key }) => key === chosen);
  const { name, lines } = data.codes[frame.code];
  const reports = (some.length ? some : frame.breaks).map(({ title, report }) => `### Graph break ${title}\n\n\`\`\`\n${report}\n\`\`\`\n`);
  if (!reports.length) return `No graph break in ${name}.`;
  return [...reports, data.versions ? `${data.versions}\n` : "", `Source of ${name}:\n\n\`\`\`python\n${lines.join("\n")}\n\`\`\`\n`].filter(Boolean).join("\n");
}

/** @param {Explorer} explorer @param {Break} broke */
function breakBlock(explorer, broke) {
  const { table, body } = makeTable("Stack and locals at the break", ["where", "value"]);
  broke.stack.forEach((value, slot) => body.append(plainRow(`stack ${slot}`, explorer.value(value))));
  for (const [name, value] of broke.locals) body.append(plainRow(name, explorer.value(value)));
  return make("div", "dynx-row dynx-block", "", make("pre", "", broke.report), table);
}

/** @param {import("../types.js").Resume} made */
function resumeBlock(made) {
  const title = `${made.name}(${made.parameters.join(", ")}) goes on at offset ${made.offset}`;
  const { table, body } = makeTable(made.name, EMITTED);
  for (const row of made.rows) body.append(plainRow(...emittedCells(row)));
  return make("div", "dynx-row dynx-block", "", make("details", "", "", make("summary", "", title), table));
}
