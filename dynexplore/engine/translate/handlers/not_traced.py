"""Canonical opcodes that no handler traces, and why: the graph breaks there (DX301), and Python runs them.

PyTorch's Dynamo breaks at those it lacks a method for, without a list.
"""

from __future__ import annotations

_CLASS_BODY = "the body of a class fills a namespace of its own; the class is made by Python"

NOT_TRACED: dict[str, str] = {
    "LOAD_NAME": "only bodies of modules and classes hold it, and those are run by Python",
    "IMPORT_STAR": "only the body of a module holds it, and that is run by Python",
    "STORE_NAME": _CLASS_BODY,
    "DELETE_NAME": _CLASS_BODY,
    "LOAD_LOCALS": _CLASS_BODY,
    "LOAD_CLASSDEREF": _CLASS_BODY,
    "LOAD_FROM_DICT_OR_DEREF": _CLASS_BODY,
    "LOAD_FROM_DICT_OR_GLOBALS": _CLASS_BODY,
    "CHECK_EG_MATCH": "`except*` splits groups of exceptions, which are not traced",
    "PREP_RERAISE_STAR": "`except*` splits groups of exceptions, which are not traced",
    "CALL_INTRINSIC_2": "type parameters and `except*` are left to Python",
    **dict.fromkeys(("CLEANUP_THROW", "END_SEND"), "an exception thrown into a generator that delegates is left to Python"),
    "UNSUPPORTED": "an instruction of async code or of a class body",
}
"""Opcode -> why it is left to Python."""
