"""Modified code as Python, run in place of the bytecode: the text that people read is compiled and does the work.

Which idea lives here: a text that only looks right teaches what is wrong. So, inside `modified_code_as_python()`, each piece of
modified code that the engine writes is shown as Python, the text is compiled, and what takes the frame's place is a few
instructions that call the function of the text, with the frame's argument slots and cells. What the text calls by names of its own
(`HELPERS` of views/modified_python.py, constants, resume functions) is bound here.

In:  programs that are run inside the block. Out: `Replaced`: how many pieces ran as Python, and why others did not.
"""

from __future__ import annotations

import contextlib
import functools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import CellType, CodeType, FunctionType
from typing import Any
from unittest import mock

from dynexplore.engine.bytecode import Instruction, Writer, assemble, read
from dynexplore.engine.native import TailCall, skip_code
from dynexplore.engine.translate.code_views import code_view
from dynexplore.engine.translate.codegen import CodeGenerator
from dynexplore.engine.translate.function_reconstruction import function_of_parts
from dynexplore.views.modified_python import HELPERS, PythonForm, python_of

FILE = "<modified code as Python>"


@dataclass
class Replaced:
    """How many pieces of modified code ran as Python, with their texts; and why others have no Python equivalent."""

    texts: list[str] = field(default_factory=list)
    refused: Counter[str] = field(default_factory=Counter)


@contextlib.contextmanager
def modified_code_as_python() -> Iterator[Replaced]:
    """Inside the block modified code is run as Python wherever it has that form."""
    replaced, assemble_code = Replaced(), CodeGenerator._assemble

    def as_python(self: CodeGenerator, instructions: list[Instruction]) -> CodeType:
        code = assemble_code(self, instructions)
        slots = self.ctx.request.slot_names
        form = python_of(code_view(code), slots)
        if form.why:
            replaced.refused[form.why] += 1
            return code
        replaced.texts.append(form.text)
        name = self.injected.add(_runner(self, form, code), "___python")
        return _calling(self, name)

    with mock.patch.object(CodeGenerator, "_assemble", as_python):
        yield replaced


def _calling(generator: CodeGenerator, name: str) -> CodeType:
    """Code for the frame that calls the function of the text with the argument slots, then the cells of free variables."""
    code, slots = generator.code, generator.ctx.request.slot_names
    writer = Writer(code)
    writer.prologue(code.co_cellvars, code.co_freevars)
    writer.begin_call()
    writer.load_fast(name)
    writer.callable_ready()
    for slot in slots:
        writer.load_deref(slot) if slot in code.co_cellvars else writer.load_fast(slot)
    for variable in code.co_freevars:
        writer.load_closure(variable)
    writer.call(len(slots) + len(code.co_freevars))
    writer.return_value()
    names = (*slots, *generator.injected.names)
    return assemble(writer, code, varnames=names, cellvars=code.co_cellvars, freevars=code.co_freevars)


def _runner(generator: CodeGenerator, form: PythonForm, code: CodeType) -> Callable[..., Any]:
    """What calls the function of the text: its free variables are what the engine injects, helpers, constants, and cells."""
    globals_, slots = generator.ctx.request.globals, generator.ctx.request.slot_names
    known = {name: _constant(code, number, globals_) for name, number in form.constants.items()}
    known |= {"___function": functools.partial(_function, globals_), **_HELPERS}
    known |= dict(zip(generator.injected.names, map(_with_codes, generator.injected.values), strict=True))
    free = sorted({*known, *form.cells} - set(slots))
    made = compile(_nested(form.text, free), FILE, "exec")
    inner = next(one for one in _codes(made) if one.co_name == "modified")
    skip_code(inner)
    count, freevars = len(slots), generator.code.co_freevars

    def run(*given: Any) -> Any:
        cells = dict(zip(freevars, given[count:], strict=True))
        closure = tuple(cells.get(name) or (CellType(known[name]) if name in known else CellType()) for name in inner.co_freevars)
        return FunctionType(inner, globals_, closure=closure)(*given[:count])

    _skip(run)
    return run


def _skip(function: Any) -> None:
    """Leave a function of this file to Python, and the comprehensions in it, which are frames of their own."""
    for code in _codes(function.__code__):
        skip_code(code)


def _nested(text: str, free: list[str]) -> str:
    """The function inside another one whose variables are its free ones."""
    body = "\n".join(f"    {line}" for line in text.splitlines())
    return f"def outer({', '.join(free)}):\n{body}\n    return modified\n"


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


# -- what the names of the text stand for ------------------------------------------------------------------------------


class _Code:
    """A code object: called, it is a function without closure that the frame goes on in."""

    def __init__(self, code: CodeType, globals_: dict[str, Any]) -> None:
        self.code, self.globals = code, globals_

    def __call__(self, *args: Any) -> Any:
        return TailCall(FunctionType(self.code, self.globals), *args)


_skip(_Code.__call__)


def _constant(code: CodeType, number: int, globals_: dict[str, Any]) -> Any:
    value = next(step.arg for step in read(code).steps if step.index == number)
    return _Code(value, globals_) if isinstance(value, CodeType) else value


def _with_codes(value: Any) -> Any:
    """What the engine injects; FunctionType, which makes functions of other globals, is given a `_Code`."""
    return _made_with_globals if value is FunctionType else value


def _made_with_globals(code: _Code, *given: Any) -> FunctionType:
    return FunctionType(code.code, *given)


def _function(globals_: dict[str, Any], code: _Code, **given: Any) -> FunctionType:
    flags = {"defaults": 1, "kwdefaults": 2, "annotations": 4, "closure": 8}
    parts = {name: given[name] for name in flags if name in given}
    return function_of_parts(code.code, globals_, sum(flags[name] for name in parts), *parts.values())


def _enter(manager: Any) -> tuple[Any, Any]:
    """As CPython's BEFORE_WITH does it: both methods are looked up on the class before the first is called."""
    kind = type(manager)
    try:
        enter, leave = kind.__enter__, kind.__exit__
    except AttributeError:
        with manager:  # raises what Python says of no context manager
            raise AssertionError(manager) from None
    return leave.__get__(manager, kind), enter(manager)


_END = object()
_HELPERS = {
    "___next": next,
    "___end": _END,
    "___iter": iter,
    "___slice": slice,
    "___cell": lambda reads: reads.__closure__[0],
    "___enter": _enter,
    "___go_on": TailCall,
}
for _helper in (_HELPERS["___cell"], _enter, _function, _made_with_globals):
    _skip(_helper)
assert {*_HELPERS, "___function", "___original"} == {*HELPERS}
