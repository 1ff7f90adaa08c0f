"""This engine as one capture method among the others.

The idea: a separate optimized function, with a backend that keeps its graphs. `dynexplore.explain` shows each step of the
engine; here only the result counts.

In: a call. Out: the graphs that the backend received, and the reasons if there are several. PyTorch's counterpart:
torch/_dynamo.
"""

from __future__ import annotations

import dynexplore
from dynexplore.lenses.collecting import Collecting, first_call
from dynexplore.lenses.lens import Call, Captured


class ThisEngine:
    """The capture method; see the module docstring."""

    key = "dynexplore"
    name = "dynexplore"
    works_on = "bytecode"
    how = "Reads the bytecode of each frame before it runs, and captures graphs with guards. Recompiles when guards fail."
    purpose = "Seeing how capture works: every step, guard and break is recorded, and every rule can be read and changed."
    reasons: tuple[tuple[str, str], ...] = ()

    def prepare(self) -> None:
        """Import the engine."""
        assert dynexplore.optimize is not None

    def capture(self, call: Call) -> Captured:
        """Optimize with a collecting backend, and call once."""
        collecting = Collecting()
        compiled = dynexplore.optimize(collecting, dynamic=call.dynamic)(call.fn)
        return first_call(compiled, collecting, call, dynexplore.graph_breaks)
