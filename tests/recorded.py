"""Runs a function under the engine and keeps the recording, for tests of what views make of real recordings."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dynexplore.engine.runtime import optimized
from dynexplore.engine.runtime.stores import Options
from dynexplore.recording.recording import Recording
from dynexplore.session.session import watched_store


def recorded(
    function: Callable[..., Any],
    *calls: tuple[Any, ...],
    backend: str | Callable[..., Any] = "eager",
    recording: Recording | None = None,
) -> Recording:
    """The recording of calling `function` with each of these argument tuples, one after the other.

    A test of a function that raises passes the `recording`, and has it then.
    """
    recording = Recording(title=getattr(function, "__name__", type(function).__name__)) if recording is None else recording
    compiled = optimized.wrap(function, watched_store(backend, Options(), recording).region)
    for arguments in calls:
        compiled(*arguments)
    return recording
