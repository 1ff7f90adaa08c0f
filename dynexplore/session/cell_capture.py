"""Capture of a notebook cell: either the cell's own code is captured as one function, or the cell runs as a small program.

The idea: a cell of straight-line tensor code is captured as one function. A cell that imports, defines classes, builds modules,
reads data or trains is a program: it runs as plain Python, and the modules and functions that it calls are selected by the tables
in targets.py, as for a script. `CELL_ROWS` decides between the two before the cell runs, from its code and namespace. Even in a
captured cell, frames that are never targets run as plain Python: frames below the construction of a module, a class body, a data
loader, autograd or an optimizer. Imports run with the frame hook off.

In: the cell as a function without arguments, the store that records it.
Out: `why_program(cell)`, `run_function(cell, store)`, `run_program(cell, store, recording)`.

PyTorch's counterpart: none; torch.compile captures functions only.
"""

from __future__ import annotations

import dis
import inspect
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch

from dynexplore.engine.native import FrameState, RegionCall, function_of
from dynexplore.engine.records import record
from dynexplore.engine.runtime.stores import Store
from dynexplore.recording.recording import Recording
from dynexplore.session.call_facts import DRIVING_TYPES, why_around
from dynexplore.session.code_facts import callees_of, facts_of, with_nested
from dynexplore.session.program_capture import ProgramCapture
from dynexplore.session.target_search import imports_unhooked
from dynexplore.session.targets import Choice, Pattern, Targets

# -- the table ----------------------------------------------------------------------------------------------------------------


@record()
class CellRow:
    """One rule: the reason why a cell is a program, or "" if the rule does not apply."""

    id: str
    why: Callable[[types.FunctionType], str]


def _defines_a_class(cell: types.FunctionType) -> str:
    is_class = any(step.opname == "LOAD_BUILD_CLASS" for step in dis.get_instructions(cell))
    return "it defines a class" if is_class else ""


def _builds_a_module(cell: types.FunctionType) -> str:
    for function in (cell, *callees_of(cell)):
        for code in with_nested(function.__code__):
            for value in _called_values(code, function.__globals__):
                if _gives_a_module(value):
                    return f"it builds a module, {value.__qualname__}"
    return ""


def _reads_a_driving_object(cell: types.FunctionType) -> str:
    values = (cell.__globals__.get(name) for name in cell.__code__.co_names)
    driving = next((value for value in values if isinstance(value, DRIVING_TYPES)), None)
    return f"it uses a {type(driving).__name__}" if driving is not None else ""


CELL_ROWS: tuple[CellRow, ...] = (
    CellRow("class", _defines_a_class),
    CellRow("driver", lambda cell: facts_of(cell).drives),
    CellRow("driving object", _reads_a_driving_object),
    CellRow("module", _builds_a_module),
)
"""The first row that returns a reason makes the cell a program; if none does, the cell is captured as a function."""


def why_program(cell: types.FunctionType) -> tuple[str, str]:
    """The row that makes a cell a program, and its reason; two empty strings if the cell is captured as a function.

    >>> why_program(types.FunctionType(compile("x = torch.ones(2) + 1", "cell", "exec"), {}))
    ('', '')
    """
    return next(((row.id, why) for row in CELL_ROWS if (why := row.why(cell))), ("", ""))


_ATTRIBUTES = ("LOAD_ATTR", "LOAD_METHOD")
_NAMES = ("LOAD_GLOBAL", "LOAD_NAME")


def _called_values(code: types.CodeType, namespace: Mapping[str, Any]) -> Iterator[Any]:
    """The values that the code calls by name or by a path through Python modules (`Net(...)`, `nn.Linear(...)`), if they exist."""
    steps = list(dis.get_instructions(code))
    value: Any = None
    for before, step, after in zip([None, *steps], steps, [*steps[1:], None], strict=False):
        if step.opname in _NAMES:
            value = namespace.get(step.argval)
        elif step.opname in _ATTRIBUTES and isinstance(value, types.ModuleType):
            value = inspect.getattr_static(value, step.argval, None)
        elif step.opname != "PUSH_NULL":
            value = None
        is_path = after is not None and after.opname in _ATTRIBUTES
        if value is not None and not is_path and _is_callee(before, step, after):
            yield value


def _is_callee(before: dis.Instruction | None, step: dis.Instruction, after: dis.Instruction | None) -> bool:
    """Whether the value that an instruction loads is about to be called: a NULL for `self` is pushed before or after it."""
    neighbors = [instruction.opname for instruction in (before, after) if instruction is not None]
    return step.opname == "LOAD_METHOD" or "NULL" in step.argrepr or "PUSH_NULL" in neighbors


def _gives_a_module(value: Any) -> bool:
    """Whether calling it creates a module: a module class, or a function annotated to return a module."""
    if isinstance(value, types.FunctionType):
        annotation = value.__annotations__.get("return")
        value = _named_value(annotation, value.__globals__) if isinstance(annotation, str) else annotation
    return isinstance(value, type) and issubclass(value, torch.nn.Module)


def _named_value(path: str, namespace: Mapping[str, Any]) -> Any:
    """The value of a path such as `nn.Module`; None if it is not a path through modules, or does not resolve."""
    first, *rest = path.split(".")
    value = namespace.get(first)
    for name in rest:
        value = inspect.getattr_static(value, name, None) if isinstance(value, types.ModuleType) else None
    return value


# -- the run ------------------------------------------------------------------------------------------------------------------


def run_function(cell: types.FunctionType, store: Store) -> Any:
    """Run a cell that is captured as one function; return its value."""
    __tracebackhide__ = True
    convert = store.region.callback

    def callback(state: FrameState) -> Any:
        __tracebackhide__ = True
        is_cell = state.code is cell.__code__ or state.resumed_from is not None
        return convert(state) if convert is not None and (is_cell or not _is_never_captured(state)) else None

    store.region.callback = callback
    try:
        with imports_unhooked():
            return RegionCall(cell, store.region)()
    finally:
        store.region.callback = convert


def _is_never_captured(state: FrameState) -> bool:
    """Whether a row of targets.py excludes this frame even inside a target."""
    return facts_of(function_of(state)).fills_parameters or bool(why_around(sys._getframe(1)))


def run_program(cell: types.FunctionType, store: Store, recording: Recording, only: str = "") -> Any:
    """Run a cell that is a program; return its value. `only`: capture only functions with this name, or ""."""
    __tracebackhide__ = True
    targets = _CellTargets(cell, *why_program(cell), only)
    capture = ProgramCapture(recording.title, targets, recorded=(recording, store))
    try:
        return capture.run(cell)
    finally:
        capture.note_passed()


class _CellTargets(Targets):
    """The targets of a cell that is a program: the cell itself is not one, for the reason found by `CELL_ROWS`."""

    def __init__(self, cell: types.FunctionType, row: str, why: str, only: str) -> None:
        super().__init__((Pattern(only),) if only else ())
        self._code = cell.__code__
        self._choice = Choice("never", row, why, self._code.co_name, self._code.co_filename, self._code.co_firstlineno)

    def decide(self, state: FrameState) -> Choice:
        if state.code is not self._code:
            return super().decide(state)
        self.note(self._choice)
        return self._choice
