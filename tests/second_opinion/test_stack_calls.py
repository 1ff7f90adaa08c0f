"""Calls as they lie on the stack: callable, receiver and arguments are read without asking a handler. Also check_table.py."""

from __future__ import annotations

import functools
from typing import Any

import pytest
import torch
from second_opinion.planted import assert_clean, recorded

from dynexplore.second_opinion import fast_checks, method_checks, opcode_checks
from dynexplore.second_opinion.stack_calls import call_on_stack

X = torch.ones(2)


@pytest.mark.parametrize(
    ("program", "expected"),
    [
        (lambda x: torch.add(x, 2), ("BuiltinVariable", 2, [])),
        (lambda x: torch.add(x, 2, alpha=3), ("BuiltinVariable", 2, ["alpha"])),
        (lambda x: x.add(2), ("TensorMethodVariable", 1, [])),
        (lambda x: torch.add(*(x, 2), **{"alpha": 3}), ("BuiltinVariable", 2, ["alpha"])),
        (lambda x: [x].copy()[0] + 1, ("ConstantMethodVariable", 0, [])),
    ],
    ids=["positional", "keyword", "method", "stars", "of a list"],
)
def test_a_call_is_read_from_the_stack(program: Any, expected: tuple[str, int, list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    """The callable, how many positional arguments there are, and the names of the others."""
    calls: list[tuple[str, int, list[str]]] = []

    @functools.wraps(call_on_stack)
    def noting(step: Any) -> Any:
        function, args, named = call_on_stack(step)
        calls.append((type(function).__name__, len(args), list(named)))
        return function, args, named

    monkeypatch.setattr(opcode_checks, "call_on_stack", noting)
    monkeypatch.setattr(method_checks, "call_on_stack", noting)
    monkeypatch.setattr(fast_checks, "is_right", lambda *step: False)
    assert_clean(recorded(program, X))
    assert expected in calls
