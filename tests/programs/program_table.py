"""Tables of small programs: each is a function, its arguments, and what is expected of its capture.

In: functions decorated with `Programs.add`. Out: parameters for one pytest function that runs each against eager.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from engine_checks import assert_same_as_eager


class Programs:
    """The programs of one test file, in the order in which they stand there."""

    def __init__(self) -> None:
        self._rows: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any]]] = []

    def add(self, *args: Any, **expected: Any) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
        """Declare a program, called with `args`; `expected` as for assert_same_as_eager; no breaks is the rule."""

        def declare(fn: Callable[..., Any]) -> Callable[..., Any]:
            self._rows.append((fn, args, {"breaks": 0, **expected}))
            return fn

        return declare

    def __len__(self) -> int:
        return len(self._rows)

    def parameters(self) -> Any:
        """A decorator for the test function, whose parameter `run` runs one program."""
        return pytest.mark.parametrize("run", [pytest.param(_runner(*row), id=row[0].__name__) for row in self._rows])


def _runner(fn: Callable[..., Any], args: tuple[Any, ...], expected: dict[str, Any]) -> Callable[[], Any]:
    return lambda: assert_same_as_eager(fn, *args, **expected)
