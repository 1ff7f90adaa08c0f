"""The check of a step takes no longer for a large container, and finds in it what it finds in a small one."""

from __future__ import annotations

from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

import pytest
import torch
from second_opinion.planted import recorded

from dynexplore.engine import events as ev
from dynexplore.engine.translate import dispatch
from dynexplore.engine.variables.scalars.constant import ConstantVariable
from dynexplore.second_opinion.contents import Value
from dynexplore.second_opinion.large_containers import SMALL

X = torch.ones(2)
Program = Callable[..., Any]


class Empty:
    pass


def stores_in_a_dict(x: torch.Tensor, n: int, held: dict[str, int] | None = None) -> Any:
    made: dict[str, int] = {} if held is None else held
    for i in range(n):
        made["k" + str(i)] = i
    return x * len(made), made


def loads_from_a_dict(x: torch.Tensor, n: int) -> Any:
    made = {i: i for i in range(n)}
    for i in range(n):
        latest = made[i] if i in made else 0
    return x * latest


def calls_methods_of_a_dict(x: torch.Tensor, n: int) -> Any:
    made: dict[int, Any] = {}
    for i in range(n):
        made.setdefault(i, i)
        made.get(i)
        made.update({i: i + 1})
        if i % 3 == 0:
            made.pop(i)
    return x * len(made), made


def appends_to_a_list(x: torch.Tensor, n: int, held: list[int] | None = None) -> Any:
    made: list[int] = [] if held is None else held
    for i in range(n):
        made.append(i)
    made[n // 2] = -1
    made.insert(3, 9)
    return x * len(made), made


def loads_from_a_list(x: torch.Tensor, n: int) -> Any:
    made = [0] * n
    for i in range(n):
        made[i] = i
        total = made[i] + made[-1]
    return x * total


def walks_a_list(x: torch.Tensor, n: int) -> Any:
    made, total = [i for i in range(n)], 0
    for i, _ in enumerate(made):
        total += i
    for i in made:
        total += i
    return x * total


def empties_a_list(x: torch.Tensor, n: int) -> Any:
    made = [i for i in range(n)]
    while made:
        made.pop()
    return x * len(made)


def adds_to_a_set(x: torch.Tensor, n: int) -> Any:
    made: set[int] = set()
    for i in range(n):
        made.add(i)
        made.discard(i - SMALL)
    return x * len(made), made


def walks_a_set_and_a_dict(x: torch.Tensor, n: int) -> Any:
    total = 0
    for i in {i for i in range(n)}:
        total += i
    for key, value in {i: i for i in range(n)}.items():
        total += key + value
    return x * total


def goes_through_a_deque(x: torch.Tensor, n: int) -> Any:
    made: deque[int] = deque()
    for i in range(n):
        made.append(i)
    for _ in range(n // 2):
        made.popleft()
    return x * len(made), made


def stores_attributes(x: torch.Tensor, n: int) -> Any:
    made: Any = Empty()
    made.items = []
    for i in range(n):
        made.latest = i
        made.items.append(i)
    return x * made.latest


def nests(x: torch.Tensor, n: int) -> Any:
    made: dict[int, Any] = {}
    for i in range(n):
        made[i] = [i, {i: (i, i)}]
    return x * len(made), made


def counts_and_orders(x: torch.Tensor, n: int) -> Any:
    counts: defaultdict[int, int] = defaultdict(int)
    order: OrderedDict[int, int] = OrderedDict()
    for i in range(n):
        counts[i % (n // 2)] += 1
        order[i] = i
        order.move_to_end(0)
    return x * len(counts), order


def changes_in_other_ways(x: torch.Tensor, n: int) -> Any:
    made = [i for i in range(n)]
    for i in range(9):
        made.sort(key=lambda number: -number)
        made.append(i)
        made.extend(number for number in range(3))
        made += [i]
        del made[0]
        made[2:4] = [7]
    try:
        made.remove(-5)
    except ValueError:
        made.append(0)
    return x * len(made), made


PROGRAMS: list[Program] = [
    stores_in_a_dict, loads_from_a_dict, calls_methods_of_a_dict, appends_to_a_list, loads_from_a_list, walks_a_list,
    empties_a_list, adds_to_a_set, walks_a_set_and_a_dict, goes_through_a_deque, stores_attributes, nests, counts_and_orders,
    changes_in_other_ways,
]  # fmt: skip


@pytest.mark.parametrize("fn", PROGRAMS, ids=lambda fn: fn.__name__)
def test_the_check_of_a_step_does_not_grow_with_the_container(monkeypatch: pytest.MonkeyPatch, fn: Program) -> None:
    """Four times the rounds take about four times the work, and no step of them is an alarm."""
    counts = []
    right = Value.__init__

    def count(self: Value, tracker: Any, live: object = None) -> None:
        counts[-1] += 1
        right(self, tracker, live)

    monkeypatch.setattr(Value, "__init__", count)
    for size in (100, 400):
        counts.append(0)
        recording = recorded(fn, X, size)
        assert [one.sentence for one in recording.divergences] == []
        assert [one.reason for one in recording.of(ev.RunLeftOut) if "could not be checked" in one.reason] == []
        assert recording.graphs
    assert counts[1] < 8 * counts[0] + 4000


@pytest.mark.parametrize("fn", [stores_in_a_dict, appends_to_a_list])
def test_containers_of_the_caller(fn: Program) -> None:
    """One that existed before is no other."""
    for held in ({"a": 1}, {f"b{n}": n for n in range(300)}):
        recording = recorded(fn, X, 150, held if fn is stores_in_a_dict else [*held.values()])
        assert recording.divergences == () and recording.graphs


def spoils(op: str, spoil: Callable[[Any, int], None], at: int = 150) -> Any:
    """A handler that does its work, and once, when the container is large, something else besides."""
    right, count = dispatch.HANDLERS[op], [0]

    def handler(frame: Any, step: Any, ctx: Any) -> None:
        target = frame.stack[-2] if op == "STORE_SUBSCR" else frame.stack[-2 - step.arg[0]]
        target = getattr(target, "receiver", target)
        right(frame, step, ctx)
        if target.bulk() >= at and not count[0]:
            count[0] = 1
            spoil(target, at)

    return dispatch.override(op, handler)


def another_value(target: Any, at: int) -> None:
    target.entries["k3"] = target.entries["k3"][0], ConstantVariable(-1)


def one_less(target: Any, at: int) -> None:
    del target.entries["k3"]


def the_latest_value(target: Any, at: int) -> None:
    target.entries[f"k{at - 1}"] = target.entries[f"k{at - 1}"][0], ConstantVariable(-1)


@pytest.mark.parametrize("spoil", [another_value, one_less, the_latest_value])
@pytest.mark.parametrize("rounds", [160, 700])
def test_a_wrong_step_is_found_in_a_large_container(spoil: Callable[[Any, int], None], rounds: int) -> None:
    """What the step touched and how many there are at once, anything else when all is compared: at the end at the latest."""
    with spoils("STORE_SUBSCR", spoil):
        recording = recorded(stores_in_a_dict, X, rounds)
    steps = [recording.step_of(one) for one in recording.divergences]
    assert steps and all(step is not None and step.op == "STORE_SUBSCR" for step in steps)
