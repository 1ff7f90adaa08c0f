"""views/program_report.py: the report of a program is one screen, whatever the program."""

from __future__ import annotations

import random
from typing import Any

import pytest
import torch

from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from dynexplore.session.program_capture import ProgramCapture
from dynexplore.session.targets import Pattern, Targets
from dynexplore.views.headline import headline
from dynexplore.views.program_report import MOST_LINES, report, whole_report
from dynexplore.views.ranked_costs import block, costs_of
from dynexplore.views.targets_table import functions_of


def captured(program: Any) -> Recording:
    """The recording of a program, which is a function of this file."""
    capture = ProgramCapture("train.py", Targets())
    capture.run(program)
    capture.note_passed()
    capture.recording.record(ev.ProgramEnded(frame=0, status=0))
    return capture.recording


def breaks_often(x: torch.Tensor) -> torch.Tensor:
    """Breaks at two lines."""
    print(end="")
    y = x + 1
    print(end="")
    return y * 2


def grows(x: torch.Tensor) -> torch.Tensor:
    """Is compiled again for another size."""
    return x.sum() + x.shape[0]


def trains() -> None:
    """A program with two targets and a driver."""
    for size in (2, 3):
        breaks_often(torch.ones(2))
        grows(torch.ones(size))
    steps(torch.ones(2, requires_grad=True).sum())


def steps(loss: torch.Tensor) -> None:
    """Drives the program."""
    loss.backward()  # type: ignore[no-untyped-call]


def measures(x: torch.Tensor, text: str) -> torch.Tensor:
    """Relies on a text."""
    return x * len(text)


def test_a_value_that_is_new_in_each_call_is_no_choice_between_two() -> None:
    """A recompile that comes again and again is not called expected, and the advice is not about two values."""
    (cost,) = costs_of(captured(lambda: [measures(torch.ones(2), "a" * length) for length in range(5)]))
    assert cost.times == 4 and not cost.is_expected and cost.advice.startswith("Each new value recompiles")


def test_places_are_ranked_by_what_they_cost() -> None:
    """Each graph break and each recompile is one place, with how often and how many seconds; functions have a row each. What needs
    no action, such as the size of the last batch, comes last, whatever it took to compile."""
    recording = captured(trains)
    costs = costs_of(recording)
    assert sorted((cost.kind, cost.times) for cost in costs) == [("graph break", 1), ("graph break", 1), ("recompile", 1)]
    breaks = [cost.seconds for cost in costs if cost.kind == "graph break"]
    assert breaks == sorted(breaks, reverse=True)
    assert costs[-1].kind == "recompile"
    assert costs[-1].remedy.startswith("No action needed: the new version accepts other sizes, too")
    rows = {one.name: (one.calls, one.graphs, one.breaks, one.recompiles) for one in functions_of(recording)}
    assert rows["breaks_often"] == (2, 2, 2, 0) and rows["grows"] == (2, 2, 0, 1)
    text = report(recording)
    first = breaks_often.__code__.co_firstlineno
    assert f"graph break at test_program_report.py:{first + 2} in breaks_often" in text
    assert 'print(end="")' in text and "recompile of grows" in text
    flat = " ".join(text.split())
    assert "Not captured: " in flat and "steps (test_program_report.py:" in flat and "it calls backward()" in flat
    assert len(text.split("\n")) <= MOST_LINES


def reads_a_number(x: torch.Tensor) -> torch.Tensor:
    """Breaks where it reads a number, and what continues relies on the number."""
    return x * int(x[0].item())


def test_a_recompile_that_goes_with_its_break_is_counted_there() -> None:
    """What continues after a break recompiles for each value that was read: it is one place, that of the break."""
    (cost,) = costs_of(captured(lambda: [reads_a_number(torch.full((2,), float(number))) for number in range(3)]))
    assert cost.kind == "graph break" and cost.recompiles > 0


