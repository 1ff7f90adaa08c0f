"""runtime/reports.py: graph breaks are told in one line a place, a few of them; the long form stands where it is asked for."""

from __future__ import annotations

import dis
import logging
import os
import re
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
import torch

import dynexplore
from dynexplore.engine import events as ev
from dynexplore.engine.runtime.reports import PRINTED_LOCATIONS
from source_tree import ROOT

X = torch.ones(3)


def branches(x: Any) -> Any:
    if x.sum() > 0:
        return x + 1
    return x - 1


def breaking_at(places: int) -> Callable[[Any], Any]:
    """A function that breaks at this many places."""
    lines = ["def f(x):", *["    dynexplore.graph_break(); x = x + 1"] * places, "    return x"]
    namespace: dict[str, Any] = {"dynexplore": dynexplore}
    exec(compile("\n".join(lines), "model.py", "exec"), namespace)
    return namespace["f"]  # type: ignore[no-any-return]


def told(caplog: pytest.LogCaptureFixture, function: Callable[[Any], Any]) -> list[str]:
    """What is logged while the function is compiled and called."""
    caplog.set_level(logging.DEBUG, logger="dynexplore")
    caplog.clear()
    dynexplore.reset()
    dynexplore.optimize("eager")(function)(X)
    return [record.message for record in caplog.records if record.name == "dynexplore"]


def test_a_break_is_one_line(caplog: pytest.LogCaptureFixture) -> None:
    """Kind, place, what it is, and who says more; the place from the working directory."""
    line = branches.__code__.co_firstlineno + 1
    condition = "bool(bool[] cpu)" if "TO_BOOL" in dis.opmap else "bool[] cpu"
    what = f"if on a tensor value (condition: {condition}); for details: dynexplore.all_breaks(f, x)"
    assert told(caplog, branches) == [f"graph break DX104 at {os.path.relpath(__file__)}:{line}: {what}"]


def steps(x: torch.Tensor) -> torch.Tensor:
    weight = torch.nn.Parameter(x.clone())
    weight.grad = x
    torch.optim.SGD([weight], 0.1).step()
    return weight


def test_a_break_in_a_library_is_told_at_the_line_that_calls(caplog: pytest.LogCaptureFixture) -> None:
    """The line of the program comes first, whether the library's function is traced through or is a frame of its own."""
    lines = [one for one in told(caplog, steps) if one.startswith("graph break DX208")]
    own = re.escape(f"graph break DX208 at {os.path.relpath(__file__)}:{steps.__code__.co_firstlineno + 3} (")
    assert lines and all(re.match(own + r"optimizer\.py:\d+\): ", one) for one in lines), lines


def test_verbose_tells_it_in_full(caplog: pytest.LogCaptureFixture) -> None:
    """Under `verbose` a break is the long message, at each place."""
    with dynexplore.config.patch(verbose=True):
        lines = told(caplog, breaking_at(PRINTED_LOCATIONS + 2))
    assert len(lines) == PRINTED_LOCATIONS + 2
    assert all(line.startswith("Graph break DX208: ") and "\n  fix   " in line for line in lines)


def test_a_few_places_have_a_line_and_the_others_are_counted(caplog: pytest.LogCaptureFixture) -> None:
    """After five places one line says that further ones are counted, and how to see them; then there is silence."""
    lines = told(caplog, breaking_at(PRINTED_LOCATIONS + 3))
    assert [line.partition(": ")[0] for line in lines] == [
        *(f"graph break DX208 at model.py:{2 + number}" for number in range(PRINTED_LOCATIONS)),
        "graph break",
    ]
    assert lines[-1].startswith("graph break: no further locations are printed; dynexplore.all_breaks(f, x) lists all of them")
    assert dynexplore.counters["stats"]["unique_graph_breaks"] == PRINTED_LOCATIONS + 3


def test_a_reset_begins_anew(caplog: pytest.LogCaptureFixture) -> None:
    """After `reset()` the same places are told again."""
    assert told(caplog, branches) == told(caplog, branches) != []


def test_recompiles_are_told_as_they_happen(caplog: pytest.LogCaptureFixture) -> None:
    """With "recompiles" among the logs each one is a line with the guard that failed; a first compile is none."""
    caplog.set_level(logging.DEBUG, logger="dynexplore")
    doubled = dynexplore.optimize("eager")(lambda x: x * 2)
    with dynexplore.config.patch(logs=("recompiles",)):
        doubled(X)
        assert not [record for record in caplog.records if record.name == "dynexplore"]
        doubled(X.double())
    (line,) = [record.message for record in caplog.records if record.name == "dynexplore"]
    assert line.startswith(f"recompiling test_recompiles_are_told_as_they_happen.<locals>.<lambda> ({os.path.relpath(__file__)}:")
    assert "local 'x' TENSOR_MATCH: expected float32[3] cpu, found float64[3] cpu" in line


