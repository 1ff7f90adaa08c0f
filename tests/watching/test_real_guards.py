"""Questions to torch's own guards: which entry would serve a call, and which guard of the others says no."""

from __future__ import annotations

import gc

import pytest
import torch
from watching.programs import Net

import dynexplore
from dynexplore.engine import events as ev
from dynexplore.views import cache_timeline, text
from dynexplore.watching.explaining import WatchedExplanation
from dynexplore.watching.real_guards import TorchPrediction

pytestmark = [pytest.mark.lenses, pytest.mark.filterwarnings("ignore:Guards may run slower on Python 3.13.0:RuntimeWarning")]


def scaled(x: torch.Tensor, n: object, shift: int = 1) -> torch.Tensor:
    """Two numbers that torch guards."""
    return torch.relu(x) * n + shift  # type: ignore[operator]


@pytest.fixture
def explained() -> WatchedExplanation:
    """Three calls: compiled, a hit, compiled again."""
    made = dynexplore.explain(scaled, engine="torch.compile").calls((torch.ones(2), 2), (torch.ones(2), 2), (torch.ones(2), 3))
    assert isinstance(made, WatchedExplanation)
    return made


def test_a_call_that_hits_is_told_with_its_entry(explained: WatchedExplanation) -> None:
    """A call that compiles nothing is a hit, and the timeline has the entry that served it: torch moved it to the front."""
    assert explained.outcomes == ["compile", "hit", "recompile"]
    explained.call(torch.ones(2), 2)  # the newer entry takes every number, and stands in front
    assert [hit.entry for hit in explained.recording.of(ev.CacheHit)] == [1, 2]


@pytest.mark.parametrize(
    ("changes", "outcome", "says"),
    [
        ({}, "hit", "entry 2: hit"),
        ({"n": 7}, "hit", "entry 2: hit\n  entry 1: guard fails: `n` changed from 2 to 7"),
        ({"n": "a"}, "recompile", "entry 2: guard fails: the type of `n` changed from int to str"),
        ({"x": {"shape": (5,)}}, "recompile", "entry 2: guard fails: `x` changed from 2 elements to 5"),
        ({"x": {"dtype": torch.float64}}, "recompile", "entry 2: guard fails: `x` changed from float32 to float64"),
        ({"shift": 4}, "recompile", "entry 2: guard fails: `shift` changed from 1 to 4"),
    ],
    ids=["nothing", "number", "type", "size", "dtype", "default"],
)
def test_what_if_is_what_torch_does_then(
    explained: WatchedExplanation, changes: dict[str, object], outcome: str, says: str
) -> None:
    """The answer for changed inputs is hit or recompile as the real call is, and names the guard that says no."""
    before = len(explained.recording)
    prediction = explained.what_if(changes)
    assert prediction.outcome == outcome
    assert says in str(prediction)
    assert len(explained.recording) == before
    call = {"x": torch.ones(2), "n": 3, "shift": 1, **changes}
    if isinstance(call["x"], dict):
        call["x"] = torch.ones(call["x"].get("shape", (2,)), dtype=call["x"].get("dtype", torch.float32))
    if call["n"] == "a":
        return
    explained.call(**call)
    assert explained.outcomes[-1] == outcome


def test_a_compiled_module_is_asked_as_it_is_called() -> None:
    """A module that torch.compile wrapped is asked with the locals of its `forward`; what changed in it is seen, too."""
    net = Net()
    compiled = torch.compile(net, backend="eager")
    with dynexplore.watch() as seen:
        compiled(torch.ones(2, 4))
        assert str(seen.check(compiled, torch.ones(2, 4))) == "hit\n  entry 1: hit"
    assert seen.check(compiled, torch.ones(2, 4).double()).outcome == "recompile"
    net.register_buffer("more", torch.ones(1))
    assert isinstance(seen.check(compiled, torch.ones(2, 4)), TorchPrediction)


def test_asking_changes_nothing() -> None:
    """After questions torch serves calls as before: no compilation, no other order of entries."""
    from torch._dynamo.utils import counters

    compiled = torch.compile(scaled, backend="eager")
    with dynexplore.watch() as seen:
        compiled(torch.ones(2), 2)
        compiled(torch.ones(2), 3)
        before = {name: dict(counter) for name, counter in counters.items()}
        for number in (2, 3, "a"):
            seen.check(compiled, torch.ones(2), number)
        assert [one.entry for one in seen.check(compiled, torch.ones(2), 2).entries] == [2, 1]
        compiled(torch.ones(2), 4)
    assert {name: dict(counter) for name, counter in counters.items()} == before


def test_an_entry_from_before_the_watch_is_called_so() -> None:
    """Entries that were made before are asked as well, without a number of the recording."""
    compiled = torch.compile(scaled, backend="eager")
    compiled(torch.ones(2), 2)
    seen = dynexplore.watch()
    said = str(seen.check(compiled, torch.ones(2), 5))
    assert said == "recompile\n  an entry that is older than the recording: guard fails: `n` changed from 2 to 5"


def test_what_is_no_python_function_is_refused() -> None:
    """A function written in C has no guards to ask."""
    with pytest.raises(TypeError, match="it is not a Python function"):
        dynexplore.watch().check(torch.relu, torch.ones(2))


def test_an_entry_from_before_the_watch_serves_a_call() -> None:
    """A hit of an entry that was made before the watch began is told, as of an earlier one, and so is its guard that says no."""
    fast = torch.compile(scaled, backend="eager", dynamic=False)
    fast(torch.ones(2), 2)
    watch = dynexplore.watch()
    with watch:
        fast(torch.ones(2), 2)
        watch.note_hit(fast)
        fast(torch.ones(2), 3)
        fast(torch.ones(2), 4)
    (hit,) = watch.recording.of(ev.CacheHit)
    assert (hit.entry, hit.compiled_by, hit.function) == (ev.EARLIER, 0, "scaled")
    made = {entry.entry: entry.frame for entry in watch.recording.of(ev.CacheEntryAdded)}
    assert list(made) == [1, 2]
    failed = [(one.frame, one.entry, one.expected, one.actual) for one in watch.recording.of(ev.GuardFailed)]
    assert failed == [(made[1], ev.EARLIER, "2", "3"), (made[2], 1, "3", "4"), (made[2], ev.EARLIER, "2", "4")]
    table = str(cache_timeline.text(watch.recording))
    assert table.splitlines()[0].split() == ["call", "function", "outcome", "earlier", "entry", "1", "entry", "2"]
    assert [row[4] for row in text.call_rows(watch.recording) if row[2] == "hit"] == ["compiled before this recording began"]
    assert dynexplore.Recording.from_json(watch.recording.to_json()) == watch.recording


def test_an_entry_whose_object_was_freed_is_named() -> None:
    """torch throws an entry away when what it guards is freed: the recompile that follows names that entry, not another."""

    def scaled_by(x: torch.Tensor, cls: type) -> torch.Tensor:
        return x * cls.by  # type: ignore[attr-defined]

    fast = torch.compile(scaled_by, backend="eager")
    with dynexplore.watch() as seen:
        for by in (2, 3, 4):
            fast(torch.ones(2), type("Scaler", (), {"by": by}))
            gc.collect()
    made = {entry.frame: entry.entry for entry in seen.recording.of(ev.CacheEntryAdded)}
    failed = [(one.entry, one.source, one.expected, one.actual) for one in seen.recording.of(ev.GuardFailed)]
    assert (1, "cls", "alive", "freed") in failed
    assert all(0 < entry < made[one.frame] for one, (entry, *_) in zip(seen.recording.of(ev.GuardFailed), failed, strict=True))
