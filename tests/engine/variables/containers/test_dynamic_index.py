"""What a round of a loop chooses, `self.experts[i]`, is reached by its index: one graph serves all items that look alike.

Every program here breaks in each round, so that the index is another one in each resume function. Between calls something of one
item is changed; the answers are eager's in each call.
"""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch
from torch import nn

import dynexplore
from engine_checks import CountingBackend, assert_same_as_eager

X = torch.linspace(-1, 1, 24).reshape(8, 3)


class Expert(nn.Module):
    """Two layers, and a factor that is no parameter."""

    def __init__(self, width: int = 4) -> None:
        super().__init__()
        self.inner, self.drop, self.outer = nn.Linear(3, width), nn.Dropout(0.5), nn.Linear(width, 3)
        self.factor = 2

    def forward(self, x: Any) -> Any:
        return self.outer(self.drop(torch.tanh(self.inner(x)))) * self.factor


class Other(Expert):
    """Another class with the same weights."""

    def forward(self, x: Any) -> Any:
        return self.outer(self.inner(x)) - 1


class Router(nn.Module):
    """A mixture of experts as models of 2024 have it: each expert gets the rows that chose it."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count
        self.experts = nn.ModuleList(Expert() for _ in range(count))

    def forward(self, x: Any) -> Any:
        mask = torch.arange(self.count)[:, None] == torch.arange(len(x)) % self.count
        out = torch.zeros_like(x)
        for number in range(self.count):
            expert = self.experts[number]
            (rows,) = torch.where(mask[number])
            out = out.index_add(0, rows, expert(x[rows]))
        return out


@pytest.mark.parametrize("count", [3, 4])
def test_experts_that_look_alike_share_the_graph_round_the_loop(count: int) -> None:
    """Three graphs: into the loop, round it, out of it; another order of rows makes none."""
    torch.manual_seed(0)
    router = Router(count).eval().requires_grad_(False)
    assert_same_as_eager(router, X, then=[(X.flip(0),), (X * 2,)], graphs=3, gradients=False)


class Named(nn.Module):
    """Modules in a dict, chosen by name."""

    def __init__(self, names: list[str]) -> None:
        super().__init__()
        self.layers = nn.ModuleDict({name: nn.Linear(3, 3) for name in names}).requires_grad_(False)

    def forward(self, x: Any, names: Any) -> Any:
        for name in names:
            x = x + 1
            print(name)
            x = self.layers[name](x)
        return x


def test_modules_of_a_dict_share_the_graph_too() -> None:
    """Three graphs for any names behind the first, and eager's KeyError for one that is not there."""
    torch.manual_seed(0)
    names = ["a", "b", "c", "d"]
    named = Named(names)
    assert_same_as_eager(named, X, names, then=[(X, ["a", "d", "c", "b"]), (X, ["a", "b", "b", "c"])], graphs=3)

    def tried(x: Any, names: Any) -> Any:
        try:
            return named(x, names)
        except KeyError as error:
            return str(error)

    assert_same_as_eager(tried, X, names, then=[(X, ["a", "c", "e", "b"]), (X, names)])


def _other_width(router: Router) -> None:
    router.experts[1] = Expert(width=7).eval()


def _other_class(router: Router) -> None:
    router.experts[1] = Other().eval()


def _same_twice(router: Router) -> None:
    router.experts[2] = router.experts[1]


def _shared_weight(router: Router) -> None:
    router.experts[2].inner.weight = router.experts[1].inner.weight


def _hook(router: Router) -> None:
    router.experts[2].register_forward_hook(lambda module, args, output: output + 1)


def _inner_hook(router: Router) -> None:
    router.experts[1].inner.register_forward_pre_hook(lambda module, args: (args[0] * 2,))


def _factor(router: Router) -> None:
    router.experts[1].factor = 5


def _forward(router: Router) -> None:
    router.experts[1].forward = lambda x: x * 3


def _train(router: Router) -> None:
    router.experts[2].train()


def _frozen(router: Router) -> None:
    router.experts[1].requires_grad_(False)


