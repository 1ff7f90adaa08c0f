"""FunctionModes: who overrides torch functions: the TorchFunctionModes that traced code has entered, and tensor subclasses.

The idea: a mode that the program enters stays symbolic. A torch function that would dispatch to it (`__torch_function__`) calls
its tracker: the method is interpreted with the mode itself off the stack, as torch does it. Where the graph ends inside the
block, the modified code enters the modes for real.

In: what pushes and pops (modes/torch_function_modes.py), tensor subclasses (torch_/tensor/tensor_subclass.py). Out: whether a
call may dispatch at all (`may_dispatch`), which costs all others a look at a list.
torch/_dynamo/variables/torch_function.py (SymbolicTorchFunctionState) does the same job.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.base import VariableTracker


class FunctionModes:
    """The modes of one attempt, innermost last, and whether classes are asked; see the head of this file."""

    def __init__(self) -> None:
        self.entered: list[VariableTracker] = []
        self.has_subclasses = False  # whether a tensor came up whose class has a `__torch_function__`
        self.has_wrappers = False  # whether a tensor came up whose class says in Python what operators do
        self.wrapped: set[int] = set()  # what names the memory of the tensors that are inside of inputs
        self._without_subclasses = 0

    @property
    def may_dispatch(self) -> bool:
        """Whether a call of torch may ask the program."""
        return bool(self.entered) or self.dispatches_to_subclasses

    @property
    def dispatches_to_subclasses(self) -> bool:
        """Whether classes of tensors are asked."""
        return self.has_subclasses and not self._without_subclasses

    @contextlib.contextmanager
    def without_subclasses(self) -> Iterator[None]:
        """While a class answers no class is asked (torch._C.DisableTorchFunctionSubclass)."""
        self._without_subclasses += 1
        try:
            yield
        finally:  # as above
            self._without_subclasses -= 1

    @contextlib.contextmanager
    def without_innermost(self) -> Iterator[VariableTracker]:
        """While the innermost mode answers it is not asked itself."""
        mode = self.entered.pop()
        try:
            yield mode
        finally:  # also when the program raises; when the graph breaks, the attempt is thrown away as a whole
            self.entered.append(mode)
