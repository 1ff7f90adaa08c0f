"""A frame whose values are trackers: stack, locals, cells, and the exceptions being handled.

The idea: CPython's frame object, with one list of trackers for its value stack and one dict of trackers for its fast locals. The
translator moves `pc` over the canonical steps; handlers push and pop.

In: parsed code and bound arguments. Out: state that views and codegen read. PyTorch's counterpart: the state of
InstructionTranslatorBase (`stack`, `symbolic_locals`) in torch/_dynamo/symbolic_convert.py; CPython's:
Include/internal/pycore_frame.h.
"""

from __future__ import annotations

from types import FunctionType
from typing import Any

from dynexplore.engine.bytecode import Instruction, ParsedCode
from dynexplore.engine.provenance.sources import Source
from dynexplore.engine.variables.callables.function import CellVariable
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.objects.namespace import NamespaceVariable


class NullVariable(VariableTracker):
    """The NULL beside a callable; not a Python value."""

    kind = "null"

    def python_type(self) -> type[Any]:
        return type(None)

    def text(self) -> str:
        return "NULL"


NULL = NullVariable()


class SymbolicFrame:
    """One frame under interpretation."""

    __slots__ = ("allows_nested_break", "allows_partial_graph", "as_passed", "called_through", "calls_through", "caught_at",
                 "cells", "current", "depth", "exceptions", "function", "globals", "in_flight_since", "locals", "namespace",
                 "only_calls", "parent", "parsed", "pc", "returned", "stack", "steps", "unit_began_at", "yielded")

    def __init__(self, parsed: ParsedCode, namespace: NamespaceVariable, function: VariableTracker | None,
                 parent: SymbolicFrame | None) -> None:
        self.parsed = parsed
        self.steps = parsed.steps
        self.pc = 0
        self.stack: list[VariableTracker] = []
        self.locals: dict[str, VariableTracker] = {}
        #: the locals of a resume function that nothing has read yet, so that they may be unbound: their sources and classes
        self.as_passed: dict[str, tuple[Source, type[Any]]] = {}
        self.cells: dict[str, CellVariable] = {}
        self.globals = namespace
        self.function = function
        self.parent = parent
        self.depth: int = 0 if parent is None else parent.depth + 1
        self.current: Instruction = parsed.instructions[0]
        self.namespace: dict[str, VariableTracker] = {}  # of a class body
        self.returned: VariableTracker | None = None
        self.yielded: VariableTracker | None = None
        self.exceptions: list[VariableTracker] = []  # the exceptions being handled, innermost last
        #: whether a break in it, or in a callee, may end the graph there (a nested graph break)
        self.allows_nested_break = parent is None
        #: whether a break in the frame itself may end the graph there
        self.allows_partial_graph = parent is None
        #: the callable that the current instruction only calls, and then what that one forwards the call to
        self.only_calls: VariableTracker | None = None
        #: the methods, each with its receiver, through which the call is forwarded without interpreting them
        self.calls_through: tuple[tuple[FunctionType, VariableTracker], ...] = ()
        #: the methods through which the call of this frame was forwarded
        self.called_through: tuple[tuple[FunctionType, VariableTracker], ...] = ()
        # indices of steps:
        self.unit_began_at = 0  # where the current instruction began
        self.caught_at: list[int] = []  # where each exception that is being handled was raised
        self.in_flight_since: int | None = None  # where an exception was raised that no `except` has caught yet

    def forget(self) -> None:
        """Drop the values of the frame and its caller."""
        self.parent = None
        self.stack.clear()
        self.locals.clear()
        self.namespace.clear()
        self.cells.clear()

    def push(self, value: VariableTracker) -> None:
        """Push a value."""
        self.stack.append(value)

    def pop(self) -> VariableTracker:
        """Pop the top."""
        return self.stack.pop()

    def popn(self, count: int) -> list[VariableTracker]:
        """Pop the top `count` values, deepest first."""
        if count == 0:
            return []
        values = self.stack[-count:]
        del self.stack[-count:]
        return values

    def jump(self, target: int) -> None:
        """Continue at a step."""
        self.pc = target
