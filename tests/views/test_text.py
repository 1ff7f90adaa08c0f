"""views/text.py: every view as text, from hand-written recordings, compared with golden files."""

from __future__ import annotations

import importlib
from pathlib import Path

import pytest
import torch

import dynexplore
from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from dynexplore.views import text
from golden_files import Golden
from sample_recordings import ORIGINAL, SAMPLES, A, toy


@pytest.mark.parametrize("name", SAMPLES)
def test_the_whole_report(name: str, golden: Golden) -> None:
    """Explanation, frames, calls and the debug printout of each frame, as one text."""
    golden(f"views/{name}.report.txt", text.report(SAMPLES[name]()))


@pytest.mark.parametrize("name", SAMPLES)
def test_the_steps(name: str, golden: Golden) -> None:
    """Each moment of the first frame: instruction, stack, what changed."""
    golden(f"views/{name}.steps.txt", text.steps(SAMPLES[name](), 1))


@pytest.mark.parametrize("name", SAMPLES)
def test_the_anatomy_of_guards(name: str, golden: Golden) -> None:
    """Each guard with expectation, check, and the instruction that asked for it."""
    golden(f"views/{name}.guards.txt", text.guard_anatomy(SAMPLES[name](), 1))


def test_other_views_of_toy(golden: Golden) -> None:
    """Break details, a failed guard, canonical opcodes, the node table."""
    r = toy()
    failed = r.of(ev.GuardFailed)[0]
    views = [text.break_details(r, r.breaks[0]), text.recompile_report(r, failed), text.canonical(ORIGINAL)]
    golden("views/toy.others.txt", "\n\n".join([*views, text.node_table(r.graphs[0].nodes)]))


def test_the_debug_printout_has_the_known_headings() -> None:
    """Graph table, ORIGINAL BYTECODE and MODIFIED BYTECODE with function, file and line, GUARDS with known lines."""
    printed = text.debug_printout(toy(), 1)
    assert printed.index("__compiled_fn_0") < printed.index("ORIGINAL BYTECODE toy example.py line 9\n")
    assert printed.index("ORIGINAL BYTECODE") < printed.index("MODIFIED BYTECODE toy example.py line 9\n")
    assert "\n\nGUARDS:\n - local 'a' TENSOR_MATCH\n - global 'torch' ID_MATCH\n" in printed
    assert printed.endswith("more  docs/graph-breaks.md#dx104        (fundamental)")


def test_the_debug_printout_can_be_in_parts() -> None:
    """DYNEXPLORE_LOGS chooses parts: each part is printed alone, and the steps only when asked for."""
    r = toy()
    assert text.debug_printout(r, 1, ["guards"]).startswith("GUARDS:\n")
    assert text.debug_printout(r, 1, ["breaks"]).startswith("Graph break DX104")
    assert text.debug_printout(r, 1, ["steps"]) == text.steps(r, 1)
    assert "BYTECODE" not in text.debug_printout(r, 1, ["graph"])
    assert "plain Python: recompile limit (1) reached" in text.debug_printout(with_frame_of_skipped(r), 4)


def with_frame_of_skipped(r: Recording) -> Recording:
    r.record(ev.FrameEntered(frame=4, parent=None, code=ORIGINAL))
    return r


def test_the_first_line_of_an_explanation_is_the_known_one() -> None:
    """Graphs, breaks and ops as PyTorch tells them, then the reasons with place, code and advice."""
    lines = text.explanation(toy()).splitlines()
    assert lines[4] == ""  # the headline stands above, its remedy in two lines
    assert lines[5:13] == [
        "2 graphs, 1 graph break, 7 operators",
        "Break reasons:",
        "",
        "1. `if` on a tensor value",
        '   File "example.py", line 11, in toy',
        "     if b.sum() < 0:",
        "   why: The branch depends on data that exists only when the graph runs.",
        "   fix: Use torch.where, or move the `if` out of the compiled function.",
    ]
    assert text.explanation(Recording()).splitlines()[3:] == ["0 graphs, 0 graph breaks, 0 operators"]


