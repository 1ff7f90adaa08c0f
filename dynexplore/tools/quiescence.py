"""Warmup until nothing new is compiled.

The idea: call the function with every kind of input, repeatedly, until a whole round only hits the cache.

In: a function and the expected calls. Out: `Quiescence`: how many rounds it took, and what each compiled.

PyTorch's counterpart: none.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any

from dynexplore.engine.counters import counters
from dynexplore.session import torch_compiled
from dynexplore.views import html_report
from dynexplore.views.counts import plural


@dataclass(frozen=True, slots=True)
class Quiescence:
    """The result of `until_quiet`: `compiled` contains the number of frames that each round compiled."""

    function: str
    compiled: tuple[int, ...]

    @property
    def is_quiet(self) -> bool:
        """Whether the last round compiled nothing."""
        return bool(self.compiled) and not self.compiled[-1]

    def __str__(self) -> str:
        rounds = ", ".join(map(str, self.compiled))
        if self.is_quiet:
            return f"{self.function} is quiet after {plural(len(self.compiled), 'round')} (frames compiled in each: {rounds})"
        return (
            f"{self.function} still compiles after {plural(len(self.compiled), 'round')} (frames compiled in each: {rounds}):"
            " dynexplore.CompilationProfiler shows which guards fail"
        )

    __repr__ = __str__

    def _repr_html_(self) -> str:
        rows = [(str(number), str(count)) for number, count in enumerate(self.compiled, 1)]
        return html_report.report(html_report.line(str(self)), html_report.rows(("round", "frames compiled"), rows))


def until_quiet(fn: Callable[..., Any], calls: Iterable[tuple[Any, ...]], *, rounds: int = 10) -> Quiescence:
    """Call `fn` with each tuple of arguments, round after round, until a round compiles nothing new.

    Args: fn: an optimized function or module. calls: the argument tuples of one round. rounds: the maximum number of rounds.

    Raises ValueError if `rounds` is less than 1.

    >>> import torch
    >>> from dynexplore import optimize
    >>> until_quiet(optimize("eager")(lambda x: x + 1), [(torch.ones(2),)]).is_quiet
    True
    """
    if rounds < 1:
        raise ValueError(f"rounds must be at least 1, not {rounds}")
    torch_compiled.refuse(fn, "until_quiet")
    arguments = list(calls)
    compiled: list[int] = []
    while len(compiled) < rounds and not (compiled and not compiled[-1]):
        before = counters["frames"]["ok"]
        for args in arguments:
            fn(*args)
        compiled.append(counters["frames"]["ok"] - before)
    return Quiescence(getattr(fn, "__qualname__", type(fn).__qualname__), tuple(compiled))
