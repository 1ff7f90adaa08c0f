"""Observers: who watches what a store compiles, and which callbacks each observer gets.

The idea: the engine compiles and runs; everything that watches it is in a higher layer and is called at a few points. A `Store`
has one record of observers. Each is None until somebody listens, and the engine does no work for an absent observer.

In: `store.observers`, filled by a session, a notebook or a tool. Out: calls at the points named below. PyTorch's counterpart: the
`Hooks` of torch/_dynamo/hooks.py, and torch/_logging.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import field
from types import CodeType, FunctionType
from typing import Any, Protocol

from dynexplore.engine.graph.finished_graph import FinishedGraph
from dynexplore.engine.recorder import Recorder
from dynexplore.engine.records import record
from dynexplore.engine.translate.contract.request import StepObserver


class WatchedGraph(Protocol):
    """A captured graph that is watched whenever it runs."""

    def watch(self, compiled: Callable[..., Any], backend: str) -> Callable[..., Any]:
        """Wrap the backend's callable."""


class RunObserver(StepObserver, Protocol):
    """Compares the real run with the symbolic one: at the steps, at the start of frames, and at each graph."""

    def entered(self, frame: int, values: Mapping[str, object], resumed_from: CodeType | None) -> None:
        """A frame begins with these values; `resumed_from`: the modified code of the frame that a resume function continues."""

    def plan(self, graph: FinishedGraph, name: str, frame: int) -> WatchedGraph:
        """A graph is about to be passed to the backend, which may modify it."""

    def forget(self, frame: int) -> None:
        """The frame's translation is over."""

    def returned(self, frame: int, value: object) -> None:
        """The call that started the frame has returned."""


class CallObserver(Protocol):
    """Records the calls that started frames."""

    def note(self, frame: int, function: FunctionType, values: Sequence[Any]) -> None:
        """`values` are in the argument slots of a frame that is about to be translated."""


@record(frozen=False)
class Observers:
    """The observers of one store.

    recorder: receives events. run: compares steps and graphs with the real run. calls: stores the calls that started frames.
    graphs: collects the captured GraphModules, in order. notices: sentences about what a backend lacks; if this list is set, the
    graphs of such a backend run as captured, and nothing is raised. modified_codes: id of modified code -> that code and its
    frame.
    """

    recorder: Recorder | None = None
    run: RunObserver | None = None
    calls: CallObserver | None = None
    graphs: list[Any] | None = None
    notices: dict[str, None] | None = None
    modified_codes: dict[int, tuple[CodeType, int]] = field(default_factory=dict)
