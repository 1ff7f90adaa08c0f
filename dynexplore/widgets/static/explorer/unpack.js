// @ts-check
/**
 * The data of an exported file as it was before views/packing.py put lists of objects into tables.
 */

/**
 * @param {any} data
 * @returns {any}
 */
export function unpacked(data) {
  if (typeof data !== "object" || data === null) return data;
  if (Array.isArray(data)) return data.some((one) => typeof one === "object") ? data.map(unpacked) : data;
  if (!("$keys" in data)) {
    for (const key of Object.keys(data)) data[key] = unpacked(data[key]);
    return data;
  }
  return data.$rows.map((/** @type {any[]} */ [kind, ...values]) => {
    /** @type {Record<string, any>} */
    const object = {};
    data.$keys[kind].forEach((/** @type {string} */ key, /** @type {number} */ at) => (object[key] = unpacked(values[at])));
    return object;
  });
}
