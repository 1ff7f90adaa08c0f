"""What a generator still does when it is thrown away before its end.

The idea: CPython closes it: GeneratorExit is raised at the `yield` where it stands. That goes unseen unless an `except` or
`finally` around the `yield` takes it. `except IndexError:`, with which collections.abc walks a sequence, lets it pass.

In: the symbolic frame of an inlined generator that was started. Out: whether closing it would run any code of the program.
CPython's counterpart is Objects/genobject.c (_PyGen_Finalize, gen_close).
"""

from __future__ import annotations

import builtins

from dynexplore.engine.bytecode import Step
from dynexplore.engine.translate.symbolic_frame import SymbolicFrame

_TIDYING = frozenset({"PUSH_EXC_INFO", "POP_EXCEPT", "COPY", "SWAP", "POP_TOP", "NOP"})


def does_something_when_closed(frame: SymbolicFrame) -> bool:
    """Whether code of the program runs when the generator of this frame is closed where it stands."""
    return frame.returned is None and frame.pc > 0 and _does_something_at(frame, frame.steps[frame.pc - 1])


def may_do_something_when_closed(frame: SymbolicFrame) -> bool:
    """Whether that is so at some `yield` of the generator, wherever it stands now."""
    return any(_does_something_at(frame, step) for step in frame.steps if step.op == "YIELD_VALUE")


def _does_something_at(frame: SymbolicFrame, step: Step) -> bool:
    handler = step.origin.handler
    while handler is not None:
        end = _where_it_passes(frame, frame.parsed.first_step[handler.target.index])
        if end is None:
            return True
        handler = frame.steps[end].origin.handler
    return False


def _where_it_passes(frame: SymbolicFrame, index: int) -> int | None:
    """The step of a handler that raises GeneratorExit again, untouched; None if the handler takes it."""
    steps = frame.steps
    for _ in steps:  # a handler is no longer than the code
        step = steps[index]
        if step.op in ("RERAISE", "CLEANUP_THROW"):  # the second where `yield from` waits: the inner generator has its own answer
            return index
        following = [later.op for later in steps[index + 1 : index + 3]]
        if step.op == "LOAD_GLOBAL" and following == ["CHECK_EXC_MATCH", "POP_JUMP_IF_FALSE"]:
            wanted = frame.globals.values.get(step.arg, getattr(builtins, step.arg, None))
            if not isinstance(wanted, type) or issubclass(GeneratorExit, wanted):
                return None
            index = steps[index + 2].target
        elif step.op in _TIDYING:
            index += 1
        else:
            return _of_the_generator_itself(frame, index)
    return None


def _of_the_generator_itself(frame: SymbolicFrame, index: int) -> int | None:
    """Python 3.12 and later: every generator turns StopIteration into RuntimeError, and lets all else pass."""
    step = frame.steps[index]
    if step.op == "CALL_INTRINSIC_1" and "STOPITERATION" in str(step.arg).upper():
        return index + 1
    return None
