"""views/guard_prices.py: prices of guards in a few lines, and as plain data."""

from __future__ import annotations

import pytest

from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from dynexplore.views.guard_prices import price_lines, prices_of

pytestmark = pytest.mark.plain("events made by hand are shown")


def recording(*seconds: float) -> Recording:
    """A recording with an entry for each price."""
    recording = Recording(title="made by hand")
    for number, price in enumerate(seconds, 1):
        values = ev.GuardPrice("self", 40, 0.8 * price), ev.GuardPrice("x", 2, 0.01 * price)
        filters = ev.FilterPrice("skip_a", 10, 42, 0.25 * price), ev.FilterPrice("skip_b", 41, 42, 0.99 * price)
        recording.record(ev.GuardsTimed(frame=number, entry=number, seconds=price, values=values, filters=filters))
    return recording


def test_the_costliest_come_first_and_the_rest_is_counted() -> None:
    """Entries are ranked by their price; small values and filters that save little are left out."""
    assert price_lines(recording(1e-6, 4e-6), most=1) == [
        "Measured guard cost: the most expensive checks that run on every call to the function:",
        "   4.00 us  entry 2",
        "            most of it: `self` 3.20 us",
        "            skip_a saves 3.00 us (keeps 10 of 42 guards)",
        "... and 1 more entry (--full)",
    ]
    assert price_lines(recording()) == []


def test_a_filter_that_saves_nothing_is_said_to() -> None:
    """Where no filter saves a tenth, one line says so."""
    recording = Recording(title="made by hand")
    filters = (ev.FilterPrice("skip_b", 41, 42, 1e-6),)
    recording.record(ev.GuardsTimed(frame=1, entry=1, seconds=1e-6, filters=filters))
    assert price_lines(recording)[-1].strip() == "no guard filter saves 10% of it"


def test_the_costliest_single_guards_are_named() -> None:
    """The others are summed up, and what remains of the check is the price of reading values and of guards that keep state."""
    recording = Recording(title="made by hand")
    checks = (
        ev.CheckPrice("TENSOR_MATCH", "x", "check_tensor(x, Tensor)", 4e-6),
        ev.CheckPrice("LAMBDA_GUARD", "", "2 <= x.size()[0]", 3e-6),
        ev.CheckPrice("EQUALS_MATCH", "n", "n == 2", 1e-8),
    )
    recording.record(ev.GuardsTimed(frame=1, entry=1, seconds=1e-5, checks=checks, unchecked=2))
    assert [line.strip() for line in price_lines(recording)[2:]] == [
        "single guards: TENSOR_MATCH of `x` 4.00 us, LAMBDA_GUARD `2 <= x.size()[0]` 3.00 us, 1 other guard 0.010 us in total",
        "reading the values and 2 guards that cannot be timed alone: 2.99 us",
    ]
    assert prices_of(recording)[0]["checks"][1] == {"kind": "LAMBDA_GUARD", "source": "", "check": "2 <= x.size()[0]", "us": 3.0}


def test_single_guards_that_are_cheap_are_summed_up() -> None:
    """None is named where none takes a tenth; a guard on several relations is not shown as the first of them."""
    cheap = tuple(ev.CheckPrice("TYPE_MATCH", f"x{at}", "", 2e-8) for at in range(3))
    for checks, line in (
        (cheap, "no single guard takes 10% of the check; all 3 together take 0.060 us"),
        (cheap[:1], "no single guard takes 10% of the check; the only one takes 0.020 us"),
        (
            (ev.CheckPrice("LAMBDA_GUARD", "", "2 <= x.size()[0]", 9e-7, 7),),
            "single guards: 7 relations between sizes and strides, such as `2 <= x.size()[0]`, 0.90 us",
        ),
    ):
        recording = Recording(title="made by hand")
        recording.record(ev.GuardsTimed(frame=1, entry=1, seconds=1e-6, checks=checks))
        assert price_lines(recording)[2].strip() == line


def test_plain_data_is_in_microseconds() -> None:
    """Everything measured is there, the costliest entry first."""
    first, second = prices_of(recording(1e-6, 4e-6))
    assert (first["entry"], first["us"], second["us"]) == (2, 4.0, 1.0)
    assert first["values"][0] == {"source": "self", "guards": 40, "us": 3.2}
    assert first["filters"][0] == {"name": "skip_a", "remaining": 10, "guards": 42, "saves_us": 3.0}
