"""The cost of capturing a script's targets without recording: under `optimize`, with no recorder and no checks.

The idea: `dynexplore explain` may take at most three times as long as the capture that it shows, and this file measures that
baseline. The script runs as under `explain`, the same calls are selected, and each is captured in a store as `optimize` creates it.
The CPU seconds that the process spends translating are summed; imports, guard checks and the calls themselves are excluded.

    python -m dynexplore.session.plain_capture OUT SCRIPT [ARGS ...]

In: a script, as Python would run it.
Out: OUT, one line of JSON: CPU seconds, number of translated frames, number of selected calls. The script's exceptions and exit
     status are those of the process.

PyTorch's counterpart: none.
"""

from __future__ import annotations

import json
import os
import runpy
import sys
import time
import types
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

from dynexplore.engine import events as ev
from dynexplore.engine.native import FrameState, skip_code
from dynexplore.engine.runtime.api import make_store
from dynexplore.engine.runtime.backends import resolve
from dynexplore.engine.runtime.stores import Options, Store
from dynexplore.recording.recording import Recording
from dynexplore.session.call_facts import MODULE_CALL
from dynexplore.session.target_search import TargetSearch, Visit
from dynexplore.session.targets import Choice, Targets


class PlainCapture:
    """Captures targets into stores without a recorder: a shared one, and one for each instance of a library module."""

    def __init__(self, search: TargetSearch) -> None:
        self.seconds = 0.0
        self.frames = 0
        self._search = search
        self._is_translating = False
        self._store = self._timed_store()
        self._of_instances: weakref.WeakKeyDictionary[Any, Store] = weakref.WeakKeyDictionary()

    @property
    def notices(self) -> list[str]:
        """Empty: nothing is reported."""
        return []

    def visit(self, state: FrameState, choice: Choice, call: int, caller: ev.UserFrame | None) -> Visit:
        """Called when a call begins."""
        store = self._store
        if state.code is MODULE_CALL and not self._search.targets.is_own(choice.file):
            store = self._of_instances.get(state.values[0]) or self._timed_store()
            self._of_instances[state.values[0]] = store
        return store.region, lambda value, error: self._search.call_ended()

    def _timed_store(self) -> Store:
        store = make_store(resolve("eager"), Options())
        store.callback = store.region.callback = self._timed(store.callback)
        return store

    def _timed(self, translate: Callable[..., Any] | None) -> Callable[..., Any]:
        assert translate is not None  # a new store

        def timed(*arguments: Any) -> Any:
            if self._is_translating:
                return translate(*arguments)
            self._is_translating = True
            began = time.process_time()
            try:
                return translate(*arguments)
            finally:
                self.seconds += time.process_time() - began
                self.frames += 1
                self._is_translating = False

        return timed


def _as_function(script: str) -> Callable[[], object]:
    """A function in the script's file that runs the script: frames called from this package would run as plain Python."""

    def run() -> None:
        runpy.run_path(script, run_name="__main__")

    code = run.__code__.replace(co_filename=script)
    skip_code(code)
    return types.FunctionType(code, run.__globals__, "run", None, run.__closure__)


def main() -> None:
    """Run the script given on the command line."""
    out, script, *args = sys.argv[1:]
    sys.argv[:] = [script, *args]
    sys.path[0] = str(Path(script).resolve().parent)
    captures: list[PlainCapture] = []

    def begin(search: TargetSearch) -> PlainCapture:
        captures.append(PlainCapture(search))
        return captures[0]

    search = TargetSearch(Targets(), Recording(title=os.path.basename(script)), begin, on_torch_compile=lambda: None)
    try:
        search.run(_as_function(script))
    finally:
        seconds, frames = sum(capture.seconds for capture in captures), sum(capture.frames for capture in captures)
        measured = {"seconds": round(seconds, 2), "frames": frames, "calls": search.call_count}
        Path(out).write_text(json.dumps(measured) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
