"""Words of a watch are put together when its recording is read: they are those of the compile, and nothing is held until then."""

from __future__ import annotations

import gc
import re
import weakref
from pathlib import Path
from typing import Any

import pytest
import torch
from watching.programs import PROGRAMS, Net, forget, prints, run

import dynexplore
from dynexplore.engine import events as ev

pytestmark = [pytest.mark.lenses, pytest.mark.filterwarnings("ignore:Guards may run slower on Python 3.13.0:RuntimeWarning")]

SCRIPT = '''
import torch

SCALE = {"by": 2.0}

def inner(x):
    return x * SCALE["by"]

def outer(x):
    y = inner(x) + 1
    print("between")
    return y * 2
'''


@pytest.mark.parametrize("steps", [True, False])
def test_words_are_those_of_the_compile(steps: bool, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A file that is edited, values that change and entries that go between the compile and the reading change no word of it."""
    path = tmp_path / "program.py"

    def watched(read_at_once: bool) -> list[Any]:
        forget()
        path.write_text(SCRIPT, encoding="utf-8")
        names: dict[str, Any] = {}
        exec(compile(SCRIPT, str(path), "exec"), names)
        with dynexplore.watch(steps=steps) as seen:
            torch.compile(names["outer"], backend="eager")(torch.ones(3))
        if not read_at_once:
            path.write_text("# nothing\n" * 40, encoding="utf-8")
            names["SCALE"]["by"] = "other"
            names["inner"].__name__ = names["inner"].__qualname__ = "renamed"
            torch._dynamo.reset()
            del names
            gc.collect()
        recording = seen.recording
        codes = [one.code for kind in (ev.FrameEntered, ev.CodeEmitted, ev.ResumeFunctionCreated) for one in recording.of(kind)]
        sources = [code.source for code in codes]
        guards = [(re.sub(r"__\d+", "", one.source), one.kind, one.expected, one.reason) for one in recording.guards]
        nodes = [(one.name, one.target, one.args, one.shape, one.file, one.line) for one in recording.of(ev.NodeAdded)]
        breaks = [(one.title, one.user_stack, one.offset) for one in recording.breaks]
        return [sources, guards, nodes, breaks, [one.guard_count for one in recording.of(ev.CacheEntryAdded)]]

    later, at_once = watched(False), watched(True)
    assert later == at_once
    assert "y = inner(x) + 1" in later[0][0]
    assert later[3]


def _compiled_and_let_go(steps: bool) -> tuple[Any, list[weakref.ref[Any]]]:
    net, x = Net().requires_grad_(False), torch.ones(2, 4)
    held = {torch.nn.Parameter(torch.ones(4), requires_grad=False): 1}

    def program(x: torch.Tensor) -> torch.Tensor:
        y = net(x)
        print("between")
        return y * len(held) + sum(key.sum() for key in held)

    with dynexplore.watch(steps=steps) as seen:
        torch.compile(program, backend="eager")(x)
        torch.compile(net, backend="eager")(x)
    torch._dynamo.reset()
    return seen, [weakref.ref(one) for one in (net, x, net.fc.weight, *held)]


@pytest.mark.parametrize("steps", [True, False])
def test_a_recording_that_was_not_read_keeps_nothing_alive(steps: bool, capsys: pytest.CaptureFixture[str]) -> None:
    """Modules, parameters and tensors of a watched program go when the program lets them go."""
    seen, held = _compiled_and_let_go(steps)
    gc.collect()
    assert [one() for one in held] == [None] * len(held)
    assert seen.recording.graphs and seen.recording.breaks and not seen.notices


# -- parts that cannot be read -----------------------------------------------------------------------------------------


def _cannot(*args: Any, **kwargs: Any) -> Any:
    raise AttributeError("no such field")


UNREADABLE_PARTS = {
    "an argument": ("dynexplore.watching.private_torch.argument_view", (ev.FrameEntered, ev.CacheEntryAdded)),
    "a node": ("dynexplore.watching.private_torch.node_facts", (ev.FrameEntered, ev.SubgraphCompiled, ev.GuardInstalled)),
    "a guard": ("dynexplore.watching.private_torch.guard_facts", (ev.FrameEntered, ev.NodeAdded, ev.CacheEntryAdded)),
    "the tree": ("dynexplore.watching.listener.GuardTree", (ev.FrameEntered, ev.GuardInstalled, ev.CacheEntryAdded)),
    "code": (
        "dynexplore.watching.codes.code_view",
        (ev.FrameEntered, ev.CodeEmitted, ev.ResumeFunctionCreated, ev.CacheEntryAdded),
    ),
    "a tracker": ("dynexplore.watching.private_torch.tracker_words", (ev.FrameEntered, ev.GraphBroke, ev.CodeEmitted)),
    "a resume function": ("dynexplore.watching.listener.resume_codes", (ev.FrameEntered, ev.CodeEmitted, ev.CacheEntryAdded)),
    "a caller": ("dynexplore.watching.listener.sys._getframe", (ev.FrameEntered, ev.CodeEmitted)),
}


@pytest.mark.parametrize("part", UNREADABLE_PARTS)
def test_an_unreadable_part_costs_that_part_alone(part: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Where one part of what a watch reads is not as expected, all events are there, and one sentence says so."""
    name, kinds = UNREADABLE_PARTS[part]
    whole = dynexplore.watch(steps=False)
    with whole:
        run(PROGRAMS["print"])
    forget()
    with pytest.MonkeyPatch.context() as patch, dynexplore.watch(steps=False) as seen:
        target = name if "sys." not in name else "dynexplore.watching.listener.sys"
        patch.setattr(target, _cannot if target == name else type("Sys", (), {"_getframe": _cannot}))
        value = torch.compile(prints, backend="eager")(torch.ones(2))
        counts = {kind: len(seen.recording.of(kind)) for kind in kinds}
    assert value.tolist() == [4.0, 4.0]
    assert counts == {kind: len(whole.recording.of(kind)) for kind in kinds} and all(counts.values())
    assert any("could not be read" in notice for notice in seen.notices), seen.notices
    assert dynexplore.Recording.from_json(seen.recording.to_json()) == seen.recording


def test_a_reason_that_cannot_be_read_leaves_the_recompile(monkeypatch: pytest.MonkeyPatch) -> None:
    """The guard that failed is lost, and that the function was compiled again is not."""
    monkeypatch.setattr("dynexplore.traces.recompile_reasons.failed_guard", _cannot)
    with dynexplore.watch() as seen:
        run(PROGRAMS["global"])
    assert len(seen.recording.of(ev.Recompiled)) == 1
    assert not seen.recording.of(ev.GuardFailed)
    assert len(seen.notices) == 2  # of the guard that failed first, and of those that failed, too


def test_an_argument_is_told_without_its_repr() -> None:
    """`repr` of an object runs the program's code: a watch names its type."""

    class Config:
        factor = 2

        def __repr__(self) -> str:
            raise SystemExit("a watch asked for it")

    with dynexplore.watch() as seen:
        torch.compile(lambda x, config, n, nothing: x * config.factor * n, backend="eager")(torch.ones(2), Config(), 3, None)
    (entered,) = seen.recording.frames
    assert [view.text for _, view in entered.arguments] == ["float32[2] cpu", "Config", "3", "None"]
