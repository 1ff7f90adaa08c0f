"""The engines whose captures a recording may hold: this engine, or torch.compile.

The idea: the two names are defined in one place, in a file without imports, so that the command line can offer them without
loading the rest of the recording code.

In: nothing. Out: DYNEXPLORE and TORCH, and both as ENGINES. PyTorch's counterpart: none.
"""

from __future__ import annotations

from dynexplore.engine.old_names import keep_old_names

DYNEXPLORE = "dynexplore"
TORCH = "torch.compile"
ENGINES = (DYNEXPLORE, TORCH)


keep_old_names(globals())