def test_an_explanation_names_failures_and_cuts() -> None:
    """A bug of the engine and a cut recording are told in the explanation."""
    r = Recording(max_steps=0)
    r.record(ev.InstructionStepped(frame=1, step=0, op="RESUME"))
    r.record(ev.EngineFailed(frame=1, error="KeyError: 'x'", where="handlers/names.py:12 load_fast"))
    explained = text.explanation(r)
    assert "Bug in the engine, in handlers/names.py:12 load_fast: KeyError: 'x'" in explained
    assert "The recording was cut at event 0 (frame 1): 0 steps are reached; 1 events left out." in explained


@pytest.mark.parametrize(
    ("scope", "source", "line"),
    [
        ("local", "a", " - local 'a' TENSOR_MATCH"),
        ("global", "torch.abs", " - global 'torch.abs' TENSOR_MATCH"),
        ("", "", " - TENSOR_MATCH"),
        ("local", "d['k']", " - local \"d['k']\" TENSOR_MATCH"),
    ],
)
def test_a_guard_line(scope: str, source: str, line: str) -> None:
    """A guard is one line of scope, source and kind."""
    guard = ev.GuardInstalled(frame=1, index=0, scope=scope, source=source, kind="TENSOR_MATCH")
    assert text.guard_line(guard) == line


def test_what_happened_after_a_break() -> None:
    """How many operations were compiled, how many resume functions were made, or why the frame is plain Python."""
    r = Recording()
    r.record(ev.FrameEntered(frame=1, parent=None, code=ORIGINAL))
    broke = ev.GraphBroke(frame=1, attempt=1, offset=2, kind="DX206", title="printing", reason="printing")
    r.record(broke)
    assert text.what_then(r, broke) == "nothing to compile before it."
    r.record(ev.ResumeFunctionCreated(frame=1, offset=4, name="__resume_at_4_0", parameters=(), code=ORIGINAL))
    assert text.what_then(r, broke) == "nothing to compile before it; the rest continues in a resume function."
    r.record(ev.NodeAdded(frame=1, attempt=1, graph="g", name="neg", op="call_function", target="neg"))
    r.record(ev.SubgraphCompiled(frame=1, attempt=1, graph="g", backend="eager", node_count=1, op_count=1))
    assert text.what_then(r, broke) == "1 operation compiled before it; the rest continues in a resume function."
    r.record(ev.FrameSkipped(frame=1, function="f", file="f.py", line=1, reason="too hard"))
    assert text.what_then(r, broke) == "the frame runs as plain Python: too hard."


def test_another_capture_is_shown_or_why_it_failed() -> None:
    """The graph of torch.fx.symbolic_trace stands first in the printout; where it failed, the reason does."""
    r = toy()
    nodes = (ev.NodeRow("placeholder", "a", "a"), ev.NodeRow("output", "output", "output", "(a,)"))
    r.record(ev.CapturedOtherwise(frame=1, method="torch.fx.symbolic_trace", nodes=nodes))
    r.record(ev.CapturedOtherwise(frame=1, method="torch.jit.trace", failure="data-dependent `if`"))
    printed = text.debug_printout(r, 1)
    assert printed.startswith("torch.fx.symbolic_trace\nopcode       name    target  args  kwargs\n")
    assert "torch.jit.trace\nfailed: data-dependent `if`\n" in printed


def test_side_effects_and_deletions_are_told() -> None:
    """A step says which locals it deleted and which side effects it noted."""
    r = Recording()
    r.record(ev.FrameEntered(frame=1, parent=None, code=ORIGINAL, arguments=(("a", A),)))
    r.record(ev.AttemptStarted(frame=1, attempt=1))
    r.record(ev.MutationRecorded(frame=1, attempt=1, offset=2, order=0, target=A, operation="list.append"))
    r.record(ev.InstructionStepped(frame=1, attempt=1, offset=2, step=1, op="X", changed=(("a", None),)))
    assert "del a; side effect list.append on a" in text.steps(r, 1)


def test_cells_with_line_ends_stay_in_their_row() -> None:
    """A table has one line per row, whatever the cells hold."""
    assert text.table(("a", "b"), [("x\ny", "z")]) == "a    b\n---  -\nx y  z"


