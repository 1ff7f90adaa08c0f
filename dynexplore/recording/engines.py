"""Whose captures a recording may hold: this engine's, or torch.compile's.

Which idea lives here: two names, spelled once. They stand alone so that the command line can offer them without reading what
a recording is made of.

In:  nothing. Out: DYNEXPLORE and TORCH, and both as ENGINES.

PyTorch has no counterpart.
"""

from __future__ import annotations

from dynexplore.engine.old_names import keep_old_names

DYNEXPLORE = "dynexplore"
TORCH = "torch.compile"
ENGINES = (DYNEXPLORE, TORCH)


keep_old_names(globals())
