"""`with dynexplore.watch() as w:`: record what torch.compile does inside the block.

The idea: the program is not modified. The block turns a listener on; everything that torch compiles until its end, in any function
and thread, goes to one recording, and afterwards torch is restored.

In: `watch()`, and a program that uses torch.compile. Out: `Watch`, with its `recording`.

PyTorch's counterpart: TORCH_TRACE, which writes a folder that tlparse displays afterwards.
"""

from __future__ import annotations

import os
import types
from typing import Any

import torch

from dynexplore.engine import display_hooks, tool_hooks
from dynexplore.engine.bytecode.versions import PYTHON
from dynexplore.engine.translate.code_views import code_view
from dynexplore.recording.recording import Recording
from dynexplore.session import torch_compiled
from dynexplore.views import text
from dynexplore.watching import private_torch
from dynexplore.watching.listener import Listener
from dynexplore.watching.real_guards import TorchPrediction, predict


class Watch:
    """What torch.compile did: `recording`; `notices` lists in sentences what could not be observed.

    >>> with watch() as seen:
    ...     doubled = torch.compile(lambda x: x + x, backend="eager")(torch.ones(2))
    >>> len(seen.recording.graphs)
    1
    """

    def __init__(
        self,
        *,
        steps: bool = True,
        title: str = "",
        keep_graphs: bool = False,
        artifacts: bool = False,
        check: bool = False,
        guard_prices: bool = False,
    ) -> None:
        self.recording = Recording(title=title, engine="torch.compile")
        self.recording.versions = f"Python {PYTHON}, torch {torch.__version__}"
        self._listener = Listener(
            self.recording, steps=steps, keep_graphs=keep_graphs, artifacts=artifacts, guard_prices=guard_prices
        )
        self._calls = _checked_calls(self._listener) if check else None

    @property
    def notices(self) -> list[str]:
        """What could not be observed, in sentences; with `check=True` also how compiled calls compare with eager mode."""
        return [*self._listener.notices, *(self._calls.report() if self._calls is not None else [])]

    @property
    def wrong_calls(self) -> list[Any]:
        """The compiled calls that differ from eager mode, with the first operator that differs; empty without `check=True`."""
        wrong: list[Any] = self._calls.wrong if self._calls is not None else []
        return wrong

    @property
    def frames_seen(self) -> int:
        """The number of frames that torch.compile has compiled so far, or tried to: those of the recording."""
        return self._listener.frames_seen

    @property
    def frames_without_tensors(self) -> int:
        """The number of further frames that torch skipped because they contain no tensors. torch's own frame counter includes both:
        a weak reference whose object dies while the program runs is enough for such a frame.
        """
        return self._listener.frames_without_tensors

    @property
    def graphs(self) -> list[torch.fx.GraphModule]:
        """The graphs themselves, if they are kept."""
        return self._listener.graphs

    def __enter__(self) -> Watch:
        self._listener.begin()
        if self._calls is not None:
            self._calls.begin()
        return self

    def __exit__(self, *exc: object) -> None:
        if self._calls is not None:
            self._calls.end()
        self._listener.end()

    def __str__(self) -> str:
        shown = text.explanation(self.recording, most_lines=max(text.MOST_LINES - len(self.notices), 1))
        return "\n".join([shown, *self.notices])

    def __repr__(self) -> str:
        return str(self)

    def _repr_mimebundle_(self, include: Any = None, exclude: Any = None) -> display_hooks.Bundle:
        return display_hooks.connected().mimebundle(self.recording)

    def _display_(self) -> Any:
        return self.recording._display_()

    def check(self, fn: Any, /, *args: Any, **kwargs: Any) -> TorchPrediction:
        """Which cache entry of a compiled function this call would hit, and which guard of the others fails. Runs nothing.

        >>> doubled = torch.compile(lambda x, n: x * n, backend="eager")
        >>> with watch() as seen:
        ...     result = doubled(torch.ones(2), 2)
        >>> print(seen.check(doubled, torch.ones(2), 2))
        hit
          entry 1: hit
        >>> print(seen.check(doubled, torch.ones(2), 5))
        recompile
          entry 1: guard fails: `n` changed from 2 to 5
        """
        return predict(torch_compiled.original_of(fn), args, kwargs, self._listener.entry_of, private_torch.region_of(fn))

    def note_hit(self, fn: Any) -> None:
        """Record that a call of `fn` hit an entry: torch moves that entry to the front."""
        self._listener.hit(_code(fn), private_torch.region_of(fn))

    def code_of(self, fn: Any) -> int:
        """The number of a compiled function's code in the recording; -1 for a callable without code."""
        code = _code(fn)
        return code_view(code).id if code is not None else -1

    def save(self, path: str | os.PathLike[str], *, redact: bool = False) -> str:
        """Write the recording to a file, as `Recording.save` does."""
        return self.recording.save(path, redact=redact)


def _checked_calls(listener: Listener) -> Any:
    hooks = tool_hooks.connected()
    assert hooks is not None  # the top-level package has set them
    return hooks.checked_calls(listener.paused, torch, private_torch.compiled_module())


def _code(fn: Any) -> types.CodeType | None:
    target = torch_compiled.original_of(fn)
    function = target.forward if isinstance(target, torch.nn.Module) else target
    code: types.CodeType | None = getattr(getattr(function, "__func__", function), "__code__", None)
    return code


def watch(*, steps: bool = True, artifacts: bool = False, check: bool = False, guard_prices: bool = False) -> Watch:
    """Record what torch.compile does in a `with` block.

    Args: steps: whether to record the symbolic stack after each instruction; False is faster. artifacts: whether to record the
    output of AOTAutograd and Inductor (forward and backward graphs, generated code, times). check: whether to also run compiled
    calls in eager mode, on copies, and compare the results. guard_prices: whether to measure how long each cache entry takes to
    check its guards, which values account for that time, and how much time guard filters would save.
    """
    return Watch(steps=steps, artifacts=artifacts, check=check, guard_prices=guard_prices)
