"""The input and the result of a check: the step with the state around it, and its verdict.

The idea: a step is right, is wrong (`Mismatch`), or cannot be checked before real values exist (`DeferredCheck`). Values are
trackers, and no query on them may install a guard: only the methods of engine/variables/contract/inspection.py are called.

In: steps, trackers. Out: the records that step_checker.py, opcode_checks.py and graph_run_check.py exchange, and comparisons of
values without guards. PyTorch's counterpart: none.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple

import torch
import torch.fx

from dynexplore.engine.bytecode import Step
from dynexplore.engine.variables.containers.lazy import LazyVariable
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.contract.function_modes import FunctionModes
from dynexplore.engine.variables.contract.side_effects import Journal
from dynexplore.engine.variables.scalars.constant import LITERALS

if TYPE_CHECKING:
    from dynexplore.engine.translate.symbolic_frame import SymbolicFrame

Stack = list[VariableTracker]
StateBefore = dict[VariableTracker, Any]
"""The state that a step may mutate, as it was before the step: see before_step.py."""


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A step that is wrong for certain, without real values."""

    aspect: str
    expected: str
    actual: str


@dataclass(slots=True)
class DeferredCheck:
    """A check that needs real values: `function(*operands, **named)` must return `result`.

    Operands and result are constants, FX nodes, and tuples, lists and slices of such.
    """

    function: Callable[..., Any]
    operands: tuple[Any, ...]
    result: Any
    named: dict[str, Any]


Verdict = Mismatch | DeferredCheck | None
"""The result of a check; None: no error."""


@dataclass(slots=True)
class CheckedStep:
    """One step as the checks see it, with the stack before and after it; `made` are the nodes that it added to the graph."""

    instruction: Step
    frame: SymbolicFrame
    before: Stack
    after: Stack
    local_before: VariableTracker | None  # LOAD_FAST: the value of the local before
    new_nodes: Sequence[torch.fx.Node]
    inlined: bool
    state_before: StateBefore
    journal: Journal  # maps trackers to live objects
    large: Any  # LargeContainers (large_containers.py), which is in a layer above this file

    @property
    def op(self) -> str:
        """The canonical opcode."""
        return self.instruction.op

    @property
    def arg(self) -> Any:
        """The operand of the instruction."""
        return self.instruction.arg


@dataclass(frozen=True, slots=True)
class StepMark:
    """A step of an attempt: its number, its instruction, and the last node of the graph before and after it."""

    number: int
    offset: int
    inline: int
    text: str
    node_before: torch.fx.Node | None
    node_after: torch.fx.Node | None


class BeforeStep(NamedTuple):
    """The state noted before a step."""

    stack: Stack
    local: VariableTracker | None  # the one that LOAD_FAST reads
    last_node: torch.fx.Node | None
    callees: int  # the number of callees so far
    state: StateBefore


@dataclass(slots=True)
class Attempt:
    """The observations of the current attempt."""

    frame: int
    number: int
    graph: torch.fx.Graph
    journal: Journal
    innermost: Callable[[], SymbolicFrame]  # the frame that is being interpreted
    large: Any  # LargeContainers (large_containers.py), which is in a layer above this file
    modes: FunctionModes  # an active mode defines what an instruction means
    steps: int = 0
    makers: list[StepMark] = field(default_factory=list)  # the steps that added nodes
    deferred: list[tuple[StepMark, DeferredCheck]] = field(default_factory=list)
    before: dict[SymbolicFrame, BeforeStep] = field(default_factory=dict)
    latest: tuple[StepMark, CheckedStep] | None = None  # the latest step, if it may have mutated a container


# -- values without guards -------------------------------------------------------------------------------------


def has_nodes(value: Any) -> bool:
    """Whether nested values contain an FX node, and so need real values."""
    if isinstance(value, torch.fx.Node):
        return True
    if isinstance(value, tuple | list):
        return any(map(has_nodes, value))
    return isinstance(value, slice) and has_nodes((value.start, value.stop, value.step))


def same_constant(a: Any, b: Any) -> bool:
    """Whether two Python values are indistinguishable for a program: same type, same value, and NaN equals NaN."""
    if isinstance(a, float) and isinstance(b, float) and math.isnan(a) and math.isnan(b):
        return True
    if isinstance(a, tuple | list) and isinstance(b, tuple | list):
        return len(a) == len(b) and all(map(same_constant, a, b))
    if isinstance(a, slice) and isinstance(b, slice):
        return same_constant((a.start, a.stop, a.step), (b.start, b.stop, b.step))
    return a is b or (type(a) is type(b) and bool(a == b))


def is_plain(value: Any) -> bool:
    """Whether Python can evaluate an operation on this constant again without running code of the program."""
    if type(value) in (tuple, list, slice, torch.Size):
        parts = (value.start, value.stop, value.step) if isinstance(value, slice) else value
        return all(map(is_plain, parts))
    return type(value) in LITERALS or isinstance(value, torch.dtype | torch.device)


def as_read(value: VariableTracker) -> VariableTracker:
    """A lazy value that was realized meanwhile, as the resulting tracker."""
    return value._read if isinstance(value, LazyVariable) and value._read is not None else value
