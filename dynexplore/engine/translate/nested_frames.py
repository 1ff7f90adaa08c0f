"""Nested graph breaks: for which inlined callees a break ends the graph inside them, instead of at the call in the root frame.

The idea: a break in a callee can run under frames that look like those of eager if each frame around it is at a call that only
calls the next function and pushes its result. So a callable declares which call it forwards to (`FrameStack.forward_call`): a bound
method calls its function with the receiver, and nothing else happens. A callee that is called in any other way (a key of `sort`, an
operator, `__init__`, the body of a higher-order operator) breaks where it is called, and so does one that a frame calls while it
handles an exception: bytecode cannot restore the exception being handled.

A call of a module runs two methods of `nn.Module` before `forward`, which are not interpreted: they only forward the call. If the
graph ends in `forward`, they still get frames (`forwarding_frames`), as tracebacks and stacks show them in eager.

In: a symbolic frame that is about to be interpreted. Out: `allows_nested_break`. A frame in which the graph ends. Out: those
around it. PyTorch's counterpart: `should_compile_partial_graph` in torch/_dynamo/symbolic_convert.py, with `nested_graph_breaks`.
"""

from __future__ import annotations

import inspect
import math
from collections.abc import Sequence
from types import FunctionType
from typing import Any

from torch import nn

from dynexplore.engine.bytecode import Instruction, ParsedCode, read
from dynexplore.engine.graph_breaks import SkipFrame
from dynexplore.engine.native import ENTRY_FILE
from dynexplore.engine.policy.nested_breaks import nested_breaks_enabled
from dynexplore.engine.policy.skip import reads_its_frame, reads_its_locals, skip_reason
from dynexplore.engine.policy.trace_rules import OWN_FOLDER
from dynexplore.engine.provenance.sources import Scope, Source
from dynexplore.engine.specialization.break_chains import BreakChains
from dynexplore.engine.specialization.loop_carried import stored_around
from dynexplore.engine.specialization.module_classes import ModuleClasses
from dynexplore.engine.translate.call_sites import call_site_count, callables_of, current_call
from dynexplore.engine.translate.resume import ResumeCode
from dynexplore.engine.translate.symbolic_frame import SymbolicFrame
from dynexplore.engine.variables.callables.function import CellVariable, FunctionVariable, NestedFunctionVariable
from dynexplore.engine.variables.objects.namespace import NamespaceVariable
from dynexplore.engine.variables.torch_.nn.nn_module import NNModuleVariable

_MODULE: Any = nn.Module
_CALLEES: dict[FunctionType, str] = {_MODULE._wrapped_call_impl: "_call_impl", _MODULE._call_impl: "forward_call"}
"""The methods of `nn.Module` that forward a call, and the name under which each calls the next."""
DEEPEST = 16
"""The maximum nesting depth: each callee adds a frame, and a part to each resume function."""
MOST_COPIES = 2
"""How often the graphs of a callee may be captured because it is called in several places."""
_MOVES_VALUES = frozenset({"STORE_FAST", "LOAD_FAST", "LOAD_CONST", "POP_TOP", "BUILD_TUPLE", "NOP"})
"""Instructions that only move values."""
_PACKS = {"BUILD_LIST", "LIST_EXTEND", "LIST_TO_TUPLE", "BUILD_MAP", "DICT_MERGE"}  # `*args, **kwargs`
_ITERATES = {(("LOAD_GLOBAL", name),) for name in ("range", "enumerate", "zip", "reversed", "len")}
_LOADS = _MOVES_VALUES | _PACKS | {"LOAD_GLOBAL", "LOAD_DEREF", "LOAD_ATTR", "PUSH_NULL"}
"""Instructions of a wrapper that forwards its arguments."""
_REPEATS = _LOADS | {"GET_ITER", "FOR_ITER", "JUMP", "SWAP", "CALL", "UNPACK_SEQUENCE", "RETURN_VALUE"}
"""Instructions of a frame that calls one function for each item."""
_NO_PLAIN_FUNCTION = inspect.CO_GENERATOR | inspect.CO_COROUTINE | inspect.CO_ASYNC_GENERATOR


