"""Stances: what the engine does with a frame that no cache entry fits.

The idea: while a service answers requests, nothing should be compiled unexpectedly. A stance forbids it, and lists what it
refused to compile, so that this can be compiled in advance.

- "default": compile it
- "eager_on_recompile": run it as plain Python, and note it
- "fail_on_recompile": raise RecompileError, which names the guard

In: `with stance("eager_on_recompile") as refused: serve(...)`. Out: `refused`, what would have been compiled and why.

torch/_dynamo/eval_frame.py (set_stance) does the same job, under the same names.
"""

from __future__ import annotations

import threading
from collections import Counter
from types import CodeType
from typing import Literal

from dynexplore.engine import display_hooks
from dynexplore.engine.errors import RecompileError

Name = Literal["default", "eager_on_recompile", "fail_on_recompile"]
NAMES: tuple[Name, ...] = ("default", "eager_on_recompile", "fail_on_recompile")


class Refused:
    """What would have been compiled while a stance forbade it: `print` it; `counts` has (function, reason) -> times."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()

    def note(self, code: CodeType, reason: str) -> None:
        """One frame that ran as plain Python."""
        self.counts[f"{code.co_qualname} ({code.co_filename}:{code.co_firstlineno})", reason] += 1

    def __len__(self) -> int:
        return len(self.counts)

    def __str__(self) -> str:
        if not self.counts:
            return "Nothing would have been compiled."
        lines = [f"  {times} x {function}: {reason}" for (function, reason), times in self.counts.most_common()]
        return "\n".join(["Would have been compiled:", *lines])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = [(str(times), function, reason) for (function, reason), times in self.counts.most_common()]
        return display_hooks.connected().table(("times", "function", "why"), rows, str(self).partition("\n")[0])


class _Stances(threading.local):
    def __init__(self) -> None:
        self.entered: list[stance] = []


_stances = _Stances()


class stance:  # called like a function, as torch.compiler.set_stance is
    """Take a stance for the length of a block, in this thread.

    Args: name: "default", "eager_on_recompile" or "fail_on_recompile".

    As a context manager it gives the `Refused`. Raises ValueError, which lists the names, for another one.

    >>> with stance("eager_on_recompile") as refused:
    ...     pass
    >>> print(refused)
    Nothing would have been compiled.
    """

    def __init__(self, name: Name) -> None:
        if name not in NAMES:
            raise ValueError(f"there is no stance {name!r}; there are: {', '.join(NAMES)}")
        self.name = name
        self.refused = Refused()

    def __enter__(self) -> Refused:
        _stances.entered.append(self)
        return self.refused

    def __exit__(self, *exc: object) -> None:
        _stances.entered.pop()


def current() -> Name:
    """The stance of this thread."""
    return _stances.entered[-1].name if _stances.entered else "default"


def refuse(code: CodeType, reason: str) -> None:
    """Note a frame that the stance forbids to compile. Raises RecompileError under "fail_on_recompile"."""
    now = _stances.entered[-1]
    if now.name == "fail_on_recompile":
        raise recompile_error(code, reason)
    now.refused.note(code, reason)


def recompile_error(code: CodeType, reason: str) -> RecompileError:
    """The error that names the frame and why it would be compiled."""
    return RecompileError(
        f"{code.co_qualname} ({code.co_filename}:{code.co_firstlineno}) would be compiled, which is forbidden here: {reason}"
    )
