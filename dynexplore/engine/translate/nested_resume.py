"""Resume functions of a chain: the rest of a frame that is at a call, whose callee is resumed first.

The idea: after a break in a callee (nested_break.py), the rest of all frames is one function: the resume function of the outermost
frame, whose prefix first restores the stack and then calls the resume function of the callee, which may call that of its own
callee. The call has the position and the exception handler of the original call, and its result is pushed in place of the original
call's. So stacks, tracebacks and handlers match eager if the chain runs as plain Python, and the translator, which interprets the
original frames starting with the innermost, captures it as one graph.

    parameters of the root      those of its own resume function, as always (resume.py)
    parameters of each callee   `leaf:<function>`, a function of its resume code, then its own, `leaf:x`; then those of its callee

In: the resume code of a callee. Out: parameter names, and the call. PyTorch's counterpart: `create_call_resume_at`
(torch/_dynamo/symbolic_convert.py), which passes nested lists of frame values to the resume function of the outermost frame.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from types import CodeType

from dynexplore.engine.bytecode import Writer
from dynexplore.engine.native import TailCall, finish_call

RESUME_CALLEE = "resume callee"
"""The role of the instructions that call a callee's resume function."""


def callee_name(code: CodeType, names: Collection[str]) -> str:
    """The name of a callee in parameter names; `names` are taken by the callees that it calls.

    >>> callee_name(callee_name.__code__, ()), callee_name((lambda: 0).__code__, ("lambda",))
    ('callee_name', '<module>.lambda')
    """
    name = code.co_name.strip("<>")
    longer = code.co_qualname.replace(".<locals>", "").removesuffix(code.co_name) + name
    candidates = [name, longer, *(f"{longer} {number}" for number in range(2, len(names) + 2))]
    return next(candidate for candidate in candidates if candidate not in names)


def function_parameter(callee: str) -> str:
    """The parameter that holds the resume function of a callee."""
    return f"{callee}:<function>"


def parameter_at(callee: str, name: str) -> str:
    """The name that a callee's parameter has in the resume function of the root; callee "" is the root itself."""
    return f"{callee}:{name}" if callee else name


def callee_parameters(callee: str, own: tuple[str, ...], of_its_callee: tuple[str, ...]) -> tuple[str, ...]:
    """The parameters that a caller's resume function has for a callee with these parameters."""
    return (function_parameter(callee), *(parameter_at(callee, name) for name in own), *of_its_callee)


def write_callee_call(writer: Writer, parameters: tuple[str, ...]) -> None:
    """Call the resume function of the callee with the parameters that are for it; as in eager, only its frame holds them then."""
    with writer.role(RESUME_CALLEE):
        write_moving_call(writer, [lambda name=name: writer.load_fast_and_clear(name) for name in parameters])  # type: ignore[misc]


def write_moving_call(writer: Writer, loads: Sequence[Callable[[], object]]) -> None:
    """Call a function; `loads` push it and its arguments. The caller's stack does not hold them during the call."""
    writer.call_helper(
        lambda: writer.load_const(finish_call), lambda: writer.call_helper(lambda: writer.load_const(TailCall), *loads)
    )