def test_everything_is_shown_of_an_empty_recording() -> None:
    """A recording in which nothing happened has views, too."""
    assert "no frame was translated" in text.report(Recording())
    with pytest.raises(KeyError, match="no frame 1"):
        text.debug_printout(Recording(), 1)


def many_breaks(x: torch.Tensor) -> torch.Tensor:
    """Breaks at ten lines."""
    x = x + 1
    print(end="")
    x = x + 1
    print(end="")
    x = x + 1
    print(end="")
    x = x + 1
    print(end="")
    x = x + 1
    print(end="")
    x = x + 1
    print(end="")
    x = x + 1
    print(end="")
    x = x + 1
    print(end="")
    x = x + 1
    print(end="")
    x = x + 1
    print(end="")
    return x + 1


def test_an_explanation_is_one_screen() -> None:
    """Of many breaks the costliest are shown, the rest is counted with how to see it; all of it is there on demand."""
    explained = dynexplore.explain(many_breaks, torch.ones(2))
    shown = str(explained)
    lines = shown.split("\n")
    assert len(lines) <= text.MOST_LINES
    assert "Break reasons, costliest first:" in lines
    assert lines[-1].endswith("more places: print(dynexplore.all_breaks(f, x)) lists them")
    assert shown.count("   fix: ") + int(lines[-1].split()[2]) == 10
    whole = text.explanation(explained.recording)
    assert whole.count("   fix: ") == 10 and "Break reasons:" in whole.split("\n")


def test_of_many_skipped_frames_three_are_shown() -> None:
    """The program's own come first; of more than fit the rest is counted."""
    recording = Recording(title="f")
    for number in range(60):
        file = "/x/site-packages/library.py" if number < 30 else "/home/me/model.py"
        recording.record(ev.FrameSkipped(frame=0, function=f"g{number}", file=file, line=number + 1, reason="no tensors"))
    lines = text.explanation(recording, most_lines=40).split("\n")
    assert [line for line in lines if line.startswith(" - ")] == [
        " - g30 (/home/me/model.py:31): no tensors",
        " - g31 (/home/me/model.py:32): no tensors",
        " - g32 (/home/me/model.py:33): no tensors",
        " - and 57 more",
    ]
    assert len(text.explanation(recording).split("\n")) > 60


def rest_without_tensors(x: torch.Tensor) -> int:
    """What continues after its break has no tensor work."""
    x = x + 1
    print(end="")
    return 3


def test_a_part_of_a_function_is_not_told_as_the_whole() -> None:
    """What continues after a break and is not compiled is named by its line."""
    explained = dynexplore.explain(rest_without_tensors, torch.ones(2))
    line = rest_without_tensors.__code__.co_firstlineno + 3
    assert f"- rest_without_tensors, from line {line} on ({__file__}): {ev.NO_TENSORS}" in " ".join(str(explained).split())


def test_a_library_line_follows_the_line_that_calls_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each place of a break is the program's line; that of the library comes after it, also where the library's frame breaks."""
    folder = tmp_path / "site-packages"
    folder.mkdir()
    (folder / "prints_inside.py").write_text("def helper(x):\n    y = x * 2\n    print(end='')\n    return y + 1\n")
    monkeypatch.syspath_prepend(str(folder))
    helper = importlib.import_module("prints_inside").helper

    def calls(x: torch.Tensor) -> torch.Tensor:
        return helper(x) + 1  # type: ignore[no-any-return]

    line = calls.__code__.co_firstlineno + 1
    for function, called in ((calls, f"{__file__}:{line}"), (helper, f"{__file__}:")):
        explained = dynexplore.explain(function, torch.ones(2))
        files = [one.strip() for one in str(explained).split("\n") if one.startswith("   File ")]
        assert len(files) == 2 and files[0].startswith(f'File "{__file__}", line ') and "prints_inside.py" in files[1]
        (cost,) = dynexplore.all_breaks(function, torch.ones(2))
        assert cost.place.endswith("prints_inside.py:3 in helper)") and cost.place.startswith(called)
