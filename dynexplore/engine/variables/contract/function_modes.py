"""FunctionModes: the state of `__torch_function__` dispatch: TorchFunctionModes that traced code entered, and tensor subclasses.

The idea: a mode that the program enters stays symbolic. A torch function that would dispatch to it calls its tracker: the
`__torch_function__` method is interpreted with the mode itself popped, as torch does. If the graph ends inside the `with` block,
the modified code enters the modes for real.

In: pushes and pops (modes/torch_function_modes.py), tensor subclasses (torch_/tensor/tensor_subclass.py). Out: `may_dispatch`, the
fast check that makes all other calls skip dispatch. PyTorch's counterpart: `SymbolicTorchFunctionState` in
torch/_dynamo/variables/torch_function.py.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.base import VariableTracker


class FunctionModes:
    """The modes of one attempt, innermost last, and whether subclasses dispatch; see the head of this file."""

    def __init__(self) -> None:
        self.entered: list[VariableTracker] = []
        self.has_subclasses = False  # whether a tensor whose class defines `__torch_function__` has been seen
        self.has_wrappers = False  # whether a tensor whose class defines `__torch_dispatch__` in Python has been seen
        self.wrapped: set[int] = set()  # the storages of the inner tensors of wrapper subclasses among the inputs
        self._without_subclasses = 0

    @property
    def may_dispatch(self) -> bool:
        """Whether a torch call may dispatch to user code."""
        return bool(self.entered) or self.dispatches_to_subclasses

    @property
    def dispatches_to_subclasses(self) -> bool:
        """Whether tensor subclasses take part in dispatch."""
        return self.has_subclasses and not self._without_subclasses

    @contextlib.contextmanager
    def without_subclasses(self) -> Iterator[None]:
        """Disable dispatch to subclasses while one of them handles a call (torch._C.DisableTorchFunctionSubclass)."""
        self._without_subclasses += 1
        try:
            yield
        finally:  # as above
            self._without_subclasses -= 1

    @contextlib.contextmanager
    def without_innermost(self) -> Iterator[VariableTracker]:
        """Pop the innermost mode while it handles a call."""
        mode = self.entered.pop()
        try:
            yield mode
        finally:  # also if the program raises; if the graph breaks, the whole attempt is discarded
            self.entered.append(mode)
