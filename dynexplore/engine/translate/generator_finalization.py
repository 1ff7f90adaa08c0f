"""Generator finalization: whether closing a suspended generator would run user code.

The idea: when CPython frees a generator that has not finished, it closes it: GeneratorExit is raised at the `yield` where the
generator is suspended. That is only observable if an `except` or `finally` around the `yield` handles it. `except IndexError:`,
with which collections.abc iterates over a sequence, does not.

In: the symbolic frame of an inlined generator that has started. Out: whether closing it would run any user code. PyTorch's
counterpart: none; CPython's is Objects/genobject.c (_PyGen_Finalize, gen_close).
"""

from __future__ import annotations

import builtins

from dynexplore.engine.bytecode import Step
from dynexplore.engine.translate.symbolic_frame import SymbolicFrame

_CLEANUP_OPCODES = frozenset({"PUSH_EXC_INFO", "POP_EXCEPT", "COPY", "SWAP", "POP_TOP", "NOP"})


def has_finalizer_code(frame: SymbolicFrame) -> bool:
    """Whether user code runs when the generator of this frame is closed at its current position."""
    return frame.returned is None and frame.pc > 0 and _has_finalizer_at(frame, frame.steps[frame.pc - 1])


def may_have_finalizer_code(frame: SymbolicFrame) -> bool:
    """Whether user code would run if the generator were closed at any of its `yield`s."""
    return any(_has_finalizer_at(frame, step) for step in frame.steps if step.op == "YIELD_VALUE")


def _has_finalizer_at(frame: SymbolicFrame, step: Step) -> bool:
    handler = step.origin.handler
    while handler is not None:
        end = _reraise_step(frame, frame.parsed.first_step[handler.target.index])
        if end is None:
            return True
        handler = frame.steps[end].origin.handler
    return False


def _reraise_step(frame: SymbolicFrame, index: int) -> int | None:
    """The step of a handler that re-raises GeneratorExit unchanged; None if the handler catches it."""
    steps = frame.steps
    for _ in steps:  # a handler is not longer than the code
        step = steps[index]
        if step.op in ("RERAISE", "CLEANUP_THROW"):  # the second at a `yield from`: the inner generator is checked by itself
            return index
        following = [later.op for later in steps[index + 1 : index + 3]]
        if step.op == "LOAD_GLOBAL" and following == ["CHECK_EXC_MATCH", "POP_JUMP_IF_FALSE"]:
            caught_type = frame.globals.values.get(step.arg, vars(builtins).get(step.arg))
            if not isinstance(caught_type, type) or issubclass(GeneratorExit, caught_type):
                return None
            index = steps[index + 2].target
        elif step.op in _CLEANUP_OPCODES:
            index += 1
        else:
            return _step_after_stop_iteration(frame, index)
    return None


def _step_after_stop_iteration(frame: SymbolicFrame, index: int) -> int | None:
    """The step after the handler that converts StopIteration to RuntimeError in every generator (Python 3.12 and later)."""
    step = frame.steps[index]
    if step.op == "CALL_INTRINSIC_1" and "STOPITERATION" in str(step.arg).upper():
        return index + 1
    return None
