"""The exceptions of the engine, one class per kind of failure.

The idea: a graph break is not an error, unless you ask for one, and an exception in your program propagates unchanged. A bug in the
engine raises an `EngineError`, and a backend that fails raises a `BackendCompilerError`, which contains the graph (D22 in
docs/design/breaks.md). All classes derive from `DynexploreError`.

In: nothing; standard library only. Out: exception classes. PyTorch's counterpart: torch/_dynamo/exc.py.
"""

from __future__ import annotations

from typing import Any


class DynexploreError(Exception):
    """Base of every exception that dynexplore defines."""


class EngineError(DynexploreError):
    """A bug in the engine, not in the program: where it occurred and what was found there.

    By default the frame runs as plain Python instead, and the failure is counted and reported in a warning; it is raised if
    `config.suppress_errors` is off or `config.raise_engine_errors` is on.
    """


class BackendCompilerError(DynexploreError):
    """The backend raised while it compiled a graph: see `graph_name`, `graph` (GraphModule) and `cause`.

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
    """The backend's name is unknown; the message lists the known ones."""


class MissingBackendPackage(DynexploreError, ImportError):
    """The backend exists, but a package that it needs is not installed; the message names the package."""


class MissingCompiler(MissingBackendPackage):
    """The backend exists, but no compiler for the code that it generates; the message says what to install."""


class ComptimeError(DynexploreError):
    """A function passed to `comptime` raised while its caller was captured; that exception is the cause."""


class GuardFilterError(DynexploreError, ValueError):
    """A `guard_filter_fn` did not return one bool per guard. One sentence."""


class MarkViolated(DynexploreError):
    """`mark_dynamic` required a dynamic size, but the compiled code is specialized to one size; the message names the guard."""


class Unsupported(DynexploreError):
    """The graph would break under `nopython=True`. The message is the report with the user's whole stack.

    `graph_break` is the GraphBreak, if there is one.
    """

    def __init__(self, message: str, graph_break: BaseException | None = None) -> None:
        super().__init__(message)
        self.graph_break = graph_break


class RecompileError(DynexploreError):
    """A recompile is needed where none is allowed; the message names the guard, the expected and the actual value."""


class RecompileLimitError(RecompileError):
    """The recompile limit is reached under `nopython=True` (fullgraph); the message says why no entry fits."""


class ConfigError(DynexploreError, ValueError):
    """An unknown option or a value of the wrong type; the message lists the valid ones."""


class RecordingError(DynexploreError, ValueError):
    """A saved recording cannot be read: damaged, not a recording, or of a newer schema. One sentence."""


class ExportError(DynexploreError, ValueError):
    """A recording cannot be written: an unknown extension, or an unwritable file. One sentence."""


class ReplayError(DynexploreError, ValueError):
    """A saved frame cannot be read or run again: damaged, of a newer format, or from another Python version. One sentence."""


class UnsupportedVersion(DynexploreError, ImportError):
    """This version of Python or torch is not supported; the message lists the supported ones."""
