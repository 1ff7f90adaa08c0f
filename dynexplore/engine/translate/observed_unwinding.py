"""Objects whose end the program observes, and that an exception releases on its way to the handler that catches it.

The idea: where the traced program catches an exception, CPython has released what was on the stack above the handler, and the
callees that the exception left are held by nothing but its traceback. The values that a resume function got are in its caller's
temporaries, and the locals of its modified code, until it returns: a generator would be closed, and a `__del__` run, after the
handler. So if the handler's frame, and those around it, no longer refer to such a value, the graph ends where the exception was
raised, and Python unwinds.

In: an exception that a traced frame catches. Out: a graph break, or nothing. PyTorch's counterpart: none; there these objects end
when the resume function returns.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import TYPE_CHECKING

from dynexplore.engine.bytecode import argument_slots
from dynexplore.engine.provenance.sources import LocalSource
from dynexplore.engine.translate.released_objects import ends_observably
from dynexplore.engine.translate.symbolic_frame import SymbolicFrame

if TYPE_CHECKING:
    from dynexplore.engine.translate.contract.interpreter import Interpreter


def released_by_unwinding(ctx: Interpreter, depth: int) -> object | None:
    """A value that came in, whose end is observed, and that no frame refers to once the innermost one has caught an exception.

    `depth`: how many values on its stack the handler keeps.
    """
    frames = ctx.frames.running
    remaining = {name for frame in frames[:-1] for name in _locals_read_by(frame, len(frame.stack))}
    remaining.update(_locals_read_by(frames[-1], depth), argument_slots(ctx.frames.root.parsed.code))
    values = ctx.request.values
    referenced = {id(values[name]) for name in remaining if name in values}  # the same object may have come in under several names
    released = (value for value in values.values() if id(value) not in referenced)
    return next((value for value in released if type(value) is not types.FunctionType and ends_observably(ctx, value)), None)


def _locals_read_by(frame: SymbolicFrame, depth: int) -> Iterator[str]:
    cells = (cell.content for cell in frame.cells.values())
    for value in (*frame.stack[:depth], *frame.locals.values(), *cells):
        if value is not None and isinstance(value.source, LocalSource):
            yield value.source.local
