"""A watch's observer of the log in which torch says what became of CUDA graphs.

The idea: torch's loggers call their filters first, before any handler. A filter can therefore read every message, and still let
through only those that would have been printed without it: the level is lowered for the time of the watch, and nobody notices.

In: records of the logs "cudagraphs", the frames of compile ids. Out: `CudaGraphLogged` in a recording.

PyTorch's counterpart: TORCH_LOGS="+cudagraphs", which prints them.
"""

from __future__ import annotations

import logging
from collections.abc import Callable

from dynexplore.recording.recording import Recording
from dynexplore.traces.cuda_graphs import cuda_graph
from dynexplore.watching import private_torch


class CudaGraphLog(logging.Filter):
    """See the module docstring. `current` returns the number of the frame being compiled."""

    def __init__(self, recording: Recording, current: Callable[[], int | None]) -> None:
        super().__init__()
        self._recording = recording
        self._current = current
        self._frames: dict[str, int] = {}
        self._levels: dict[str, tuple[int, int]] = {}

    def begin(self) -> None:
        """Observe the logs, whether or not torch's compiler is imported yet: a logger exists from its first use."""
        for name in private_torch.CUDA_GRAPH_LOGS:
            log = logging.getLogger(name)
            self._levels[name] = log.level, log.getEffectiveLevel()
            log.setLevel(logging.DEBUG)
            log.addFilter(self)

    def end(self) -> None:
        """Restore the levels."""
        for name, (level, _) in self._levels.items():
            log = logging.getLogger(name)
            log.removeFilter(self)
            log.setLevel(level)
        self._levels.clear()

    def compiling(self, compilation: str, frame: int) -> None:
        """Note which frame a compile id belongs to: a CUDA graph is recorded long after."""
        self._frames[compilation] = frame

    def filter(self, record: logging.LogRecord) -> bool:
        """Record a message; True if it would have been logged without this observer."""
        logged = cuda_graph(record.getMessage())
        if logged is not None:
            frame = self._frames.get(logged.compilation) or self._current() or 0
            self._recording.record(logged.event(frame))
        return record.levelno >= self._levels.get(record.name, (0, 0))[1]
