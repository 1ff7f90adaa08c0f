// @ts-check
/**
 * The link table: which items, instructions and spans belong together. The same answers as views/links.py gives.
 */

import { push } from "./dom.js";

/** What belongs to what; `items` come from `places`, and a place has the keys of its instruction and its span. */
export class Links {
  /** @param {import("./types.js").Data} data */
  constructor(data) {
    this.items = new Map(Object.entries(data.links.items));
    /** @type {string[][]} */
    this.places = data.links.places;
    /** @type {string[][]} the items that come from each place */
    this.itemsAt = this.places.map(() => []);
    for (const [item, places] of this.items) for (const place of places) this.itemsAt[place].push(item);
    /** @type {Map<string, number[]>} instruction or span -> places */
    this.placesOf = new Map();
    this.places.forEach((keys, place) => keys.forEach((key) => push(this.placesOf, key, place)));
    /** @type {Map<string, string[]>} instruction -> its span, span -> its instructions */
    this.near = new Map();
    for (const [id, code] of Object.entries(data.codes)) {
      for (const row of code.rows) {
        if (row.endLine === undefined) continue;
        const span = spanKey(id, row);
        push(this.near, `instruction:${id}:${row.offset}`, span);
        push(this.near, span, `instruction:${id}:${row.offset}`);
      }
    }
  }

  /**
   * @param {string} item
   * @returns {Set<string>} all that belongs to it, itself left out
   */
  related(item) {
    const items = new Set(this.near.get(item) ?? []);
    const own = this.items.get(item);
    for (const place of own ?? this.placesOf.get(item) ?? []) {
      for (const other of this.itemsAt[place]) items.add(other);
      if (own) for (const key of this.places[place]) items.add(key);
    }
    items.delete(item);
    return items;
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
