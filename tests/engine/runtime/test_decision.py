"""engine/runtime/decision.py and frame_facts.py: one decision, as a pure function of plain facts, whoever asks."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any, get_args

import pytest
import torch
from torch.overrides import TorchFunctionMode

import dynexplore
from dynexplore.engine.runtime.decision import Decision, EntriesVerdict, FrameFacts, Stance, decide

MISS = "x EQUALS: expected 2, found 3"

IN_THE_WAY: dict[str, tuple[dict[str, Any], str]] = {
    "mark": ({"marked": True}, "plain Python"),
    "generator": ({"generator": True}, "plain Python"),
    "nothing to compile": ({"nothing_to_compile": True}, "plain Python"),
    "run only": ({"run_only": True}, "plain Python"),
    "disabled": ({"disabled": True}, "plain Python"),
    "policy": ({"policy": "its file is torch's"}, "plain Python"),
    "filter": ({"only_function": "another"}, "plain Python"),
    "tracer": ({"tracer": "torch.fx is tracing"}, "plain Python"),
}
"""rule -> the facts that make it decide, and what comes of it; in the order in which the rules are asked."""

ENTRIES = (
    None,
    EntriesVerdict(),
    EntriesVerdict(2, missed=MISS),
    EntriesVerdict(8, missed=MISS),
    EntriesVerdict(2, fitting=0),
    EntriesVerdict(2, fitting=1),
    EntriesVerdict(2, fitting=None),
)
STANCES = get_args(Stance)


def every_combination() -> Iterator[tuple[list[str], FrameFacts]]:
    """Each subset of what can stand in the way, with each answer of the entries, each stance, and the flags."""
    for present in itertools.product((False, True), repeat=len(IN_THE_WAY)):
        rules = [rule for rule, is_there in zip(IN_THE_WAY, present, strict=True) if is_there]
        changes = {name: value for rule in rules for name, value in IN_THE_WAY[rule][0].items()}
        for entries, stance, *flags in itertools.product(ENTRIES, STANCES, *[(False, True)] * 3):
            more = {**dict(zip(("error_on_recompile", "ran_once", "whole"), flags, strict=True)), **changes}
            yield rules, FrameFacts("fn", entries=entries, stance=stance, **more)  # type: ignore[arg-type]


def expected(rules: list[str], facts: FrameFacts) -> tuple[str, str]:
    """Kind and rule, from the order of the rules: the hook's own, an entry that fits, what leaves the frame alone, the miss."""
    entries = facts.entries
    fits = entries is not None and entries.fitting != -1
    in_the_way = [rule for rule in rules if rule in ("mark", "generator", "nothing to compile") or not fits]
    if in_the_way:
        return IN_THE_WAY[in_the_way[0]][1], in_the_way[0]
    if entries is None:
        return "ask the entries", "not asked"
    if fits:
        return "not known" if entries.fitting is None else "hit", "entry"
    if facts.stance == "fail_on_recompile":
        return "raises", "stance"
    if facts.stance in ("force_eager", "eager_on_recompile"):
        return "plain Python", "stance"
    is_first = not facts.ran_once and not entries.count
    if facts.stance == "eager_then_compile" and is_first:
        return "plain Python", "stance"
    if facts.stance == "aot_eager_then_compile" and is_first:
        return "compile", "stance"
    if facts.error_on_recompile and entries.missed:
        return "raises", "error on recompile"
    if entries.count >= facts.limit:
        return "raises" if facts.whole else "limit reached", "limit"
    return ("recompile", "miss") if entries.count else ("compile", "miss")


@pytest.mark.plain("a pure function of a record: no program runs")
def test_every_combination_of_facts_has_its_decision() -> None:
    """Of all that stands in the way, the first in the order of a real call decides."""
    seen = set()
    for rules, facts in every_combination():
        decision = decide(facts)
        assert (decision.kind, decision.rule) == expected(rules, facts), facts
        assert decide(replace(facts)) == decision
        seen.add(decision.rule)
    assert seen == {*IN_THE_WAY, "not asked", "entry", "stance", "error on recompile", "limit", "miss"}


@pytest.mark.plain("a pure function of a record: no program runs")
def test_asking_twice_is_asking_once() -> None:
    """Where the first question, without the entries, is answered, the entries change it only by fitting."""
    for _, facts in every_combination():
        first = decide(replace(facts, entries=None))
        if first.kind == "ask the entries":
            assert decide(facts).rule in ("not asked", "entry", "stance", "error on recompile", "limit", "miss")
        elif facts.entries is None or facts.entries.fitting == -1:
            assert decide(facts).rule == first.rule


