"""watching/values.py: where a value comes from, in the names of the program."""

from __future__ import annotations

import functools
from collections.abc import Callable

import pytest
import torch

import dynexplore
from dynexplore.engine import events as ev

pytestmark = [pytest.mark.lenses, pytest.mark.filterwarnings("ignore:Guards may run slower on Python 3.13.0:RuntimeWarning")]

Function = Callable[..., torch.Tensor]


def once(func: Function) -> Function:
    @functools.wraps(func)
    def wrapper(*args: torch.Tensor) -> torch.Tensor:
        return func(*args)

    return wrapper


@once
@once
def scaled(x: torch.Tensor, scale: int = 2, shift: int = 3) -> torch.Tensor:
    return torch.relu(x) * scale + shift + len(x.shape)


def sources() -> tuple[dict[str, str], set[str]]:
    """Of `scaled`: argument -> where it comes from; and all sources of values on the stack."""
    torch._dynamo.reset()
    with dynexplore.watch() as seen:
        torch.compile(scaled, backend="eager")(torch.ones(2))
    recording = seen.recording
    (entered,) = [one for one in recording.of(ev.InlineEntered) if one.code.qualname == "scaled"]
    stacks = {view.source for step in recording.of(ev.InstructionStepped) for view in step.stack}
    return {name: view.source for name, view in entered.arguments}, stacks


def test_what_a_closure_holds_bears_its_name() -> None:
    """A default of a function that decorators stand in front of is that of `func`, as they call it, and not of a cell."""
    arguments, stacks = sources()
    known = {name: source for name, source in arguments.items() if source}  # torch 2.11 has no source of a default
    assert known.items() <= {"x": "args[0]", "scale": "func.__defaults__[0]", "shift": "func.__defaults__[1]"}.items()
    assert "func" in stacks and not [source for source in stacks if "cell_contents" in source]


def test_builtins_have_no_dictionary_around_them() -> None:
    """`len` is `len`, and not an item of the dictionary under which torch keeps the builtins of a module."""
    _, stacks = sources()
    assert "len" in stacks and not [source for source in stacks if "__builtins" in source]
