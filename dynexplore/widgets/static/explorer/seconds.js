// @ts-check
/**
 * Seconds as the page says them, as views/overview.py does: three digits that count, milliseconds below a tenth.
 */

/** @param {number} seconds @returns {string} */
export function secondsOf(seconds) {
  if (!seconds) return "0 s";
  if (seconds < 0.1) return `${Math.max(1, Math.round(seconds * 1000))} ms`;
  if (seconds < 1) return `${seconds.toFixed(2)} s`;
  return seconds < 100 ? `${seconds.toFixed(1)} s` : `${seconds.toFixed(0)} s`;
}
