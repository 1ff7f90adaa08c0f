"""Resume functions of a chain: the rest of a frame that stands in a call, whose callee is resumed first.

The idea: when a callee broke (nested_break.py), the rest of all frames is one function: the resume function of the outermost frame,
whose prefix first puts the stack back and then calls the resume function of the callee, which may call that of its own callee. The
call has the position and the exception handler of the original call, and its value is pushed where that of the original call would
be. So stacks, tracebacks and handlers are those of eager where the chain runs as plain Python, and the translator, which interprets
the original frames from the innermost on, captures it as one graph.

    parameters of the root      those of its own resume function, as always (resume.py)
    parameters of each callee   `leaf:<function>`, a function of its resume code, then its own, `leaf:x`; then those of its callee

In: the resume code of a callee. Out: parameter names, and the call. PyTorch passes nested lists of frame values to the resume
function of the outermost frame (torch/_dynamo/symbolic_convert.py, `create_call_resume_at`).
"""

from __future__ import annotations

from collections.abc import Collection
from types import CodeType

from dynexplore.engine.bytecode import Writer

RESUME_CALLEE = "resume callee"
"""The role of the instructions that call a callee's resume function."""


def callee_name(code: CodeType, names: Collection[str]) -> str:
    """What a callee is called in the names of parameters; `names` are those of those that it calls.

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
    """The name of a parameter in the resume function of the root, of one that a callee's has; "" is the root."""
    return f"{callee}:{name}" if callee else name


def callee_parameters(callee: str, own: tuple[str, ...], of_its_callee: tuple[str, ...]) -> tuple[str, ...]:
    """What a function is given for a callee that has these parameters."""
    return (function_parameter(callee), *(parameter_at(callee, name) for name in own), *of_its_callee)


def write_callee_call(writer: Writer, parameters: tuple[str, ...]) -> None:
    """Call the resume function of the callee with what was passed for it."""
    function, *arguments = parameters
    with writer.role(RESUME_CALLEE):
        writer.call_helper(lambda: writer.load_fast(function), *[lambda name=name: writer.load_fast(name) for name in arguments])
