"""Every reason of a recompile, in the words of the program, with the line that needed it and the line that called."""

from __future__ import annotations

import sys

import pytest
import torch

import dynexplore
from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from dynexplore.views.miss_reasons import call_of_frame, reasons_of

ENGINES = ["dynexplore", pytest.param("torch.compile", marks=pytest.mark.lenses)]


def mix(a: torch.Tensor, b: int, c: str) -> torch.Tensor:
    doubled = a * 2
    times = doubled * b
    return times * len(c)


FIRST = mix.__code__.co_firstlineno


def recorded(engine: str) -> tuple[Recording, int]:
    """Two calls that differ in three arguments, and the line of the second."""
    explained = dynexplore.explain(mix, torch.ones(2, 2), 2, "x", engine=engine, dynamic=False)
    line = sys._getframe().f_lineno + 1
    explained.call(torch.ones(4, 2), 5, "yy")
    return explained.recording, line


@pytest.mark.parametrize("engine", ENGINES)
def test_each_reason_has_its_values_and_its_line(engine: str) -> None:
    """What was expected and found, and where the program relied on it: for all three arguments."""
    recording, line = recorded(engine)
    again = recording.of(ev.Recompiled)[0].frame
    reasons = reasons_of(recording, again)
    said = {reason.source: (str(reason.change), reason.needed_at.line - FIRST if reason.needed_at else 0) for reason in reasons}
    assert said == {
        "a": ("`a` changed from 2 rows to 4", 1), "b": ("`b` changed from 2 to 5", 2), "c": ("`c` changed from 'x' to 'yy'", 3),
    }  # fmt: skip
    assert reasons[0].source == "a" and all(reason.entries == (1,) for reason in reasons)
    caller = call_of_frame(recording, again)
    assert caller is not None
    if engine == "dynexplore":  # between torch and a test stands what forbids torch.compile
        assert (caller.file, caller.line) == (__file__, line)


def told(recording: Recording, entry: int, expected: str, kind: type[ev.GuardFailed] = ev.GuardFailed, source: str = "n") -> None:
    recording.record(
        kind(frame=9, entry=entry, index=0, scope="local", source=source, kind="EQUALS", expected=expected, actual="7")
    )


def test_what_several_entries_say_no_to_is_one_reason() -> None:
    """The values are those of the entry that was tried first; the guard that ended a check comes before the others."""
    recording = Recording()
    told(recording, 2, "3")
    told(recording, 2, "1", ev.GuardAlsoFailed, "k")
    told(recording, 1, "4")
    reasons = reasons_of(recording, 9)
    lines = [(reason.line, reason.entries) for reason in reasons]
    assert lines == [("`n` changed from 3 to 7", (2, 1)), ("`k` changed from 1 to 7", (2,))]


def test_a_part_after_a_break_was_called_where_the_whole_was() -> None:
    """What continues after a graph break is called by generated code: the call that a person made is that of the function."""

    def breaks(x: torch.Tensor, n: int) -> torch.Tensor:
        y = x + 1
        dynexplore.graph_break()
        return y * n

    explained = dynexplore.explain(breaks, torch.ones(2), 2)
    line = sys._getframe().f_lineno - 1
    callers = [call_of_frame(explained.recording, entered.frame) for entered in explained.recording.frames]
    assert len(callers) == 2 and {caller.line for caller in callers if caller is not None} == {line}


def test_a_line_that_torch_wrote_down_is_used_where_no_guard_is_known() -> None:
    """Of an entry from before the recording only the check's own words are there."""
    recording = Recording()
    line = ev.UserFrame("model.py", 4, "f", "y = x * n")
    recording.record(
        ev.GuardFailed(frame=9, index=0, scope="", source="n", kind="EQUALS", expected="3", actual="4", needed_at=line)
    )
    assert [reason.line for reason in reasons_of(recording, 9)] == ["`n` changed from 3 to 4 (used at model.py:4)"]


class Modes(torch.nn.Module):
    """A module with a text, a submodule and a tensor that a program replaces."""

    def __init__(self) -> None:
        super().__init__()
        self.layer, self.added, self.mode = torch.nn.Linear(4, 4), torch.randn(4), "a"

    def forward(self, x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        if self.mode == "a":
            return self.layer(x * 2) + self.added + y  # type: ignore[no-any-return]
        return self.layer(x / 2) - self.added - y  # type: ignore[no-any-return]


@pytest.mark.parametrize("engine", ENGINES)
def test_where_several_things_changed_each_is_named_with_the_size_that_it_has_now(engine: str) -> None:
    """A module whose mode, layer and tensor change, and whose inputs do: no reason hides another, and no size is made up."""
    model = Modes()
    explained = dynexplore.explain(model, torch.randn(7, 4), torch.randn(4), engine=engine)
    model.mode = "b"
    explained.call(torch.randn(7, 4), torch.randn(4))
    model.layer, model.added = torch.nn.Linear(8, 5), torch.randn(5)
    explained.call(torch.randn(9, 8), torch.randn(5))
    second, third = (reasons_of(explained.recording, event.frame) for event in explained.recording.of(ev.Recompiled))
    assert [str(reason.change) for reason in second] == ["`self.mode` changed from 'a' to 'b'"]
    changes = {str(reason.change) for reason in third}
    sizes = {"`x` changed from 7 rows to 9", "`x` changed from size 4 to 8 in dimension 1", "`y` changed from 4 elements to 5"}
    assert sizes <= changes
