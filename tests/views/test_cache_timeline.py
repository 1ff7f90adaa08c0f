"""The cache timeline and guard anatomy: folded from records, without torch."""

from __future__ import annotations

import dataclasses
import json

import pytest

from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from dynexplore.views import anatomy, cache_timeline
from dynexplore.views.capture_difference import Row, difference
from sample_recordings import toy

CODE = ev.CodeView(1, "f", "a.py", 1, "def f(x): ...", (ev.ListingRow(0, "RESUME", "", 1),))


def guard(frame: int, index: int, source: str, kind: str, expected: str) -> ev.GuardInstalled:
    return ev.GuardInstalled(
        frame=frame, attempt=1, offset=0, index=index, scope="local", source=source, kind=kind, expected=expected
    )


def node(frame: int, name: str, target: str, shape: str) -> ev.NodeAdded:
    op = "placeholder" if target == "x" else "call_function"
    return ev.NodeAdded(frame=frame, attempt=1, graph="", name=name, op=op, target=target, args="", dtype="f32", shape=shape)


def translated(r: Recording, entry: int, shape: str, *targets: str) -> int:
    frame = r.next_frame_id()
    r.record(ev.FrameEntered(frame=frame, parent=None, code=CODE))
    if entry > 1:
        failed = ev.GuardFailed(
            frame=frame, entry=1, index=1, scope="local", source="x", kind="TENSOR_MATCH", expected="[4]", actual=shape
        )
        r.record(failed)
        r.record(ev.Recompiled(frame=frame, reason="x", entries=1))
    r.record(ev.AttemptStarted(frame=frame, attempt=1))
    r.record(guard(frame, 0, "m", "MODULE_STATE", "training"))
    r.record(guard(frame, 1, "x", "TENSOR_MATCH", shape))
    r.record(guard(frame, 2, "n", "EQUALS", "3"))
    for target in targets:
        r.record(node(frame, target, target, shape))
    graph = f"g{entry}"
    r.record(ev.SubgraphCompiled(frame=frame, attempt=1, graph=graph, backend="eager", node_count=2, op_count=1, nodes=targets))
    r.record(ev.CacheEntryAdded(frame=frame, entry=entry, code=1, guard_count=3))
    r.record(ev.FrameFinished(frame=frame, outcome="compiled"))
    return frame


def began(r: Recording, call: int, text: str) -> None:
    r.record(
        ev.CallBegan(frame=0, call=call, arguments=(("0", ev.ValueView(1, "Tensor", text)), ("n", ev.ValueView(2, "int", "3"))))
    )


def calls() -> Recording:
    """Made, hit, missed and made again, then the limit."""
    r = Recording(title="f")
    began(r, 1, "[4]")
    translated(r, 1, "[4]", "x", "sin")
    r.record(ev.CallEnded(frame=0, call=1))
    began(r, 2, "[4]")
    r.record(ev.CacheHit(frame=r.next_frame_id(), entry=1, code=1, function="f", compiled_by=1))
    began(r, 3, "[5]")
    translated(r, 2, "[5]", "x", "sin", "relu")
    began(r, 4, "[6]")
    frame = r.next_frame_id()
    for entry in (2, 1):
        r.record(
            ev.GuardFailed(frame=frame, entry=entry, index=2, scope="local", source="n", kind="EQUALS", expected="3", actual="4")
        )
    r.record(ev.CacheLimitReached(frame=frame, function="f", limit=2, reason="n"))
    r.record(ev.FrameSkipped(frame=frame, function="f", file="a.py", line=1, reason="recompile limit (2) reached"))
    r.record(ev.CallEnded(frame=0, call=4, error="ValueError"))
    return r


def test_each_call_has_its_outcome() -> None:
    """Compile, hit, recompile and limit reached, with the entry that was made or hit and those that were missed."""
    found = cache_timeline.calls(calls())
    assert [call.outcome for call in found] == ["compile", "hit", "recompile", "limit reached"]
    assert [(call.number, call.arguments, call.error) for call in found][2:] == [(3, "[5], n=3", ""), (4, "[6], n=3", "ValueError")]
    frames = [call.frames[0] for call in found]
    assert [frame.entry for frame in frames] == [1, 1, 2, -1]
    assert [sorted(frame.missed) for frame in frames] == [[], [], [1], [1, 2]]


def test_frames_without_a_call_are_call_one() -> None:
    """A recording that tells of no call is one call."""
    r = Recording()
    translated(r, 1, "[4]", "x")
    (call,) = cache_timeline.calls(r)
    assert (call.number, call.outcome) == (1, "compile")


def test_the_timeline_as_text() -> None:
    """A row per frame of a call, a column per entry, and a line per miss."""
    lines = cache_timeline.text(calls()).splitlines()
    assert lines[0].split() == ["call", "function", "outcome", "entry", "1", "entry", "2"]
    assert [line.split() for line in lines[2:6]] == [
        ["1", "f", "compile", "compiled"],
        ["2", "f", "hit", "hit"],
        ["3", "f", "recompile", "miss", "compiled"],
        ["4", "f", "limit", "reached", "miss", "miss"],
    ]
    assert lines[6] == "call 3, f: local 'x' TENSOR_MATCH: expected [4], found [5]"