def heavy_before(x: torch.Tensor) -> torch.Tensor:
    """Breaks behind many operators, and little is compiled after it."""
    for _ in range(30):
        x = x.sin() + 1
    print(end="")
    return x


def heavy_after(x: torch.Tensor) -> torch.Tensor:
    """Breaks behind one operator, and much is compiled after it."""
    x = x + 1
    print(end="")
    for _ in range(300):
        x = x.cos() * 2
    return x


def test_the_headline_and_the_list_rank_alike() -> None:
    """The break that the headline calls the one that matters most stands first among the breaks of the list."""
    recording = captured(lambda: [heavy_before(torch.ones(2)), heavy_after(torch.ones(2))])
    first = next(cost for cost in costs_of(recording) if cost.kind == "graph break")
    assert first.place.endswith("in heavy_after") and first.place in headline(recording).where, headline(recording).where


def dimensions(x: torch.Tensor, shape: tuple[int, ...]) -> torch.Tensor:
    """Makes another tensor before it breaks."""
    made = x.new_ones(shape)
    print(end="")
    return made * 2


def test_what_a_function_made_before_its_break_is_no_input_that_could_be_made_alike() -> None:
    """What continues after the break recompiles for a variable of the function: the break is to mend, not the inputs."""
    costs = costs_of(captured(lambda: [dimensions(torch.ones(2), (2,) * count) for count in (1, 2, 3)]))
    (cost,) = [cost for cost in costs if "`made`" in cost.cause]
    assert "changed from 1 dimension to 2" in cost.cause
    assert cost.remedy == "Fixing the preceding graph break also removes this recompile, unless the inputs change as well."
    costs = costs_of(captured(lambda: [breaks_often(torch.ones(*[2] * count)) for count in (1, 2, 3)]))
    remedies = {cost.remedy for cost in costs if cost.kind == "recompile" and "`x`" in cost.cause}
    assert "Pass inputs with the same properties every time, or compile a function for each kind." in remedies


def test_why_a_program_recompiled_is_listed_where_it_died() -> None:
    """The headline is about the exception, so the one cause of its recompiles stands below."""
    capture = ProgramCapture("train.py", Targets())
    capture.run(lambda: [grows(torch.ones(size)) for size in (2, 3)])
    capture.recording.record(ev.ProgramEnded(frame=0, status=1, error="ValueError: no", file="train.py", line=3))
    text = report(capture.recording)
    assert text.startswith("train.py ended with ValueError: no (train.py:3).")
    assert "`x` changed from 2 elements to 3" in " ".join(text.split())


def test_one_screen_is_enough_for_any_program() -> None:
    """A program of fifty functions that each break at five lines has a report of 40 lines, which counts the rest."""
    lines = ["import torch"]
    for number in range(50):
        lines += [f"def f{number}(x):", *(["    print(end='')", "    x = x + 1"] * 5), "    return x"]
    lines += [f"f{number}(torch.ones(2))" for number in range(50)]
    code = compile("\n".join(lines), "many.py", "exec")
    recording = captured(lambda: exec(code, {"__name__": "many"}))
    assert len(recording.breaks) == 250
    text = report(recording)
    assert len(text.split("\n")) <= MOST_LINES
    assert "... and 42 more functions (--full)" in text and "more places (--full)" in text


def test_the_headline_is_about_a_recompile_that_can_be_removed() -> None:
    """Of two recompiles of one function the first needs no action, and the second does: as in the list, that one comes first."""

    def program() -> None:
        whole = torch.ones(4, 9)
        for size in (2, 3):
            grows(torch.ones(4, size))
        grows(whole[:, -5:])  # another layout

    recording = captured(program)
    first, last = costs_of(recording)
    assert "memory layout of `x`" in first.cause and last.is_expected
    line = headline(recording)
    assert first.cause in line.where and line.remedy == first.advice


