"""Canonical opcodes that are not supported, and why: the graph breaks there (DX301), and Python runs them.

The idea: a table. In: an opcode. Out: a graph break.

PyTorch's counterpart: none; Dynamo breaks at opcodes for which InstructionTranslatorBase has no method.
"""

from __future__ import annotations

NOT_TRACED: dict[str, str] = {
    "IMPORT_STAR": "only the body of a module holds it, and that is run by Python",
    "CHECK_EG_MATCH": "`except*` splits groups of exceptions, which are not traced",
    "PREP_RERAISE_STAR": "`except*` splits groups of exceptions, which are not traced",
    "CALL_INTRINSIC_2": "type parameters and `except*` are left to Python",
    **dict.fromkeys(("CLEANUP_THROW", "END_SEND"), "an exception thrown into a generator that delegates is left to Python"),
    "UNSUPPORTED": "an instruction of async code or of a class body",
}
"""Opcode -> why it is not traced."""
