"""Stances: what the engine does with a frame that no cache entry fits.

The idea: while a service answers requests, nothing should be compiled unexpectedly. A stance forbids it, and lists what it
refused to compile, so that this can be compiled in advance.

- "default": compile it
- "force_eager": run it as plain Python, and what is compiled already, too
- "eager_on_recompile": run it as plain Python, and note it
- "fail_on_recompile": raise RecompileError, which names the guard
- "eager_then_compile": run a function as plain Python once, and compile it when it is called again
- "aot_eager_then_compile": run it under aot_eager once (activation checkpoints save memory in it), and compile it when it is called
  again

The last two learn of sizes and numbers that vary from the first two calls, so that the first compilation serves them all.

With `force_backend`, everything that is optimized is compiled with that backend instead of its own, and what its own has compiled
waits: this concerns the process, and the stance is "default".

In: `with stance("eager_on_recompile") as refused: serve(...)`, `@stance("force_eager")`, or `stance("force_eager")` alone: from
now on. Out: `refused`, what would have been compiled and why.

A block and a decorated function concern their thread; a call concerns the process, but for "force_eager": other threads then
compile nothing, and what they have compiled runs.

torch/_dynamo/eval_frame.py (set_stance) does the same job, under the same names.
"""

from __future__ import annotations

import functools
import threading
from collections import Counter, deque
from collections.abc import Callable
from types import CodeType
from typing import Any, Literal, TypeVar, cast, get_args

from dynexplore.engine import display_hooks, native
from dynexplore.engine.errors import RecompileError
from dynexplore.engine.nearest_name import instead
from dynexplore.engine.runtime.backends import Backend, resolve

F = TypeVar("F", bound=Callable[..., Any])

Name = Literal["default", "force_eager", "eager_on_recompile", "fail_on_recompile", "eager_then_compile", "aot_eager_then_compile"]
NAMES: tuple[Name, ...] = get_args(Name)


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
        self.is_plain = False  # this thread follows a call of "force_eager"
        self.outside: native.Region | None = None  # where it was before


_stances = _Stances()
_called: deque[stance] = deque(maxlen=16)  # stances that were called and not entered; the last one counts
_forcing: list[stance] = []  # those that were entered, in any thread; the last one says which backend is forced
_forced: list[Backend | None] = [None]
_force_backend: list[Callable[[Backend | None], None]] = []
_plain = native.Region(None, lambda state: None)  # of nested regions the outer wins: inside it no optimized function enters its own


class stance:  # called like a function, as torch.compiler.set_stance is
    """Take a stance: from now on, for the length of a block, or during each call of a decorated function.

    Args: name: "default", "force_eager", "eager_on_recompile", "fail_on_recompile", "eager_then_compile" or
    "aot_eager_then_compile". force_backend: a backend, by name or as a callable, for everything that is optimized; for "default".

    As a context manager it gives the `Refused`, which is `refused`, too. Raises ValueError, which lists the names, for another one,
    and for another stance than "default" with a backend; InvalidBackend for a backend that there is not.

    >>> with stance("eager_on_recompile") as refused:
    ...     pass
    >>> print(refused)
    Nothing would have been compiled.
    """

    def __init__(self, name: Name = "default", *, force_backend: str | Callable[..., Any] | None = None) -> None:
        if name not in NAMES:
            raise ValueError(f"there is no stance {name!r}{instead(name, NAMES)}")
        if force_backend is not None and name != "default":
            raise ValueError(f"a backend can be forced in the stance 'default' only, not in {name!r}")
        self.name = name
        self.backend = resolve(force_backend) if force_backend is not None else None
        self.refused = Refused()
        self._before: list[native.Region | None] = []
        _called.append(self)
        _follow()

    def __enter__(self) -> Refused:
        self._take_back()
        self._before.append(_switch(self.name))
        _stances.entered.append(self)
        _forcing.append(self)
        _force()
        return self.refused

    def __exit__(self, *exc: object) -> None:
        _forcing.remove(self)
        _force()
        _stances.entered.pop()
        native.leave(self._before.pop())

    def __call__(self, function: F) -> F:
        """Return `function` with this stance during each call."""
        self._take_back()

        @functools.wraps(function)
        def with_stance(*args: Any, **kwargs: Any) -> Any:
            with self:
                return function(*args, **kwargs)

        return cast(F, with_stance)

    def _take_back(self) -> None:
        """It is a block or a decorator, and no call: nothing changes from now on."""
        if self in _called:
            _called.remove(self)
            _follow()


def _switch(name: Name) -> native.Region | None:
    """Go where frames of this thread begin under the stance; where they began before. Code that is hooked already stays so."""
    if name == "force_eager":
        return native.enter(_plain)
    current_stance = native.current()
    return native.enter(None if current_stance is _plain else current_stance)


def connect(force_backend: Callable[[Backend | None], None]) -> None:
    """Be told how a backend is forced, by what stands above."""
    _force_backend[:] = [force_backend]


def _force() -> None:
    """Let the backend be forced that the stance taken last wants, if it wants one."""
    stances = _forcing or _called
    backend = stances[-1].backend if stances else None
    if backend is not _forced[0]:
        _force_backend[0](backend)
        _forced[0] = backend


def _follow() -> None:
    """Let frames of this thread begin where the stance that was called last wants them."""
    _force()
    wants_plain = bool(_called) and _called[-1].name == "force_eager"
    if wants_plain == _stances.is_plain:
        return
    if wants_plain:
        _stances.outside = native.enter(_plain)
    else:
        native.leave(_stances.outside)
    _stances.is_plain = wants_plain


def current() -> Name:
    """The stance of this thread."""
    if _stances.entered:
        return _stances.entered[-1].name
    return _called[-1].name if _called else "default"


def refuse(code: CodeType, reason: str) -> None:
    """Note a frame that the stance forbids to compile. Raises RecompileError under "fail_on_recompile"."""
    active = _stances.entered[-1] if _stances.entered else _called[-1]
    if active.name == "fail_on_recompile":
        raise recompile_error(code, reason)
    active.refused.note(code, reason)


def recompile_error(code: CodeType, reason: str) -> RecompileError:
    """The error that names the frame and why it would be compiled."""
    return RecompileError(
        f"{code.co_qualname} ({code.co_filename}:{code.co_firstlineno}) would be compiled, which is forbidden here: {reason}"
    )
