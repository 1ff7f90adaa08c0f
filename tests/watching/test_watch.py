"""`dynexplore.watch()`: what torch.compile did, as a recording; and torch does what it does without a watch."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from watching.programs import PROGRAMS, Program, _tensor, branches, calls_inner, forget, makes_closures, prints, run

import dynexplore
from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording, resumed_at
from dynexplore.views.headline import headline

pytestmark = [pytest.mark.lenses, pytest.mark.filterwarnings("ignore:Guards may run slower on Python 3.13.0:RuntimeWarning")]


def _seen(program: Program, **options: Any) -> Recording:
    with dynexplore.watch(**options) as seen:
        run(program)
    assert not seen.notices
    return seen.recording


# -- what is seen ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PROGRAMS)
def test_graphs_and_breaks_are_those_that_torch_counts(name: str) -> None:
    """A recording has as many graphs, frames and operators as torch's own counters, and its breaks are theirs."""
    from torch._dynamo.utils import counters

    recording = _seen(PROGRAMS[name])
    assert len(recording.graphs) == counters["stats"]["unique_graphs"]
    assert sum(graph.op_count for graph in recording.graphs) == counters["stats"]["calls_captured"]
    assert len(recording.frames) == counters["frames"]["total"]
    resumable = sum(counters["graph_break"].values())
    others = [broke for broke in recording.breaks if broke.title in ("Data-dependent branching",) or not broke.operations]
    assert resumable <= len(recording.breaks) <= resumable + len(others)


@pytest.mark.parametrize("name", [name for name, program in PROGRAMS.items() if program.cause])
def test_the_headline_names_the_cause(name: str) -> None:
    """The headline of each program says what torch.compile broke at, or what changed, and the line where there is one."""
    program = PROGRAMS[name]
    said = headline(_seen(program))
    words = {"branch": "Data-dependent branching", "item": "Tensor.item()", "`x` had size 4": "`x` changed from 4 elements to 5"}
    assert words.get(program.cause, program.cause) in str(said)
    if program.line:
        with open(__file__.replace("test_watch", "programs"), encoding="utf-8") as file:
            lines = [number for number, text in enumerate(file, 1) if text.strip() == program.line]
        assert any(f"at programs.py:{line} in " in said.where for line in lines), said.where


def test_steps_show_the_stack_after_each_instruction() -> None:
    """A step has the stack that the instruction leaves, the locals that it changed, and stands after the nodes that it made."""
    recording = _seen(PROGRAMS["branch"])
    frame = recording.frames[0].frame
    events = [event for event in recording if event.frame == frame]
    add = next(step for step in recording.of_frame(frame, ev.InstructionStepped) if (step.op, step.arg) == ("BINARY_OP", "+"))
    assert add.stack[-1].text == "float32[4] cpu"
    assert add.stack[-1].node == "add"
    made = events[events.index(add) - 1]
    assert isinstance(made, ev.NodeAdded)
    assert (made.name, made.offset) == ("add", add.offset)
    stored = next(event for event in events if isinstance(event, ev.InstructionStepped) and event.changed)
    assert [(name, view.node if view else "") for name, view in stored.changed] == [("x", "x")]


def test_steps_of_a_resume_function_stand_at_the_original_instructions() -> None:
    """A resume function continues the original: its steps have the original's offsets, and its rows say which is which."""
    recording = _seen(PROGRAMS["branch"])
    whole, *rest = recording.frames
    assert len(rest) == 2
    for entered in rest:
        assert entered.parent == whole.frame
        assert entered.code.resumes == whole.code.id
        assert resumed_at(entered.code) > 0
        rows = {row.offset: row.op for row in whole.code.rows}
        steps = recording.of_frame(entered.frame, ev.InstructionStepped)
        assert steps
        assert all(rows[step.offset] == step.op for step in steps)
        assert steps[0].offset == resumed_at(entered.code)


