"""What is said of a symbolic step by the second opinion of opcode_checks.py, and what is known of a value without asking it.

The idea: a step is right, is wrong (`Mismatch`), or cannot be judged before real values are there (`Claim`). Values are
trackers, and nothing here may ask a tracker a question that could install a guard: only plain attributes are read.

In: trackers. Out: `known(tracker)`, a constant, an FX node or a nest of them. PyTorch has no counterpart.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import torch
import torch.fx

from dynexplore.engine.bytecode import Step
from dynexplore.engine.variables.containers.lazy import LazyVariable
from dynexplore.engine.variables.containers.ranges import SliceVariable
from dynexplore.engine.variables.containers.sequence import ListVariable, SizeVariable, TupleVariable
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.contract.side_effects import Journal
from dynexplore.engine.variables.scalars.constant import LITERALS, ConstantVariable
from dynexplore.engine.variables.scalars.symbolic_number import SymbolicNumberVariable
from dynexplore.engine.variables.scalars.unspecialized import UnspecializedVariable
from dynexplore.engine.variables.torch_.tensor import TensorVariable

if TYPE_CHECKING:
    from dynexplore.engine.translate.symbolic_frame import SymbolicFrame

Stack = list[VariableTracker]
Kept = dict[VariableTracker, Any]


@dataclass(frozen=True, slots=True)
class Mismatch:
    """A step that is wrong, and is known to be wrong at once."""

    aspect: str
    expected: str
    actual: str


@dataclass(slots=True)
class Claim:
    """A step whose outcome needs real values: `function(*operands, **named)` must be `result`.

    Operands and result are constants, FX nodes, and tuples, lists and slices of such.
    """

    function: Callable[..., Any]
    operands: tuple[Any, ...]
    result: Any
    named: dict[str, Any]


@dataclass(slots=True)
class Stepped:
    """One step, as the table below sees it: `made` are the nodes that came into the graph meanwhile."""

    step: Step
    frame: SymbolicFrame
    before: Stack
    after: Stack
    bound: VariableTracker | None  # LOAD_FAST: what the local held before
    made: Sequence[torch.fx.Node]
    inlined: bool
    kept: Kept  # what the step may change, as it was before
    journal: Journal  # which tracker stands for which live object


@dataclass(frozen=True, slots=True)
class Mark:
    """A step of an attempt: its number, its instruction, and the last node of the graph before and after it."""

    number: int
    offset: int
    inline: int
    text: str
    node_before: torch.fx.Node | None
    node_after: torch.fx.Node | None


Before = tuple[Stack, VariableTracker | None, torch.fx.Node | None, int, Kept]
"""Before a step: the stack, the local that LOAD_FAST loads, the last node of the graph, how many callees there were, and what
the step may change."""


@dataclass(slots=True)
class Attempt:
    """What was seen of the attempt that runs."""

    frame: int
    number: int
    graph: torch.fx.Graph
    journal: Journal
    steps: int = 0
    makers: list[Mark] = field(default_factory=list)  # the steps that made nodes
    claims: list[tuple[Mark, Claim]] = field(default_factory=list)
    before: dict[SymbolicFrame, Before] = field(default_factory=dict)
    latest: tuple[Mark, Stepped] | None = None  # the step that was judged last


class Unknown(Exception):
    """Nothing is known of a value without asking it."""


# -- what is known of a value ----------------------------------------------------------------------------------


def known(value: VariableTracker, depth: int = 8) -> Any:
    """A tracker as a constant, a node, or a nest of them. Raises Unknown."""
    kind = type(value)
    if not depth:  # a container may hold itself
        raise Unknown
    if kind is ConstantVariable:
        return value.value  # type: ignore[attr-defined]
    if kind is TensorVariable or kind is SymbolicNumberVariable:
        return value.node  # type: ignore[attr-defined]
    if isinstance(value, UnspecializedVariable):
        node = value._proxy
        if not isinstance(node, torch.fx.Node) and kind is not UnspecializedVariable:
            raise Unknown
        return node if isinstance(node, torch.fx.Node) else value.known
    maker = _NESTS.get(kind)
    if maker is not None:
        return maker(known(item, depth - 1) for item in value.items)  # type: ignore[attr-defined]
    if kind is SliceVariable:
        return slice(*(known(part) for part in value.parts))  # type: ignore[attr-defined]
    if isinstance(value, LazyVariable) and value._read is not None:
        return known(value._read)
    raise Unknown


def _sizes(sizes: Any) -> tuple[Any, ...]:
    found = tuple(sizes)
    return found if has_nodes(found) else torch.Size(found)


_NESTS: dict[type[VariableTracker], Callable[[Any], Any]] = {TupleVariable: tuple, SizeVariable: _sizes, ListVariable: list}


def has_nodes(value: Any) -> bool:
    """Whether a nest holds an FX node: then it needs real values."""
    if isinstance(value, torch.fx.Node):
        return True
    if isinstance(value, tuple | list):
        return any(map(has_nodes, value))
    return isinstance(value, slice) and has_nodes((value.start, value.stop, value.step))


def same_constant(left: Any, right: Any) -> bool:
    """Whether two Python values are the same for a program: type, value, and NaN like NaN."""
    if isinstance(left, float) and isinstance(right, float) and math.isnan(left) and math.isnan(right):
        return True
    if isinstance(left, tuple | list) and isinstance(right, tuple | list):
        return len(left) == len(right) and all(map(same_constant, left, right))
    if isinstance(left, slice) and isinstance(right, slice):
        return same_constant((left.start, left.stop, left.step), (right.start, right.stop, right.step))
    return left is right or (type(left) is type(right) and bool(left == right))


def may_change(value: VariableTracker) -> bool:
    """Whether a value that is no input of the graph may be another one in a later run."""
    return isinstance(value, UnspecializedVariable) and not value.relied_on and not isinstance(value._proxy, torch.fx.Node)


def is_plain(value: Any) -> bool:
    """Whether Python may compute with a constant again: nothing of the program's own can run."""
    if type(value) in (tuple, list, slice, torch.Size):
        parts = (value.start, value.stop, value.step) if isinstance(value, slice) else value
        return all(map(is_plain, parts))
    return type(value) in LITERALS or isinstance(value, torch.dtype | torch.device)


def as_read(value: VariableTracker) -> VariableTracker:
    """A value that was looked at meanwhile as the tracker that it became."""
    return value._read if isinstance(value, LazyVariable) and value._read is not None else value
