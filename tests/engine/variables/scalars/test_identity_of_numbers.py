"""`is` between a number that varies and another object: a later call may have any object there, that one too."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from engine_checks import assert_same_as_eager


class Meta(type):
    """What `h.__class__` gives, unless something stands before it."""


class Host(metaclass=Meta):
    """Its class is asked for."""


def test_a_number_on_the_stack_of_a_resume_function_is_no_object(monkeypatch: pytest.MonkeyPatch) -> None:
    """`h.__class__` breaks the graph under a hook of the metaclass; what comes out is compared by identity."""

    def program(x: torch.Tensor, hooked: bool) -> torch.Tensor:
        if hooked:
            Meta.__getattribute__ = lambda cls, name: 7  # type: ignore[assignment, method-assign]
        elif "__getattribute__" in vars(Meta):
            del Meta.__getattribute__
        return look(x, Host)

    def look(x: torch.Tensor, host: Any) -> torch.Tensor:
        return x * (3 if host.__class__ is type(host) else 5)

    x = torch.ones(3)
    assert_same_as_eager(program, x, False, then=[(x, True), (x, True), (x, False), (x, True)], graphs=range(1, 9))
    program(x, False)
