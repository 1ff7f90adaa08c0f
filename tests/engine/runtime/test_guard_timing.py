"""engine/runtime/guard_timing.py: one check of a new entry's guards is measured, with the part of each source."""

from __future__ import annotations

from typing import Any

import torch

import dynexplore
from dynexplore.engine import events as ev
from dynexplore.engine.runtime.guard_timing import MANY_TENSORS, OF_MODULES, OF_PROCESS, checks_without
from dynexplore.views import program_report
from dynexplore.views.explorer_data import explorer_data

SCALE = 3.0
X, Y = torch.ones(2), torch.ones(2)


class Holder:
    """Has a number and a list, which are guarded."""

    def __init__(self) -> None:
        self.factor = 2
        self.parts = [1, 2, 3]


def scaled(x: torch.Tensor, y: torch.Tensor, holder: Holder, flag: bool) -> torch.Tensor:
    """Reads arguments, attributes, a list and a global."""
    total = x * holder.factor + sum(holder.parts)
    return total * SCALE + y if flag else total


def recorded(fn: Any, *args: Any, wanted: bool = True) -> dynexplore.Recording:
    """The recording of one call, with prices if they are wanted."""
    with dynexplore.config.patch(guard_prices=wanted):
        recording: dynexplore.Recording = dynexplore.explain(fn, *args).recording
    return recording


def test_each_entry_and_each_source_has_a_price() -> None:
    """The entry is timed, and the sources are those of its guards; no source costs more than all of them together."""
    [timed] = recorded(scaled, X, Y, Holder(), True).of(ev.GuardsTimed)
    prices = {price.source: price for price in timed.values}
    assert timed.seconds > 0 and not timed.filters
    assert {"x, y", "flag", OF_PROCESS, "globals"} <= prices.keys(), prices.keys()
    assert any("holder" in source for source in prices) and prices["x, y"].guards == 2
    assert all(price.guards > 0 and 0 <= price.seconds < 2 * timed.seconds for price in timed.values)


def test_a_check_without_a_source_passes_what_that_source_refused() -> None:
    """Leaving out a source's guards leaves out its condition, and nothing else."""
    session = dynexplore.explain(scaled, X, Y, Holder(), True).session
    [entry] = [entry for cache in session._store.native.caches() for entry in cache.entries]
    check = entry.guards
    assert check.check(X, Y, Holder(), False, None, globals()) is False
    without = {name: smaller for name, _, smaller in checks_without(check)}
    other = Holder()
    assert without["flag"](X, Y, other, False, None, globals()) is True
    assert without["x, y"](X, Y, other, False, None, globals()) is False
    assert without["x, y"](X, torch.ones(3), other, True, None, globals()) is True


def test_a_module_has_the_price_of_its_walk() -> None:
    """Guards on modules, which are checked in one walk, have one price; many tensors have one, too."""
    model = torch.nn.Sequential(*(torch.nn.Linear(4, 4) for _ in range(8)))
    recording = recorded(model, torch.ones(2, 4))
    [timed] = recording.of(ev.GuardsTimed)
    sources = [price.source for price in timed.values]
    assert len(sources) == len(set(sources)) and {OF_MODULES, MANY_TENSORS} <= set(sources), sources
    assert next(price.guards for price in timed.values if price.source == MANY_TENSORS) == 17
    assert len(recording.of(ev.CacheEntryAdded)) == 1


def test_nothing_is_measured_unless_wanted() -> None:
    """Without the option there are no prices, and everything else is the same."""
    without, priced = recorded(scaled, X, Y, Holder(), True, wanted=False), recorded(scaled, X, Y, Holder(), True)
    assert not without.of(ev.GuardsTimed) and "Measured guard cost" not in program_report.report(without)
    for question in ("graphs", "guards", "breaks"):
        assert len(getattr(without, question)) == len(getattr(priced, question)) > 0 or question == "breaks"


def test_prices_are_shown_in_report_and_page_and_saved() -> None:
    """The report lists the costliest entries, the page has the same for the entry at hand, and a saved file has them."""
    recording = recorded(scaled, X, Y, Holder(), True)
    report = program_report.report(recording)
    assert "Measured guard cost: the most expensive checks" in report and "most of it: " in report
    [entry] = explorer_data(recording)["anatomy"]["entries"]
    assert entry["price"].endswith(" us") and entry["parts"]
    assert dynexplore.Recording.from_json(recording.to_json()).of(ev.GuardsTimed) == recording.of(ev.GuardsTimed)


def test_a_resume_function_has_a_price() -> None:
    """Each entry of a broken function is measured on its own values."""

    def broken(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        print("between")
        return y * SCALE

    recording = recorded(broken, X)
    assert len(recording.of(ev.GuardsTimed)) == len(recording.of(ev.CacheEntryAdded)) == 2
