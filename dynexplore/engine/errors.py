"""The exceptions that leave the engine, one class per way of failing.

Which idea lives here: four outcomes are never confused (docs/design/breaks.md, D22). A graph break is no error and
stands in graph_breaks.py; an exception of the user's program passes through as it is; a bug of ours is an
`EngineError`; a failing backend is a `BackendCompilerError`, which carries the graph. Everything here derives
from `DynexploreError`.

In:  nothing; standard library only.
Out: exception classes.

PyTorch's counterpart: torch/_dynamo/exc.py.
"""

from __future__ import annotations

from typing import Any


class DynexploreError(Exception):
    """Base of every exception that dynexplore itself raises."""


class EngineError(DynexploreError):
    """A bug of the engine, not of the program: names the place and what was found there.

    By default the frame runs as plain Python instead, the failure is counted and named in a warning; it is
    raised when `config.suppress_errors` is off or `config.raise_engine_errors` is on.
    """


class BackendCompilerError(DynexploreError):
    """The backend raised while it compiled a graph. `graph_name`, `graph` (GraphModule) and `cause` say which
    and why.

    >>> str(BackendCompilerError("__compiled_fn_0", None, ValueError("no such op"), backend="mine"))
    "backend 'mine' failed to compile __compiled_fn_0: ValueError: no such op"
    """

    def __init__(self, graph_name: str, graph: Any, cause: BaseException, *, backend: str = "") -> None:
        self.graph_name = graph_name
        self.graph = graph
        self.cause = cause
        self.backend = backend
        who = f"backend {backend!r}" if backend else "the backend"
        super().__init__(f"{who} failed to compile {graph_name}: {type(cause).__name__}: {cause}")


class InvalidBackend(DynexploreError, ValueError):
    """The name of a backend is not known; the message lists the known ones."""


class MissingBackendPackage(DynexploreError, ImportError):
    """The backend exists, but a package that it needs is not installed; the message names the package."""


class MissingCompiler(MissingBackendPackage):
    """The backend exists, but no compiler for the code that it writes; the message says what to install."""


class ComptimeError(DynexploreError):
    """A function that was given to `comptime` raised while its caller was captured; that exception is the cause."""


class GuardFilterError(DynexploreError, ValueError):
    """A `guard_filter_fn` gave something else than one bool for each guard. One sentence."""


class MarkViolated(DynexploreError):
    """`mark_dynamic` promised that any size is served, and what was compiled serves one; the message says which guard."""


class Unsupported(DynexploreError):
    """`nopython=True` and the graph would break. The message is the report with the user's whole stack.

    `graph_break` is the GraphBreak that stopped it, where there is one.
    """

    def __init__(self, message: str, graph_break: BaseException | None = None) -> None:
        super().__init__(message)
        self.graph_break = graph_break


class RecompileError(DynexploreError):
    """A recompile is needed where none is allowed; the message names guard, expected and actual."""


class RecompileLimitError(RecompileError):
    """`nopython=True` (fullgraph) promises graphs only, and the function has as many entries as it may have; the message says why
    none of them fits."""


class ConfigError(DynexploreError, ValueError):
    """An unknown option or a value of the wrong type; the message lists the right ones."""


class RecordingError(DynexploreError, ValueError):
    """A saved recording cannot be read: damaged, not a recording, or of a newer schema. One sentence."""


class ExportError(DynexploreError, ValueError):
    """A recording cannot be written: an unknown ending, or a file that cannot be. One sentence."""


class ReplayError(DynexploreError, ValueError):
    """A saved frame cannot be read or run again: damaged, of a newer format, made by another Python. One sentence."""


class UnsupportedVersion(DynexploreError, ImportError):
    """This Python or this torch is not supported; the message says which are."""
