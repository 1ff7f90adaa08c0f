"""Side effects of a run beyond its copies: files written, processes started, names rebound in foreign namespaces.

The idea: an edited function re-runs while its author is typing, which is acceptable only if nothing but copies is mutated. A Python
audit hook reports every file opened for writing, every subprocess, socket and the like. The hook is installed when the first run is
watched; Python cannot remove an audit hook, so it stays, but it ignores everything except watched runs of its own thread.
Namespaces are compared before and after. Standard output is captured and reported with the result.

In: a namespace that does not belong to the run. Out: `watched(namespace)`, which yields `Effects`.

PyTorch's counterpart: none.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
import threading
import time
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

MOST = 5
"""The maximum number of effects reported."""

_DOES: dict[str, str] = {
    "os.remove": "removes {}",
    "os.rename": "renames {}",
    "os.mkdir": "makes the folder {}",
    "os.rmdir": "removes the folder {}",
    "os.truncate": "cuts {}",
    "os.link": "links {}",
    "os.symlink": "links {}",
    "os.chmod": "changes the mode of {}",
    "os.putenv": "sets the environment variable {}",
    "os.unsetenv": "unsets the environment variable {}",
    "os.kill": "sends a signal",
    "os.system": "starts a program",
    "os.exec": "starts a program",
    "os.fork": "starts a process",
    "os.posix_spawn": "starts a program",
    "os.spawn": "starts a program",
    "subprocess.Popen": "starts {}",
    "shutil.rmtree": "removes {}",
    "shutil.copyfile": "copies {}",
    "shutil.move": "moves {}",
    "socket.connect": "communicates with another machine or process",
    "socket.sendto": "communicates with another machine or process",
    "sqlite3.connect": "opens the database {}",
    "builtins.input": "asks for input",
}
"""Audit event name -> description of the effect; {} is the event's first argument."""


@dataclass(slots=True)
class Effects:
    """The effects of a watched run: sentences without a subject ("writes out.txt"), its output, and its duration."""

    outside: list[str] = field(default_factory=list)
    printed: str = ""
    seconds: float = 0.0

    def note(self, does: str) -> None:
        """Record an effect once."""
        if does not in self.outside and len(self.outside) < MOST:
            self.outside.append(does)


@contextlib.contextmanager
def watched(namespace: Mapping[str, Any]) -> Iterator[Effects]:
    """Record the block's side effects beyond its copies; `namespace` is one that it should not modify.

    >>> with watched({}) as effects:
    ...     print("seen")
    ...     effects.note(_written("out.txt", "w", 0) or "")
    >>> effects.outside, effects.printed
    (['writes out.txt'], 'seen\\n')
    """
    _install()
    effects, shown, before = Effects(), io.StringIO(), dict(namespace)
    outer = getattr(_LOCAL, "effects", None)
    began = time.perf_counter()
    try:
        with contextlib.redirect_stdout(shown):
            _LOCAL.effects = effects
            yield effects
    finally:
        _LOCAL.effects = outer
        effects.seconds = time.perf_counter() - began
        effects.printed = shown.getvalue()
        for name in _changed(before, namespace):
            effects.note(f"binds `{name}` outside its own namespace")


def _changed(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """The names that were added, deleted or rebound."""
    for name in {**before, **now}:
        if not name.startswith("__") and (name not in before or name not in now or before[name] is not now[name]):
            yield name


# -- audit events ----------------------------------------------------------------------------------------------------

_LOCAL = threading.local()
_INSTALLED: list[bool] = []


def _install() -> None:
    if not _INSTALLED:
        _INSTALLED.append(True)
        sys.addaudithook(_on_event)


def _on_event(event: str, args: tuple[Any, ...]) -> None:
    effects: Effects | None = getattr(_LOCAL, "effects", None)
    if effects is None:
        return
    if event == "open":
        does = _written(*args)
    else:
        does = _DOES.get(event, "").format(_short(args[0]) if args else "")
    if does:
        effects.note(does)


def _written(path: Any, mode: Any, flags: Any) -> str | None:
    """The effect of opening a file; None if it is only read, or if it is Python's bytecode cache."""
    writes = isinstance(mode, str) and bool(set(mode) & set("wax+"))
    opened = flags if isinstance(flags, int) else 0
    if not writes and not opened & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        return None
    return None if "__pycache__" in str(path) else f"writes {_short(path)}"


def _short(argument: Any) -> str:
    text = os.fsdecode(argument) if isinstance(argument, str | bytes) else repr(argument)
    return text if len(text) <= 60 else f"...{text[-57:]}"
