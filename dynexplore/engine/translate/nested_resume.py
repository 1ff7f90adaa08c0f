"""Resume functions of a chain: the rest of a frame that stands in a call, whose callee is resumed first.

The idea: when a callee broke (nested_break.py), the rest of all frames is one function: the resume function of the outermost frame,
whose prefix first puts the stack back and then calls the resume function of the callee, which may call that of its own callee. The
call has the position and the exception handler of the original call, and its value is pushed where that of the original call would
be. So stacks, tracebacks and handlers are those of eager where the chain runs as plain Python, and the translator, which interprets
the original frames from the innermost on, captures it as one graph.

    parameters of the root      those of its own resume function, as always (resume.py)
    parameters of each callee   `1.function`, a function of its resume code, then its own, named `1.x`; of its callee `2.x`

In: the resume code of a callee. Out: parameter names, and the call. PyTorch passes nested lists of frame values to the resume
function of the outermost frame (torch/_dynamo/symbolic_convert.py, `create_call_resume_at`).
"""

from __future__ import annotations

from dynexplore.engine.bytecode import Writer

RESUME_CALLEE = "resume callee"
"""The role of the instructions that call a callee's resume function."""


def function_parameter(level: int) -> str:
    """The parameter that holds the resume function of the callee so many calls deep."""
    return f"{level}.function"


def parameter_at(level: int, name: str) -> str:
    """The name of a parameter in the resume function of the root, of one that a callee's has."""
    return f"{level}.{name}" if level else name


def callee_parameters(parameters: tuple[str, ...]) -> tuple[str, ...]:
    """What a function is given for a callee that has these parameters."""
    return (function_parameter(1), *map(_one_call_deeper, parameters))


def _one_call_deeper(name: str) -> str:
    """
    >>> _one_call_deeper("x"), _one_call_deeper("1.x"), _one_call_deeper(".0"), _one_call_deeper("1..0")
    ('1.x', '2.x', '1..0', '2..0')
    """
    level, dot, rest = name.partition(".")
    return f"{int(level) + 1}.{rest}" if dot and level.isdigit() else f"1.{name}"


def write_callee_call(writer: Writer, parameters: tuple[str, ...]) -> None:
    """Call the resume function of the callee, which has these parameters, with what was passed for it."""
    function, *arguments = callee_parameters(parameters)
    with writer.role(RESUME_CALLEE):
        writer.call_helper(lambda: writer.load_fast(function), *[lambda name=name: writer.load_fast(name) for name in arguments])
