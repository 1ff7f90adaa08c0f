"""What capturing the targets of a program costs by itself: under `optimize`, with no recorder and nothing checked.

Which idea lives here: `dynexplore explain` may cost three times what the capture costs that it shows. That is measured here: the
program runs as under `explain`, the same calls are chosen, and each is captured in a store as `optimize` makes it. The CPU seconds
of the process while it translates are summed; imports, guards and the calls themselves are left out.

    python -m dynexplore.cli.plain_capture OUT SCRIPT [ARGS ...]

In:  a program, as Python would run it.
Out: OUT, a line of JSON: the CPU seconds, how many frames were translated, how many calls were chosen. The exit status is the
     program's.

PyTorch has no counterpart.
"""

from __future__ import annotations

import json
import sys
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import dynexplore
from dynexplore.cli.program import Program, as_python_starts_it
from dynexplore.recording.recording import Recording
from dynexplore.session.target_search import TargetSearch, Visit
from dynexplore.session.targets import MODULE_CALL, Choice, Targets


class PlainCapture:
    """Captures targets into stores that nobody watches: one for all, and one for each instance of a library's module."""

    def __init__(self, search: TargetSearch) -> None:
        self.seconds = 0.0
        self.frames = 0
        self._search = search
        self._is_translating = False
        self._store = self._timed_store()
        self._of_instances: weakref.WeakKeyDictionary[Any, Any] = weakref.WeakKeyDictionary()

    @property
    def notices(self) -> list[str]:
        """Nothing is said."""
        return []

    def visit(self, state: Any, choice: Choice, call: int, caller: Any) -> Visit:
        """A call begins."""
        store = self._store
        if state.code is MODULE_CALL and not self._search.targets.is_own(choice.file):
            store = self._of_instances.get(state.values[0]) or self._timed_store()
            self._of_instances[state.values[0]] = store
        return store.region, lambda value, error: self._search.call_ended()

    def _timed_store(self) -> Any:
        from dynexplore.engine.runtime.api import make_store
        from dynexplore.engine.runtime.backends import resolve
        from dynexplore.engine.runtime.stores import Options

        store = make_store(resolve("eager"), Options())
        store.callback = store.region.callback = self._timed(store.callback)
        return store

    def _timed(self, translate: Callable[..., Any] | None) -> Callable[..., Any]:
        assert translate is not None  # of a new store

        def timed(*given: Any) -> Any:
            if self._is_translating:
                return translate(*given)
            self._is_translating = True
            began = time.process_time()
            try:
                return translate(*given)
            finally:
                self.seconds += time.process_time() - began
                self.frames += 1
                self._is_translating = False

        return timed


def main() -> int:
    """Run the program that the command line names."""
    out, script, *args = sys.argv[1:]
    program = Program(Path(script))
    captures: list[PlainCapture] = []

    def begin(search: TargetSearch) -> PlainCapture:
        captures.append(PlainCapture(search))
        return captures[0]

    search = TargetSearch(Targets(), Recording(title=program.name), begin, on_torch_compile=lambda: None)
    with as_python_starts_it(program, args), dynexplore.config.patch(log_level="ERROR"):
        search.run(program.as_function())
    seconds = sum(capture.seconds for capture in captures)
    frames = sum(capture.frames for capture in captures)
    measured = {"seconds": round(seconds, 2), "frames": frames, "calls": search.call_count}
    Path(out).write_text(json.dumps(measured) + "\n", encoding="utf-8")
    return program.status


if __name__ == "__main__":
    sys.exit(main())
