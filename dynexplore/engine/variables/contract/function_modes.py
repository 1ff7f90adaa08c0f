"""FunctionModes: the TorchFunctionModes that traced code has entered, innermost last.

The idea: a mode that the program enters stays symbolic. Each call of torch that would ask it asks its tracker: its
`__torch_function__` is interpreted, with the mode itself off the stack, as torch does it. Where the graph ends inside the block,
the modified code enters the modes for real.

In: what pushes and pops (torch_/function_modes.py). Out: whether a call has to ask at all (`asked`), which costs all others one
look at a list.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.base import VariableTracker


class FunctionModes:
    """The stack of one attempt; see the head of this file."""

    def __init__(self) -> None:
        self.entered: list[VariableTracker] = []

    @contextlib.contextmanager
    def without_innermost(self) -> Iterator[VariableTracker]:
        """While the innermost mode answers it is not asked itself."""
        mode = self.entered.pop()
        try:
            yield mode
        finally:  # also when the program raises; when the graph breaks, the attempt is thrown away as a whole
            self.entered.append(mode)
