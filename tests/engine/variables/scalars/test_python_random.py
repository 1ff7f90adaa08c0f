"""Python's random numbers in compiled functions: the same numbers as in eager on every call, and the same state left behind."""

from __future__ import annotations

import random
import unittest.mock

import pytest
import torch

from engine_checks import assert_same_as_eager

X = torch.ones(3)


def scaled(x):
    return x * random.random() + random.uniform(-1, 1)


def computed(x):
    noise = 2 * random.random() - 1
    return x + noise, noise, -abs(noise)


def whole_numbers(x):
    return x * random.randint(1, 6) + random.randrange(10), random.getrandbits(8)


def other_distributions(x):
    return x * random.gauss(0, 1) + random.normalvariate(0.0, 2.0) + random.expovariate(1.5)


def drawn_and_not_used(x):
    random.random()
    return x + 1


@pytest.mark.parametrize("program", [scaled, computed, whole_numbers, other_distributions, drawn_and_not_used])
def test_numbers_are_inputs_of_the_graph(program):
    """One graph and no break serve all calls."""
    assert_same_as_eager(program, X, calls=3, setup=lambda: random.seed(3), graphs=1, breaks=0, recompiles=0)


def decides(x):
    if random.random() < 0.5:
        x = x * 2
    return x + 1


def prints_between(x):
    first = random.random()
    print("woo")
    second = random.random()
    return x * first + second, first < second


def shuffles_between(x):
    items = [1, 2, 3, 4]
    first = random.random()
    random.shuffle(items)
    return x * first * random.random(), items, random.choice(items)


def fails_after_drawing(x, index=torch.tensor([9])):
    y = x * random.random()
    try:
        return y[index]
    except IndexError:
        return y + random.random()


def own_generator(x):
    generator = random.Random(4)
    return x * generator.random() + generator.randint(1, 3)


def in_a_loop(x):
    total = 0.0
    for i in range(5):
        step = random.random()
        total += step
        print(i)
        x = x + step
    return x, total


def size_of_a_tensor(x):
    return x.sum() + torch.ones(random.randint(2, 5)).sum()


BREAKING = [decides, prints_between, shuffles_between, fails_after_drawing, own_generator, in_a_loop, size_of_a_tensor]


@pytest.mark.parametrize("program", BREAKING)
def test_numbers_around_breaks(program):
    """Where a number decides something, or a break lies between, the order of drawing stays the program's."""
    assert_same_as_eager(program, X, calls=6, setup=lambda: random.seed(5))


def test_no_guard_is_on_a_number():
    """A branch on a number breaks the graph, with its own kind, and is followed either way."""
    assert_same_as_eager(decides, X, calls=8, setup=lambda: random.seed(5), breaks=["DX219"])


@pytest.mark.parametrize("backend", ["aot_eager"])
def test_backends_that_take_no_floats(backend):
    """They get the number as Python computes it, in a graph of their own after a break."""
    assert_same_as_eager(scaled, X, calls=3, setup=lambda: random.seed(3), backend=backend)


def added_to_a_number_that_varies(x, n):
    return x * n, n + random.randint(0, 3)


def divides_a_number_that_varies(x, n):
    return x * n, n // random.randint(0, 1)


@pytest.mark.parametrize("program", [added_to_a_number_that_varies, divides_a_number_that_varies])
def test_a_drawn_number_meets_a_symbol(program):
    """The drawn number is an input of the graph as the other one is: no guard is on it."""
    assert_same_as_eager(program, X, 2, then=[(X, 3), (X, 4), (X, 5)])


def with_a_patched_generator(x):
    draws = iter([1e-8, 0.5, 0.3])
    with unittest.mock.patch("random.Random.random", lambda self: next(draws)):
        number = random.gammavariate(1.1, 2.3)
    return x * number, next(draws, "all are drawn")


def with_a_mocked_generator(x):
    y = x + 1
    with unittest.mock.patch("random.Random.random") as mocked:
        mocked.side_effect = [0.25, 0.5]
        number = random.uniform(0, 2)
    return y * number, mocked.call_count


@pytest.mark.parametrize("fn", [with_a_patched_generator, with_a_mocked_generator])
def test_a_method_that_the_program_replaced_is_called_once_a_draw(fn) -> None:
    """A method of the generator that is a mock: nothing is drawn at trace time."""
    assert_same_as_eager(fn, X, calls=2)