def test_a_callee_that_is_inlined_is_entered_and_left() -> None:
    """Inlined functions are told with their code, their arguments and what they return."""

    def inner(x: torch.Tensor, n: int) -> torch.Tensor:
        return x * n

    def outer(x: torch.Tensor) -> torch.Tensor:
        return inner(x, 2) + inner(x, 3)

    with dynexplore.watch() as seen:
        torch.compile(outer, backend="eager")(torch.ones(2))
    entered, left = (seen.recording.of(kind) for kind in (ev.InlineEntered, ev.InlineLeft))
    assert [one.code.qualname.rpartition(".")[2] for one in entered] == ["inner", "inner"]
    assert [[name for name, _ in one.arguments] for one in entered] == [["x", "n"], ["x", "n"]]
    assert [(one.callee, one.how, one.result.text if one.result else "") for one in left] == [
        (1, "returned", "float32[2] cpu"), (2, "returned", "float32[2] cpu"),
    ]  # fmt: skip


def test_a_break_in_a_callee_names_both_lines() -> None:
    """The user's stack of a break goes from the frame that breaks to the line of the callee that cannot be captured."""
    recording = _seen(PROGRAMS["inner"])
    first = recording.breaks[0]
    assert [frame.function for frame in first.user_stack] == ["calls_inner", "inner"]
    assert first.user_stack[-1].code.strip() == "torch._dynamo.graph_break()"
    assert recording.resume_functions


def _says(x: torch.Tensor) -> torch.Tensor:
    x = x + 1
    print("said")
    return x * 2


def _calls_what_says(x: torch.Tensor) -> torch.Tensor:
    return _says(x).sin()


@pytest.mark.parametrize("callers", [1, 2])
def test_a_break_counted_again_in_callers_is_told(callers: int) -> None:
    """torch.compile counts a break in an inlined function in each caller and in the function; the headline does, too, and says
    that all of them are at one line.
    """
    from torch._dynamo.utils import counters

    def outer(x: torch.Tensor) -> torch.Tensor:
        return _calls_what_says(x) + 1

    forget()
    with dynexplore.watch() as seen, contextlib.redirect_stdout(io.StringIO()):
        torch.compile(outer if callers == 2 else _calls_what_says, backend="eager")(torch.ones(2))
    count = sum(counters["graph_break"].values())
    assert count == callers + 1
    assert f"{count} graph breaks on 1 line, 0 recompiles." in headline(seen.recording).summary


def test_a_function_that_was_made_and_waits_hides_no_break() -> None:
    """torch has no name for the cell of a closure that the function made: the break is told all the same, and so are the steps."""
    recording = _seen(Program(lambda: makes_closures, lambda: [(_tensor(4),)]))
    (broke,) = recording.breaks
    assert broke.user_stack[-1].code.strip() == 'print("made")'
    assert [name for name, _ in broke.live_locals][:2] == ["x", "y"]


@pytest.mark.parametrize("name", [*PROGRAMS, "makes closures"])
def test_frames_are_those_that_torch_counts(name: str) -> None:
    """The frames of a recording, and those that have no tensor, are as many as torch's counter says."""
    from torch._dynamo.utils import counters

    with dynexplore.watch() as seen:
        run(PROGRAMS.get(name) or Program(lambda: makes_closures, lambda: [(_tensor(4),)]))
    assert seen.frames_seen == len(seen.recording.frames)
    assert seen.frames_seen + seen.frames_without_tensors == counters["frames"]["total"]


def test_breaks_of_one_function_are_not_counted_again() -> None:
    """Where nothing was inlined, the headline has nothing to add to the count."""
    assert "again" not in headline(_seen(PROGRAMS["print"])).summary


def test_a_frame_that_is_given_up_says_so() -> None:
    """A break in a loop gives the frame up: it has the cause, the place, and runs as plain Python."""
    recording = _seen(PROGRAMS["loop"])
    assert [one.function for one in recording.of(ev.FrameSkipped)] == ["breaks_in_loop"]
    assert len(recording.breaks) == 1
    assert not recording.graphs


def test_guards_have_source_check_and_line() -> None:
    """Guards say which source, what check, and which line needs it."""
    installed = _seen(PROGRAMS["branch"]).guards
    guards = {guard.source: guard for guard in installed if guard.kind == "TENSOR_MATCH" and guard.frame == 1}
    assert set(guards) == {"a", "b"}
    assert guards["a"].expected == "float32[4] cpu"
    assert guards["a"].expression.startswith("check_tensor(a, Tensor")
    assert guards["a"].reason.startswith("line ")


