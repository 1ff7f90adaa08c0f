"""Runs a function under the engine and keeps the recording, for tests of what views make of real recordings."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from dynexplore.engine.native import RegionCall
from dynexplore.engine.recording import Recording
from dynexplore.engine.runtime import api, reports
from dynexplore.engine.runtime.backends import resolve
from dynexplore.engine.runtime.stores import Options


def recorded(
    function: Callable[..., Any], *calls: tuple[Any, ...], backend: str | Callable[..., Any] = "eager"
) -> Recording:
    """The recording of calling `function` with each of these argument tuples, one after the other."""
    recording = Recording(title=function.__name__)
    store = api.make_store(resolve(backend), Options())
    store.recorder = recording
    store.region.on_hit = functools.partial(reports.hit, store)
    compiled = RegionCall(function, store.region)
    for arguments in calls:
        compiled(*arguments)
    return recording
