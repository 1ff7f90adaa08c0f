"""A guard never raises into the call: conditions are asked in the program's order, and one that raises is a miss."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from recorded import recorded

import dynexplore
from dynexplore.engine import events as ev
from engine_checks import assert_same_as_eager

X = torch.ones(3)


def divides_what_is_not_zero(x, n):
    if n != 0 and 12 % n == 0:
        return x * n
    return x + 1


def divides_after_a_bound(x, n):
    if n > 1 and 12 // (n - 1) > 2:
        return x * n
    return x


def takes_the_root_of_what_is_not_negative(x, n):
    if n >= 0 and math.sqrt(n) > 2:
        return x * n
    return x - n


def shifts_by_what_is_not_negative(x, n):
    if n >= 0 and (1 << n) > 64:
        return x * n
    return x - n


def shifts_by_a_number(x, n):
    return x * ((3 << n) + (-1000 >> n))


def divides_a_size(x, n):
    if n == 0 or x.shape[0] % n == 0:
        return x * 2
    return x + n


def raises_in_one_way(x, n):
    try:
        part = 12 // n
    except ZeroDivisionError:
        return x - 1
    return x * part


PROTECTED: list[tuple[Callable[..., Any], list[Any], int]] = [
    (divides_what_is_not_zero, [5, 6, 7, 0, 4, -3, 0], 3),
    (divides_after_a_bound, [5, 6, 7, 1, 0, 2], 3),
    (takes_the_root_of_what_is_not_negative, [5, 6, 7, -1, 0, 4, -2**63], 3),
    (shifts_by_what_is_not_negative, [5, 6, 7, 8, -1, 0], 3),
    (shifts_by_a_number, [5, 6, 7, 40, 0, 1, -1], 2),
    (divides_a_size, [5, 6, 7, 0, 3, 1], 3),
    (raises_in_one_way, [5, 6, 7, 0, -4], 1),
]


@pytest.mark.parametrize(("fn", "numbers", "recompiles"), PROTECTED, ids=lambda value: getattr(value, "__name__", ""))
def test_a_condition_behind_another_is_asked_where_that_holds(fn: Any, numbers: list[Any], recompiles: int) -> None:
    """A number for which the program never asks the second condition is a miss of the first, and no error."""
    first, *others = numbers
    assert_same_as_eager(fn, X, first, then=[(X, n) for n in others], recompiles=recompiles)


@pytest.mark.parametrize("value", [True, 1.5, float("nan"), float("inf"), -float("inf"), 10**30, -(10**30), "text", None])
@pytest.mark.parametrize("fn", [divides_what_is_not_zero, shifts_by_what_is_not_negative], ids=lambda fn: fn.__name__)
def test_a_value_of_another_kind_is_a_miss(fn: Any, value: Any) -> None:
    """A guard on a number does not fail on a value that is none, nor on one that is no number of C."""
    if fn is shifts_by_what_is_not_negative and value == 10**30:
        pytest.skip("eager shifts until there is no memory")
    assert_same_as_eager(fn, X, 5, then=[(X, n) for n in (6, 7, value, 8)])


def asks_an_unprotected_one(x, n):
    try:
        small = 12 % n < 3
    except ZeroDivisionError:
        small = False
    return x * 2 if small else x + n


def test_a_guard_that_raises_says_what_it_raised() -> None:
    """The reason of a miss names the condition and the error that it met."""
    recording = recorded(asks_an_unprotected_one, *((X, n) for n in (5, 7, 8, 0)))
    assert any("ZeroDivisionError" in event.actual for event in recording.of(ev.GuardFailed))


def test_what_was_asked_first_is_the_reason() -> None:
    """`n > 1` is why a call with n = 1 misses, and not the division behind it."""
    recording = recorded(divides_after_a_bound, *((X, n) for n in (5, 6, 1)))
    (failure,) = [event for event in recording.of(ev.GuardFailed) if event.kind == "SHAPE_ENV"]
    assert failure.expected == "2 <= n"


# -- what ShapeEnv and torch.fx get wrong -----------------------------------------------------------------------------


def alternates(x, n):
    return x * (-1) ** n, (-2) ** n, (-1.5) ** n


def alternates_with_the_size(x):
    return x * (-1) ** x.shape[0], (-3) ** len(x)


def raises_constants(x):
    return (-1) ** x, (-2.0) ** x, pow(-2, x)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_powers_of_a_negative_number_have_the_right_sign(backend: str) -> None:
    """`(-1) ** n` alternates: torch.fx would write it down as `-1 ** n`, which is -(1 ** n)."""
    then = [(X, n) for n in (3, 4, 5, 8, 0, 1)]
    assert_same_as_eager(alternates, X, 2, then=then, recompiles=1, backend=backend)
    assert_same_as_eager(alternates, X, 2, then=[(X, n) for n in (3, 4, -1, -2, True)], backend=backend)
    assert_same_as_eager(raises_constants, torch.tensor([1.0, 2.0, 3.0]), graphs=1, breaks=0, backend=backend)


def test_the_sign_alternates_with_a_size() -> None:
    """The same of a size that varies."""
    sizes = [(torch.ones(size),) for size in (4, 5, 6, 7)]
    assert_same_as_eager(alternates_with_the_size, X, then=sizes, recompiles=1)


def complex_root(x, n):
    root = n**0.5
    return x * abs(root), root


def test_roots_of_negative_numbers_are_complex() -> None:
    """A power that is a complex number is computed by Python."""
    assert_same_as_eager(complex_root, X, 4, then=[(X, n) for n in (9, 16, -4, -9, 0)])


def compares_a_remainder(x, n, m):
    if m != 0 and math.sqrt(n) % m == 0:
        return x + 1
    return x


def test_a_remainder_by_infinity_is_what_python_says() -> None:
    """`root % -inf` is -inf: ShapeEnv is not asked about numbers that are not finite."""
    assert_same_as_eager(compares_a_remainder, X, 10, -2, then=[(X, 7, -math.inf), (X, 9, math.inf), (X, 4, math.nan)])


def computes_with_bools(x, n):
    return x * (True + n), (False / n), True // n, True - n


def test_a_bool_beside_a_symbol_is_a_number() -> None:
    """sympy's true is none."""
    assert_same_as_eager(computes_with_bools, X, 4, then=[(X, 5), (X, 6), (X, -7)])


