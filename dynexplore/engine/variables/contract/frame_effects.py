"""Frame effects: what a frame does besides computing a graph and mutating objects.

The idea: most side effects are mutations of objects, which the journal records (side_effects.py). These are the others: random
numbers drawn in each call, nn.Parameters created in the frame, guards that the next attempt must install, and cleanup callbacks
that break reference cycles.

In: notes from trackers. Out: the prologue of the modified code (codegen), the next attempt (`RestartPoint`), the end of this one.
PyTorch's counterpart: `random_calls` and the cleanup hooks of torch/_dynamo/output_graph.py, create_parameter_op.py.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import field
from typing import TYPE_CHECKING, Any

from dynexplore.engine.records import record

if TYPE_CHECKING:
    from dynexplore.engine.events import UserFrame
    from dynexplore.engine.variables.contract.context import TraceContext


@record()
class TraceTimeClass:
    """A trace-time substitute for an object that each call creates afresh, with the
    step and the user stack at which it was made.
    """

    value: object
    step: int
    user_stack: tuple[UserFrame, ...]


@record(frozen=False)
class FrameEffects:
    """The effects of one attempt."""

    draws: list[tuple[str, Any, tuple[Any, ...]]] = field(default_factory=list)
    """Random numbers: the local that stores each, the function, its arguments."""
    new_parameters: list[tuple[Any, Callable[[], Any]]] = field(default_factory=list)
    """The tracker of each nn.Parameter that the frame creates, and the function that allocates it."""
    trace_time_classes: dict[int, TraceTimeClass] = field(default_factory=dict)
    """By id: the classes of class statements, and functions defined in them."""
    observed_is_compiling: bool = False
    """Whether the program called `is_compiling()`: it may have taken a branch that eager does not take."""
    transient_break_guards: list[Callable[[TraceContext], None]] = field(default_factory=list)
    """Each installs a guard, in the next attempt, on the state that makes this frame break temporarily."""
    ends_with_callees: list[list[tuple[type[Any], frozenset[str]]]] = field(default_factory=list)
    """For each callee in which a resume function resumes: the classes of objects whose end the program observes when the callee
    returns, and the parameters that hold them.
    """
    cleanup_callbacks: list[Callable[[], object]] = field(default_factory=list)
    """Called when the attempt is over: they break reference cycles that hold the program's objects."""
