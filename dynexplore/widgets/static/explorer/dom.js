// @ts-check
/**
 * Elements of the page. Every text gets in through textContent, so nothing of a recording can become markup.
 */

/**
 * An element with a class, text and children.
 * @param {string} tag
 * @param {string} [name] its class
 * @param {string} [text]
 * @param {...Node} children
 * @returns {HTMLElement}
 */
export function make(tag, name = "", text = "", ...children) {
  const made = document.createElement(tag);
  if (name) made.className = name;
  if (text) made.textContent = text;
  if (children.length) made.append(...children);
  return made;
}

/**
 * A button; `label` is what a screen reader says and what the pointer shows, where the text alone does not say it.
 * @param {string} text
 * @param {() => void} act
 * @param {{name?: string, label?: string}} [more]
 * @returns {HTMLElement}
 */
export function makeButton(text, act, { name = "", label = "" } = {}) {
  const button = make("button", name, text);
  button.setAttribute("type", "button");
  if (label) {
    button.setAttribute("aria-label", label);
    button.title = label;
  }
  button.addEventListener("click", act);
  return button;
}

/**
 * A table with its header row.
 * @param {string} label
 * @param {string[]} header
 * @returns {{table: HTMLElement, body: HTMLElement}}
 */
export function makeTable(label, header) {
  const row = make("tr");
  for (const name of header) {
    const cell = make("th", "", name);
    cell.setAttribute("scope", "col");
    row.append(cell);
  }
  const body = make("tbody");
  const table = make("table", "", "", make("thead", "", "", row), body);
  table.setAttribute("aria-label", label);
  return { table, body };
}

/** A longer text in a table goes on below itself where there is no room; a shorter one stands in one line. */
const LONG = 20;

/** A cell of a table. @param {string} text */
export function makeCell(text) {
  return make("td", text.length > LONG ? "dynx-wrapped" : "", text);
}

/**
 * A row that cannot be chosen.
 * @param {...string} cells
 * @returns {HTMLElement}
 */
export function plainRow(...cells) {
  return make("tr", "", "", ...cells.map(makeCell));
}

/**
 * A soft sentence: that there is nothing, or facts beside a heading.
 * @param {string} text
 * @returns {HTMLElement}
 */
export function note(text) {
  return make("p", "dynx-facts", text);
}

/**
 * What a state is, without the code of a graph break: that stands in what is copied as a report.
 * @param {string} text
 */
export function withoutCode(text) {
  return text.replace(/\b(graph break) (?:DX|GB)\d+/gi, "$1").replace(/^(?:DX|GB)\d+: /, "").replaceAll("`", "");
}

/**
 * A count with its noun, as views/counts.py says it.
 * @param {number} count
 * @param {string} noun of one
 * @param {string} [many] the noun of several
 * @returns {string}
 */
export function plural(count, noun, many = `${noun}s`) {
  return `${count} ${count === 1 ? noun : many}`;
}

/**
 * @template T
 * @param {Map<string, T[]>} map
 * @param {string} key
 * @param {T} value
 */
export function push(map, key, value) {
  const there = map.get(key);
  if (there) there.push(value);
  else map.set(key, [value]);
}

/**
 * The arguments of a node as a call has them: without the comma behind a single one, and with numbers of six digits.
 * @param {string} args @returns {string}
 */
export function asCall(args) {
  return args.replace(/,\)$/, ")").replace(/(?<![\w.])-?\d+\.\d{7,}(?:e-?\d+)?/g, (number) => String(Number(Number(number).toPrecision(6))));
}

/** Text in which what stands between backticks is code. @param {string} text @returns {Node[]} */
export function prose(text) {
  return text.split("`").map((piece, at) => (at % 2 ? make("code", "", piece) : document.createTextNode(piece)));
}

/** A text as a sentence: with a capital, unless code begins it, and a full stop. @param {string} text @returns {string} */
export function sentence(text) {
  const trimmed = text.trim();
  if (!trimmed) return "";
  const begin = /^[a-z]+(?:[ ,;:]|$)/.test(trimmed) ? trimmed[0].toUpperCase() + trimmed.slice(1) : trimmed;
  return /[.!?:]$/.test(begin) ? begin : `${begin}.`;
}

/** A place whose long name goes on below itself behind a sign, not within a word. @param {string} text @returns {Node[]} */
export function breakable(text) {
  return text.split(/(?<=[_./:])/).flatMap((piece) => [document.createTextNode(piece), make("wbr")]);
}