@pytest.mark.parametrize("shift", [lambda n: 2.0 >> n, lambda n: n << 2.0], ids=["a float", "by a float"])
def test_a_float_is_not_shifted(shift: Any) -> None:
    """Neither is one by a number that varies, or such a number by one: no product with a power of 2 takes its place."""

    def program(x, n):
        y = x * 2
        return y, shift(n)

    assert_same_as_eager(program, torch.ones(2), 4, then=[(torch.ones(2), 5), (torch.ones(2), 6)], breaks=None)


def test_a_number_of_which_one_value_is_left_is_computed_by_python() -> None:
    """Between two such ShapeEnv computes with bounds, which takes a large power for infinite: an engine error."""

    def asks_for_one_number(x, n):
        if n == 2**62:
            return x + n**3 % 5, n**3, n * n, n << 70
        return x - n % 7, n**2, n * 3, n << 2

    x = torch.ones(3)
    assert_same_as_eager(asks_for_one_number, x, 3, then=[(x, 4), (x, 2**62), (x, 2**62), (x, 5)], graphs=range(1, 5))


def shifts_by_little(x: torch.Tensor, n: int) -> torch.Tensor:
    k = 1 << n if n >= 0 and n < 9 else -1
    return x * 2 if 12 % k == 0 else x - n


def test_bounds_protect_what_takes_for_ever() -> None:
    """`2 ** n` is asked behind the bounds of n, both of them: of 2**62 it would never end."""
    assert_same_as_eager(shifts_by_little, X, 9, then=[(X, 7), (X, 2**62), (X, 2), (X, -1)], graphs=range(2, 6))


SEEN: list[str] = []


class Rows(dict[str, Any]):
    pass


class Watched(Rows):
    def __iter__(self) -> Any:
        SEEN.append("iter")
        return super().__iter__()


def asks_for_what_is_not_there(x: torch.Tensor, rows: Any) -> torch.Tensor:
    y = x * len(rows)
    dynexplore.graph_break()
    try:
        return y + [rows.missing(k) for k in range(2)][-1] * bool(rows)
    except AttributeError as error:
        SEEN.append(str(error))
    return y


def test_a_guard_that_is_asked_by_itself_runs_no_code_of_another_class() -> None:
    """A frame was left to Python, and now its dict is of a class with an `__iter__`: nobody but the program may call it."""
    calls = [(torch.ones(2), kind(v=2.0)) for kind in (Rows, Watched, Rows, Watched)]
    assert_same_as_eager(asks_for_what_is_not_there, *calls[0], then=calls[1:], setup=SEEN.clear, observe=lambda: list(SEEN))
