"""The interface of the code generator that trackers use to reconstruct values.

The idea: `translate/codegen.py` writes the end of a graph, and each tracker emits the bytecode that pushes its own value. This
Protocol breaks the import cycle, like those of context.py.

In: calls from `reconstruct` and `write_back` of trackers. Out: bytecode of the modified code. PyTorch's counterpart: `PyCodegen` in
torch/_dynamo/codegen.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    import torch.fx

    from dynexplore.engine.bytecode import Writer
    from dynexplore.engine.provenance.sources import Namer
    from dynexplore.engine.variables.contract.active_mode import ActiveMode
    from dynexplore.engine.variables.contract.base import VariableTracker


class CannotRebuild(NotImplementedError):
    """Raised by a value whose reconstruction another value prevents: the next attempt stops before that one is created."""

    def __init__(self, because_of: VariableTracker, reason: str) -> None:
        super().__init__(reason)
        self.because_of = because_of


class Reconstruction(Protocol):
    """The code generator, as trackers see it."""

    writer: Writer
    namer: Namer

    def push(self, value: VariableTracker) -> None:
        """Emit bytecode that pushes a value: from its source, from a graph output, or through its `reconstruct`."""
        ...

    def push_object(self, value: object) -> None:
        """Push a live object that the cache entry holds (a local variable of the modified code)."""
        ...

    def push_constant(self, value: object) -> None:
        """Push a literal. One that the frame computed is another object than an equal literal of the code."""
        ...

    def may_be_constant(self, value: object) -> bool:
        """Whether the modified code can have this very object as a constant: there is no other literal that is equal."""
        ...

    def push_output(self, node: torch.fx.Node) -> None:
        """Push an output of the graph."""
        ...

    def call_object(self, function: object, *args: VariableTracker) -> None:
        """Push the result of calling a live object with these values."""
        ...

    def call_helper(self, function: object, *loads: Callable[[], object]) -> None:
        """Push the result of calling a live object; each of `loads` pushes one argument."""
        ...

    def set_modes_before(self, block: ActiveMode) -> None:
        """Set the modes that were set before a `with` block which is now entered again."""
        ...

    def store_temporary(self) -> str:
        """Pop the top of the stack into a fresh local variable, and return its name."""
        ...

    def later(self, emit: Callable[[], None]) -> None:
        """Run `emit` after every value has been pushed: mutations of real objects come last, in the journal's order."""
        ...

    def make_function(self, function: VariableTracker) -> None:
        """Push a new function made of the code, cells and defaults of a function that the frame defined."""
        ...

    def remember(self, value: VariableTracker) -> None:
        """Pop the top of the stack, which is `value`; from now on `push` loads this very object.

        An object that may contain itself calls this before its content is pushed.
        """
        ...
