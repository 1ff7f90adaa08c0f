"""What a frame does besides computing a graph, as trackers note it and code generation writes it down.

The idea: most side effects are changes of objects, which the journal holds. These are the others: random numbers that are drawn in
each call, parameters that are made, and what the attempt itself owes: guards for the next attempt, circles of references to open.

In: trackers. Out: the head of the modified code (codegen), the next attempt (`RestartPoint`), the end of this one.
PyTorch's counterpart: torch/_dynamo/side_effects.py and the cleanup hooks of output_graph.py.
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
class StandIn:
    """An object that exists only while the frame is translated, for what each call makes anew: at which step, and where."""

    value: object
    step: int
    user_stack: tuple[UserFrame, ...]


@record(frozen=False)
class FrameEffects:
    """The effects of one attempt."""

    draws: list[tuple[str, Any, tuple[Any, ...]]] = field(default_factory=list)
    """Random numbers: the local each goes to, the function, its arguments."""
    new_parameters: list[tuple[Any, Callable[[], Any]]] = field(default_factory=list)
    """The tracker of each nn.Parameter that the frame makes, and what makes it."""
    stand_ins: dict[int, StandIn] = field(default_factory=dict)
    """By id: classes of class statements, and their functions."""
    observed_is_compiling: bool = False
    """Whether the program asked if it is being compiled: it may have taken a branch that eager does not take."""
    transient_break_guards: list[Callable[[TraceContext], None]] = field(default_factory=list)
    """Each guards, in the next attempt, the state that makes this frame break for now."""
    cleanup_callbacks: list[Callable[[], object]] = field(default_factory=list)
    """Called when the attempt is over: they break reference cycles that hold the program's objects."""
