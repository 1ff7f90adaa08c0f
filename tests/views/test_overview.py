"""views/overview.py: a verdict of two lines, rows ranked by seconds lost, functions, and the view that is opened."""

from __future__ import annotations

import json
from typing import Any

import pytest
import torch

import dynexplore
from dynexplore.engine import events as ev
from dynexplore.engine.errors import BackendCompilerError
from dynexplore.recording.recording import Recording
from dynexplore.session.program_capture import ProgramCapture
from dynexplore.session.targets import Targets
from dynexplore.views.cache_timeline import calls, timeline_data
from dynexplore.views.overview import NOTHING_TO_FIX, overview_data, seconds_text
from dynexplore.views.remedies import NO_ACTION
from dynexplore.views.targets_table import functions_of
from dynexplore.views.timeline import Timeline
from sample_recordings import toy


def overview(recording: Recording) -> dict[str, Any]:
    return overview_data(recording, Timeline(recording).by_frame())


def captured(program: Any) -> Recording:
    capture = ProgramCapture("train.py", Targets())
    capture.run(program)
    capture.note_passed()
    capture.recording.record(ev.ProgramEnded(frame=0, status=0))
    return capture.recording


def grows(x: torch.Tensor) -> torch.Tensor:
    return x.sum() + x.shape[0]


