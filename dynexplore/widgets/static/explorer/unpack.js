// @ts-check
/**
 * The data of an explorer as it was before views/packing.py put lists of objects into columns and compressed it.
 */

/** The letters of base 85 in the order of their values; views/packing.py writes . and , for < and &. */
const LETTERS = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz!#$%,()*+-;.=>?@^_`{|}~";

/**
 * The JSON text behind what an exported file holds.
 * @param {string} letters
 * @returns {Promise<string>}
 */
export async function inflated(letters) {
  const stream = new Blob([/** @type {any} */ (bytesOf(letters.trim()))]).stream().pipeThrough(new DecompressionStream("deflate"));
  return new Response(stream).text();
}

/** Four bytes for five letters; the last ones may be fewer. @param {string} letters @returns {Uint8Array} */
function bytesOf(letters) {
  const values = new Uint8Array(128);
  for (let at = 0; at < LETTERS.length; at += 1) values[LETTERS.charCodeAt(at)] = at;
  const missing = (5 - (letters.length % 5)) % 5;
  const all = letters + "~".repeat(missing);
  const bytes = new Uint8Array((all.length / 5) * 4);
  for (let from = 0, to = 0; from < all.length; from += 5, to += 4) {
    let word = 0;
    for (let at = from; at < from + 5; at += 1) word = word * 85 + values[all.charCodeAt(at)];
    bytes[to] = word / 0x1000000;
    bytes[to + 1] = word / 0x10000;
    bytes[to + 2] = word / 0x100;
    bytes[to + 3] = word;
  }
  return bytes.subarray(0, bytes.length - missing);
}

/**
 * The data of an explorer, unpacked where it stands. Its link table, of half a million entries in a large recording, is left to its
 * reader (links.js).
 * @param {any} data
 * @returns {any}
 */
export function opened(data) {
  for (const key of Object.keys(data ?? {})) if (key !== "links") data[key] = unpacked(data[key]);
  return data;
}

/**
 * The same data, unpacked where it stands.
 * @param {any} data
 * @returns {any}
 */
export function unpacked(data) {
  if (typeof data !== "object" || data === null) return data;
  if (Array.isArray(data)) {
    for (let at = 0; at < data.length; at += 1) if (typeof data[at] === "object") data[at] = unpacked(data[at]);
    return data;
  }
  if ("$columns" in data) return rowsOf(data);
  if ("$deltas" in data) return counted(data);
  if ("$names" in data) {
    const [names, values] = namesIn(data);
    return Object.fromEntries(names.map((name, at) => [name, values[at]]));
  }
  for (const key of Object.keys(data)) if (typeof data[key] === "object") data[key] = unpacked(data[key]);
  return data;
}

/** The names and the values of an object, packed or not. @param {any} object @returns {[string[], any[]]} */
export function namesIn(object) {
  if (!("$names" in object)) return [Object.keys(object), Object.values(object).map(unpacked)];
  return [object.$names.flatMap(unpacked), unpacked(object.$values)];
}

/** Objects from the columns of their fields. @param {any} table */
function rowsOf({ $kinds, $which, $columns }) {
  /** @type {Map<string, {values: any[], taken: number}>} the columns, and how many of each are taken */
  const columns = new Map();
  for (const name of Object.keys($columns)) columns.set(name, { values: unpacked($columns[name]), taken: 0 });
  const kinds = $kinds.map((/** @type {string[]} */ names) => names.map((name) => ({ name, column: /** @type {any} */ (columns.get(name)) })));
  const which = $which ? unpacked($which) : Array(columns.get($kinds[0][0])?.values.length).fill(0);
  return which.map((/** @type {number} */ kind) => {
    /** @type {Record<string, any>} */
    const object = {};
    for (const { name, column } of kinds[kind]) object[name] = column.values[column.taken++];
    return object;
  });
}

/** Numbers, or texts that end in them, from what is added each time. @param {{$deltas: number[], $prefix?: string}} told */
function counted({ $deltas, $prefix }) {
  let number = 0;
  return $deltas.map((delta) => {
    number += delta;
    return $prefix === undefined ? number : `${$prefix}${number}`;
  });
}
