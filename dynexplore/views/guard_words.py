"""Guards in words: what each kind checks, and a whole guard as a condition of the program.

The idea: the kind of a guard is a name of PyTorch's or of the engine's (`TENSOR_MATCH`). A person wants to know what must hold, in
the terms of Python: `n == 3`, `x is float32[4] cpu`. The names of the kinds appear in copied reports only.

In: guards that were installed, and guards that failed. Out: `check_of(kind)`, `condition(failed)`, `without_message(actual)`,
`words(guard)`. PyTorch's counterpart: the verbose code parts of its guards, as TORCH_LOGS="guards" prints them.
"""

from __future__ import annotations

import re

from dynexplore.engine import events as ev
from dynexplore.views.changes import named_in_program, short_float

CHECKS = {
    "ALIAS": "same object",
    "ATTRIBUTE_ABSENT": "no such attribute",
    "AUTOGRAD_SAVED_TENSORS_HOOKS": "saved-tensor hooks",
    "BUILTIN_MATCH": "same function",
    "CELL_EMPTY": "unbound variable",
    "CLOSURE_MATCH": "same function",
    "CODE_MATCH": "code of the function",
    "CONSTANT_MATCH": "value",
    "DISTINCT": "different objects",
    "DUPLICATE_INPUT": "same object",
    "EMPTY_NN_MODULE_HOOKS_DICT": "no hooks",
    "EQUALS": "value",
    "EQUALS_MATCH": "value",
    "FUNCTION_MATCH": "same function",
    "GLOBAL_STATE": "global state",
    "ID_MATCH": "same object",
    "LIST_LENGTH": "length",
    "MODULE_MATCH": "same module",
    "NAME_ABSENT": "no such name",
    "NAME_PRESENT": "key",
    "NN_MODULE": "same module",
    "NOT_INSTANCE_DICT": "own dict",
    "NOT_PRESENT_IN_GENERIC_DICT": "no such attribute",
    "NO_ATTRIBUTE_ALIAS": "different objects",
    "NO_DICT_ALIAS": "different dicts",
    "NO_INSTANCE_OVERRIDE": "methods",
    "NUMBER": "int or float",
    "SEQUENCE_LENGTH": "length",
    "SHAPE_ENV": "relation of sizes",
    "STORAGE_OVERLAP": "memory overlap",
    "TENSOR_MATCH": "dtype and shape",
}
"""Kind of a guard -> what it checks."""


def check_of(kind: str) -> str:
    """What a guard checks. A kind without a row is read as its words.

    >>> check_of("TENSOR_MATCH"), check_of("DICT_KEYS"), check_of("TYPE_MATCH")
    ('dtype and shape', 'dict keys', 'type')
    """
    return CHECKS.get(kind, kind.removesuffix("_MATCH").replace("_", " ").lower())


_IS_IN_WORDS = {"EQUALS": " == {}", "TENSOR_MATCH": " is {}", "TYPE_MATCH": " is of type {}", "ATTRIBUTE_ABSENT": " has no {}"}


def condition(failed: ev.GuardFailed) -> str:
    """What a guard that failed requires, for a person: `n == 3`, `x is float32[4] cpu`.

    >>> condition(ev.GuardFailed(frame=1, entry=1, index=0, scope="local", source="n", kind="EQUALS", expected="3", actual="4"))
    'n == 3'
    >>> condition(ev.GuardFailed(frame=1, entry=1, index=0, scope="", source="___stack0", kind="EQUALS", expected="3", actual="4"))
    'a value from before the graph break == 3'
    """
    return requirement(failed.kind, failed.source, failed.expected)


def requirement(kind: str, source: str, expected: str) -> str:
    """The same for a guard's kind, source and expected value."""
    if not source:
        return expected or check_of(kind)
    return named_in_program(source) + _IS_IN_WORDS.get(kind, ": {}").format(short_float(expected))


def without_message(actual: str) -> str:
    """An actual value without torch's sentence about a tensor, and a float in six digits.

    >>> without_message("float32[5] cpu (tensor 'x' size mismatch at index 0. expected 4, actual 5)"), without_message("0.1234567")
    ('float32[5] cpu', '0.123457')
    """
    return short_float(actual.partition(" (tensor ")[0])


_TYPE = re.compile(r"type=<class '(?:.*\.)?(\w+)'>")


def words(guard: ev.GuardInstalled) -> str:
    """A guard as a condition, or its subject and what is checked of it.

    >>> def installed(source, kind, expected="", expression=""):
    ...     return ev.GuardInstalled(
    ...         frame=1, index=0, scope="local", source=source, kind=kind, expected=expected, expression=expression, reason=""
    ...     )
    >>> words(installed("step", "CONSTANT_MATCH", expression="step == 0")), words(installed("x", "TENSOR_MATCH", "float32[4] cpu"))
    ('step == 0', 'x is float32[4] cpu')
    >>> words(installed("", "SHAPE_ENV", expression="(step % 2) == 0")), words(installed("x", "DICT_KEYS", "('a',)"))
    ('(step % 2) == 0', "x (dict keys): ('a',)")
    >>> words(installed("n", "TYPE_MATCH", expression="___check_type_id(n, 94), type=<class 'int'>"))
    'n is of type int'
    >>> words(installed("", "GRAD_MODE"))
    'grad mode'
    """
    name, expected = named_in_program(guard.source), short_float(guard.expected)
    of_type = _TYPE.search(guard.expression)
    if guard.kind == "TYPE_MATCH" and (expected or of_type):
        return f"{name} is of type {expected or (of_type[1] if of_type else '')}"
    if guard.kind in _IS_IN_WORDS and name and expected:
        return f"{name}{_IS_IN_WORDS[guard.kind].format(expected)}"
    if guard.kind in ("CONSTANT_MATCH", "EQUALS_MATCH", "SHAPE_ENV") and guard.expression and "___" not in guard.expression:
        return guard.expression
    subject = f"{name} ({check_of(guard.kind)})" if name else check_of(guard.kind)
    return f"{subject}: {expected}" if expected else subject