def test_recompiles_name_the_guard_and_both_values() -> None:
    """A recompile has the guard that failed, with what was expected and what came."""
    recording = _seen(PROGRAMS["global"])
    failed = recording.of(ev.GuardFailed)
    assert [(one.source, one.expected, one.actual) for one in failed] == [("SCALE", "2.0", "3.0")]
    assert recording.of(ev.Recompiled)[0].reason == "SCALE == 2.0"


def test_the_limit_of_entries_is_told() -> None:
    """When torch.compile gives up after too many recompiles, the recording says which limit it was."""
    with dynexplore.watch() as seen, torch._dynamo.config.patch(recompile_limit=2):
        run(PROGRAMS["attribute"])
    assert [one.limit for one in seen.recording.of(ev.CacheLimitReached)] == [2]


@pytest.mark.parametrize("name", PROGRAMS)
def test_recordings_are_read_again_and_shown(name: str) -> None:
    """A recording of torch.compile goes to JSON and back, and has all views."""
    recording = _seen(PROGRAMS[name])
    again = Recording.from_json(recording.to_json())
    assert again == recording
    assert again._repr_mimebundle_()


def test_without_steps_graphs_guards_and_breaks_remain() -> None:
    """`steps=False` leaves the steps out, and nothing else."""
    whole = _seen(PROGRAMS["branch"])
    forget()
    less = _seen(PROGRAMS["branch"], steps=False)
    assert not less.steps
    assert [graph.op_count for graph in less.graphs] == [graph.op_count for graph in whole.graphs]
    assert [broke.title for broke in less.breaks] == [broke.title for broke in whole.breaks]
    assert len(less.guards) == len(whole.guards)


# -- nothing changes ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", PROGRAMS)
def test_watching_changes_nothing(name: str) -> None:
    """Counters, graphs, text of guards and values of a watched run, with steps and without, are those of an unwatched one."""
    program = PROGRAMS[name]
    target = program.make()
    same = Program(lambda: target, program.calls, between=program.between)
    unwatched = _facts(same, contextlib.nullcontext)
    for options in ({"steps": True}, {"steps": False}):
        watched = _facts(same, lambda options=options: dynexplore.watch(**options))
        assert watched == unwatched


