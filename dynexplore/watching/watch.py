"""`with dynexplore.watch() as w:`: what torch.compile does inside the block becomes a recording.

Which idea lives here: the program is not changed and knows nothing of it. The block turns a listener on; all that torch compiles
until its end, in whatever function and thread, goes into one recording, and afterwards torch is as it was.

In:  `watch()`, and a program that uses torch.compile. Out: `Watch`, with its `recording`.

PyTorch's counterpart: TORCH_TRACE, which writes to a folder what tlparse shows afterwards.
"""

from __future__ import annotations

import os
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

    def __init__(self, *, steps: bool = True, title: str = "") -> None:
        self.recording = Recording(title=title or "torch.compile")
        self.recording.versions = f"Python {PYTHON}, torch {torch.__version__}"
        self._steps = steps
        self._listener: Listener | None = None
        self.notices: list[str] = []

    def __enter__(self) -> Watch:
        if self._listener is not None:
            raise RuntimeError("this watch has begun already: make another one with dynexplore.watch()")
        self._listener = Listener(self.recording, steps=self._steps)
        self.notices = self._listener.notices
        self._listener.begin()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._listener is not None:
            self._listener.end()
            self._listener = None

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
