"""session/program_capture.py: a program runs as it would, and its targets are captured."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from dynexplore.engine import events as ev
from dynexplore.engine import native
from dynexplore.session.program_capture import ProgramCapture
from dynexplore.session.targets import Targets


def ran(program: Callable[[], Any], **options: Any) -> tuple[ProgramCapture, Any]:
    """A capture, and what the program returned."""
    values = []
    capture = ProgramCapture("p.py", Targets(), **options)
    capture.run(lambda: values.append(program()))
    assert native.current() is None and not native.installed()
    return capture, values[0]


def scaled(x: torch.Tensor, by: list[int]) -> torch.Tensor:
    """Changes its argument, and breaks."""
    by.append(1)
    print(end="")
    return x * len(by)


def test_the_program_gets_what_it_would_get() -> None:
    """Values, mutations, exceptions and gradients are those of plain Python, over several calls."""
    net = nn.Linear(2, 1)

    def program() -> Any:
        by: list[int] = []
        first = [scaled(torch.ones(2), by).tolist() for _ in range(3)]
        try:
            fails(torch.ones(2))
        except ZeroDivisionError as error:
            message = str(error)
        net(torch.ones(1, 2)).sum().backward()
        assert net.weight.grad is not None
        return first, by, message, net.weight.grad.tolist()

    def fails(x: torch.Tensor) -> Any:
        return x + 1 // (x.dim() - 1)

    capture, value = ran(program)
    with pytest.raises(ZeroDivisionError) as plain:
        fails(torch.ones(2))
    assert value == ([[1.0, 1.0], [2.0, 2.0], [3.0, 3.0]], [1, 1, 1], str(plain.value), [[1.0, 1.0]])
    assert [choice.name for choice in capture.chosen] == ["scaled", "fails", "Linear.forward"]
    ended = [event.error for event in capture.recording.of(ev.CallEnded)]
    assert ended == ["", "", "", "ZeroDivisionError", ""]
    assert not capture.recording.divergences and len(capture.recording.graphs) >= 3


def test_instances_of_a_librarys_module_do_not_share_a_cache() -> None:
    """A person compiles instances: a generator and a discriminator that are both nn.Sequential do not recompile each other."""
    one, two = nn.Sequential(nn.Linear(2, 2)), nn.Sequential(nn.Linear(3, 2), nn.ReLU())

    def program() -> None:
        for _ in range(3):
            one(torch.ones(1, 2))
            two(torch.ones(1, 3))

    capture, _ = ran(program)
    assert len(capture.recording.graphs) == 2 and not capture.recording.of(ev.Recompiled)
    assert capture.call_count == 6


def test_everything_is_captured_on_demand() -> None:
    """`captures_all` translates each frame of the program, as a region does."""

    def half(x: torch.Tensor) -> torch.Tensor:
        return x / 2

    def program() -> Any:
        return half(torch.ones(2))

    capture, _ = ran(program, captures_all=True)
    assert not capture.chosen and len(capture.recording.graphs) == 1
