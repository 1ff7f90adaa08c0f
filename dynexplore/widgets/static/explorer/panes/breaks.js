// @ts-check
/**
 * The graph breaks of a frame, each with its report and what was on the stack and in the locals there, and the resume
 * functions that go on behind them.
 */

import { EMITTED_COLUMNS, PLACE_COLUMNS, tableOf } from "../columns.js";
import { make, note } from "../dom.js";
import { Rows } from "../rows.js";

/**
 * @typedef {import("../page.js").Explorer} Explorer
 * @typedef {import("../types.js").Break} Break
 */

/** @type {import("../types.js").Pane} */
export const breaksPane = {
  key: "breaks",
  title: "Graph breaks",
  wanted: (data) => data.frames.some(({ breaks, resume }) => breaks.length || resume.length),
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
  const slots = broke.stack.map((value, slot) => ({ where: `stack ${slot}`, value: explorer.value(value) }));
  const locals = broke.locals.map(([name, value]) => ({ where: name, value: explorer.value(value) }));
  const table = tableOf("Stack and locals at the break", PLACE_COLUMNS, [...slots, ...locals]);
  return make("div", "dynx-row dynx-block", "", make("pre", "", broke.report), table);
}

/** @param {import("../types.js").Resume} made */
function resumeBlock(made) {
  const title = `${made.name}(${made.parameters.join(", ")}) continues at offset ${made.offset}`;
  const table = tableOf(made.name, EMITTED_COLUMNS, made.rows);
  return make("div", "dynx-row dynx-block", "", make("details", "", "", make("summary", "", title), table));
}
