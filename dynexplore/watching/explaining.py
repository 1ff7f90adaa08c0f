"""`explain(f, x, engine="torch.compile")`: the engine's report, about what torch.compile does with a function.

The idea: an explanation is a recording of some calls, and their return values. Here the function is compiled by torch.compile and
each call is watched. A function that is already compiled is unwrapped and compiled afresh, with its own code object, so that
neither torch's cache for it nor the program's later behavior changes (session/torch_compiled.py). If only parts of a module are
compiled, the call is made as the program makes it, and existing entries of torch may serve it.

In: a function or module, a backend, options. Out: `WatchedExplanation`.

PyTorch's counterpart: `explain` in torch/_dynamo/eval_frame.py.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Mapping
from typing import Any

import torch.fx

from dynexplore.engine import events as ev
from dynexplore.engine.display_paths import shown_file
from dynexplore.engine.runtime import optimized, reports
from dynexplore.engine.runtime.stores import Options
from dynexplore.recording.engines import DYNEXPLORE
from dynexplore.session import torch_compiled
from dynexplore.session.cell_capture import why_program
from dynexplore.session.explain import Explanation
from dynexplore.watching.real_guards import TorchPrediction
from dynexplore.watching.watch import Watch
from dynexplore.watching.watched_session import WatchedSession


class WatchedExplanation(Explanation):
    """What torch.compile did in some calls, and the verdicts of its guards on other calls (`check`, `what_if`). There is no other
    live side: edited source is only supported by this project's engine.
    """

    session: WatchedSession  # type: ignore[assignment]  # it answers the questions of a Session that torch's engine can answer

    def __init__(self, fn: Callable[..., Any], backend: Any, options: Options, *, steps: bool = True) -> None:
        self._inside = torch_compiled.original_of(fn)
        self._watch = Watch(steps=steps, title=optimized.name_of(self._inside), keep_graphs=True)
        self._is_a_part = not torch_compiled.is_compiled(fn) and torch_compiled.has_compiled_part(fn)
        self._compiled: Callable[..., Any] = self._inside
        if not self._is_a_part:
            self._compiled = torch_compiled.compiled_anew(fn, backend, fullgraph=options.nopython, dynamic=options.dynamic)
        self._is_program = False
        self._calls = 0
        self.function = fn
        self.recording = self._watch.recording
        self._graphs: list[torch.fx.GraphModule] = self._watch.graphs
        self.session = WatchedSession(self._watch, self._inside, self._compiled, is_a_part=self._is_a_part)
        self.value: Any = None

    def call(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function again, and add the call to this explanation; return its result, which becomes `value`."""
        self._calls += 1
        self.session.args, self.session.kwargs = args, kwargs
        before = self._watch.frames_seen
        self.recording.record(reports.call_began(self._calls, args, kwargs))
        error = ""
        try:
            with self._with_parts_compiled(), self._watch:
                self.value = self._compiled(*args, **kwargs)
            if self._watch.frames_seen == before and not self._is_program:
                self._watch.note_hit(self._compiled)
            return self.value
        except BaseException as raised:
            error = type(raised).__name__
            raise
        finally:
            self.recording.record(ev.CallEnded(frame=0, call=self._calls, error=error))

    def _with_parts_compiled(self) -> contextlib.AbstractContextManager[None]:
        """Whether only parts of a module are compiled: then they stay compiled, and the rest runs as plain Python."""
        return contextlib.nullcontext() if self._is_a_part else torch_compiled.uncompiled(self._inside)

    def check(self, *args: Any, **kwargs: Any) -> TorchPrediction:
        """Which entry this call would hit, and which guard of the others fails. Runs nothing, has no side effects."""
        return self.session.check(*args, **kwargs)

    def what_if(self, changes: Mapping[str, Any] | None = None, /, **more: Any) -> TorchPrediction:
        """What the latest call would have hit with some inputs changed: new values by the input's name or path; a tensor also takes
        a dict with some of shape, dtype, device, requires_grad. Raises TypeError or ValueError, in one sentence, for changes that
        are not possible.
        """
        return self.session.predict({**(changes or {}), **more})

    def follow_cell(self, text: str, code_of: Any, only: str = "") -> None:
        """Declare that the function is a notebook cell. A cell that is a program (cell_capture.py) runs as it is, and what it
        passes to torch.compile is watched: nobody would compile a cell that trains. Its text is not needed, because there is no
        live side.
        """
        row, why = why_program(self._inside)
        if not row:
            return
        self._compiled, self._is_a_part, self._is_program = self._inside, True, True
        self.session = WatchedSession(self._watch, self._inside, self._inside, is_a_part=True)
        code = self._inside.__code__
        self.recording.record(
            ev.TargetPassed(
                frame=0, name=code.co_name, file=shown_file(code.co_filename), line=code.co_firstlineno, row=row, why=why
            )
        )

    @property
    def notice(self) -> str:
        """Whose capture it is, unless the engine was named, and what could not be observed, in sentences ("": nothing)."""
        return " ".join([*self._recognized, *self.unseen])

    @property
    def unseen(self) -> list[str]:
        """What of torch.compile could not be observed, in sentences."""
        return self._watch.notices

    @property
    def _recognized(self) -> list[str]:
        other = f'explain(..., engine="{DYNEXPLORE}") shows what this engine captures.'
        if self._is_a_part:
            return [f"Parts of it are compiled by torch.compile, so the call was watched unchanged; {other}"]
        if torch_compiled.is_compiled(self.function):
            return [f"It is compiled by torch.compile, so this report is about torch.compile; {other}"]
        return []