def _facts(program: Program, around: Callable[[], contextlib.AbstractContextManager[Any]]) -> list[Any]:
    """What torch did: its counters, the code of its graphs, its guards to the letter, and what the calls returned."""
    from torch._dynamo import guards
    from torch._dynamo.utils import counters

    forget()
    graphs: list[str] = []
    trees: list[str] = []

    def backend(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Callable[..., Any]:
        graphs.append(graph.print_readable(print_output=False))
        return graph.forward

    def collect(manager: Any, *args: Any, **kwargs: Any) -> None:
        original(manager, *args, **kwargs)
        # a name of torch's with a running number, which no two runs have in common
        trees.append(re.sub(r"__builtins_dict___\d+", "__builtins_dict___", str(manager.guard_manager)))

    original = guards.CheckFunctionManager.__init__
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(guards.CheckFunctionManager, "__init__", collect)
        with around():
            values = run(program, backend=backend)
    counted = {kind: dict(counts) for kind, counts in counters.items() if counts}
    return [counted, graphs, trees, [value.tolist() for value in values]]


def test_everything_is_put_back() -> None:
    """After the block, and after an exception in it, torch's functions are its own."""
    from torch._dynamo import convert_frame, symbolic_convert

    before = convert_frame._compile, symbolic_convert.InstructionTranslatorBase.step
    with dynexplore.watch():
        assert convert_frame._compile is not before[0]
    assert (convert_frame._compile, symbolic_convert.InstructionTranslatorBase.step) == before
    with pytest.raises(ZeroDivisionError), dynexplore.watch():
        raise ZeroDivisionError
    assert (convert_frame._compile, symbolic_convert.InstructionTranslatorBase.step) == before


def test_an_exception_of_the_program_goes_through() -> None:
    """What the program raises comes out as without a watch, and what was captured until then is there."""

    def fails(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        raise ValueError("no")

    with dynexplore.watch() as seen, pytest.raises(ValueError, match="no"):
        torch.compile(fails, backend="eager")(torch.ones(2))
    assert seen.recording.frames


def test_a_backend_that_fails() -> None:
    """Its own error is told instead of what torch wraps it in, and the operator that it had in hand, with the program's line."""

    def chip(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        for node in graph.graph.nodes:
            if node.target == "relu":
                raise NotImplementedError("no relu")
        return graph.forward

    def activates(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        return y.relu() * 2

    with dynexplore.watch() as seen, pytest.raises(Exception, match="no relu"):
        torch.compile(activates, backend=chip)(torch.ones(2))
    (failed,) = seen.recording.of(ev.BackendFailed)
    assert failed.error == "NotImplementedError: no relu"
    assert failed.raised_at is not None and failed.raised_at.function.endswith("chip")
    line = activates.__code__.co_firstlineno + 2
    where = headline(seen.recording).lines[1]
    stopped = rf"It stopped at the operator \w+ at test_watch\.py:{line} in activates"
    assert re.match(rf"{stopped} and raised at test_watch\.py:\d+ in chip: NotImplementedError: no relu", where), where


def test_a_missing_name_leaves_the_rest() -> None:
    """Where this torch lacks a private name, one sentence says what is missing, and the rest is seen."""
    from dynexplore.watching import private_torch

    gone = private_torch.PrivateName("torch._dynamo.symbolic_convert", "InstructionTranslatorBase.gone", "symbolic steps")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(private_torch, "TABLE", tuple(gone if name is private_torch.STEP else name for name in private_torch.TABLE))
        patch.setattr(private_torch, "STEP", gone)
        with dynexplore.watch() as seen:
            run(PROGRAMS["branch"])
    assert len(seen.notices) == 1
    assert "symbolic steps (torch._dynamo.symbolic_convert.InstructionTranslatorBase.gone)" in seen.notices[0]
    assert not seen.recording.steps
    assert len(seen.recording.graphs) == 3


def test_an_object_that_cannot_be_read_leaves_the_rest() -> None:
    """Where an object of torch is not as expected, the look is given up in one sentence, and the program runs on."""
    from dynexplore.watching import private_torch

    def cannot(tracker: Any) -> Any:
        raise AttributeError("no such field")

    with pytest.MonkeyPatch.context() as patch, dynexplore.watch() as seen:
        patch.setattr(private_torch, "tracker_words", cannot)
        with contextlib.redirect_stdout(io.StringIO()):
            value = torch.compile(prints, backend="eager")(torch.ones(2))
    assert value.tolist() == [4.0, 4.0]
    assert any("could not be read" in notice for notice in seen.notices)
    assert len(seen.recording.graphs) == 2


def test_a_watch_in_a_watch_sees_its_own_part() -> None:
    """Of two watches, one in the other, each has what happened in its block."""
    with dynexplore.watch() as outer:
        torch.compile(branches, backend="eager")(torch.ones(2), torch.ones(2))
        with dynexplore.watch() as inside:
            torch.compile(calls_inner, backend="eager")(torch.ones(2))
    assert len(inside.recording.graphs) == 3
    assert len(outer.recording.graphs) == 5


def test_the_headline_names_what_else_entries_were_refused_for() -> None:
    """Sizes come back, and a counter never does: the headline names both, though torch's check ends at the size."""

    class Counting(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.seen = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.seen += 1
            for row in range(x.shape[0]):
                x = x + row
            return x

    model = Counting()
    with dynexplore.watch(steps=False) as seen:
        compiled = torch.compile(model, backend="eager", dynamic=False)
        for rows in (2, 3, 2, 3):
            compiled(torch.ones(rows, 4))
    headline = str(seen).split("\n\n")[0]
    causes = "`x` changed from 2 rows to 3; `self.seen` changed from 0 to 1."
    assert f"{causes} 2 more recompiles followed." in " ".join(headline.split())
