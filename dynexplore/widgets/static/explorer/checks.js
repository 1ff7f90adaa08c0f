// @ts-check
/**
 * What a guard of each kind checks, in words: the kind itself is a name of PyTorch's or of the engine's, which the pointer tells.
 */

/** Kind of a guard -> what it checks. @type {Record<string, string>} */
const CHECKS = {
  ALIAS: "same object",
  ATTRIBUTE_ABSENT: "no such attribute",
  CELL_EMPTY: "unbound variable",
  CODE_MATCH: "code of the function",
  CONSTANT_MATCH: "value",
  DISTINCT: "different objects",
  EQUALS: "value",
  EQUALS_MATCH: "value",
  FUNCTION_MATCH: "same function",
  GLOBAL_STATE: "global state",
  ID_MATCH: "same object",
  LIST_LENGTH: "length",
  NAME_ABSENT: "no such name",
  NAME_PRESENT: "key",
  NN_MODULE: "same module",
  NOT_INSTANCE_DICT: "own dict",
  NO_ATTRIBUTE_ALIAS: "different objects",
  NO_DICT_ALIAS: "different dicts",
  NO_INSTANCE_OVERRIDE: "methods",
  NUMBER: "int or float",
  SHAPE_ENV: "relation of sizes",
  STORAGE_OVERLAP: "memory overlap",
  TENSOR_MATCH: "dtype and shape",
};

/**
 * What a guard checks. A kind without a row is read as its words: `DICT_KEYS` checks the dict keys.
 * @param {string} kind
 * @returns {string}
 */
export function checkOf(kind) {
  return CHECKS[kind] ?? kind.replace(/_MATCH$/, "").replaceAll("_", " ").toLowerCase();
}
