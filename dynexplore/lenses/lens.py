"""The interface of a capture method: what `compare` asks, and what the files of the methods answer.

Which idea lives here: methods that have nothing in common (a trace, a compiler of source text, deferred tensors, a reader
of bytecode) are made comparable by asking the same three things of each: capture this call; show the graphs as rows; give
me something that I can call again.

In:  a function and a call of it (`Call`).
Out: `Captured`; or an exception of the method's own, for which `explain_failure` finds one sentence.

PyTorch's counterpart: none.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from dynexplore.engine.events import clip
from dynexplore.lenses.outcome import Graph


@dataclass(frozen=True, slots=True)
class Call:
    """A function or module, and arguments for it: copies, which the method may change. `dynamic` is for methods that know it."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    dynamic: bool | None = None


@dataclass(slots=True)
class Captured:
    """What a method made of a call.

    `graphs()` gives the graphs so far, `run` is the captured program, called as the function is. `count()` says how often
    something was captured (methods that capture again when they have to), `breaks()` why there is more than one graph.
    """

    graphs: Callable[[], Sequence[Graph]]
    run: Callable[..., Any]
    count: Callable[[], int] = lambda: 1
    breaks: Callable[[], Sequence[str]] = tuple
    notes: list[str] = field(default_factory=list)


class Lens(Protocol):
    """One capture method.

    `key` is its short name, `name` the call that people write, `works_on` what it reads ("trace", "source", ...), `how`
    and `purpose` one sentence each, `reasons` what its error messages mean: (pattern, sentence).
    """

    @property
    def key(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def works_on(self) -> str: ...
    @property
    def how(self) -> str: ...
    @property
    def purpose(self) -> str: ...
    @property
    def reasons(self) -> Sequence[tuple[str, str]]: ...

    def prepare(self) -> None:
        """Import what is slow to import, so that it is not part of the time."""

    def capture(self, call: Call) -> Captured:
        """Capture the call. Raises whatever the method raises."""


MOST_MESSAGE = 400
"""Characters that are kept of a method's own error message."""


def explain_failure(lens: Lens, error: BaseException) -> tuple[str, str]:
    """One sentence that says why the method failed, and its own message, shortened."""
    message = f"{type(error).__name__}: {error}".strip()
    for pattern, sentence in lens.reasons:
        if re.search(pattern, message, re.DOTALL):
            return sentence, clip(message, MOST_MESSAGE)
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "no message")
    return f"{lens.name} raised {type(error).__name__}: {clip(first, 160)}", clip(message, MOST_MESSAGE)
