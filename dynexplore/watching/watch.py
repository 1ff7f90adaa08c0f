"""`with dynexplore.watch() as w:`: what torch.compile does inside the block becomes a recording.

Which idea lives here: the program is not changed and knows nothing of it. The block turns a listener on; all that torch compiles
until its end, in whatever function and thread, goes into one recording, and afterwards torch is as it was.

In:  `watch()`, and a program that uses torch.compile. Out: `Watch`, with its `recording`;
`has_compiled()`.

PyTorch's counterpart: TORCH_TRACE, which writes to a folder what tlparse shows afterwards.
"""

from __future__ import annotations

import os
import sys
from typing import Any

import torch

from dynexplore.engine import display_hooks
from dynexplore.engine.bytecode.versions import PYTHON
from dynexplore.recording.recording import Recording
from dynexplore.views import text
from dynexplore.watching.listener import Listener


class Watch:
    """What torch.compile did: `recording`, and `notices`, what could not be seen, in sentences.

    >>> with watch() as seen:
    ...     doubled = torch.compile(lambda x: x + x, backend="eager")(torch.ones(2))
    >>> len(seen.recording.graphs)
    1
    """

    def __init__(self, *, steps: bool = True, title: str = "", keep_graphs: bool = False) -> None:
        self.recording = Recording(title=title, engine="torch.compile")
        self.recording.versions = f"Python {PYTHON}, torch {torch.__version__}"
        self._listener = Listener(self.recording, steps=steps, keep_graphs=keep_graphs)

    @property
    def notices(self) -> list[str]:
        """What could not be seen, in sentences."""
        return self._listener.notices

    @property
    def graphs(self) -> list[torch.fx.GraphModule]:
        """The graphs themselves, where they are kept."""
        return self._listener.graphs

    def __enter__(self) -> Watch:
        self._listener.begin()
        return self

    def __exit__(self, *exc: object) -> None:
        self._listener.end()

    def __str__(self) -> str:
        return "\n".join([text.explanation(self.recording), *self.notices])

    def __repr__(self) -> str:
        return str(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> display_hooks.Bundle:
        return display_hooks.connected().mimebundle(self.recording)

    def save(self, path: str | os.PathLike[str], *, redact: bool = False) -> str:
        """Write what was seen to a file, as `Recording.save` does."""
        return self.recording.save(path, redact=redact)


def watch(*, steps: bool = True) -> Watch:
    """Watch torch.compile in a `with` block. `steps=False` leaves out the symbolic stack after each instruction, and costs less."""
    return Watch(steps=steps)


def has_compiled() -> bool:
    """Whether torch.compile has looked at any function in this process."""
    utils = sys.modules.get("torch._dynamo.utils")
    return utils is not None and utils.counters["frames"]["total"] > 0
