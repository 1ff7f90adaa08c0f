"""Whose captures a recording may hold: this engine's, or torch.compile's.

Which idea lives here: two names, spelled once. They stand alone so that the command line can offer them without reading what
a recording is made of.

In:  nothing. Out: OURS and TORCH, and both as ENGINES.

PyTorch has no counterpart.
"""

from __future__ import annotations

OURS = "dynexplore"
TORCH = "torch.compile"
ENGINES = (OURS, TORCH)
