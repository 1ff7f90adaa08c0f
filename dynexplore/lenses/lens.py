"""The interface of a capture method: what `compare` requires, and what the file of each method implements.

The idea: methods that have nothing in common (a trace, a compiler of source text, deferred tensors, bytecode analysis) become
comparable through the same three operations: capture this call, return the graphs as rows, return a callable captured program.

In: a function and a call of it (`Call`). Out: `Captured`; or an exception of the method, which `explain_failure` summarizes in
one sentence. PyTorch's counterpart: none.
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
    """A function or module, and copies of its arguments, which the method may mutate. `dynamic` is for methods that support it."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    kwargs: dict[str, Any]
    dynamic: bool | None = None


@dataclass(slots=True)
class Captured:
    """The result of capturing a call.

    `graphs()` returns the graphs so far, `run` is the captured program, with the signature of the function. `count()` is the
    number of captures (some methods recapture), `breaks()` explains why there is more than one graph.
    """

    graphs: Callable[[], Sequence[Graph]]
    run: Callable[..., Any]
    count: Callable[[], int] = lambda: 1
    breaks: Callable[[], Sequence[str]] = tuple
    notes: list[str] = field(default_factory=list)


class Lens(Protocol):
    """One capture method.

    `key` is its short name, `name` the API call that people write, `works_on` its input ("trace", "source", ...), `how` and
    `purpose` one sentence each, `reasons` explanations of its error messages: (pattern, sentence).
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
        """Import slow modules ahead of time, so that the measured time excludes them."""

    def capture(self, call: Call) -> Captured:
        """Capture the call. Raises any exception of the method."""


MOST_MESSAGE = 400
"""The most characters that are kept of a method's error message."""


def explain_failure(lens: Lens, error: BaseException) -> tuple[str, str]:
    """One sentence on why the method failed, followed by its message, shortened."""
    message = f"{type(error).__name__}: {error}".strip()
    for pattern, sentence in lens.reasons:
        if re.search(pattern, message, re.DOTALL):
            return sentence, clip(message, MOST_MESSAGE)
    first = next((line.strip() for line in str(error).splitlines() if line.strip()), "no message")
    return f"{lens.name} raised {type(error).__name__}: {clip(first, 160)}", clip(message, MOST_MESSAGE)
