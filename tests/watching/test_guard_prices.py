"""watching/guard_prices.py: one check of an entry's guards is measured, with the part of each value and with each guard filter."""

from __future__ import annotations

import pytest
import torch
from watching.programs import Net

import dynexplore
from dynexplore.engine import events as ev
from dynexplore.views import program_report
from dynexplore.views.explorer_data import explorer_data
from dynexplore.watching.guard_prices import FILTERS

GLOBAL = "on"

pytestmark = [pytest.mark.lenses, pytest.mark.filterwarnings("ignore:Guards may run slower on Python 3.13.0:RuntimeWarning")]


def watched(*, guard_prices: bool) -> dynexplore.Recording:
    """Two entries of a module."""
    compiled = torch.compile(Net(), backend="eager", dynamic=False)
    with dynexplore.watch(guard_prices=guard_prices) as seen:
        for rows in (2, 3):
            compiled(torch.ones(rows, 4))
    assert not seen.notices
    return seen.recording


def test_each_entry_has_a_price() -> None:
    """Each entry is timed, the values that its guards begin at are named, and each filter keeps as many guards as it selects."""
    recording = watched(guard_prices=True)
    timed = recording.of(ev.GuardsTimed)
    assert [one.entry for one in timed] == [added.entry for added in recording.of(ev.CacheEntryAdded)] == [1, 2]
    for one in timed:
        assert one.seconds > 0 and all(price.guards > 0 for price in one.values)
        assert not any("__" in price.source and "[" in price.source for price in one.values)
        filters = {price.name: price for price in one.filters}
        assert list(filters) == [name for name in FILTERS if hasattr(torch.compiler, name)]
        assert filters["skip_all_guards_unsafe"].remaining == 0 and filters["skip_all_guards_unsafe"].seconds < one.seconds
        assert 0 < filters["keep_tensor_guards_unsafe"].remaining < filters["skip_guard_on_globals_unsafe"].remaining
        assert len({price.guards for price in one.filters}) == 1


def test_single_guards_have_a_price() -> None:
    """Each guard on one value is timed alone, also of modules and globals; a Python function costs most. Others are counted."""

    def pair(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y + y.size(0) if x.size(0) == y.size(0) and GLOBAL else x

    compiled = torch.compile(pair, backend="eager", dynamic=True)
    with dynexplore.watch(guard_prices=True) as seen:
        compiled(torch.ones(3), torch.ones(3))
    [timed] = seen.recording.of(ev.GuardsTimed)
    checks = {(price.kind, price.source or price.check): price.seconds for price in timed.checks}
    assert {("TENSOR_MATCH", "x"), ("TENSOR_MATCH", "y"), ("EQUALS_MATCH", "GLOBAL")} <= set(checks)
    assert timed.unchecked == 2  # no aliasing, once for each tensor
    assert timed.checks[0].kind == "LAMBDA_GUARD" and timed.checks[0].seconds > checks["EQUALS_MATCH", "GLOBAL"]
    assert "single guards: " in program_report.report(seen.recording)
    [of_module, _] = watched(guard_prices=True).of(ev.GuardsTimed)
    assert any(price.source.endswith(".weight") for price in of_module.checks), [price.source for price in of_module.checks]


def test_measuring_changes_nothing_else() -> None:
    """Entries, guards, breaks and graphs are the same with prices; without them nothing is measured or said."""
    without = watched(guard_prices=False)
    torch._dynamo.reset()
    priced = watched(guard_prices=True)
    assert not without.of(ev.GuardsTimed) and "Measured guard cost" not in program_report.report(without)
    for question in ("frames", "graphs", "guards", "breaks"):
        assert len(getattr(without, question)) == len(getattr(priced, question))
    counts = [[added.guard_count for added in one.of(ev.CacheEntryAdded)] for one in (without, priced)]
    assert counts[0] == counts[1]


def test_guards_still_decide_after_measuring() -> None:
    """An entry whose guards were built again for prices is hit and missed as before."""
    compiled = torch.compile(lambda x, n: x * n, backend="eager", dynamic=False)
    with dynexplore.watch(guard_prices=True) as seen:
        compiled(torch.ones(2), 2)
        assert seen.check(compiled, torch.ones(2), 2).outcome == "hit"
        assert seen.check(compiled, torch.ones(2), 3).outcome == "recompile"
        assert torch.equal(compiled(torch.ones(2), 3), torch.full((2,), 3.0))
    assert len(seen.recording.of(ev.GuardsTimed)) == 2


def test_prices_are_shown_in_report_and_page() -> None:
    """The report lists the costliest entries with what a filter saves, and the page has the same for the entry at hand."""
    recording = watched(guard_prices=True)
    report = program_report.report(recording)
    assert "Measured guard cost: the most expensive checks" in report and "skip_all_guards_unsafe saves " in report
    entries = explorer_data(recording)["anatomy"]["entries"]
    assert all(entry["price"].endswith(" us") and any("saves" in part for part in entry["parts"]) for entry in entries)
