"""Loops with a break in each round: all tensor work is captured, in three graphs, whatever the number of rounds.

One graph leads into the loop, one goes round it, one leaves it. What changes from round to round must not be guarded: counters,
totals, lists of results, lines of text.
"""

from __future__ import annotations

import pytest
import torch

import dynexplore
from engine_checks import CountingBackend, assert_same_as_eager

X = torch.ones(3)


def for_loop(x, rounds):
    for i in range(rounds):
        x = x * 2
        print(i)
        x = x / 2 + 1
    return x


def counter_goes_into_the_graph(x, rounds):
    for i, y in enumerate([x] * rounds):
        x = x + y * i
        print("woo")
        x = x - i
    return x


def while_loop(x, rounds):
    i = 0
    while i < rounds:
        x = x * 2
        print(f"round {i}")
        x = x / 2 + i
        i += 1
    return x


def left_by_a_break(x, rounds):
    i = 0
    while True:
        x = x * 2
        if x.sum() > 1e9:
            break
        x = x / 2 + 1
        i += 1
        if i >= rounds:
            break
    return x


def list_grows(x, rounds):
    found = []
    for i in range(rounds):
        y = x * 2
        print("woo")
        found.append(y + 1)
    return found


def dict_grows(x, rounds):
    found = {}
    for i in range(rounds):
        y = x * 2
        print("woo")
        found[i] = y + 1
    return found


def total_grows(x, rounds):
    total, losses = 0.0, []
    for _ in range(rounds):
        loss = (x * 2).sum()
        total += loss.item()
        losses.append(total)
        x = x * 1.5
    return total, losses, x + 1


def text_grows(x, rounds):
    text = ""
    for i in range(rounds):
        x = x * 2
        text += f"{i}: {x.sum().item():.2f}; "
        x = x / 2
    return x, text


def two_lists_walked(x, rounds):
    for i, y in zip(range(rounds), [x] * rounds, strict=False):
        x = x + y
        print(i)
        x = x - 1
    return x


THREE = [
    for_loop, counter_goes_into_the_graph, while_loop, left_by_a_break, list_grows, dict_grows, total_grows, text_grows,
    two_lists_walked,
]


@pytest.mark.parametrize("rounds", [3, 10, 40])
@pytest.mark.parametrize("program", THREE)
def test_three_graphs(program, rounds):
    """As many graphs and breaks for forty rounds as for three."""
    assert_same_as_eager(program, X, rounds, graphs=3, breaks=2)


def nested_loops(x, rounds):
    for _ in range(rounds):
        x = x + 1
        for j in range(3):
            x = x * 1.01
            print(j)
            x = x - 1
        x = x + 2
    return x


def try_in_a_loop(x, rounds):
    for i in range(rounds):
        try:
            x = x + 1
            print("woo")
            x = x * 2
            if i % 2 == 0:
                raise ValueError
        except ValueError:
            x = x - 1
        finally:
            x = x / 2
    return x


def stops_early(x, rounds):
    best, since = None, 0
    for _ in range(rounds):
        loss = (x * 2).sum().item()
        if best is None or loss < best:
            best, since = loss, 0
        else:
            since += 1
        if since > 3:
            break
        x = x * 0.9
    return x, best


def branches_on_the_data(x, rounds):
    for _ in range(rounds):
        x = x * 2
        if x.sum() > 5:
            x = x / 4
            continue
        x = x + 1
    else:
        x = x - 1
    return x


@pytest.mark.parametrize("program", [nested_loops, try_in_a_loop, stops_early, branches_on_the_data])
def test_graphs_do_not_grow_with_the_rounds(program):
    """A loop with several ways through it needs as many graphs as it has ways."""
    counts = {len(assert_same_as_eager(program, X, rounds).graphs) for rounds in (5, 20, 40)}
    assert counts == {4}


def test_numbers_that_decide_are_guarded():
    """A comparison of a changing number is guarded, the number is not: the other outcome is another graph, no more."""

    def scaled(x, threshold):
        total = x.sum().item()
        return x * 2 if total > threshold else x * 3

    assert_same_as_eager(scaled, X, 5.0, then=[(X * 2, 5.0), (X * 3, 5.0), (X * 0.5, 5.0)], graphs=3, recompiles=1)


