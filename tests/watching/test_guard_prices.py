"""watching/guard_prices.py: one check of an entry's guards is measured, with the part of each value and with each guard filter."""

from __future__ import annotations

import pytest
import torch
from watching.programs import Net

import dynexplore
from dynexplore.engine import events as ev
from dynexplore.views import program_report
from dynexplore.views.explorer_data import explorer_data
from dynexplore.watching import guard_prices
from dynexplore.watching.guard_prices import FILTERS

GLOBAL = "on"

pytestmark = [pytest.mark.lenses, pytest.mark.filterwarnings("ignore:Guards may run slower on Python 3.13.0:RuntimeWarning")]


def watched(*, prices: bool) -> dynexplore.Recording:
    """Two entries of a module."""
    compiled = torch.compile(Net(), backend="eager", dynamic=False)
    with dynexplore.watch(guard_prices=prices) as seen:
        for rows in (2, 3):
            compiled(torch.ones(rows, 4))
    assert not seen.notices
    return seen.recording


def test_each_entry_has_a_price() -> None:
    """Each entry is timed, the values that its guards begin at are named, and each filter keeps as many guards as it selects."""
    recording = watched(prices=True)
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
    assert timed.unchecked == 1  # no aliasing: one guard, which is at each of the tensors
    assert timed.checks[0].kind == "AUTOGRAD_SAVED_TENSORS_HOOKS"
    assert timed.checks[0].seconds > checks["EQUALS_MATCH", "GLOBAL"]
    assert "single guards: " in program_report.report(seen.recording)
    [of_module, _] = watched(prices=True).of(ev.GuardsTimed)
    assert any(price.source.endswith(".weight") for price in of_module.checks), [price.source for price in of_module.checks]


def test_relations_between_sizes_are_one_guard() -> None:
    """Torch checks them in one function: it has one price, and is not shown as the first of them."""

    def many(x: torch.Tensor, y: torch.Tensor, z: torch.Tensor) -> torch.Tensor:
        return x + y + z

    compiled = torch.compile(many, backend="eager", dynamic=True)
    with dynexplore.watch(guard_prices=True) as seen:
        compiled(*[torch.ones(3, 4, 5)] * 2, torch.ones(3, 4, 5))
    relations = max(price.relations for price in seen.recording.of(ev.GuardsTimed)[0].checks)
    assert relations > 1 and f"{relations} relations between sizes and strides, such as `" in program_report.report(seen.recording)


class Raises(dict[str, int]):
    """An item can be had by `get` only."""

    def __getitem__(self, key: str) -> int:
        raise OSError("an item was looked up")


def test_measuring_runs_no_code_of_the_program() -> None:
    """The values of guards are looked up as they are stored, or not at all."""
    compiled = torch.compile(lambda x, table: x * table.get("n"), backend="eager")
    with dynexplore.watch(guard_prices=True) as seen:
        assert compiled(torch.ones(2), Raises(n=2)).tolist() == [2, 2]
    [timed] = seen.recording.of(ev.GuardsTimed)
    assert not seen.notices and timed.checks and timed.unchecked


@pytest.mark.parametrize("which", ["check", "value", "filter", "all"])
def test_a_check_that_raises_costs_only_its_own_price(which: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A guard may call an `__eq__` of the program: what it raises, or a warning that is an error, does not end the call."""
    place = {"check": "compares_several_values", "value": "_beginnings", "filter": "_unchanged", "all": "seconds_of"}[which]

    def raising(*_: object) -> None:
        raise UserWarning("not measured")

    monkeypatch.setattr(guard_prices.private_torch if which == "check" else guard_prices, place, raising)
    compiled = torch.compile(lambda x: x + 1, backend="eager")
    with dynexplore.watch(guard_prices=True) as seen:
        assert compiled(torch.ones(2)).tolist() == [2, 2]
    assert [("raised UserWarning" in notice) for notice in seen.notices] == [True] * (which == "all")
    prices = [(bool(one.checks), bool(one.values), bool(one.filters)) for one in seen.recording.of(ev.GuardsTimed)]
    assert prices == {
        "check": [(False, True, True)], "value": [(True, False, True)], "filter": [(True, True, False)], "all": []
    }[which]  # fmt: skip


def test_measuring_changes_nothing_else() -> None:
    """Entries, guards, breaks and graphs are the same with prices; without them nothing is measured or said."""
    without = watched(prices=False)
    torch._dynamo.reset()
    priced = watched(prices=True)
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
    recording = watched(prices=True)
    report = program_report.report(recording)
    assert "Measured guard cost: the most expensive checks" in report and "skip_all_guards_unsafe saves " in report
    entries = explorer_data(recording)["anatomy"]["entries"]
    assert all(entry["price"].endswith(" us") and any("saves" in part for part in entry["parts"]) for entry in entries)
