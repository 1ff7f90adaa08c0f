"""Tool hooks: what the tools above the engine do with a frame or a graph while it is compiled.

Which idea lives here: an option such as `config.debug` or `config.repro_after` brings in a tool that looks at a frame or at a
backend as the engine works. The engine knows the moments, the tools know the work; so the tools are asked through this
Protocol. The front door (dynexplore/__init__.py) connects functions that import a tool when it is first wanted. Nobody
pays for a tool whose option is off: the engine looks at the option before it asks here.

In:  `connect`, called by the front door.
Out: `connected()`; None where only the engine was imported: then the options bring in nothing.

PyTorch keeps such hooks in torch/_dynamo/config.py and calls the tools directly.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from dynexplore.engine.recorder import Recorder


class ToolHooks(Protocol):
    """The tools, as the engine sees them. Frames, stores, graphs and backends are those of `runtime/`."""

    def printing(self, recorder: Recorder | None) -> Recorder | None:
        """The recorder of one frame whose capture is to be printed: the one there is, with a recording beside it."""

    def print_frame(self, recorder: Recorder | None, frame: int, state: Any) -> None:
        """Print and log what `config` asks for, when the frame is done."""

    def save_failed_frame(self, store: Any, state: Any, error: BaseException, where: str) -> Path | None:
        """Write a frame whose translation failed to a file; its path, None where that cannot be."""

    def compile_watched(self, graph: Any, name: str, backend: Any, compile_it: Callable[[], Any]) -> Callable[..., Any]:
        """Compile a graph by `compile_it`; where that or the first run fails, leave a program that fails alone."""

    def watched_compiler(self, backend: str, recorder: Recorder, frame: int, graph: str) -> Callable[..., Any] | None:
        """The backend of that name, telling the recorder what it makes on its way; None where nothing is known of it."""

    def note_memory(self, recorder: Recorder, frame: int, graph: str, module: Any) -> None:
        """Tell the recorder how much memory a captured graph needs."""

    def watched_explanation(self, fn: Callable[..., Any], backend: Any, options: Any) -> Any:
        """An explanation without calls so far, of what torch's own engine does with a function."""

    def compiled_by_torch(self, target: Any, backend: Any, fullgraph: bool, dynamic: bool | None) -> Callable[..., Any]:
        """A function or module given to torch's own engine anew."""


_connected: list[ToolHooks] = []


def connect(hooks: ToolHooks) -> None:
    """From now on these tools are asked."""
    _connected[:] = [hooks]


def connected() -> ToolHooks | None:
    """The tools, if any are connected."""
    return _connected[0] if _connected else None