class Dropping(torch.nn.Module):
    """A module with several flags that `eval()` sets together."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Dropout(0.1) for _ in range(5))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Applies them in a loop, and returns on another line."""
        for layer in self.layers:
            x = layer(x)
        return x


def evaluates() -> None:
    """A model that is trained, evaluated, and evaluated without gradients."""
    model = Dropping()
    model(torch.ones(2))
    model.eval()(torch.ones(2))
    with torch.no_grad():
        model(torch.ones(2))


def test_what_eval_changes_in_many_modules_is_one_line() -> None:
    """Neither a line for each module, nor the line of the last instruction, where the state of modules is guarded."""
    (cost,) = [cost for cost in costs_of(captured(evaluates)) if "training" in cost.cause]
    lines = " ".join(" ".join(block(1, cost, 100, set())).split())
    also = "also: `training` of 4 more modules changed from True to False called"
    assert f"`self.layers[0].training` changed from True to False {also}" in lines


def test_what_only_an_older_entry_rejects_is_no_further_reason() -> None:
    """The newest entry rejects grad mode alone. The oldest one rejects the mode of the modules, too, which changes nothing."""
    (cost,) = [cost for cost in costs_of(captured(evaluates)) if "grad mode" in cost.cause]
    assert len(cost.reasons) > 1 and not cost.further


LONG = "a reason in many words, " * 20


def anything(draw: random.Random) -> Recording:
    """A recording of a program with any number of functions, breaks, recompiles, skipped frames and ends, all with long names."""
    recording = Recording(title=f"{'long_' * draw.randint(1, 20)}train.py", engine=draw.choice(("dynexplore", "torch.compile")))
    for frame in range(1, draw.randint(2, 50)):
        name, line = f"Model_{'x' * draw.randint(0, 90)}.forward_{frame % 30}", draw.randint(1, 400)
        code = ev.CodeView(frame % 30, name, "/src/model.py", line, "", ())
        recording.record(ev.TargetPassed(frame=0, name=name, file="/src/a.py", line=line, row="driver", why=LONG, calls=frame))
        recording.record(ev.FrameEntered(frame=frame, parent=None, code=code))
        where = {"frame": frame, "attempt": 1, "offset": 0}
        stack = (ev.UserFrame("/src/model.py", draw.randint(1, 40), name, "x = " + "f(x) + " * 40),)
        for _ in range(draw.randint(0, 3)):
            recording.record(ev.GraphBroke(**where, kind="DX206", title=LONG[:90], reason=LONG, fix=LONG, user_stack=stack))
        if draw.random() < 0.5:
            kind, source = draw.choice(("EQUALS", "ID_MATCH", "TENSOR_MATCH", "DICT_KEYS")), f"self.{name}"
            words = {"scope": "", "source": source, "expected": LONG, "actual": LONG}
            recording.record(ev.GuardFailed(frame=frame, index=0, kind=kind, **words))
            recording.record(ev.Recompiled(frame=frame, reason=LONG))
        if draw.random() < 0.3:
            recording.record(ev.FrameSkipped(frame=frame, function=name, file="/src/model.py", line=line, reason=LONG))
        if draw.random() < 0.1:
            recording.record(ev.CacheLimitReached(frame=frame, function=name, limit=8, reason=LONG))
        if draw.random() < 0.05:
            recording.record(ev.EngineFailed(frame=frame, error=LONG, where=LONG, user_stack=stack))
        recording.record(ev.FrameFinished(frame=frame, outcome="compiled", seconds=draw.random()))
    error, stopped = draw.choice(("", LONG)), draw.choice(("", LONG))
    recording.record(ev.ProgramEnded(frame=0, status=1, error=error, file="", line=0, stopped=stopped))
    return recording


@pytest.mark.parametrize("seed", range(8))
def test_no_report_is_longer_than_its_lines(seed: int) -> None:
    """Whatever was recorded, and however long names and reasons are; what stands below the report takes from its lines."""
    recording = anything(random.Random(seed))
    for most_lines in (MOST_LINES, MOST_LINES - 2):
        assert len(report(recording, most_lines=most_lines).split("\n")) <= most_lines


