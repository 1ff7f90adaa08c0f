"""What frames were called with: which calls are held, and that the same call can be made again from it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from dynexplore.engine.native import UNBOUND
from dynexplore.session.first_frame import slot_values
from dynexplore.session.frame_calls import FrameCalls, arguments_of

pytestmark = pytest.mark.plain("holds calls that are noted by hand")


def plain(x: Any, y: Any = 2) -> Any:
    return x, y


def every_kind(a: Any, /, b: Any, *rest: Any, k: Any, d: Any = 5, **more: Any) -> Any:
    return a, b, rest, k, d, more


@pytest.mark.parametrize(
    ("function", "args", "kwargs"),
    [
        (plain, (1,), {}),
        (plain, (1,), {"y": 3}),
        (every_kind, (1, 2), {"k": 3}),
        (every_kind, (1, 2, 3, 4), {"k": 5, "d": 6, "z": 7}),
        (lambda *rest: rest, (), {}),
        (lambda **more: more, (), {"a": 1}),
    ],
)
def test_the_same_call_again(function: Any, args: Any, kwargs: Any) -> None:
    """From what the slots of a frame hold the call is found that fills them so."""
    again, named = arguments_of(function.__code__, slot_values(function, args, kwargs))
    assert function(*again, **named) == function(*args, **kwargs)


def test_the_first_calls_are_held() -> None:
    """No more than so many, and none whose slots are not filled; no value is compared with anything."""
    calls = FrameCalls(most=2)
    calls.note(1, plain, (torch.ones(2), UNBOUND))
    calls.note(2, plain, (torch.ones(2), 3))
    calls.note(3, plain, (torch.ones(2), 4))
    calls.note(4, plain, (torch.ones(2), 5))
    assert list(calls.by_frame) == [2, 3] and calls.by_frame[3].args[1] == 4 and calls.by_frame[3].function is plain
