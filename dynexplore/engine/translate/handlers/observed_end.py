"""Objects whose end the program observes: a frame that resumes after a graph break releases them where eager does.

The idea: what a call before the break created is a local or a stack value of the resume function, which may hold the last
reference. If the object has a `__del__` of the program, or is in a weak container, its end has effects, and their order counts. So
the instruction that releases it breaks the graph, and Python runs it.

In: a value that POP_TOP, STORE_FAST, DELETE_FAST or LOAD_ATTR releases, or an exception that POP_EXCEPT releases with all that its
traceback holds. Out: a graph break, or nothing. PyTorch's counterpart: none; there it ends when the resume function returns.
"""

from __future__ import annotations

import gc
import types
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from dynexplore.engine.policy.trace_rules import OWN_FOLDER
from dynexplore.engine.provenance.sources import LocalSource
from dynexplore.engine.raw_attributes import class_dict, class_mro, is_a
from dynexplore.engine.translate.symbolic_frame import SymbolicFrame
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.objects.weak_reference import HELD_BY_THE_FRAME, is_of_the_program, is_weakly_referenced

if TYPE_CHECKING:
    from dynexplore.engine.translate.contract.interpreter import Interpreter

RELEASED = "the last reference goes"
_TRACEBACK = class_dict(BaseException)["__traceback__"]
_LIVE_ON = (type, types.ModuleType, types.FunctionType, types.CodeType, types.FrameType)


def refuse_observed_end(frame: SymbolicFrame, value: VariableTracker, ctx: Interpreter, *, is_local: bool) -> None:
    """Break if an instruction of a resume function releases such an object, a local or the top of the stack."""
    if not frame.allows_nested_break or not isinstance(value.source, LocalSource):
        return
    live = ctx.request.values.get(value.source.local)
    is_in_weak_container = is_weakly_referenced(live)
    if not (_ends_observably(live) or _traceback_ends_observably(live)) or not ctx.frames.is_owned_by_root(value):
        return
    if is_in_weak_container and is_local:
        ctx.break_graph("DX321", type=value.type_name(), how=HELD_BY_THE_FRAME)
    if _reference_count(ctx, value) < 2:
        ctx.break_graph("DX321", type=value.type_name(), how=RELEASED)


def refuse_observed_handling(exception: VariableTracker, ctx: Interpreter) -> None:
    """Break where a handler ends that is the last to hold an exception with such objects in its traceback."""
    if not isinstance(exception.source, LocalSource) or _reference_count(ctx, exception):
        return
    if _traceback_ends_observably(ctx.request.values.get(exception.source.local)):
        ctx.break_graph("DX321", type=exception.type_name(), how=RELEASED)


def _traceback_ends_observably(value: Any) -> bool:
    """Whether an exception's traceback holds such objects for callees. What the frame itself holds ends when it returns.

    The engine's own frames, in a traceback of what failed while it compiled, hold references that it has given back.
    """
    entry = _TRACEBACK.__get__(value) if is_a(value, BaseException) else None
    while entry is not None and entry.tb_next is not None:
        entry = entry.tb_next
        if entry.tb_frame.f_code.co_filename.startswith(OWN_FOLDER):
            return False
        if any(_ends_observably(referent) for referent in gc.get_referents(entry.tb_frame) if type(referent) not in _LIVE_ON):
            return True
    return False


def _ends_observably(value: Any) -> bool:
    return is_weakly_referenced(value) or any(map(has_finalizer, _types_in(value)))


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


def _reference_count(ctx: Interpreter, value: VariableTracker) -> int:
    """How many locals and stack values of these frames refer to the object."""
    references = [reference for frame in ctx.frames.chain for reference in (*frame.stack, *frame.locals.values())]
    return sum(reference is value for reference in references)
