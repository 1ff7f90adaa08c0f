// @ts-check
/**
 * The kinds of rows of the overview: each has a sign, a word and a colour, and never a colour alone.
 */

/** Sign, word and class of each kind of row. @type {Record<string, [string, string, string]>} */
export const KINDS = {
  recompile: ["↻", "Recompile", "dynx-k-recompile"],
  break: ["◆", "Graph break", "dynx-k-break"],
  plain: ["▷", "Plain Python", "dynx-k-plain"],
  hit: ["✓", "Cache hit", "dynx-k-hit"],
  good: ["●", "", "dynx-k-good"],
  wrong: ["✕", "Wrong value", "dynx-k-break"],
  backend: ["✕", "Backend failed", "dynx-k-break"],
  died: ["✕", "Error", "dynx-k-break"],
  engine: ["✕", "Engine error", "dynx-k-break"],
  bad: ["✕", "Failed", "dynx-k-break"],
};

/** The kinds that come before all that only costs seconds (views/overview.py). */
export const FAILED = ["wrong", "backend", "died", "engine"];