@pytest.mark.plain("a pure function of a record: no program runs")
@pytest.mark.parametrize(
    ("facts", "reason"),
    [
        (FrameFacts(marked=True), "it is marked with skip"),
        (FrameFacts(marked=True, policy="fn is marked with disable"), "fn is marked with disable"),
        (FrameFacts(run_only=True), "compiling is turned off here"),
        (FrameFacts(run_only=True, entries=EntriesVerdict(1, missed=MISS)), f"compiling is turned off here: {MISS}"),
        (FrameFacts("fn", only_function="other"), "config.debug_function is 'other'"),
        (FrameFacts(entries=EntriesVerdict(), stance="fail_on_recompile"), "RecompileError: there is no cache entry yet"),
        (
            FrameFacts(entries=EntriesVerdict(1, -1, MISS), stance="eager_on_recompile"),
            f"the stance is 'eager_on_recompile': {MISS}",
        ),
        (FrameFacts(entries=EntriesVerdict(1, missed=MISS), error_on_recompile=True), f"RecompileError: {MISS}"),
        (FrameFacts(entries=EntriesVerdict(), limit=0), "there is no cache entry yet"),
        (FrameFacts(entries=EntriesVerdict()), ""),
        (FrameFacts(entries=EntriesVerdict(1, missed=MISS)), MISS),
    ],
)
def test_the_reason_is_a_sentence_for_people(facts: FrameFacts, reason: str) -> None:
    """What-if and prediction show it as it is."""
    assert decide(facts).reason == reason


@pytest.mark.plain("a pure function of a record: no program runs")
def test_only_a_miss_is_translated() -> None:
    """`is_compiled` is what a caller asks before it tries."""
    assert decide(FrameFacts(entries=EntriesVerdict())).is_compiled
    assert not Decision("limit reached", "limit").is_compiled


class Logging(TorchFunctionMode):
    """A mode that wants to see every operator."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return func(*args, **(kwargs or {}))


def doubled(x: Any, n: int = 2) -> Any:
    y = x * n
    dynexplore.graph_break()
    return y + n


@pytest.mark.parametrize(
    ("around", "outcome"),
    [
        (nullcontext, "recompile"),
        (Logging, "plain Python"),
        (lambda: dynexplore.stance("eager_on_recompile"), "plain Python"),
        (lambda: dynexplore.stance("fail_on_recompile"), "raises"),
        (lambda: dynexplore.config.patch(error_on_recompile=True), "raises"),
        (lambda: dynexplore.config.patch(disable=True), "plain Python"),
        (lambda: dynexplore.config.patch(debug_function="another"), "plain Python"),
        (lambda: dynexplore.config.patch(cache_size_limit=1), "limit reached"),
    ],
)
@pytest.mark.usefixtures("caplog")
def test_what_if_and_the_real_call_agree(around: Any, outcome: str) -> None:
    """Whatever stands in the way of a miss, what is told of the call is what the call then does."""
    explanation = dynexplore.explain(doubled, torch.ones(2))
    session = explanation.session
    entries = len(session.entries)
    assert entries == 2
    told, raised = "", ""
    block: AbstractContextManager[Any] = around()
    with block:
        told = session.predict(torch.ones(2), 3).outcome
        try:
            explanation.call(torch.ones(2), 3)
        except dynexplore.exc.RecompileError:
            raised = "raises"
    assert told == outcome
    assert raised == ("raises" if outcome == "raises" else "")
    assert (len(session.entries) > entries) == (outcome == "recompile")


def test_what_stands_in_the_way_of_a_frame_stands_in_the_way_of_its_resume_functions() -> None:
    """Under a mode that wants to see every operator nothing is compiled after a break either, and the forecast says so."""

    def hits(x: Any, late: int = 2) -> Any:
        y = x.sin()
        dynexplore.graph_break()
        return y * late

    explanation = dynexplore.explain(hits, torch.ones(2))
    with dynexplore.config.patch(debug_function="another"):
        told = explanation.session.predict(torch.ones(2), 3)
        entries = len(explanation.session.entries)
        explanation.call(torch.ones(2), 3)
    assert [one.fate for one in told.then] == ["plain Python"]
    assert "runs as plain Python: config.debug_function is 'another'" in " ".join(str(told).split())
    assert len(explanation.session.entries) == entries