@pytest.mark.plain("nothing of this program is captured")
def test_where_nothing_fits_the_likeliest_candidates_are_named() -> None:
    """What was called and not captured is there with its reason, and how to choose it."""

    def program() -> None:
        half(3)
        half(5)

    def half(n: int) -> float:
        return n / 2

    text = " ".join(report(captured(program)).split())
    assert text.startswith("train.py: nothing was captured. It calls no nn.Module, and passes no tensor to its own functions.")
    assert "Closest candidates (--only NAME captures one):" in text and "half (test_program_report.py:" in text


@pytest.mark.plain("the script runs in other processes")
@pytest.mark.parametrize("engine", ["dynexplore", "torch.compile"])
def test_a_launcher_is_answered_by_the_command_for_its_processes(engine: str) -> None:
    """`explain -m torch.distributed.run` records the launcher alone: where to put dynexplore, and nothing about its helpers."""
    recording = Recording(title="torch.distributed.run", engine=engine)
    helper = {"name": "helper", "file": "run.py", "line": 3, "why": "it gets no tensor", "calls": 1}
    recording.record(ev.TargetPassed(frame=0, row="no tensor", **helper))
    recording.record(ev.ProgramEnded(frame=0, status=0))
    command = "explain SCRIPT.py" if engine == "dynexplore" else "watch --ranks OUT SCRIPT.py"
    text = " ".join(report(recording).split())
    assert text.removeprefix("torch.compile of ") == (
        "torch.distributed.run: nothing was captured. It runs the script in other processes, which are not recorded. "
        f"Start dynexplore in each process: torchrun --nproc-per-node N -m dynexplore {command}"
    )


@pytest.mark.plain("nothing of this program is captured")
def test_a_name_that_nothing_bears_is_answered_by_what_was_called() -> None:
    """With --only the report says that nothing of that name was called, and what was."""
    capture = ProgramCapture("train.py", Targets((Pattern("nothing"),)))
    capture.run(trains)
    capture.note_passed()
    text = " ".join(report(capture.recording).split())
    assert text.startswith("train.py: nothing was captured. No function or module that --only names was called. ")
    assert "The script called: " in text
    assert "breaks_often" in text and "grows" in text


@pytest.mark.plain("a recording without captures")
def test_a_program_that_died_says_so_first() -> None:
    """The error, and the line of the program, come before anything that was seen."""
    recording = Recording(title="train.py")
    recording.record(ev.ProgramEnded(frame=0, status=1, error="ValueError: mine", file="/src/train.py", line=7))
    assert report(recording) == "train.py ended with ValueError: mine (train.py:7).\nNothing was captured before that."


def test_the_whole_report_has_one_list() -> None:
    """With --full, graph breaks and recompiles are in one list by seconds, each once, a break with the reason why it is one."""

    def program() -> None:
        breaks_often(torch.ones(2))
        for size in (2, 3):
            grows(torch.ones(size))

    recording = captured(program)
    whole = whole_report(recording).split("\n")
    start = whole.index("Graph breaks and recompiles, costliest first:")
    listed = [line for line in whole[start:] if line[:1].isdigit()]
    costs = costs_of(recording)
    assert [line.split(" ", 2)[1] for line in listed] == [cost.kind.split(" ")[0] for cost in costs]
    assert {cost.kind for cost in costs} == {"graph break", "recompile"}
    assert any(line.startswith("   why: ") for line in whole[start:])
    assert not any(line.startswith(("Break reasons", "Recompiles with several")) for line in whole)


@pytest.mark.plain("nothing is captured")
def test_the_whole_report_of_nothing() -> None:
    """Where nothing was captured, the headline says so."""
    assert whole_report(Recording(title="train.py")).startswith("train.py: nothing was captured.")