def test_a_float_that_changes_becomes_an_input():
    """The second value of a float argument makes it an input of the graph, for all others; unless it is to be specialized."""

    def scaled(x, factor):
        return x * factor + factor * 2

    others = [(X, 2.5), (X, 3.5), (X, -0.0)]
    assert_same_as_eager(scaled, X, 1.5, then=others, graphs=2, recompiles=1)
    with dynexplore.config.patch(specialize_float=True):
        assert_same_as_eager(scaled, X, 1.5, then=others, graphs=4, recompiles=3)


def test_a_changing_divisor_may_become_zero():
    """What cannot raise is computed later; a division is only where the divisor is not zero."""

    def divided(x, y):
        number = y.sum().item()
        return x * (1.0 / number)

    assert_same_as_eager(divided, X, X, then=[(X, X * 2), (X, X * 0)])


def test_types_of_carried_numbers_are_told_apart():
    """An int where a float was: the same sum, and another type where it is asked for."""

    def asked(x, y):
        number = y.item()
        x = x * 2
        return x, number + 1, isinstance(number + 1, int), str(number)

    ints = torch.tensor(2)
    assert_same_as_eager(asked, X, torch.tensor(2.0), then=[(X, ints), (X, torch.tensor(4.0)), (X, ints + 1)])


def number_shadows_a_cell(x):
    i = 10
    read = lambda: i
    parts = [print("woo") or x * i for i in range(3)]
    return parts, read(), i


def shadow_after_shadow(x):
    i = 10

    def read():
        return i + 1

    for _ in range(2):
        parts = [(print("woo"), x * i + read()) for i in range(3)]
    i = 20
    return parts[0][1], read(), i


def key_shadows_a_cell(x):
    i = x
    read = lambda: i
    return {i: x.sum().item() * i for i in range(2)}, read() * 2


def cell_of_its_own(x):
    made = [(print("woo"), (lambda: (i, x)))[1] for i in range(3)]
    return [read() for read in made], x + 1


def argument_is_shadowed(x, i=3):
    read = lambda: (x, i)
    parts = [[print("woo") or i * x for x in range(2)] for i in (1.5, 2.5)]
    return parts, read(), read()[0] + 1


@pytest.mark.parametrize(
    "program", [number_shadows_a_cell, shadow_after_shadow, key_shadows_a_cell, cell_of_its_own, argument_is_shadowed]
)
def test_break_in_a_comprehension_whose_variable_is_a_closure_variable_outside(program):
    """From 3.12 on a comprehension shares the frame: its variable stands in the cell's slot for a while."""
    assert assert_same_as_eager(program, X, calls=2).breaks, "the frame was given up"


class Expert(torch.nn.Module):
    """A module with weights of its own."""

    def __init__(self) -> None:
        super().__init__()
        self.inner, self.outer = torch.nn.Linear(3, 4), torch.nn.Linear(4, 3)

    def forward(self, x):
        return self.outer(torch.tanh(self.inner(x)))