PROGRAM = """
import torch, dynexplore
text = "def f(x):\\n" + "    dynexplore.graph_break(); x = x + 1\\n" * {places} + "    return x"
exec(compile(text, "model.py", "exec"))
dynexplore.optimize("eager")(f)(torch.ones(3))
"""


@pytest.mark.parametrize(("places", "last"), [(3, "graph break DX208 at model.py:4"), (8, "graph breaks: 8 locations in total")])
def test_a_process_ends_with_the_count(places: int, last: str) -> None:
    """Where not all places were printed, the last line of the process says how many there were."""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(places=places)], capture_output=True, text=True, cwd=ROOT, check=True
    )
    assert done.stderr.splitlines()[-1].startswith(last)
    assert len(done.stderr.splitlines()) == min(places, PRINTED_LOCATIONS) + 2 * (places > PRINTED_LOCATIONS)


# -- misses in a recording ---------------------------------------------------------------------------------------------


def mix(a: torch.Tensor, b: object, c: int) -> torch.Tensor:
    return a * len(str(b)) * c


class Scaled(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.scale, self.shift, self.mode = 2.0, 1.0, "a"

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * self.scale + self.shift if self.mode == "a" else x - 1


def failures(target: Any, *calls: Callable[[], tuple[Any, ...]]) -> list[tuple[str, str]]:
    """What failed for the last of these calls, and what was found: the guard that ended the check first, then the others."""
    explained = dynexplore.explain(target, dynamic=False).calls()
    for arguments in calls:
        explained.call(*arguments())
    recording = explained.recording
    last = recording.of(ev.Recompiled)[-1].frame
    (first,) = recording.of_frame(last, ev.GuardFailed)
    return [(event.source, event.actual) for event in (first, *recording.of_frame(last, ev.GuardAlsoFailed))]


def test_every_guard_that_fails_is_recorded() -> None:
    """The check ends at the first; with a recorder the others are asked, too, and who mends one sees the next."""
    answer = failures(mix, lambda: (torch.ones(2), "x", 1), lambda: (torch.ones(3), "yy", 5))
    assert [source for source, _ in answer] == ["a", "b", "c"] and [found for _, found in answer[1:]] == ["'yy'", "5"]


def test_a_function_at_its_limit_is_asked_for_every_guard_only_once() -> None:
    """Later calls would check all guards of all entries; the first of them has named the causes."""
    explained = dynexplore.explain(mix, dynamic=False).calls()
    with dynexplore.config.patch(cache_size_limit=1, log_level="ERROR"):
        for number in (1, 2, 3):
            explained.call(torch.ones(2), "x" * number, number)
    recording = explained.recording
    frames = [reached.frame for reached in recording.of(ev.CacheLimitReached)]
    failed = [[len(recording.of_frame(frame, kind)) for kind in (ev.GuardFailed, ev.GuardAlsoFailed)] for frame in frames]
    assert failed == [[1, 1], [1, 0]]


def test_what_lies_below_another_class_is_not_asked() -> None:
    """Of a value that is of another class the class is what failed; its value says nothing more."""
    answer = failures(mix, lambda: (torch.ones(2), "x", 1), lambda: (torch.ones(2), 7, 5))
    assert [source for source, _ in answer] == ["b", "c"]


def test_every_attribute_of_a_module_that_changed_is_recorded() -> None:
    """The native walk over modules ends at the first, too."""
    module = Scaled()

    def changed() -> tuple[torch.Tensor]:
        module.scale, module.shift, module.mode = 3.0, 4.0, "b"
        return (torch.ones(3),)

    answer = failures(module, lambda: (torch.ones(2),), changed)
    assert {source.rpartition(".")[2] for source, _ in answer} == {"scale", "shift", "mode", "args[0]"}


def test_the_line_that_called_stands_beside_what_it_compiled() -> None:
    """Of each compilation, and of the call at which the limit was reached, a person can go to the call."""
    explained = dynexplore.explain(mix, dynamic=False).calls()
    lines = []
    with dynexplore.config.patch(cache_size_limit=2, log_level="ERROR"):
        for number in range(3):
            lines.append(sys._getframe().f_lineno + 1)
            explained.call(X, "x" * number, 1)
    callers = [entered.caller for entered in explained.recording.frames]
    callers += [reached.caller for reached in explained.recording.of(ev.CacheLimitReached)]
    assert [(caller.file, caller.line) for caller in callers if caller is not None] == [(__file__, line) for line in lines]
