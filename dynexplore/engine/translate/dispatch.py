"""The handler table: one function per canonical opcode.

The idea: a handler is a free function `(frame, step, ctx)`, found by the opcode's name. Because the table is open, a reader can
swap one and watch what changes:

    with override("BINARY_OP", my_handler):
        ...

In: `@handles(...)` in handlers/*.py. Out: the translator's step loop. PyTorch's counterpart: the methods of
InstructionTranslatorBase named like opcodes (torch/_dynamo/symbolic_convert.py).
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

from dynexplore.engine.bytecode import OPCODES
from dynexplore.engine.display_paths import shown_file

if TYPE_CHECKING:
    from dynexplore.engine.translate.symbolic_frame import SymbolicFrame

Handler = Callable[["SymbolicFrame", Any, Any], None]

HANDLERS: dict[str, Handler] = {}
_overridden: dict[str, int] = {}


def handles(*ops: str) -> Callable[[Handler], Handler]:
    """Declare that the decorated function handles these canonical opcodes."""

    def declare(handler: Handler) -> Handler:
        for op in ops:
            if op not in OPCODES:
                raise ValueError(f"{op} is not a canonical opcode; see dynexplore/engine/bytecode/opcodes.py")
            if op in HANDLERS:
                raise ValueError(f"{op} has a handler already: {HANDLERS[op].__qualname__}")
            HANDLERS[op] = handler
        return handler

    return declare


def rule_text(handler: Handler | None) -> str:
    """The handler as views show it: its file (or notebook cell), line and name; "" for None.

    >>> def my_handler(frame, step, ctx): ...
    >>> rule_text(my_handler).partition(" ")[2]
    'my_handler'
    """
    code = getattr(handler, "__code__", None)
    return "" if code is None else _location(code.co_filename, code.co_firstlineno, code.co_name)


@functools.lru_cache(maxsize=1024)
def _location(file: str, line: int, name: str) -> str:
    return f"{PurePath(shown_file(file)).name}:{line} {name}"


@contextmanager
def override(op: str, handler: Handler) -> Iterator[Handler]:
    """Use another handler for one opcode inside the `with` block; yields the one it replaces.

    Raises ValueError for an unknown opcode.

    >>> def noisy(frame, step, ctx):
    ...     print("a constant:", step.arg)
    ...     original(frame, step, ctx)
    >>> with override("LOAD_CONST", noisy) as original:
    ...     pass
    """
    if op not in HANDLERS:
        raise ValueError(f"{op} has no handler; these have: {', '.join(sorted(HANDLERS))}")
    replaced = HANDLERS[op]
    HANDLERS[op] = handler
    _overridden[op] = _overridden.get(op, 0) + 1
    try:
        yield replaced
    finally:
        HANDLERS[op] = replaced
        _overridden[op] -= 1


def overridden() -> dict[str, Handler]:
    """The handlers that currently replace others, by opcode.

    >>> overridden()
    {}
    """
    return {op: HANDLERS[op] for op, depth in _overridden.items() if depth}
