"""Tool hooks: what the tools above the engine do with a frame or a graph while it is compiled.

The idea: an option such as `config.debug` or `config.repro_after` enables a tool that inspects a frame or a backend during
compilation. The engine knows when to call, the tools know what to do; so tools are called through this Protocol. The public
package (dynexplore/__init__.py) registers functions that import a tool on first use. A disabled tool costs nothing: the engine
checks the option before it calls the hook.

In: `connect`, called by the public package. Out: `connected()`; None if only the engine was imported: then the options have no
effect. PyTorch's counterpart: none; torch/_dynamo calls such tools directly, depending on torch/_dynamo/config.py.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from dynexplore.engine.recorder import Recorder


class ToolHooks(Protocol):
    """The tools' interface to the engine. Frames, stores, graphs and backends are those of `runtime/`."""

    def printing(self, recorder: Recorder | None) -> Recorder | None:
        """The recorder for one frame whose capture is to be printed: the existing one, combined with a recording."""

    def print_frame(self, recorder: Recorder | None, frame: int, state: Any) -> None:
        """Print and log what `config` enables, when the frame is finished."""

    def save_failed_frame(self, store: Any, state: Any, error: BaseException, where: str) -> Path | None:
        """Write a frame whose translation failed to a file; returns its path, or None if that is impossible."""

    def compile_watched(self, graph: Any, name: str, backend: Any, compile_it: Callable[[], Any]) -> Callable[..., Any]:
        """Compile a graph by `compile_it`; if that or the first run fails, write a standalone program that reproduces the failure.
        """

    def watched_compiler(self, backend: str, recorder: Recorder, frame: int, graph: str) -> Callable[..., Any] | None:
        """The backend of this name, reporting its intermediate artifacts to the recorder; None if it cannot."""

    def note_memory(self, recorder: Recorder, frame: int, graph: str, module: Any) -> None:
        """Report to the recorder how much memory a captured graph needs."""

    def watched_explanation(self, fn: Callable[..., Any], backend: Any, options: Any) -> Any:
        """An explanation, without calls so far, of what torch.compile does with a function."""

    def compiled_by_torch(self, target: Any, backend: Any, fullgraph: bool, dynamic: bool | None) -> Callable[..., Any]:
        """A function or module, compiled again by torch.compile."""

    def checked_calls(self, unwatched: Callable[[], Any], torch_module: Any, module_class: type) -> Any:
        """The checks of calls of torch.compile beside eager mode, for a watch."""


_connected: list[ToolHooks] = []


def connect(hooks: ToolHooks) -> None:
    """Register the tools to call from now on."""
    _connected[:] = [hooks]


def connected() -> ToolHooks | None:
    """The registered tools, if any."""
    return _connected[0] if _connected else None