def _no_bias(router: Router) -> None:
    router.experts[1].inner.bias = None


def _swapped(router: Router) -> None:
    router.experts[0], router.experts[1] = router.experts[1], router.experts[0]


def _fewer(router: Router) -> None:
    router.count = 2


def _double(router: Router) -> None:
    router.experts[1].double().register_forward_hook(lambda module, args, output: output.float())
    router.experts[1].register_forward_pre_hook(lambda module, args: (args[0].double(),))


CHANGES = [
    _other_width, _other_class, _same_twice, _shared_weight, _hook, _inner_hook, _factor, _forward, _train, _frozen, _no_bias,
    _swapped, _fewer, _double,
]  # fmt: skip


@pytest.mark.parametrize(
    "change, backend", [*((change, "eager") for change in CHANGES), (_other_width, "aot_eager"), (_same_twice, "aot_eager")]
)
def test_what_changes_on_one_expert_is_noticed(change: Callable[[Router], None], backend: str) -> None:
    """The guards on a chosen module are asked of the one that is chosen in this round."""
    torch.manual_seed(0)
    plain = Router(3).eval()
    changed = copy.deepcopy(plain)
    counting = CountingBackend(backend)
    compiled = dynexplore.optimize(counting)(changed)
    for step in (None, change, None):
        for model in (plain, changed):
            torch.manual_seed(1)  # what a change makes
            if step is not None:
                step(model)
        results = []
        for run, model in ((plain, plain), (compiled, changed)):
            torch.manual_seed(2)
            model.zero_grad()
            x = X.clone().requires_grad_()
            y = run(x)
            y.square().sum().backward()
            results.append([y, x.grad, *[parameter.grad for parameter in model.parameters()]])
        torch.testing.assert_close(results[1], results[0], rtol=0, atol=0)
    assert counting.graphs


def tensors_of_a_list(x: Any, weights: Any) -> Any:
    for number in range(4):
        x = x + 1
        print(number)
        x = x * weights[number]
    return x


def numbers_of_a_tuple(x: Any, numbers: Any) -> Any:
    for number in range(len(numbers)):
        x = x + 1
        print(number)
        x = x * numbers[number - 1]
    return x


def names_of_a_list(x: Any, names: Any) -> Any:
    i = 0
    while i < len(names):
        x = x * 2
        print(names[i])
        x = x + len(names[i])
        i += 1
    return x


def item_is_kept_while_the_list_changes(x: Any, items: Any) -> Any:
    items = list(items)
    kept = []
    for number in range(len(items)):
        x = x + 1
        print(number)
        one = items[number]
        items[number] = x
        kept.append(one)
        x = x + one
    return x, kept, items


def number_changes_behind_the_choice(x: Any, weights: Any) -> Any:
    number = 0
    chosen = []
    while number < 3:
        x = x + 1
        print(number)
        one = weights[number]
        number += 1
        x = x * one
        chosen.append(one)
    return x, chosen


def one_too_many(x: Any, weights: Any) -> Any:
    number = 0
    try:
        while True:
            x = x + 1
            print(number)
            x = x * weights[number]
            number += 1
    except IndexError as error:
        return x, str(error), number


def numbers_are_handed_on(x: Any, numbers: Any) -> Any:
    number = 0
    seen = []
    try:
        while True:
            x = x + 1
            print(number)
            seen.append(numbers[number])
            number += 1
            x = x * 2
    except IndexError:
        return x, seen


WEIGHTS = [torch.tensor(float(number + 2)) for number in range(4)]