def test_a_miss_says_what_the_new_capture_has() -> None:
    """The failed guard, and graphs and guards side by side."""
    found = cache_timeline.miss(calls(), 3)
    assert (found.entry, found.compared_with, found.failed.actual) == (1, 1, "[5]")
    assert found.difference.nodes == (
        Row("~", "x = input: f32[4]", "x = input: f32[5]"),
        Row("~", "sin = sin: f32[4]", "sin = sin: f32[5]"),
        Row("+", "", "relu = relu: f32[5]"),
    )
    assert [row.sign for row in found.difference.guards] == ["=", "~", "="]
    with pytest.raises(KeyError, match="frame 1 is not a cache miss"):
        cache_timeline.miss(calls(), 1)
    with pytest.raises(KeyError, match="did not try entry 7"):
        cache_timeline.miss(calls(), 3, 7)


def test_the_same_capture_does_not_differ() -> None:
    """A capture beside itself has equal rows only, and is no difference."""
    r = calls()
    same = difference(r, 1, r, 1)
    assert not same and {row.sign for row in (*same.nodes, *same.guards)} == {"="}
    assert "graph: 2 unchanged" in str(same)
    assert str(difference(Recording(), 1, Recording(), 1)) == "nothing was captured on either side"


def test_anatomy_says_what_each_guard_said() -> None:
    """In a call: pass before the guard that failed, not reached behind it; the state of modules comes first."""
    r = calls()
    assert [(v.index, v.verdict) for v in anatomy.verdicts(r, 3)] == [(0, "pass"), (1, "fail"), (2, "not reached")]
    assert {v.verdict for v in anatomy.verdicts(r, 2)} == {"pass"}
    last = anatomy.verdicts(r, 4)
    assert [(v.entry, v.verdict) for v in last] == [(e, w) for e in (2, 1) for w in ("pass", "pass", "fail")]
    assert (last[2].expected, last[2].actual) == ("3", "4")


def test_the_browsers_data_is_plain() -> None:
    """What the browser gets goes to JSON, and names frames, entries and misses."""
    r = calls()
    data = json.loads(json.dumps({"timeline": cache_timeline.timeline_data(r), "anatomy": anatomy.anatomy_data(r)}))
    assert data["timeline"]["entries"] == [
        {"entry": 1, "frame": 1, "function": "f"},
        {"entry": 2, "frame": 3, "function": "f"},
    ]
    assert data["timeline"]["misses"]["3"]["with"] == 1 and "difference" not in data["timeline"]["misses"]["4"]
    limit = data["timeline"]["misses"]["4"]
    assert limit["failed"][0] == {"entry": 2, "guard": "n == 3", "found": "4", "others": 0}
    assert limit["lines"] == [["Guarded value used at", "a.py:1", "def f(x): ..."]]
    assert [call["tried"] for call in data["anatomy"]["calls"]] == [{"1": -1}, {"1": 1}, {"2": 2, "1": 2}]
    assert data["anatomy"]["entries"][0]["asked"] == ["RESUME (offset 0, line 1)"] * 3


def long_program(functions: int, rounds: int) -> Recording:
    """One call in which many functions are compiled, and then run again and again."""
    r = Recording(title="f")
    began(r, 1, "[4]")
    for entry in range(1, functions + 1):
        frame = r.next_frame_id()
        r.record(ev.FrameEntered(frame=frame, parent=None, code=dataclasses.replace(CODE, id=entry, qualname=f"f{entry}")))
        r.record(ev.CacheEntryAdded(frame=frame, entry=entry, code=entry, guard_count=1))
        r.record(ev.FrameFinished(frame=frame, outcome="compiled"))
    for _ in range(rounds):
        for entry in range(1, functions + 1):
            r.record(ev.CacheHit(frame=r.next_frame_id(), entry=entry, code=entry, function=f"f{entry}"))
    return r


def test_a_run_of_hits_is_told_once_for_each_entry_with_its_number() -> None:
    """Thirty rounds of three functions are three rows and not ninety."""
    lines = [" ".join(line.split()) for line in cache_timeline.text(long_program(3, 30)).splitlines()]
    assert lines[-3:] == ["1 f1 30 hits hit", "1 f2 30 hits hit", "1 f3 30 hits hit"]
    assert len(lines) == 2 + 3 + 3


def test_many_entries_are_one_column() -> None:
    """A table with a column for each of a hundred entries can be read by nobody, and grows with the square of the program."""
    short, long = (cache_timeline.text(long_program(count, 3)) for count in (20, 80))
    assert " ".join(short.splitlines()[0].split()) == "call function outcome entries"
    assert " ".join(short.splitlines()[-1].split()) == "1 f20 3 hits hit 20"
    assert len(long) < 4.5 * len(short)


def test_the_browser_is_told_frames_as_people_say_them() -> None:
    """What goes on after a break is its function, from a line on, compiled or hit; nobody wrote a `__resume_at_`."""
    recording = toy()
    told = cache_timeline.timeline_data(recording)
    names = [frame["function"] for call in told["calls"] for frame in call["frames"]]
    assert "toy" in names and "toy, from line 12 on" in names and not any("__resume" in name for name in names)
    assert not any("__resume" in entry["function"] for entry in told["entries"])
