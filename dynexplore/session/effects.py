"""What a run does outside of its copies: files that it writes, programs that it starts, names of others that it binds anew.

The idea: an edited function is run again while its author still types. That is welcome only where nothing is changed but copies.
Python tells an audit hook of every file that is opened for writing, of programs, sockets and the like; that hook is installed when
the first run is watched, stays (Python offers no way to remove one), and looks at nothing but watched runs of its own thread. Names
are compared before and after. What is printed is kept, not shown: it harms nobody, and is told with the answer.

In: a namespace that is not the run's own. Out: `watched(namespace)`, whose `Effects` says what happened.

PyTorch has no counterpart.
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
"""So many effects are told."""

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
    "socket.connect": "talks to another machine or process",
    "socket.sendto": "talks to another machine or process",
    "sqlite3.connect": "opens the database {}",
    "builtins.input": "asks for input",
}
"""Name of an audit event -> what the run does; {} is its first argument."""


@dataclass(slots=True)
class Effects:
    """What a watched run did: sentences without a subject ("writes out.txt"), what it printed, and how long it took."""

    outside: list[str] = field(default_factory=list)
    printed: str = ""
    seconds: float = 0.0

    def note(self, does: str) -> None:
        """Keep what happened, once."""
        if does not in self.outside and len(self.outside) < MOST:
            self.outside.append(does)


@contextlib.contextmanager
def watched(namespace: Mapping[str, Any]) -> Iterator[Effects]:
    """Watch what the block does outside of its copies; `namespace` is one that it should leave as it is.

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
            effects.note(f"binds `{name}` outside of its own namespace")


def _changed(before: Mapping[str, Any], now: Mapping[str, Any]) -> Iterator[str]:
    """The names that are bound to another object, or to none, or newly."""
    for name in {**before, **now}:
        if not name.startswith("__") and (name not in before or name not in now or before[name] is not now[name]):
            yield name


# -- what Python tells -----------------------------------------------------------------------------------------------

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
    """What opening a file means; None where it is only read, or where Python keeps what it compiled."""
    writes = isinstance(mode, str) and bool(set(mode) & set("wax+"))
    opened = flags if isinstance(flags, int) else 0
    if not writes and not opened & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
        return None
    return None if "__pycache__" in str(path) else f"writes {_short(path)}"


def _short(argument: Any) -> str:
    text = os.fsdecode(argument) if isinstance(argument, str | bytes) else repr(argument)
    return text if len(text) <= 60 else f"...{text[-57:]}"
