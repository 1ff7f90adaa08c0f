"""What a tracker may ask of the code generator when a value leaves the traced frame.

The idea: `translate/codegen.py` writes the end of a graph; each tracker knows how to push itself. The circle goes through this
Protocol, as context.py's does.
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


class Reconstruction(Protocol):
    """The code generator, as trackers see it."""

    writer: Writer
    namer: Namer

    def push(self, value: VariableTracker) -> None:
        """Emit bytecode that pushes a value, by whichever way fits: source, graph output, or its own `reconstruct`."""
        ...

    def push_object(self, value: object) -> None:
        """Push a live object that the cache entry holds (a local variable of the modified code)."""
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
        """Set for real what was set before a `with` block that is entered again now."""
        ...

    def store_temporary(self) -> str:
        """Pop the top of the stack into a fresh local variable; its name."""
        ...

    def later(self, emit: Callable[[], None]) -> None:
        """Run `emit` after every value has been pushed: changes of real objects come last, in the journal's order."""
        ...

    def make_function(self, function: VariableTracker) -> None:
        """Push a new function made of the code, cells and defaults of one that this frame defined."""
        ...

    def remember(self, value: VariableTracker) -> None:
        """Pop the top of the stack, which is `value`: from now on `push` gives this very object.

        An object that may hold itself says so before its content is pushed.
        """
        ...
