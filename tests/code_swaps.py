"""Swapping the code of every call for identical code: what the tests of the frame hook share.

Which idea lives here: the hook is right when a program cannot tell that it is there. So calls run once as plain Python
and once with every frame's code object replaced by a copy of itself, and the two are compared.

In:  a function and its arguments, or a script for a process of its own.
Out: `Outcome`s to compare; regions that swap; what a script printed.
"""

from __future__ import annotations

import os
import subprocess
import sys
import traceback
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from types import CodeType
from typing import Any

from dynexplore.engine.native import CacheStore, Entry, FrameState, Region, RegionCall

ROOT = Path(__file__).parent.parent

MORE_THAN_A_CHUNK = 5000
"""Stack slots that never fit into what is left of a 16 KiB chunk of frame memory."""


def identical(code: CodeType, *, check: Callable[..., object] | None = None, room: int = 0) -> Entry:
    """An entry that runs a copy of `code`, with `room` more stack slots."""
    copy = code.replace(co_stacksize=code.co_stacksize + room)
    return Entry(check, copy, (), copy.co_nlocals)


def swapping_region(*, check: Callable[..., object] | None = None, room: int = 0, seen: list[CodeType] | None = None) -> Region:
    """A region in which every plain function runs a copy of its code, from the first call on."""

    def swap(frame: FrameState) -> Entry:
        if seen is not None:
            seen.append(frame.code)
        entry = identical(frame.code, check=check, room=room)
        frame.cache.entries = (entry,)
        return entry

    return Region(CacheStore(), swap)


def entry_region(fn: Callable[..., Any], *entries: Entry) -> Region:
    """A run-only region in which `fn` has these entries."""
    store = CacheStore()
    store.cache_of(fn.__code__).entries = entries  # type: ignore[attr-defined]
    return Region(store, None)


def with_locals(template: Callable[..., Any], arguments: int) -> CodeType:
    """The code of `template`, of whose parameters only the first so many are; the others become plain locals."""
    code: CodeType = template.__code__  # type: ignore[attr-defined]
    return code.replace(co_argcount=arguments)


@dataclass(frozen=True)
class Outcome:
    """How a call ended: a value, or an exception with its message and the functions and lines it came through."""

    value: Any
    exception: type[BaseException] | None = None
    message: str = ""
    lines: tuple[tuple[str, int | None], ...] = ()


def outcome(fn: Callable[..., Any], *args: Any, **kwargs: Any) -> Outcome:
    """Call, and say how it ended."""
    try:
        return Outcome(fn(*args, **kwargs))
    except Exception as error:
        frames = traceback.extract_tb(error.__traceback__)
        places = tuple((frame.name, frame.lineno) for frame in frames if frame.name != "outcome")
        return Outcome(None, type(error), str(error), places)


def swapped(region: Region, fn: Callable[..., Any]) -> RegionCall[..., Any]:
    """The function, called inside the region."""
    return RegionCall(fn, region)


def run_script(script: str, *arguments: str, timeout: float = 120, **environment: str) -> str:
    """Run a script in a fresh process of this Python, with the tests' modules importable; returns what it printed."""
    path = os.pathsep.join([str(ROOT), str(ROOT / "tests")])
    done = subprocess.run(
        [sys.executable, "-X", "faulthandler", "-c", script, *arguments],
        capture_output=True,
        text=True,
        timeout=timeout,
        env=os.environ | {"PYTHONPATH": path} | environment,
        check=False,
    )
    assert done.returncode == 0, f"exit {done.returncode}\n{done.stdout}\n{done.stderr}"
    return done.stdout