def allows_nested_break(frame: SymbolicFrame, chain: Sequence[SymbolicFrame]) -> bool:
    """Whether the graph may end in this callee, as in the frames of `chain`: the caller's instruction does nothing but call it."""
    caller = frame.parent
    assert caller is not None
    code = frame.parsed.code
    return (
        nested_breaks_enabled()
        and caller.allows_nested_break
        and frame.depth <= DEEPEST
        and not code.co_flags & _NO_PLAIN_FUNCTION
        and not frame.parsed.ambiguous_names
        and isinstance(frame.function, FunctionVariable | NestedFunctionVariable)
        and not code.co_filename.startswith(OWN_FOLDER)
        and not reads_its_frame(code)
        and not reads_its_locals(code)
        and all(other.parsed.code is not code for other in chain)
        and can_resume_in_call(caller, is_root=caller is chain[0])
    )


def allows_partial_graph(frame: SymbolicFrame) -> bool:
    """Whether a break in the callee itself may end the graph there: not in code that is skipped as a frame."""
    return skip_reason(frame.parsed.code) is None


def only_forwards_call(frame: SymbolicFrame, began_at: int) -> bool:
    """Whether a frame at a call computes the arguments and only returns the result: `return model(x, n + 1)`.

    If it added nothing to the graph, nesting saves no graph, while the callee's graphs would depend on everything that the frame
    has read, and be captured again for each such frame. A frame that only loads the arguments, as in `return model(x)`, has read
    nothing but the callable. An entry, of which each wrapper of the callable has its own, would capture them once for each
    wrapper. `began_at`: the step at which the frame begins or resumes.
    """
    if frame.unit_began_at < 0:
        return False  # it resumes there
    if frame.parsed.code.co_filename == ENTRY_FILE:
        return True
    behind = frame.parsed.first_step[frame.parsed.next_unit(frame.current).index]
    if next(step.op for step in frame.steps[behind:] if step.op not in _MOVES_VALUES) != "RETURN_VALUE":
        return False
    return any(step.op not in _LOADS for step in frame.steps[began_at : frame.parsed.first_step[frame.current.index]])


def only_repeats(frame: SymbolicFrame, callee: SymbolicFrame, classes: ModuleClasses, scope: Scope) -> bool:
    """Whether a frame at a call does nothing but call this callee, several times or in a loop: `for block in blocks: x = block(x)`.

    Its own graphs would be empty, and the callee's serve every call. Of different callees in a loop, some add to its graphs.
    """
    callables = callables_of(frame.parsed)
    path = callables.get(current_call(frame), ())
    calls = set(callables.values())
    if not calls <= {path, *_ITERATES} or any(step.op not in _REPEATS for step in frame.steps) or call_site_count(frame) == 1:
        return False
    if path[0][0] != "LOAD_FAST" or len(path) > 1:
        return True
    called = module_called(callee)
    return called is not None and classes.is_repeated(*called, scope)


def up_to_repeated_block(frames: Sequence[SymbolicFrame], classes: ModuleClasses, scope: Scope) -> Sequence[SymbolicFrame]:
    """These frames, each called by the one before, up to the first block (a module) of which the model has several.

    The graphs of such a block serve all its instances if it runs as a frame of its own, while a nested break in it is captured
    once for each call. In a loop it is nested, since all iterations share the resume function.
    """
    for depth, frame in enumerate(frames[1:], 1):
        caller = frames[depth - 1]
        if stored_around(caller.parsed, caller.current) is not None:
            break
        called = module_called(frame)
        if caller.unit_began_at >= 0 and called is not None and classes.is_repeated(*called, scope):
            return frames[:depth]
    return frames


