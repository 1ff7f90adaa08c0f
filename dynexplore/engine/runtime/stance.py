"""Stances: what the engine does with a frame that no cache entry fits.

The idea: while a service answers requests, nothing should be compiled unexpectedly. A stance forbids it, and lists what it refused
to compile, so that this can be compiled in advance.

- "default": compile it
- "force_eager": run everything as plain Python, including what is already compiled
- "eager_on_recompile": run it as plain Python, and record it
- "fail_on_recompile": raise RecompileError, which names the guard
- "eager_then_compile": run a function as plain Python once, and compile it on the next call
- "aot_eager_then_compile": run it under aot_eager once (where activation checkpoints save memory), and compile it on the next call

The last two learn dynamic sizes and numbers from the first two calls, so that the first compilation serves them all.

With `force_backend`, everything that is optimized is compiled with that backend instead of its own, whose entries are kept but not
used: this is process-wide, and the stance must be "default".

In: `with stance("eager_on_recompile") as refused: serve(...)`, `@stance("force_eager")`, or a plain call `stance("force_eager")`:
from now on. Out: `refused`: what would have been compiled and why. A block or a decorated function affects its thread; a plain
call affects the process, except for "force_eager": other threads then compile nothing new, and use their existing entries.
PyTorch's counterpart: `set_stance` in torch/_dynamo/decorators.py, with the same names.
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
from dynexplore.engine.nearest_name import did_you_mean
from dynexplore.engine.runtime.backends import Backend, resolve

F = TypeVar("F", bound=Callable[..., Any])

Name = Literal["default", "force_eager", "eager_on_recompile", "fail_on_recompile", "eager_then_compile", "aot_eager_then_compile"]
NAMES: tuple[Name, ...] = get_args(Name)


class Refused:
    """What would have been compiled while a stance forbade it: `print` it; `counts` has (function, reason) -> times."""

    def __init__(self) -> None:
        self.counts: Counter[tuple[str, str]] = Counter()

    def note(self, code: CodeType, reason: str) -> None:
        """Record one frame that ran as plain Python."""
        place = f"{code.co_qualname} ({code.co_filename}:{code.co_firstlineno})"
        self.counts["an optimized module" if code.co_filename == native.ENTRY_FILE else place, reason] += 1

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
        self.is_plain = False  # this thread follows a plain call of "force_eager"
        self.outside: native.Region | None = None  # the region before


_stances = _Stances()
_called: deque[stance] = deque(maxlen=16)  # stances that were called and not entered; the last one applies
_forcing: list[stance] = []  # those that were entered, in any thread; the last one decides which backend is forced
_forced: list[Backend | None] = [None]
_force_backend: list[Callable[[Backend | None], None]] = []
_plain = native.Region(None, lambda state: None)  # an outer region wins over those inside it


class stance:  # lower case, like torch.compiler.set_stance
    """Set a stance: from now on, for a block, or during each call of a decorated function.

    Args: name: "default", "force_eager", "eager_on_recompile", "fail_on_recompile", "eager_then_compile" or
    "aot_eager_then_compile". force_backend: a backend, by name or as a callable, that replaces the backend of everything that is
    optimized. Only "default" accepts it.

    As a context manager, it returns a `Refused` object, which lists what was not compiled; the attribute `refused` is the same
    object. Raises ValueError for an unknown stance (the message lists the known ones), and for a backend with a stance other than
    "default"; raises InvalidBackend for an unknown backend.

    >>> with stance("eager_on_recompile") as refused:
    ...     pass
    >>> print(refused)
    Nothing would have been compiled.
    """

    def __init__(self, name: Name = "default", *, force_backend: str | Callable[..., Any] | None = None) -> None:
        if name not in NAMES:
            raise ValueError(f"there is no stance {name!r}{did_you_mean(name, NAMES)}")
        if force_backend is not None and name != "default":
            raise ValueError(f"force_backend works only with the stance 'default', not with {name!r}")
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
        """Undo the plain call: it turned out to be a block or a decorator."""
        if self in _called:
            _called.remove(self)
            _follow()


def _switch(name: Name) -> native.Region | None:
    """Enter the region in which frames of this thread start under the stance; returns the previous one. Running code is
    unaffected.
    """
    if name == "force_eager":
        return native.enter(_plain)
    current_stance = native.current()
    return native.enter(None if current_stance is _plain else current_stance)


def connect(force_backend: Callable[[Backend | None], None]) -> None:
    """Register the function that forces a backend, from a higher layer."""
    _force_backend[:] = [force_backend]


def _force() -> None:
    """Force the backend of the stance set last, if it has one."""
    stances = _forcing or _called
    backend = stances[-1].backend if stances else None
    if backend is not _forced[0]:
        _force_backend[0](backend)
        _forced[0] = backend


def _follow() -> None:
    """Let frames of this thread start in the region of the stance that was called last."""
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
    """Record a frame that the stance forbids to compile. Raises RecompileError under "fail_on_recompile"."""
    active = _stances.entered[-1] if _stances.entered else _called[-1]
    if active.name == "fail_on_recompile":
        raise recompile_error(code, reason)
    active.refused.note(code, reason)


def recompile_error(code: CodeType, reason: str) -> RecompileError:
    """The exception that names the frame and why it would be compiled."""
    return RecompileError(
        f"{code.co_qualname} ({code.co_filename}:{code.co_firstlineno}) would be compiled, which is forbidden here: {reason}"
    )
