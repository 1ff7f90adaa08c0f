"""Tables of small programs: each is a function, its arguments, and what is expected of its capture.

In: functions decorated with `Programs.add`. Out: the rows, and parameters for one pytest function that runs each against eager.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest

from engine_checks import assert_same_as_eager


def caught(call: Any) -> str:
    """For programs: what a call returns or raises, in words."""
    try:
        return f"no exception: {call()!r}"
    except Exception as error:
        return f"{type(error).__name__}: {error}"


@dataclass(frozen=True)
class Row:
    """One program, what its first call passes, and what assert_same_as_eager is told besides."""

    fn: Callable[..., Any]
    args: tuple[Any, ...]
    expected: dict[str, Any]

    @property
    def calls(self) -> list[tuple[Any, ...]]:
        """The arguments of each call."""
        return [self.args] * self.expected.get("calls", 1) + list(self.expected.get("then", ()))

    def set_up(self) -> None:
        """Reset what the program reaches through globals."""
        if (setup := self.expected.get("setup")) is not None:
            setup()

    def run(self) -> None:
        """Run it against eager."""
        assert_same_as_eager(self.fn, *self.args, **self.expected)


class Programs:
    """The programs of one test file, in the order in which they stand there."""

    def __init__(self) -> None:
        self._rows: list[Row] = []

    def add(self, *args: Any, **expected: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Declare a program, called with `args`; `expected` as for assert_same_as_eager; no breaks is the rule."""

        def declare(fn: Callable[..., Any]) -> Callable[..., Any]:
            self._rows.append(Row(fn, args, {"breaks": 0, **expected}))
            return fn

        return declare

    def __iter__(self) -> Iterator[Row]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)

    def parameters(self) -> Any:
        """A decorator for the test function, whose parameter `run` runs one program."""
        return pytest.mark.parametrize("run", [pytest.param(row.run, id=row.fn.__name__) for row in self])
