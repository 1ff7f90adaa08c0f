"""engine/runtime/function_environment.py: what a function finds around it is put back."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from dynexplore.engine.runtime.function_environment import Surroundings, copy_of_tensor, named_by, refill
from dynexplore.engine.runtime.state_restores import rebind

pytestmark = pytest.mark.plain("keeps and puts back state around any run")

COUNT = 1
LOG: list[int] = [1]
TABLE = {"a": 1}
CONTENT = torch.ones(2)


def program() -> Any:
    global COUNT
    COUNT += 1
    LOG.append(2)
    TABLE["b"] = 2
    return CONTENT


def test_globals_and_what_stands_there() -> None:
    """Rebound names, grown lists and dicts, written tensors and gradients."""
    around = Surroundings(program)
    program().add_(1)
    CONTENT.grad = torch.ones(2)
    around.restore()
    assert (COUNT, LOG, TABLE, CONTENT.tolist(), CONTENT.grad) == (1, [1], {"a": 1}, [1, 1], None)
    assert [name for name, _ in around.tensors()] == ["CONTENT"]


def test_the_closure() -> None:
    """A cell that is assigned to gets its value back; one that has none yet is left alone."""
    count, late = 0, None

    def counting() -> int:
        nonlocal count
        count += 1
        return count if late is None else unbound

    around = Surroundings(counting)
    counting()
    around.restore()
    assert count == 0 and dict(named_by(counting))["count"] == 0
    unbound = 1


def test_what_has_nothing_around_it() -> None:
    """A C function or a module: nothing to note, nothing to put back."""
    for target in (torch.add, torch.nn.Linear(1, 1), 3):
        around = Surroundings(target)
        around.restore()
        assert not list(around.tensors())


def test_fillers() -> None:
    """A list, a dict, a set and a tensor, in place; nothing for anything else."""
    for value, change in (([1], lambda v: v.clear()), ({1: 2}, lambda v: v.clear()), ({1}, lambda v: v.add(3))):
        before = value.copy()  # type: ignore[attr-defined]
        restore = refill(value)
        change(value)
        restore()  # type: ignore[misc]
        assert value == before
    assert refill(3) is None and refill(torch.nn.Parameter(torch.ones(1))) is None
    held: dict[str, Any] = {"x": CONTENT}
    restore = rebind(held)
    held["x"] = torch.ones(2)
    restore()
    assert held["x"] is CONTENT


def test_copies_of_tensors() -> None:
    """A leaf with the same content, layout and gradient."""
    x = torch.arange(6.0).reshape(2, 3).t().requires_grad_()
    (x * 2).sum().backward()
    copied = copy_of_tensor(x)
    assert copied.stride() == x.stride() and torch.equal(copied, x) and copied.is_leaf
    assert copied.grad is not x.grad and torch.equal(copied.grad, x.grad)  # type: ignore[arg-type]