@pytest.mark.plain("a recording without captures")
def test_a_program_that_died_has_no_helper_as_a_candidate() -> None:
    """What got no tensor before the end explains nothing; a function that drives the program may be the place to look at."""
    recording = Recording(title="train.py")
    for name, row in (("half", "no tensor"), ("fit", "driver")):
        why = {"no tensor": "it gets no tensor", "driver": "it calls backward()"}[row]
        recording.record(ev.TargetPassed(frame=0, name=name, row=row, why=why, file="/src/train.py", line=3, calls=1))
    recording.record(ev.ProgramEnded(frame=0, status=1, error="ValueError: mine", file="/src/train.py", line=7))
    assert "fit (train.py:3)" in report(recording) and "half" not in report(recording)


def test_where_nothing_has_to_be_done_the_programs_own_function_is_named() -> None:
    """A module of a library that took longer to compile again is in the list."""
    layers = torch.nn.Sequential(*[torch.nn.Linear(2, 2) for _ in range(12)])

    def program() -> None:
        for rows in (2, 3):
            layers(torch.ones(rows, 2))
            grows(torch.ones(rows))

    recording = captured(program)
    assert headline(recording).where.startswith("grows (test_program_report.py:")
    assert [cost.place.partition(" ")[0] for cost in costs_of(recording)] == ["Sequential.forward", "grows"]


def dies_at_four_rows() -> None:
    for rows in (2, 4):
        grows(torch.ones(rows, 2))
        fails_at_four_rows(torch.ones(rows, 2))


def fails_at_four_rows(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    if x.shape[0] == 4:
        raise ValueError("too many")
    return y


def test_what_a_call_that_died_recompiled_is_no_success() -> None:
    """The recompile in the last call is followed by the exception; that of an earlier call still needs no action."""
    capture = ProgramCapture("train.py", Targets())
    with pytest.raises(ValueError, match="too many"):
        capture.run(dies_at_four_rows)
    capture.recording.record(ev.ProgramEnded(frame=0, status=1, error="ValueError: too many", file="train.py", line=3))
    costs = [cost for cost in costs_of(capture.recording) if cost.kind == "recompile"]
    assert sum(cost.times for cost in costs) == 2, costs
    assert [cost.advice for cost in costs if cost.raised] == ["The call then raised ValueError."]
    assert [cost.advice for cost in costs if not cost.raised] == [
        "No action needed: the new version accepts other sizes, too. With dynamic=True, the first call compiles that version."
    ]
    text = " ".join(report(capture.recording).split())
    assert text.index("graph break at") < text.index("The call then raised ValueError."), text


def two_functions() -> None:
    for rows in (2, 3):
        grows(torch.ones(rows, 2))
        measures(torch.ones(rows, 2), "")


def test_recompiles_of_another_function_are_said_to_be_of_another() -> None:
    """The headline names one function; what recompiles besides is not told as if it were that one's."""
    assert "1 more recompile of other functions." in " ".join(report(captured(two_functions)).split())


class Inherited(torch.nn.Module):
    """A module whose `forward` another one has, too."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


class Heir(Inherited):
    """The other one."""


def test_what_was_captured_is_not_listed_as_not_captured() -> None:
    """An inherited `forward` is captured for the class that a pattern names; only the other class is passed."""
    capture = ProgramCapture("train.py", Targets(only=(Pattern("Inherited"),)))
    capture.run(lambda: (Inherited()(torch.ones(2)), Heir()(torch.ones(2))))
    capture.note_passed()
    capture.recording.record(ev.ProgramEnded(frame=0, status=0))
    what, _, passed = " ".join(report(capture.recording).split()).partition("Not captured: ")
    assert "Inherited.forward" in what and "is one graph of 1 operator" in what, what
    assert "Heir.forward" in passed and "Inherited.forward" not in passed, passed
