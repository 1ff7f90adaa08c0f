"""Objects whose end the program observes: a frame that resumes after a graph break releases them where eager does.

The idea: what a call before the break created is a local or a stack value of the resume function, which may hold the last
reference. If the object has a `__del__` of the program, or is in a weak container, its end has effects, and their order counts. So
the instruction that releases it breaks the graph, and Python runs it.

In: a value that POP_TOP, STORE_FAST, DELETE_FAST or LOAD_ATTR releases. Out: a graph break, or nothing. PyTorch's counterpart:
none; there it ends when the resume function returns.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dynexplore.engine.provenance.sources import LocalSource
from dynexplore.engine.raw_attributes import class_dict, class_mro
from dynexplore.engine.translate.symbolic_frame import SymbolicFrame
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.objects.weak_reference import HELD_BY_THE_FRAME, is_of_the_program, is_weakly_referenced

if TYPE_CHECKING:
    from dynexplore.engine.translate.contract.interpreter import Interpreter

RELEASED = "the last reference goes"


def refuse_observed_end(frame: SymbolicFrame, value: VariableTracker, ctx: Interpreter, *, is_local: bool) -> None:
    """Break if an instruction of a resume function releases such an object, a local or the top of the stack."""
    if not frame.allows_nested_break or not isinstance(value.source, LocalSource):
        return
    live = ctx.request.values.get(value.source.local)
    is_in_weak_container = is_weakly_referenced(live)
    if not (is_in_weak_container or any(map(has_finalizer, _types_in(live)))) or not ctx.frames.is_owned_by_root(value):
        return
    if is_in_weak_container and is_local:
        ctx.break_graph("DX321", type=value.type_name(), how=HELD_BY_THE_FRAME)
    if not _is_referenced(ctx, value):
        ctx.break_graph("DX321", type=value.type_name(), how=RELEASED)


def _types_in(value: Any, depth: int = 3) -> Iterator[type[Any]]:
    """The type of an object; of a tuple, list or dict also those of its items."""
    yield type(value)
    if depth and type(value) in (tuple, list, dict):
        for item in (*value, *value.values()) if type(value) is dict else value:
            yield from _types_in(item, depth - 1)


def has_finalizer(cls: type[Any]) -> bool:
    """Whether the first `__del__` of the MRO is a function of the program."""
    finalizers = (class_dict(owner)["__del__"] for owner in class_mro(cls) if "__del__" in class_dict(owner))
    finalizer = next(finalizers, None)
    return isinstance(finalizer, types.FunctionType) and is_of_the_program(finalizer)


def _is_referenced(ctx: Interpreter, value: VariableTracker) -> bool:
    """Whether another local or stack value of these frames refers to the object."""
    references = [reference for frame in ctx.frames.chain for reference in (*frame.stack, *frame.locals.values())]
    return sum(reference is value for reference in references) > 1
