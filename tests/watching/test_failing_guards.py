"""Every guard of torch.compile's entries that fails, not only the first."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from dynexplore.engine import events as ev
from dynexplore.traces.recompile_reasons import check_of
from dynexplore.watching import private_torch
from dynexplore.watching.failing_guards import failing_checks
from dynexplore.watching.watch import watch

pytestmark = [pytest.mark.lenses, pytest.mark.filterwarnings("ignore:Guards may run slower on Python 3.13.0:RuntimeWarning")]


def compiled(function: Callable[..., Any], *args: Any) -> Any:
    """The one entry of torch.compile after one call."""
    torch._dynamo.reset()
    torch.compile(function, backend="eager", dynamic=False)(*args)
    (entry,) = private_torch.entries_of(function.__code__)
    return entry


def told(function: Callable[..., Any], *calls: tuple[Any, ...]) -> list[tuple[str, str, str]]:
    """Source, expected and found of every guard that failed in the last call."""
    torch._dynamo.reset()
    f = torch.compile(function, backend="eager", dynamic=False)
    with watch(steps=False) as seen:
        for args in calls:
            f(*args)
    last = seen.recording.of(ev.Recompiled)[-1].frame
    events = (*seen.recording.of_frame(last, ev.GuardFailed), *seen.recording.of_frame(last, ev.GuardAlsoFailed))
    assert not seen.notices
    return [(event.source, event.expected, event.actual) for event in events]


def test_every_check_that_fails_is_told_the_first_one_first() -> None:
    """Of five arguments that changed torch names one; each of the others is found by asking the rest of the tree."""

    def mix(a: torch.Tensor, b: int, c: int, xs: list[int], name: str) -> torch.Tensor:
        return a * b * c * xs[0] * xs[1] * len(name)

    entry = compiled(mix, torch.ones(1, 2), 1, 2, [3, 4], "x")
    locals_ = {"a": torch.ones(10, 2), "b": 5, "c": 2, "xs": [3, 7], "name": "y"}
    checks = list(map(check_of, failing_checks(entry, locals_)))
    assert checks == [
        "tensor 'L['a']' size mismatch at index 0. expected 1, actual 10", "L['b'] == 1", "L['xs'][1] == 4", "L['name'] == 'x'",
    ] or sorted(checks[1:]) == ["L['b'] == 1", "L['name'] == 'x'", "L['xs'][1] == 4"]  # fmt: skip
    assert list(failing_checks(entry, {"a": torch.ones(1, 2), "b": 1, "c": 2, "xs": [3, 4], "name": "x"})) == []


def test_what_lies_below_another_length_is_not_asked() -> None:
    """A list that is longer has other items; its length is what failed."""

    def add(x: torch.Tensor, xs: list[int]) -> torch.Tensor:
        return x + xs[0] + xs[1]

    checks = list(map(check_of, failing_checks(compiled(add, torch.ones(2), [1, 2]), {"x": torch.ones(2), "xs": [5, 6, 7]})))
    assert checks == ["len(L['xs']) == 2"]


def test_the_others_are_asked_in_the_mode_of_gradients_that_was() -> None:
    """A guard on the mode of gradients comes before all others, and hides none of them."""

    def scale(x: torch.Tensor, n: int) -> torch.Tensor:
        return x * n

    entry = compiled(scale, torch.ones(2), 2)
    with torch.no_grad():
        checks = list(map(check_of, failing_checks(entry, {"x": torch.ones(2), "n": 3})))
        assert not torch.is_grad_enabled()
    assert checks == ["GLOBAL_STATE changed: grad_mode", "L['n'] == 2"]


def test_a_watch_tells_each_guard_of_each_entry_once() -> None:
    """Expected and found stand beside each; the guard that torch names is not told twice."""

    def mix(a: torch.Tensor, b: int, c: str) -> torch.Tensor:
        return a * b * len(c)

    failed = told(mix, (torch.ones(1, 2), 1, "x"), (torch.ones(3, 2), 2, "yy"))
    assert failed[0] == ("a", "float32[1, 2] cpu", "float32[3, 2] cpu")
    assert sorted(failed[1:]) == [("b", "1", "2"), ("c", "'x'", "'yy'")]


def test_a_watch_asks_every_entry() -> None:
    """A third call is told beside both entries that did not fit it."""

    def scale(x: torch.Tensor, n: int, m: int) -> torch.Tensor:
        return x * n * m

    x = torch.ones(2)
    assert sorted(told(scale, (x, 1, 2), (x, 3, 2), (x, 5, 6))) == [
        ("m", "2", "6"), ("m", "2", "6"), ("n", "1", "5"), ("n", "3", "5"),
    ]  # fmt: skip


def test_asking_changes_nothing_that_a_hit_pays_for() -> None:
    """Copies of the tree are asked; the entry still fits what it fitted, and the same guards hold."""

    def scale(x: torch.Tensor, n: int) -> torch.Tensor:
        return x * n

    entry = compiled(scale, torch.ones(2), 2)
    before = str(entry.guard_manager)
    list(failing_checks(entry, {"x": torch.ones(3), "n": 3}))
    assert str(entry.guard_manager) == before
    assert private_torch.check_guards(entry, {"x": torch.ones(2), "n": 2}) == (True, [])


@pytest.mark.parametrize("many", [150])
def test_a_large_tree_is_asked_for_a_bounded_time(many: int) -> None:
    """Where hundreds of guards fail, a hundred are told at most."""
    names = {f"k{number}": float(number) for number in range(many)}

    def total(x: torch.Tensor, names: dict[str, float]) -> torch.Tensor:
        for value in names.values():
            x = x + value
        return x

    entry = compiled(total, torch.ones(2), names)
    checks = list(failing_checks(entry, {"x": torch.ones(2), "names": {name: value + 1 for name, value in names.items()}}))
    assert 1 <= len(checks) <= 100
