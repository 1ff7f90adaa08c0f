"""What an exception releases on its way to a handler: a look at it runs no code of the program; what lives on breaks nothing."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import torch

import dynexplore
from engine_checks import assert_same_as_eager

EVENTS: list[str] = []
X = torch.ones(3)


class Proxy:
    """An object that pretends to be of another class, as proxies of other libraries do."""

    @property
    def __class__(self) -> Any:  # type: ignore[override]
        EVENTS.append("__class__")
        return int


class Watching(Exception):
    """An exception that notes who asks for its attributes."""

    def __getattribute__(self, name: str) -> Any:
        EVENTS.append(name)
        return super().__getattribute__(name)


@dynexplore.disable
def proxy() -> Proxy:
    """Made outside of the graph."""
    return Proxy()


@dynexplore.disable
def raises() -> None:
    """Raise outside of the graph."""
    raise Watching


def proxy_is_dropped(x: torch.Tensor) -> torch.Tensor:
    """The value that the call before the break returned is released."""
    x = x + 1
    proxy()
    return x + 2


def exception_is_handled(x: torch.Tensor) -> torch.Tensor:
    """The exception arrives with its traceback, and its handler ends."""
    x = x + 1
    try:
        raises()
    except Watching:
        x = x + 2
    return x * 2


@pytest.mark.parametrize("program", [proxy_is_dropped, exception_is_handled])
def test_no_code_of_the_program_is_run(program: Any) -> None:
    """Neither `__class__` nor `__traceback__` is asked of an object that is released."""
    assert_same_as_eager(program, X, calls=2, setup=EVENTS.clear, observe=lambda: list(EVENTS))


class Model(torch.nn.Module):
    """A layer that has a logger, breaks the graph in a method, and catches an exception in another."""

    def __init__(self) -> None:
        super().__init__()
        self.logger = logging.getLogger("dynexplore.example")
        self.sizes: dict[str, int] = {}

    def steps(self, x: torch.Tensor) -> torch.Tensor:
        """Break the graph."""
        x = x + 1
        dynexplore.graph_break()
        return x + 1

    def size(self, name: str) -> int:
        """Look up, with a default."""
        try:
            return self.sizes[name]
        except KeyError:
            return 1

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """One break, then exceptions that are caught."""
        x = self.steps(x)
        for name in "abcd":
            x = x * self.size(name)
        return x


def test_what_the_caller_holds_is_not_released() -> None:
    """The callee's `self` is the caller's argument: the one break of the program stays the only one."""
    assert_same_as_eager(Model(), X, graphs=2, breaks=1, calls=2)
