// @ts-check
/**
 * The graph breaks of a frame: a row for each, and of the chosen one its reason, place and remedy, the stack and the live values
 * there, what each resume function receives, and its code beside the code that it continues.
 *
 * In:  `data.inspection`, made by views/break_inspection.py; the rows of resume functions stand with their frame.
 */

import { BREAK_LOCAL_COLUMNS, BREAK_STACK_COLUMNS, RECEIVED_COLUMNS, RESUME_COLUMNS, tableOf } from "../columns.js";
import { make, note } from "../dom.js";
import { fitting } from "../fitted.js";
import { Rows } from "../rows.js";

/**
 * @typedef {import("../page.js").Explorer} Explorer
 * @typedef {import("../types.js").Frame} Frame
 * @typedef {import("../types.js").Inspected} Inspected
 */

/** @type {import("../types.js").Pane} */
export const breaksPane = {
  key: "breaks",
  title: "Graph breaks",
  wanted: (data) => Object.keys(data.inspection).length > 0,
  build(explorer, { body }) {
    const rows = new Rows();
    let key = "";
    const show = (/** @type {string} */ wanted) => {
      if (wanted === key && body.firstChild) return;
      key = wanted;
      rows.clear();
      const broke = explorer.data.inspection[key];
      const list = explorer.frame.breaks.map((one) => rows.choosable(rowOf(explorer, one, one.key === key), one.key));
      const shown = broke ? inspected(explorer, broke, rows) : [note("this frame has no graph breaks; choose another frame")];
      body.replaceChildren(...list, make("div", "dynx-detail", "", ...shown));
    };
    return {
      lists: [rows],
      copies: { "graph break as an issue": () => issueText(explorer) },
      showFrame({ breaks }) {
        body.replaceChildren();
        show(breaks.at(-1)?.key ?? "");
      },
      showState() {
        const wanted = breakOf(explorer);
        if (wanted) show(wanted);
      },
    };
  },
};

/** The break that was chosen, or that made the resume function that was chosen. @param {Explorer} explorer */
function breakOf({ data, frame, chosen }) {
  if (chosen in data.inspection) return chosen;
  const name = frame.resume.find(({ key }) => key === chosen)?.name;
  return frame.breaks.find(({ key }) => data.inspection[key]?.resume.some((made) => made.name === name))?.key ?? "";
}

/** @param {Explorer} explorer @param {import("../types.js").Break} broke @param {boolean} isShown */
function rowOf({ data }, broke, isShown) {
  const { title, places } = data.inspection[broke.key];
  const row = make("div", "dynx-row dynx-block dynx-break-row", "", make("b", "", title), make("span", "dynx-facts", ` ${places.at(-1)?.place ?? ""}`));
  if (isShown) row.setAttribute("aria-current", "true");
  return row;
}

/** The chosen break, or all of the frame, as the text of a bug report. @param {Explorer} explorer @returns {string} */
function issueText({ data, frame, chosen }) {
  const some = frame.breaks.filter(({ key }) => key === chosen);
  const { name, lines } = data.codes[frame.code];
  const reports = (some.length ? some : frame.breaks).map(({ title, report }) => `### Graph break ${title}\n\n\`\`\`\n${report}\n\`\`\`\n`);
  if (!reports.length) return `No graph breaks in ${name}.`;
  return [...reports, data.versions ? `${data.versions}\n` : "", `Source of ${name}:\n\n\`\`\`python\n${lines.join("\n")}\n\`\`\`\n`].filter(Boolean).join("\n");
}

/** @param {Explorer} explorer @param {Inspected} broke @param {Rows} rows @returns {HTMLElement[]} */
function inspected(explorer, broke, rows) {
  const facts = make("dl", "dynx-terms");
  /** @type {(name: string, text: string) => void} */
  const tell = (name, text) => {
    if (text) facts.append(make("dt", "", name), make("dd", "", text));
  };
  tell("reason", broke.reason);
  tell("why", broke.why);
  tell("how to fix", broke.fix);
  tell("what happens next", broke.then);
  tell("kind", broke.fundamental ? "fundamental: it cannot be captured" : "not supported yet: it could be captured");
  for (const { name, text } of broke.facts) tell(name, text);
  return [
    ...broke.places.map(placeBlock),
    facts,
    valueTable("Symbolic stack at the break, top first", BREAK_STACK_COLUMNS, [...broke.stack].reverse()),
    valueTable("Live locals at the break", BREAK_LOCAL_COLUMNS, broke.locals),
    ...broke.resume.flatMap((made) => resumed(explorer, made, rows)),
  ];
}

/** A line of the user's stack, with ^ under what it is about. @param {{place: string, code: string, from: number, to: number}} at */
function placeBlock({ place, code, from, to }) {
  const letters = [...code];
  const indent = letters.findIndex((letter) => letter.trim());
  const marks = to > from ? `\n    ${" ".repeat(Math.max(from - indent, 0))}${"^".repeat(Math.min(to, letters.length) - from)}` : "";
  return make("pre", "dynx-place", `${place}${code.trim() ? `\n    ${code.trim()}${marks}` : ""}`);
}

/** @param {string} label @param {typeof BREAK_STACK_COLUMNS} columns @param {import("../types.js").Named[]} rows */
function valueTable(label, columns, rows) {
  return make("div", "", "", make("h4", "", label), rows.length ? fitting(tableOf(label, columns, rows)) : note("none"));
}

/** @param {Explorer} explorer @param {Inspected["resume"][number]} made @param {Rows} rows @returns {HTMLElement[]} */
function resumed(explorer, made, rows) {
  const title = make("h4", "dynx-row", `${made.name} continues ${made.where}`);
  const { key = "" } = explorer.frame.resume.find(({ name }) => name === made.name) ?? {};
  return [
    key ? rows.choosable(title, key) : title,
    fitting(tableOf(`Arguments of ${made.name}`, RECEIVED_COLUMNS, made.received)),
    fitting(tableOf(`${made.name} beside the original code`, RESUME_COLUMNS, besideRows(explorer, made))),
  ];
}

/** What stands before the place where it goes on is left out: only a jump back leads there. @param {Explorer} explorer @param {Inspected["resume"][number]} made */
function besideRows(explorer, made) {
  const rows = explorer.frame.resume.find((each) => each.name === made.name)?.rows ?? [];
  const originals = new Map((explorer.data.codes[made.code]?.rows ?? []).map((row) => [row.offset, row]));
  return rows
    .filter((row) => row.role !== "original" || (row.origin ?? -1) >= made.offset)
    .map((row) => ({ row, original: row.role === "original" ? originals.get(row.origin ?? -1) : undefined }));
}
