"""The engine's door: what the explorer's rooms (widgets, lenses) may take from the engine.

Which idea lives here: the same laziness as the front door. Importing this package imports nothing else, so that
`dynexplore.engine.events` and `dynexplore.engine.recording` can be read in a process without torch.

In:  the table `DOOR`: name -> module that holds it.
Out: those names as attributes of `dynexplore.engine`.

README.md beside this file is the reading tour: which room to read first, and what PyTorch calls each.
PyTorch's counterpart: torch/_dynamo/__init__.py.
"""

from __future__ import annotations

import importlib
from typing import Any

DOOR: dict[str, str] = {
    "Recorder": "dynexplore.engine.recording",
    "Recording": "dynexplore.engine.recording",
    "Explanation": "dynexplore.engine.runtime.explain",
    "Session": "dynexplore.engine.runtime.session",
    "explain": "dynexplore.engine.runtime.explain",
    "StartingState": "dynexplore.engine.runtime.debugging.starting_state",
    "first_difference": "dynexplore.engine.runtime.debugging.accuracy",
    "original_of": "dynexplore.engine.runtime.optimized",
    "name_of": "dynexplore.engine.runtime.optimized",
    "optimize": "dynexplore.engine.runtime.api",
    "reset": "dynexplore.engine.runtime.api",
}
"""Name -> where it lives. `config`, `counters` and `graph_breaks` are modules of this package and not listed: the
front door, `dynexplore`, has the objects of those names."""


def __getattr__(name: str) -> Any:
    if name not in DOOR:
        raise AttributeError(f"module 'dynexplore.engine' has no attribute {name!r}")
    found = getattr(importlib.import_module(DOOR[name]), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*globals(), *DOOR})
