// @ts-check
/**
 * The link table: which items, instructions and spans belong together. The same answers as views/links.py gives.
 *
 * Which idea lives here: a recording of 200,000 steps has half a million links, and a person asks for those of one item at a time. So
 * nothing is laid out by key in advance but what every step asks for: the places of an item, and the items of a place. What belongs
 * to an instruction or a span is looked for when it is asked.
 */

import { namesIn, unpacked } from "./unpack.js";

/** What belongs to what; `items` come from `places`, and a place has the keys of its instruction and its span. */
export class Links {
  /** @param {import("./types.js").Data} data */
  constructor(data) {
    this.data = data;
    /** @type {string[][]} */
    this.places = unpacked(data.links.places);
    const [keys, places] = namesIn(data.links.items);
    /** @type {string[]} */
    this.keys = keys;
    /** @type {Map<string, number[]>} */
    this.items = new Map();
    for (let at = 0; at < keys.length; at += 1) this.items.set(keys[at], places[at]);
    /** The numbers of the items of all places, those of one place after each other, and where those of each place end. */
    this.ends = new Int32Array(this.places.length + 1);
    for (const ofItem of places) for (const place of ofItem) this.ends[place + 1] += 1;
    for (let place = 0; place < this.places.length; place += 1) this.ends[place + 1] += this.ends[place];
    this.numbers = new Int32Array(this.ends[this.places.length]);
    const next = this.ends.slice();
    for (let at = 0; at < keys.length; at += 1) for (const place of places[at]) this.numbers[next[place]++] = at;
  }

  /**
   * @param {string} item
   * @returns {Set<string>} all that belongs to it, itself left out
   */
  related(item) {
    const items = new Set(this.near(item));
    const own = this.items.get(item);
    for (const place of own ?? this.placesOf(item)) {
      for (let at = this.ends[place]; at < this.ends[place + 1]; at += 1) items.add(this.keys[this.numbers[at]]);
      if (own) for (const key of this.places[place]) items.add(key);
    }
    items.delete(item);
    return items;
  }

  /** The places of an instruction or of a span. @param {string} key @returns {number[]} */
  placesOf(key) {
    const numbers = [];
    for (let place = 0; place < this.places.length; place += 1) if (this.places[place].includes(key)) numbers.push(place);
    return numbers;
  }

  /** The span of an instruction, the instructions of a span. @param {string} key @returns {string[]} */
  near(key) {
    const [kind, id, offset] = key.split(":");
    if (kind !== "instruction" && kind !== "span") return [];
    const rows = (this.data.codes[id]?.rows ?? []).filter((row) => row.endLine !== undefined);
    if (kind === "span") return rows.filter((row) => spanKey(id, row) === key).map((row) => `instruction:${id}:${row.offset}`);
    return rows.filter((row) => String(row.offset) === offset).map((row) => spanKey(id, row));
  }
}

/**
 * The key of an instruction's span: links name columns in bytes.
 * @param {string | number} code
 * @param {import("./types.js").Row} row
 * @returns {string}
 */
export function spanKey(code, row) {
  return `span:${code}:${row.line}:${row.byteColumn}:${row.endLine}:${row.endByteColumn}`;
}