@pytest.mark.parametrize(
    "program, items, others",
    [
        (tensors_of_a_list, WEIGHTS, [torch.ones(2, 1), *WEIGHTS[1:]]),
        (tensors_of_a_list, WEIGHTS, [WEIGHTS[1], WEIGHTS[1], WEIGHTS[0], 3]),
        (tensors_of_a_list, tuple(WEIGHTS), dict(enumerate(WEIGHTS))),
        (numbers_of_a_tuple, (1, 2, 3, 4), (5.0, 2, 3, 4, True)),
        (numbers_of_a_tuple, [1.5, 2.5, 3.5], [1.5, 2, WEIGHTS[0]]),
        (names_of_a_list, ["a", "bc", "def"], ("x", ["y", "z"], "")),
        (item_is_kept_while_the_list_changes, WEIGHTS, WEIGHTS[:2]),
        (number_changes_behind_the_choice, WEIGHTS, WEIGHTS[1:]),
        (one_too_many, WEIGHTS, WEIGHTS[:2]),
        (numbers_are_handed_on, [1, 2, 3, 4], [5, 6, 7]),
        (numbers_are_handed_on, ("a", "b", "c", "d"), ("b",)),
    ],
)  # fmt: skip
def test_items_of_lists_and_tuples_are_those_of_eager(program: Any, items: Any, others: Any) -> None:
    """Tensors, numbers and texts; other kinds of items in a later call, aliases among them, and an index beyond the end."""
    x = torch.ones(2, 3)
    assert_same_as_eager(program, x, items, then=[(x, others), (x * 2, items), (x, others)])


@pytest.mark.parametrize("count", [4, 12])
def test_tensors_of_a_list_need_three_graphs(count: int) -> None:
    """However long the list is."""

    def scaled(x: Any, weights: Any) -> Any:
        for number in range(len(weights)):
            x = x + 1
            print(number)
            x = x * weights[number]
        return x

    weights = [torch.tensor(float(number)) for number in range(count)]
    assert_same_as_eager(scaled, torch.ones(3), weights, graphs=3)


class Layer(nn.Module):
    """A layer that knows its place, as those of language models do to find theirs in a cache."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.number = number
        self.linear = nn.Linear(3, 3)

    def forward(self, x: Any, states: Any) -> Any:
        x = self.linear(x) + states[self.number]
        print("in between")
        return x * states[-1 - self.number]


class Layers(nn.Module):
    """Such layers in a row."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(Layer(number) for number in range(count))

    def forward(self, x: Any, states: Any) -> Any:
        for layer in self.layers:
            x = layer(x, states)
        return x


def test_layers_that_find_their_state_by_a_number_of_their_own_share_a_graph() -> None:
    """The number is asked for as an index alone, and so is no reason to compile a layer for itself."""
    torch.manual_seed(0)
    states = [torch.ones(8, 3) * number for number in range(4)]
    report = assert_same_as_eager(Layers(4), X, states, gradients=False)
    assert len(report.graphs) == len(assert_same_as_eager(Layers(3), X, states, gradients=False).graphs)


class Counter(nn.Module):
    """A module that counts its calls, and tells the count before and after."""

    def __init__(self, start: int) -> None:
        super().__init__()
        self.calls = start

    def forward(self, x: Any) -> Any:
        before = self.calls
        self.calls += 1
        print("in between")
        self.calls = self.calls * 2
        return x * self.calls + before, (before, self.calls)


class Counters(nn.Module):
    """Such modules in a row."""

    def __init__(self) -> None:
        super().__init__()
        self.counters = nn.ModuleList(Counter(start) for start in (3, 5, 7))

    def forward(self, x: Any) -> Any:
        told = []
        for counter in self.counters:
            x, numbers = counter(x)
            told.append(numbers)
        return x, told


def test_a_number_of_one_of_several_that_changes_is_told_as_it_was() -> None:
    """What was read before the change is what was there before it."""
    assert_same_as_eager(Counters(), X, calls=3)


def test_an_index_that_varies_is_of_the_wrong_kind() -> None:
    """The program's TypeError: the number of numpy that was passed is no index."""

    def program(x, index):
        try:
            return x + [1, 2, 3][index]
        except TypeError as error:
            return x * 2, str(error)

    x = torch.ones(2)
    for kind in (np.float16, np.float32, np.float64):
        assert_same_as_eager(program, x, kind(1), then=[(x, kind(2)), (x, np.int64(1))])

    def summed(x, a):
        try:
            return x + [1, 2, 3][a.sum()]
        except TypeError as error:
            return x * 2, str(error)

    assert_same_as_eager(summed, x, np.ones(2, dtype=np.float16))
