"""Tells the recorder what the translator does: trackers and nodes in, frozen events out.

The idea: the engine does not know that it is watched. Where it has something to tell it asks for the narrator, which is None when
nobody listens; all that turns live things into plain text stands here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch.fx

from dynexplore.engine.bytecode import Instruction, Step
from dynexplore.engine.graph_breaks import GraphBreak
from dynexplore.engine.provenance.guards import Guard
from dynexplore.engine.recording import Recorder
from dynexplore.engine.variables.base import VariableTracker

if TYPE_CHECKING:
    from dynexplore.engine.translate.symbolic_frame import SymbolicFrame
    from dynexplore.engine.translate.translator import Translator


class Narrator:
    """One per attempt that is watched."""

    def __init__(self, recorder: Recorder, frame_id: int, attempt: int) -> None:
        self.recorder = recorder
        self.frame_id = frame_id
        self.attempt = attempt

    def attempt_started(self) -> None:
        """An attempt begins."""

    def restarted(self, graph_break: GraphBreak, at: Instruction) -> None:
        """The attempt is given up; the next one stops before this instruction."""

    def stepped(self, frame: SymbolicFrame, step: Step) -> None:
        """One canonical step was interpreted."""

    def inline_entered(self, frame: SymbolicFrame, caller: SymbolicFrame) -> None:
        """A callee is interpreted."""

    def inline_left(self, frame: SymbolicFrame) -> None:
        """A callee returned."""

    def node_added(self, node: torch.fx.Node, ctx: Translator) -> None:
        """A node was added to the graph."""

    def guard_installed(self, guard: Guard) -> None:
        """A fact is relied on."""

    def changed(self, tracker: VariableTracker, what: str) -> None:
        """A tracker changes; noted in the journal."""

    def broke(self, graph_break: GraphBreak, frame: SymbolicFrame) -> None:
        """The graph breaks."""

    def compiled(self, name: str, graph: Any, seconds: float) -> None:
        """A graph came back from the backend."""