def breaks(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    print(end="")
    return y * 2


def ends_with_a_break(x: torch.Tensor) -> float:
    return float((x + 1).sum().item())


def clean(x: torch.Tensor) -> torch.Tensor:
    return (x + 1).relu()


def program() -> None:
    for size in (2, 3, 4):
        grows(torch.ones(size))
    breaks(torch.ones(2))


def test_rows_are_ranked_by_the_seconds_that_were_lost() -> None:
    """The row that lost most stands first, what needs no action last; bar, rows and functions add up to the same seconds."""
    data = overview(captured(program))
    ranks = [(row.get("isExpected", 0), -row["seconds"]) for row in data["rows"]]
    assert ranks == sorted(ranks) and ranks[0][0] == 0 and ranks[-1][0] == 1 and ranks[0][1] < 0
    assert {row["kind"] for row in data["rows"]} >= {"recompile", "break"}
    recompiles = sum(row["seconds"] for row in data["rows"] if row["kind"] == "recompile")
    assert recompiles == pytest.approx(data["seconds"]["recompile"], abs=1e-3)
    assert sum(function["seconds"] for function in data["functions"]) == pytest.approx(
        data["seconds"]["compile"] + data["seconds"]["recompile"], abs=1e-3
    )
    assert data["opens"]["view"] == "overview" and data["opens"]["place"] == data["rows"][0]["place"]


def gives_up(x: torch.Tensor, flag: int) -> torch.Tensor | None:
    return x + 1 if flag == 0 else None


def test_a_recompile_whose_capture_is_given_up_is_counted_everywhere() -> None:
    """Badge, verdict, functions and the view Recompiles have one number, also where no target was chosen."""
    with dynexplore.explain(gives_up) as fn:
        for flag in (0, 1):
            fn(torch.ones(2), flag)
    recording = fn.explanation.recording
    outcomes = {called.outcome for call in calls(recording) for called in call.frames}
    count = len(recording.of(ev.Recompiled))
    assert count == 1 and outcomes == {"compile", "plain Python"}
    data = overview(recording)
    assert sum(one.recompiles for one in functions_of(recording)) == count
    called = [one for call in timeline_data(recording)["calls"] for one in call["frames"]]
    assert sum(one.get("recompiled", 0) for one in called) == count
    assert data["verdict"][0].startswith("1 recompile") and data["functions"][0]["verdict"] == "1 graph, 1 recompile"


def test_the_verdict_counts_what_the_rows_count() -> None:
    """Two lines: how many recompiles and breaks there were and what they took, and what to fix first."""
    data = overview(captured(program))
    first, second = data["verdict"]
    times = sum(row["times"] for row in data["rows"] if row["kind"] == "recompile")
    assert f"{times} recompile" in first and "1 graph break cost" in first
    assert second.startswith("Fix first: ") and len(second) < 160


def prints_in_a_loop(x: torch.Tensor) -> torch.Tensor:
    for _ in range(3):
        x = x * 2
        print(end="")
    return x


def test_the_verdict_leads_with_what_needs_an_action() -> None:
    """A recompile that the break causes is not told as one that needs no action: fixing the break removes it, too."""
    data = overview(captured(lambda: [prints_in_a_loop(torch.ones(2)) for _ in range(2)]))
    broke, again = data["rows"]
    assert (broke["kind"], broke["removes"], again["kind"], again["isExpected"]) == ("break", 1, "recompile", 1)
    first, second = data["verdict"]
    assert first.startswith(f"{broke['times']} graph breaks on 1 line cost ") and first.endswith(" compile time.")
    assert second.startswith("Fix first: `print(") and second.endswith("A fix also removes 1 recompile.")
    assert again["remedy"].endswith("Fixing the graph break in the loop removes it.") and NO_ACTION not in again["remedy"]


def test_a_recompile_names_the_line_that_used_the_value() -> None:
    """It is not where the function begins: the row shows the line, the details its number."""
    data = overview(captured(lambda: [grows(torch.ones(size)) for size in (2, 3)]))
    row = next(row for row in data["rows"] if row["kind"] == "recompile")
    line = str(grows.__code__.co_firstlineno + 1)
    assert row["code"] == "return x.sum() + x.shape[0]"
    assert ["used at", f"test_overview.py:{line}", ""] in row["facts"] and [line, row["code"], "line"] in row["facts"]


def at_limit(x: torch.Tensor, name: str) -> torch.Tensor:
    return x * len(name) + 1


def test_what_to_fix_first_names_that_line() -> None:
    """A function that recompiles for each text, up to the limit: the verdict has the place that used the text."""
    with dynexplore.config.patch(log_level="ERROR"):
        data = overview(captured(lambda: [at_limit(torch.ones(2), "a" * number) for number in range(1, 12)]))
    assert f" (used at test_overview.py:{at_limit.__code__.co_firstlineno + 1}), so at_limit recompiled" in data["verdict"][1]


def test_the_seconds_of_a_row_are_those_of_the_frames_in_the_timeline() -> None:
    """A break is outlined where the functions after it were compiled, not where it happened: their seconds are the row's."""
    data = overview(captured(lambda: [prints_in_a_loop(torch.ones(2)) for _ in range(2)]))
    spans = {span["frame"]: span["seconds"] for track in data["timeline"]["tracks"] for span in track["spans"]}
    for row in data["rows"]:
        assert row["compiled"] and sum(spans[frame] for frame in row["compiled"]) == pytest.approx(row["seconds"], abs=1e-3)
    assert data["rows"][0]["place"][0] not in data["rows"][0]["compiled"]


def of_a_kind(x: torch.Tensor, name: str) -> torch.Tensor:
    return x + len(name)


def test_a_limit_is_the_first_news_and_no_cause_of_its_own() -> None:
    """That a function is no longer compiled is what the verdict begins with; it is one row, with the recompiles that led to it."""
    with dynexplore.config.patch(log_level="ERROR", recompile_limit=3):
        data = overview(captured(lambda: [of_a_kind(torch.ones(2), name) for name in ("a", "b", "c", "d", "e")]))
    assert data["verdict"][0].startswith("of_a_kind reached the recompile limit of 3 and runs as plain Python. ")
    (row,) = data["rows"]
    assert row["kind"] == "recompile" and "After 3 versions (the limit)" in row["more"]
    assert data["functions"][0]["verdict"].endswith(", then plain Python")


@pytest.mark.plain("a recording written by hand needs no engine")
def test_the_call_that_reached_the_limit_was_not_compiled() -> None:
    """torch.compile begins to compile it, so it counts as a recompile, but there is no version of it."""
    recording = Recording(title="f", engine="torch.compile")
    for frame in (1, 2):
        recording.record(ev.FrameEntered(frame=recording.next_frame_id(), parent=None, code=ev.CodeView(1, "f", "m.py", 1, "", ())))
    recording.record(ev.Recompiled(frame=2, reason="n == 1"))
    recording.record(ev.CacheLimitReached(frame=2, function="f", limit=1, reason="n == 1"))
    (row,) = overview(recording)["rows"]
    assert row["more"] == "The last one was not compiled: after 1 version (the limit), it and later calls ran as plain Python."


def test_what_needs_no_action_is_not_to_be_fixed_first() -> None:
    """A size that changed once recompiles once: the second line says that nothing need be done, and why it happened."""
    data = overview(captured(lambda: [grows(torch.ones(size)) for size in (2, 3)]))
    assert data["verdict"][1].startswith("No action needed: ") and "grows recompiled: `x`" in data["verdict"][1]


def test_a_recompile_tells_guard_and_found_value_and_calling_line() -> None:
    """The detail of a row has the guard that failed, what it expected, what it found, and the line of the call."""
    row = next(row for row in overview(captured(program))["rows"] if row["kind"] == "recompile")
    facts = {name: text for name, text, _ in row["facts"]}
    assert {"guard", "expected", "found", "called from"} <= facts.keys()
    assert any("grows(torch.ones(size))" in text for _, text, how in row["facts"] if how == "line")


def test_the_timeline_has_a_track_for_each_function() -> None:
    """Each compilation is a span that begins where the one before ended; calls that found their code are hits."""
    recording = captured(lambda: [grows(torch.ones(size)) for size in (2, 3, 3)])
    data = overview(recording)
    assert data["how"] == "dynexplore, backend eager, 3 calls" and data["file"] == "train.py"
    (track,) = data["timeline"]["tracks"]
    first, again = track["spans"]
    assert (first["kind"], again["kind"]) == ("compile", "recompile")
    assert again["start"] == pytest.approx(first["start"] + first["seconds"], abs=1e-3)
    assert track["function"] == "grows" and sum(count for _, count, _ in track["hits"]) == 1


def test_a_break_that_splits_nothing_is_nothing_to_fix() -> None:
    """Where the break is the last operation it costs 0 s and says so; where a graph follows it does not."""
    with dynexplore.config.patch(log_level="ERROR"):
        last = overview(dynexplore.explain(ends_with_a_break, torch.ones(2)).recording)
        split = overview(dynexplore.explain(breaks, torch.ones(2)).recording)
    (row,) = last["rows"]
    assert (row["kind"], row["seconds"], row["remedy"]) == ("break", 0.0, NOTHING_TO_FIX)
    assert split["rows"][0]["remedy"] != NOTHING_TO_FIX and split["rows"][0]["seconds"] > 0


def test_one_break_opens_the_story_at_its_line() -> None:
    """One function with one break: the story at the line, not a list of one row."""
    with dynexplore.config.patch(log_level="ERROR"):
        recording = dynexplore.explain(breaks, torch.ones(2)).recording
    data = overview(recording)
    assert data["opens"] == {"view": "story", "place": data["rows"][0]["place"]}
    frame, number = data["opens"]["place"]
    assert isinstance(Timeline(recording).by_frame()[frame][number].event, ev.GraphBroke)


def test_a_clean_function_has_no_rows_and_nothing_to_fix() -> None:
    """One graph: no row, the verdict counts its operators."""
    data = overview(dynexplore.explain(clean, torch.ones(2)).recording)
    assert data["rows"] == [] and data["opens"]["view"] == "overview"
    assert data["verdict"][0] == "clean is one graph of 2 operators. No graph breaks, no recompiles."
    assert data["verdict"][1].endswith(NOTHING_TO_FIX)


def failing(graph: torch.fx.GraphModule, inputs: Any) -> Any:
    raise NotImplementedError("no kernel for sin")


def test_a_failing_backend_comes_before_all_that_costs_seconds() -> None:
    """The first row is the error in its own words, and the story opens in the function that the backend was given."""
    with dynexplore.explain(clean, backend=failing) as fn, pytest.raises(BackendCompilerError):
        fn(torch.ones(2))
    data = overview(fn.explanation.recording)
    assert data["rows"][0]["kind"] == "backend" and "no kernel for sin" in data["rows"][0]["cause"]
    assert data["opens"]["view"] == "story" and data["level"] == "bad"
    assert "Set TORCH" not in data["rows"][0]["cause"]


def stops_at_sin(graph: torch.fx.GraphModule, inputs: Any) -> Any:
    for node in graph.graph.nodes:
        if node.target is torch.sin:
            raise NotImplementedError("no kernel for sin")
    return graph.forward


def waves(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    return torch.sin(y) + 1


def test_a_failing_backend_has_a_place_and_advice() -> None:
    """The line of the operator at which it stopped, the backend's line that raised, and what to do; the verdict has the place."""
    with dynexplore.explain(waves, backend=stops_at_sin) as fn, pytest.raises(BackendCompilerError):
        fn(torch.ones(2))
    data = overview(fn.explanation.recording)
    line = waves.__code__.co_firstlineno + 2
    row = data["rows"][0]
    assert (row["where"], row["code"]) == (f"test_overview.py:{line}", "return torch.sin(y) + 1")
    assert data["verdict"][0] == f"The backend failed in waves at test_overview.py:{line}."
    assert row["remedy"].startswith("Add this operator to `stops_at_sin`, or avoid it")
    raised = stops_at_sin.__code__.co_firstlineno + 3
    assert ["raised at", f"test_overview.py:{raised} in stops_at_sin", ""] in row["facts"]
    assert [str(raised), 'raise NotImplementedError("no kernel for sin")', "line"] in row["facts"]


@pytest.mark.plain("a recording of nothing needs no engine")
def test_nothing_compiled_says_why_and_what_next() -> None:
    """A program without torch.compile, watched: why there is nothing, and a command to copy."""
    data = overview(Recording(title="train.py", engine="torch.compile"))
    empty = data["empty"]
    assert data["how"] == "", "it never called what would stand beside its name"
    assert empty["next"] == "To see how it would be captured:"
    assert empty["command"] == "dynexplore explain train.py" and "compiled nothing" in empty["why"]


def halves(number: float) -> float:
    return number / 2


@pytest.mark.plain("nothing is captured here")
def test_nothing_captured_says_what_to_do() -> None:
    """A program that calls nothing with a tensor: which function was nearest, and the command that captures it, nothing twice."""
    data = overview(captured(lambda: halves(1.0)))
    empty = data["empty"]
    assert empty["why"].startswith("halves (test_overview.py:") and empty["why"] not in data["verdict"]
    assert empty["next"].startswith("To be captured, a function must be an nn.Module")
    assert empty["command"] == "dynexplore explain train.py --only halves"
    assert overview(captured(lambda: None))["empty"]["command"] == "dynexplore explain train.py --all"


@pytest.mark.plain("a recording written by hand needs no engine")
def test_the_change_is_code_and_no_pattern() -> None:
    """What is offered to copy is an assignment or an argument; the pattern of a sentence is none."""
    recording = toy()
    for row in overview(recording)["rows"]:
        assert not row["change"].startswith("if ")
    assert json.dumps(overview(recording))


@pytest.mark.plain("a recording written by hand needs no engine")
def test_remedies_of_torch_compile_say_whether_they_were_tried() -> None:
    """Each has the text to paste, its place and its price; what `dynexplore try` found takes the place of "Expected to help"."""
    recording = Recording(title="f", engine="torch.compile")
    recording.record(ev.FrameEntered(frame=1, parent=None, code=ev.CodeView(1, "f", "m.py", 1, "", ())))
    recording.record(ev.GraphBroke(frame=1, kind="DX105", title="Tensor.item() call", reason="Tensor.item() call"))
    recording.record(ev.FrameFinished(frame=1, outcome="compiled", seconds=1.0))
    (row,) = overview(recording)["rows"]
    first = row["remedies"][0]
    assert first["text"] and first["where"] and first["price"] and first["tried"] == "Expected to help; not tried."
    tried = ev.RemedyTried(frame=0, row="r", text=first["text"], before=(2, 1, 0), after=(1, 0, 0), same_values=True, helped=True)
    recording.record(tried)
    assert overview(recording)["rows"][0]["remedies"][0]["tried"] == "Tried: 0 graph breaks instead of 1; same values."


@pytest.mark.plain("a recording written by hand needs no engine")
@pytest.mark.parametrize(
    ("title", "why", "code", "cause"),
    [
        ("Data-dependent branching", "", "if x.sum() > 0:", "`if` on a tensor value"),
        ("Data-dependent branching", "", "while x.any():", "`while` on a tensor value"),
        ("Data-dependent branching", "", "y = a and b", "Data-dependent branching"),
        (
            "Failed to trace builtin operator",
            "Dynamo does not know how to trace builtin operator `print` with argument types ['str']",
            "print('a')",
            "Call of `print`, which cannot be traced",
        ),
        (
            "Unsupported Tensor.item() call with capture_scalar_outputs=False",
            "",
            "n = x.item()",
            "`.item()` converts a tensor to a Python number",
        ),
        ("Attempted to call function marked as skipped", "", "f(x)", "Attempted to call function marked as skipped"),
    ],
)
def test_causes_of_torch_compile_name_the_code(title: str, why: str, code: str, cause: str) -> None:
    """The most frequent breaks are said in terms of the program; the title in torch's log stands among the details."""
    recording = Recording(title="f", engine="torch.compile")
    recording.record(ev.FrameEntered(frame=1, parent=None, code=ev.CodeView(1, "f", "m.py", 1, f"{code}\n", ())))
    stack = (ev.UserFrame("m.py", 1, "f", code),)
    recording.record(ev.GraphBroke(frame=1, kind="torch", title=title, reason=title, why=why, user_stack=stack))
    recording.record(ev.FrameFinished(frame=1, outcome="compiled", seconds=1.0))
    (row,) = overview(recording)["rows"]
    assert row["cause"] == cause
    assert (["in the log", title, ""] in row["facts"]) == (cause != title)


@pytest.mark.plain("words for seconds")
@pytest.mark.parametrize(
    ("seconds", "text"), [(0, "0 s"), (0.0004, "1 ms"), (0.0482, "48 ms"), (0.5, "0.50 s"), (37.06, "37.1 s"), (130.2, "130 s")]
)
def test_seconds_have_a_unit_and_three_digits(seconds: float, text: str) -> None:
    """No number without a unit, none with 17 digits."""
    assert seconds_text(seconds) == text


def test_a_value_that_another_version_rejected_is_listed_with_that_version() -> None:
    """Version 2 takes any step: that version 1 does not is no cause of the recompile, and its number is of the first call."""
    explained = dynexplore.explain(lambda x, step: x / (1 + step * 0.1))
    rows = overview(explained.calls(*((torch.ones(n, 2), step) for n, step in ((4, 0.0), (4, 0.5), (6, 1.0)))).recording)["rows"]
    (row,) = (row for row in rows if row["cause"].startswith("`x` changed"))
    names = {name: text for name, text, _ in row["facts"]}
    assert names["version 1"] == "also rejects the call: `step` changed from 0.0 to 1.0" and "also" not in names
