"""traces/recompile_reasons.py: why torch.compile compiled again, in words; what came is looked up, never made up."""

from __future__ import annotations

import pytest
import torch

from dynexplore.engine import events as ev
from dynexplore.traces.recompile_reasons import failed_guard
from dynexplore.views.changes import change

pytestmark = pytest.mark.plain("reads reasons that torch wrote")


def guard_of(reason: str, **values: object) -> ev.GuardFailed:
    """The guard of a reason, in a call with these locals."""
    return failed_guard(reason, (values, {}), {"x": "float32[7, 4, 2] cpu"}, {}, 1, 1)


def test_sizes_of_a_tensor_are_those_of_the_call() -> None:
    """torch names the first size that differs: the others are looked up, and unknown where nobody can look."""
    reason = "tensor 'x' size mismatch at index 1. expected 4, actual 8"
    assert guard_of(reason, x=torch.ones(7, 8, 5)).actual == "float32[7, 8, 5] cpu"
    assert guard_of(reason).actual == "float32[7, 8, ?] cpu"
    assert str(change(guard_of(reason))) == "`x` changed from size 4 to 8 in dimension 1"


def test_another_function_is_no_address() -> None:
    """A guard on the code of a function is about the function, and addresses are for nobody."""
    failed = guard_of("0/7: ___check_obj_id(fn.__code__, 140346788737024), type=<class 'code'>  # out = fn(x)  # t.py:5 in f")
    assert str(change(failed)) == "`fn` is a different function"
    assert str(change(guard_of("___check_obj_id(L['mode'], 9431), type=<class 'settings.Mode'>"))) == "`mode` is a different Mode"