class Mixture(torch.nn.Module):
    """Some experts, of which each round chooses one by a tensor, with which Python cannot index inside a graph."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.experts = torch.nn.ModuleList(Expert() for _ in range(count)).requires_grad_(False)

    def forward(self, x, chosen):
        for number in chosen:
            x = x + 1
            expert = self.experts[number]
            x = x * 2
            (rows,) = torch.where(x.sum(1) > 0)
            x = x.index_add(0, rows, expert(x[rows]))
        return x


@pytest.mark.parametrize("count", [3, 6, 12])
def test_a_module_chosen_in_each_round_is_no_graph_of_its_own(count):
    """What a loop chooses is not guarded by identity, nor is what a variable held handed on to where it is stored at once: four
    graphs, into the loop, two round it and one out of it, however many modules there are and in whatever order they come."""
    torch.manual_seed(0)
    x = torch.ones(4, 3)
    orders = [torch.arange(count), torch.arange(count).flip(0)]
    assert_same_as_eager(Mixture(count), x, orders[0], then=[(x, orders[1]), (x, orders[0])], graphs=4)


def test_what_a_variable_held_ends_where_it_is_stored():
    """An object that only a variable of the loop held is there until the next one is stored, as without the engine."""

    class DeferredEvent:
        def __init__(self, number):
            self.number = number

        def __del__(self):
            ended.append(self.number)

    ended = []

    def make(number):
        seen.append((number, tuple(ended)))
        return DeferredEvent(number)

    def fn(x):
        for number in range(4):
            x = x + 1
            one = dynexplore.disable(make)(number)
            x = x * one.number
        return x

    seen = []
    assert_same_as_eager(fn, X, calls=2, setup=lambda: (seen.clear(), ended.clear()), observe=lambda: (list(seen), list(ended)))


def rows_that_break(x):
    total = x.sum(0)
    print("into the loop")
    for row in x:
        print(row.shape)
        total = total + row * 2
    return total


def rows_numbered_and_kept(x):
    rows = []
    print("into the loop")
    for number, row in enumerate(x):
        rows.append(row)
        print(number)
        x = x + number
    return rows, x


def rows_written_to(x):
    y = x * 1
    print("into the loop")
    for row in y:
        print(len(row))
        with torch.no_grad():
            row.mul_(2)
    return y


WALKS = [(rows_that_break, "eager"), (rows_that_break, "aot_eager"), (rows_numbered_and_kept, "eager"), (rows_written_to, "eager")]


@pytest.mark.parametrize("wants", [False, True])
@pytest.mark.parametrize(("program", "backend"), WALKS)
def test_rows_that_a_loop_walks_are_taken_apart_by_python(program, wants, backend):
    """Another number of rows makes no other graph of `unbind`; autograd knows the rows as in eager."""
    xs = [torch.linspace(0, 1, 3 * rows).reshape(rows, 3).requires_grad_(wants) for rows in (3, 5, 4, 6, 2)]
    counting = CountingBackend(backend)
    assert_same_as_eager(program, xs[0], then=[(x,) for x in xs[1:]], backend=counting)
    assert not any("unbind" in names and len(set(names) - {"getitem", "unbind"}) == 0 for names in counting.targets())


def skips_by_number(x, skipped, total):
    for row in x[:]:
        if row[0] == skipped:
            continue
        print(end="")
        total = total + row.sum() * 2
    return total


def test_rows_of_which_an_element_is_compared_are_taken_apart_by_python():
    """`if row[0] == 3` breaks in the first round: no graph of `unbind` and that comparison, one per number of rows."""
    xs = [torch.arange(2.0 * rows).reshape(rows, 2) for rows in (3, 5, 4)]
    counting = CountingBackend()
    compiled = dynexplore.optimize(counting)(skips_by_number)
    for x in xs:
        torch.testing.assert_close(compiled(x, 2, torch.ones(())), skips_by_number(x, 2, torch.ones(())))
    captured = counting.targets()
    assert captured and not any("unbind" in names for names in captured)


def test_rows_without_a_break_are_a_graph():
    """A function that takes a tensor apart and returns is captured as it is written."""
    assert_same_as_eager(lambda x: x.unbind(0), torch.ones(3, 2), graphs=1, breaks=0)


class Swallows:
    """A context manager that takes no KeyError further."""

    def __enter__(self):
        return self

    def __exit__(self, kind, *_):
        return kind is KeyError


def stored_inside_of_with(x, keys):
    found = []
    for key in keys:
        y = x * 2
        print("round")
        y = y + 1
        with Swallows():
            value = {"a": x, "b": x * 2}[key] + y
            print(key)
        found.append(value.sum() * 2)
    return found


def stored_late(x, when):
    for i in range(6):
        x = x + 1
        if i == when:
            late = x * 3
        print(i)
        x = x * 2
        if i > when:
            x = late + x
    return x


def read_before_it_is_bound(x, when):
    for i in range(5):
        x = x + 1
        try:
            print(late.sum() > 0)  # noqa: F821
        except UnboundLocalError as error:
            print(error)
            x = x * 10
        if i == when:
            late = x * 3
        if i == when + 2:
            del late
            print("forgotten")
    try:
        return x, late
    except UnboundLocalError as error:
        return x, str(error)


NOT_ALWAYS_BOUND = [
    (stored_inside_of_with, ["ab", "aab", "azb", "zab", ""]), (stored_late, [1, -1, 0, 9]), (read_before_it_is_bound, [1, 0, 3, 9]),
]  # fmt: skip


@pytest.mark.parametrize(("program", "calls"), NOT_ALWAYS_BOUND)
def test_a_variable_that_not_every_round_binds(program, calls):
    """Reading it raises where it is not bound, whichever call was captured first."""
    for first in calls:
        assert_same_as_eager(program, X, first, then=[(X, call) for call in calls])


def test_the_first_round_is_a_round_like_the_others():
    """A `with` may swallow what is raised in it, so it may need what the round before stored; the first has none: one graph."""
    counting = CountingBackend()
    assert_same_as_eager(stored_inside_of_with, X, "aaaa", backend=counting)
    assert [names.count("sum") for names in counting.targets()].count(1) == 2, "one goes round the loop, one leaves it"
    assert len(counting.targets()) == 4, "and one leads into it, one into the block"