def up_to_copied_call(frames: Sequence[SymbolicFrame]) -> Sequence[SymbolicFrame]:
    """These frames, each called by the one before, up to a callee whose graphs would be captured too often.

    A callee that is called in several places of its caller's code has its graphs captured once for each of them, and so have the
    callees below it. As a frame of its own it shares its graphs, and costs one for each place.
    """
    counts = [call_site_count(caller) for caller in frames[:-1]]
    if math.prod(counts) > MOST_COPIES:
        for depth, (caller, count) in enumerate(zip(frames, counts, strict=False), 1):
            if count > 1 and caller.unit_began_at >= 0:
                return frames[:depth]
    return frames


def up_to_recorded_chain(frames: Sequence[SymbolicFrame], chains: BreakChains) -> Sequence[SymbolicFrame]:
    """These frames, each called by the one before, up to the call of a function that has broken here as the outermost frame.

    As a separate frame it reuses its graphs and resume functions. Nested in another caller, they would all be captured again.
    """
    depth = max((depth for depth, frame in enumerate(frames) if frame.allows_partial_graph), default=None)
    if depth is None:
        return frames  # no graph ends in them
    begin = chains.recorded_end([(frame.parsed.code, frame.current.offset) for frame in frames[: depth + 1]])
    return frames[:begin] if begin and frames[begin - 1].unit_began_at >= 0 else frames


def module_called(frame: SymbolicFrame) -> tuple[object, Source] | None:
    """The module whose method a frame runs."""
    code = frame.parsed.code
    name = code.co_varnames[0] if code.co_argcount else ""
    receiver = frame.cells[name].content if name in frame.cells else frame.locals.get(name)
    if isinstance(receiver, NNModuleVariable) and receiver.value is not None and receiver.source is not None:
        return receiver.value, receiver.source
    return None


def forwarding_frames(frame: SymbolicFrame) -> list[SymbolicFrame]:
    """The frames of the methods through which a frame was called, outermost first; each is at its call."""
    frames = []
    for method, receiver in frame.called_through:
        parsed = read(method.__code__)
        namespace = NamespaceVariable(method.__globals__, of_frame=False)
        method_frame = SymbolicFrame(parsed, namespace, FunctionVariable(method), frame.parent)
        method_frame.current = _forwarded_call(parsed, _CALLEES[method])
        first = parsed.code.co_varnames[0]
        for name in parsed.code.co_cellvars:
            method_frame.cells[name] = CellVariable(name, receiver if name == first else None)
        if first not in method_frame.cells:
            method_frame.locals[first] = receiver
        frames.append(method_frame)
    return frames


def forwarding_method_of(resume: ResumeCode) -> FunctionType | None:
    """The forwarding method that a resume code belongs to, if its resume function only waits for its callee; else None.

    With hooks, `_call_impl` is a frame like any other, at another call.
    """
    if resume.inner is None or resume.parsed is None or resume.call is None:
        return None
    method = next((method for method in _CALLEES if method.__code__ is resume.parsed.code), None)
    waits = method is not None and _forwarded_call(resume.parsed, _CALLEES[method]).offset == resume.call.offset
    return method if waits else None


def _forwarded_call(parsed: ParsedCode, callee: str) -> Instruction:
    """The first call with unpacked arguments after the callee is loaded by name; its result is returned."""
    loaded = next((load for load in parsed.instructions if load.argval == callee and load.opname.startswith("LOAD")), None)
    behind = parsed.instructions[loaded.index :] if loaded is not None else []
    call = next((instruction for instruction in behind if instruction.opname == "CALL_FUNCTION_EX"), None)
    if call is None or parsed.next_unit(call).opname != "RETURN_VALUE":
        raise SkipFrame(f"{parsed.code.co_qualname} does not return what its callee returns")
    return call


def can_resume_in_call(frame: SymbolicFrame, *, is_root: bool) -> bool:
    """Whether a frame can be restored at its current call: it handles no exception, and owns its cells."""
    if frame.caught_at or frame.in_flight_since is not None or frame.parsed.ambiguous_names:
        return False
    code = frame.parsed.code
    for name in (*code.co_cellvars, *code.co_freevars):
        cell = frame.cells.get(name)
        if name in frame.locals or cell is None or (is_root and not cell.frame_cell):  # in an inlined comprehension
            return False
    return True
