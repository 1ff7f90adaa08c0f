"""views/headline.py: twelve kinds of recordings, each told in at most three lines: what happened, where, what to do."""

from __future__ import annotations

import dataclasses
import enum
import heapq
import re
from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

from dynexplore import config, explain, graph_break
from dynexplore.engine import events as ev
from dynexplore.engine.errors import BackendCompilerError, EngineError
from dynexplore.engine.translate import dispatch
from dynexplore.recording.recording import Recording
from dynexplore.traces.torch_words import Cause
from dynexplore.views import text
from dynexplore.views.changes import change
from dynexplore.views.headline import LONGEST, headline, place_of_break, remedy_of, worst_break
from dynexplore.views.names import frame_name, skipped_name
from dynexplore.views.overview import overview_data
from dynexplore.views.ranked_costs import costs_of
from dynexplore.views.timeline import Timeline
from sample_recordings import toy

X = torch.ones(4)
NOWHERE: dict[str, Any] = {"inline": 0, "offset": -1, "stack": (), "live_locals": (), "operations": 0}
PRINT = "Move the print outside the compiled function, or remove it."
LOOP = "Fixing the break also removes the recompiles in its loop."
VERSIONS = "No action needed if you use both values of `{}`: each gets its own compiled version."
BOTH = f"{VERSIONS} Otherwise pass the same value every time."


def lines(explanation: Any) -> list[str]:
    return list(headline(explanation.recording).lines)


def line(function: Callable[..., Any], after: int) -> int:
    """The number of a line of a function."""
    return function.__code__.co_firstlineno + after


def stands(function: Callable[..., Any]) -> str:
    """Where a function begins, as the headline says it."""
    return f"test_headline.py:{line(function, 0)}"


def place(function: Callable[..., Any], after: int) -> str:
    """A line of a function as the headline says it: file, line and function."""
    return f"test_headline.py:{line(function, after)} in {function.__qualname__.rpartition('<locals>.')[2]}"


def branches(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    x = a / (torch.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b


def prints(x: torch.Tensor) -> torch.Tensor:
    x = x + 1
    print("one")
    x = x * 2
    print("two")
    return x.relu()


def doubles(x: torch.Tensor) -> torch.Tensor:
    return x * 2 + 1


def scales(x: torch.Tensor, n: int) -> torch.Tensor:
    return x * n


class Settings:
    def __init__(self) -> None:
        self.scale = 3


SETTINGS = Settings()


def reads(x: torch.Tensor) -> torch.Tensor:
    return x * SETTINGS.scale


def loops(x: torch.Tensor) -> torch.Tensor:
    for number in range(4):
        x = x + 1
        print("round", number)
    return x


class Two(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.b(self.a(x).relu())


class Chatty(Two):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.a(x)
        print("between")
        return self.b(y)


def test_a_break() -> None:
    """Graphs and breaks are counted, the line and the cause named, the remedy is that of the kind."""
    assert lines(explain(branches)(X, -X)) == [
        "branches: 2 graphs, 1 graph break, 0 recompiles.",
        f"The graph breaks at {place(branches, 2)}: `if` on a tensor value.",
        "Use torch.where, or move the `if` out of the compiled function.",
    ]


def test_several_breaks() -> None:
    """The first is told, the others are named by their lines."""
    assert lines(explain(prints)(X)) == [
        "prints: 3 graphs, 2 graph breaks, 0 recompiles.",
        f"The graph breaks first at {place(prints, 2)}: printing or logging. Also at line {line(prints, 4)} (same cause).",
        PRINT,
    ]


def test_a_recompile_by_size() -> None:
    """The size is told in words; a size that varies from now on needs nothing."""
    assert lines(explain(doubles).calls(torch.ones(8, 3), torch.ones(9, 3))) == [
        "doubles: 2 graphs, 0 graph breaks, 1 recompile.",
        f"doubles ({stands(doubles)}) recompiled in call 2: `x` changed from 8 rows to 9.",
        "No action needed: the new version accepts other sizes, too. With dynamic=True, the first call compiles that version.",
    ]


def test_a_recompile_by_number() -> None:
    """A Python number that changed is named with both values."""
    where = lines(explain(scales).calls((X, 2), (X, 3)))[1]
    assert where == f"scales ({stands(scales)}) recompiled in call 2: `n` changed from 2 to 3."


class Mode:
    mode = "train"


MODE = Mode()


def asks(x: torch.Tensor) -> torch.Tensor:
    return x * 2 if MODE.mode == "train" else x * 3


def test_an_attribute_of_the_class_that_the_object_gets_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """It was there before, in the class: it is not said to be new; and nobody is told to pass a text as a tensor."""
    explanation = explain(asks)(X)
    monkeypatch.setattr(MODE, "mode", "eval")
    explanation.call(X)
    assert lines(explanation)[1:] == [
        f"asks ({stands(asks)}) recompiled in call 2: `MODE.mode` changed from 'train' to 'eval'.",
        BOTH.format("MODE.mode"),
    ]


def test_a_recompile_of_a_lambda() -> None:
    """What has no name is called what it is."""
    where = lines(explain(lambda x, n: x * n).calls((X, 2), (X, 3)))[1]
    assert re.fullmatch(r"The lambda \(test_headline\.py:\d+\) recompiled in call 2: `n` changed from 2 to 3\.", where), where


def test_a_recompile_by_attribute() -> None:
    """An attribute that changed is named, and what to do about it."""
    explanation = explain(reads)(X)
    SETTINGS.scale = 4
    explanation.call(X)
    assert lines(explanation)[1:] == [
        f"reads ({stands(reads)}) recompiled in call 2: `SETTINGS.scale` changed from 3 to 4.",
        "No action needed: the new version accepts any value of `SETTINGS.scale`.",
    ]


def test_a_recompile_by_a_flag() -> None:
    """A flag has two values: to make a tensor of it would break the graph at its `if`."""

    def warms_up(x: torch.Tensor) -> torch.Tensor:
        return x * 0.1 if SETTINGS.warming_up else x

    SETTINGS.warming_up = True
    explanation = explain(warms_up)(X)
    SETTINGS.warming_up = False
    explanation.call(X)
    both = "if you use both values of `SETTINGS.warming_up`: each gets its own compiled version."
    assert lines(explanation)[2] == f"No action needed {both}"


def test_a_recompile_by_a_text() -> None:
    """A text is a constant of each graph, and no tensor holds one: to keep it equal is all that helps."""

    def named(x: torch.Tensor) -> torch.Tensor:
        return x.sin() if SETTINGS.name == "sin" else x.cos()

    SETTINGS.name = "sin"
    explanation = explain(named)(X)
    SETTINGS.name = "cos"
    explanation.call(X)
    assert lines(explanation)[2] == BOTH.format("SETTINGS.name")


def test_a_failing_backend() -> None:
    """The backend and its error are named, and how to see whose fault it is."""

    def broken(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        raise RuntimeError("it is broken")

    with explain(doubles, backend=broken) as fn, pytest.raises(BackendCompilerError):
        fn(X)
    raised = f"{place(broken, 1)}: RuntimeError: it is broken"
    assert lines(fn.explanation) == [
        "doubles: the backend `broken` failed: no graph was compiled.",
        f"It could not compile the graph of doubles at {stands(doubles)} (2 operators) and raised at {raised}",
        'Run it with backend="eager" to check the program itself; dynexplore.minify finds the smallest graph that fails.',
    ]


def test_a_backend_that_fails_at_an_operator() -> None:
    """The line of the operator that the backend had in hand is named before the backend's own."""

    def chip(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        for node in graph.graph.nodes:
            if node.op == "call_method":
                raise NotImplementedError(f"no {node.target}")
        return graph.forward

    def activates(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        return y.relu() * 2

    with explain(activates, backend=chip) as fn, pytest.raises(BackendCompilerError):
        fn(X)
    assert lines(fn.explanation)[1:] == [
        f"It stopped at the operator relu at {place(activates, 2)} and raised at {place(chip, 3)}: NotImplementedError: no relu",
        'Add this operator to `chip`, or avoid it; backend="eager" shows whether the program itself is right.',
    ]


def test_a_handler_that_was_swapped_and_diverges() -> None:
    """The handler that ran is named, with the line at which it is written: nobody else knows who wrote it."""

    def swaps(frame: Any, instruction: Any, ctx: Any) -> Any:
        right, left = frame.pop(), frame.pop()
        frame.push(right)
        frame.push(left)
        return original(frame, instruction, ctx)

    def gap(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
        return a - b

    with dispatch.override("BINARY_OP", swaps) as original:
        recording = explain(gap)(X, 3 * X).recording
    where, remedy = headline(recording).lines[1:]
    handler = f"the handler of BINARY_OP - (swaps, {stands(swaps)}) differs from CPython"
    assert where == f"At {place(gap, 1)}: {handler}: the element [0] of its result is 2, of CPython's -2.", where
    assert remedy == "If this handler is yours, make it match CPython. Otherwise this is a bug in dynexplore: please report it."


def test_a_diverging_handler() -> None:
    """An instruction that is interpreted differently from CPython is worse than all else, and its handler is to blame."""
    recording = toy()
    recording.record(
        ev.DivergenceDetected(
            frame=1,
            attempt=2,
            offset=12,
            name="LOAD_CONST 1",
            graph="",
            aspect="value",
            expected="1",
            actual="2",
            where="step",
            step=6,
        )
    )
    assert list(headline(recording).lines) == [
        "toy: 1 value differs from the real run; results may be wrong.",
        "At example.py:10 in toy: the handler of LOAD_CONST 1 differs from CPython: the value of its result is 2, of CPython's 1.",
        "If this handler is yours, make it match CPython. Otherwise this is a bug in dynexplore: please report it.",
    ]
    assert headline(recording).level == "bad"


def test_a_backend_that_computes_something_else() -> None:
    """An output that is not the graph's is the backend's fault."""

    def doubling(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        return lambda *args: tuple(out * 2 for out in graph(*args))

    what, where, remedy = lines(explain(doubles, backend=doubling)(X))
    assert what == "doubles: 1 value differs from the real run; results may be wrong."
    assert where.startswith(f"At {place(doubles, 1)}, add: element [0] expected 3, found 6")
    assert remedy == 'Use backend="eager", which runs the graph unchanged.'


def test_a_clean_function() -> None:
    """One line, for there is nothing to know."""
    assert lines(explain(doubles)(X)) == ["doubles is one graph of 2 operators: no graph breaks, no recompiles."]
    assert lines(explain(scales)(X, 2)) == ["scales is one graph of 1 operator: no graph breaks, no recompiles."]
    twice = explain(doubles).calls((X,), (X,))
    assert lines(twice) == ["doubles is one graph of 2 operators: no graph breaks, no recompiles in 2 calls."]


def test_a_module() -> None:
    """A module goes by the name of its class, and the line is one of its forward."""
    assert lines(explain(Two())(torch.ones(2, 4))) == ["Two is one graph of 3 operators: no graph breaks, no recompiles."]
    assert lines(explain(Chatty())(torch.ones(2, 4)))[:2] == [
        "Chatty: 2 graphs, 1 graph break, 0 recompiles.",
        f"The graph breaks at {place(Chatty.forward, 2)}: printing or logging.",
    ]


def test_a_loop_with_breaks() -> None:
    """Breaks at one line are told once, whatever the number of rounds; the last round is no recompile to worry about."""
    explanation = explain(loops)(X)
    assert lines(explanation) == [
        "loops: 2 graphs, 2 graph breaks on 1 line, 1 recompile (in the last iteration of a loop).",
        f"The graph breaks at {place(loops, 3)}: printing or logging.",
        f"{PRINT} {LOOP}",
    ]
    (failed,) = explanation.recording.of(ev.GuardFailed)
    assert str(change(failed)) == "the loop is in its last iteration"


class Plain:
    """An object whose making breaks the graph, where there is no work yet."""

    def __init__(self) -> None:
        print("made")


def made_first(x: torch.Tensor) -> torch.Tensor:
    Plain()
    y = ((x * 2).sin() + x.cos() - 1).relu()
    print(y.shape)
    return (y * y).mean()


def test_of_several_breaks_the_costliest_is_named() -> None:
    """What a program does before its work breaks too, and costs nothing: that in the midst of the work is told."""
    explanation, inner = explain(made_first)(X), line(Plain.__init__, 1)
    assert lines(explanation) == [
        "made_first: 2 graphs, 2 graph breaks, 0 recompiles.",
        f"The graph break that matters most is at {place(made_first, 3)}: printing or logging. Also at line {inner} (same cause).",
        PRINT,
    ]
    broke = worst_break(explanation.recording)
    assert broke is not None and broke.user_stack[-1].line == line(made_first, 3)


def clips(model: nn.Module, optimizer: torch.optim.Optimizer, x: torch.Tensor) -> None:
    loss = model(x).square().mean()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
    optimizer.step()


def steps(optimizer: torch.optim.Optimizer) -> None:
    optimizer.step()


def test_a_break_that_a_library_asks_for() -> None:
    """The `graph_break()` of torch's optimizers is nobody's to remove: of a training step `backward` is told, else who asked."""
    model = nn.Linear(4, 4)
    optimizer = torch.optim.AdamW(model.parameters(), lr=0.1)
    _, where, remedy = lines(explain(clips)(model, optimizer, torch.ones(2, 4)))
    assert where.startswith(f"The graph breaks first at {place(clips, 2)}: backward or torch.autograd.grad inside ")
    assert where.endswith(f" Also at line {line(clips, 4)}.")
    assert remedy == "Compile the forward and the loss, and call backward outside the compiled function."
    model(torch.ones(2, 4)).sum().backward()
    _, where, remedy = lines(explain(steps)(optimizer))
    own, library = f"The graph breaks at {place(steps, 1)}: an explicit graph_break()", r" in _use_grad \(optimizer\.py:\d+\)\."
    assert re.fullmatch(re.escape(own) + library, where), where
    assert remedy == "Remove the call to `graph_break()`. If a library makes it, call the library outside the compiled function."


def updates_by_hand(model: nn.Module, batches: list[torch.Tensor]) -> float:
    total = 0.0
    for x in batches:
        loss = model(x).square().mean()
        loss.backward()
        with torch.no_grad():
            for parameter in model.parameters():
                parameter -= 0.1 * parameter.grad
                parameter.grad.zero_()
        total += loss.item()
    return total


def test_what_comes_after_backward_leaves_with_it() -> None:
    """An update by hand has more operators than a small forward; who takes `backward` out of the function takes it out, too."""
    _, where, remedy = lines(explain(updates_by_hand)(Two(), [torch.ones(2, 4)] * 2))
    assert f"at {place(updates_by_hand, 4)}: backward" in where and f" Also at line {line(updates_by_hand, 9)}." in where, where
    assert remedy == f"Compile the forward and the loss, and call backward outside the compiled function. {LOOP}"


def picks(x: torch.Tensor) -> torch.Tensor:
    scores = [(x * k).sum() for k in range(3)]
    return heapq.nlargest(1, scores)[0] * 2


def test_a_break_inside_a_library() -> None:
    """The line of the program comes first, then the library's: of an explained function of a library, the line that calls."""
    where = lines(explain(picks)(X))[1]
    own = re.escape(f"The graph breaks at {place(picks, 2)}: ")
    assert re.fullmatch(own + r".* in nlargest \(heapq\.py:\d+\)\.", where), where
    explained = explain(heapq.nlargest)
    scores = [X.sum(), 2 * X.sum()]
    explained(1, scores)
    recording = explained(1, scores).recording
    (began,) = recording.of(ev.CallBegan)
    assert began.caller is not None and "explained(1, scores)" in began.caller.code
    own = re.escape(f"The graph breaks at test_headline.py:{began.caller.line} in test_a_break_inside_a_library: ")
    where = headline(recording).lines[1]
    assert re.fullmatch(own + r".* in nlargest \(heapq\.py:\d+\)\.", where), where
    again = Recording.from_json(recording.to_json())
    assert headline(again) == headline(recording)


def reads_far_inside(x: torch.Tensor) -> torch.Tensor:
    return x * x.sum().item()


def calls_it_by_a_name_that_is_long_enough_to_fill_the_line(x: torch.Tensor, depth: int = 6) -> torch.Tensor:
    if depth == 0:
        return reads_far_inside(x)
    return calls_it_by_a_name_that_is_long_enough_to_fill_the_line(x, depth - 1)


def test_a_break_far_inside() -> None:
    """The cause is whole, even where the calls that lead to it have no room."""
    where = lines(explain(calls_it_by_a_name_that_is_long_enough_to_fill_the_line)(X))[1]
    cause = "converting a tensor to a Python number (Tensor.item())."
    assert where == f"The graph breaks at {place(reads_far_inside, 1)}: {cause}"


def encodes(encoder: nn.Module, x: torch.Tensor, mask: torch.Tensor) -> torch.Tensor:
    out: torch.Tensor = encoder(x, mask=mask)
    return out


def test_a_value_that_a_library_reads_out_of_a_tensor() -> None:
    """The cause is that Python needs the value, not that an operator got it; a line that is named is named once."""
    encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(4, 2, 8, 0.0), 1, enable_nested_tensor=False)
    where, remedy = lines(explain(encodes)(encoder, torch.randn(3, 2, 4), torch.ones(3, 3).tril().log()))[1:]
    cause = "a tensor used as a Python bool (bool(), for multi_head_attention_forward) in MultiheadAttention.forward"
    assert where.startswith(f"The graph breaks at {place(encodes, 1)}: {cause} (activation.py:"), where
    assert "outside the compiled function" in remedy


def test_an_argument_that_a_graph_cannot_hold_is_named() -> None:
    """What kind of object it is belongs to the cause."""

    def draws(x: torch.Tensor, generator: torch.Generator) -> torch.Tensor:
        return x + torch.rand(3, generator=generator)

    where = lines(explain(draws)(torch.ones(3), torch.Generator()))[1]
    assert where.endswith(": an operator whose argument or result cannot be part of a graph (Generator)."), where


def test_a_function_that_is_not_captured() -> None:
    """Without tensors there is nothing to compile, and nothing to do."""

    def counts(n: int) -> int:
        return n + 1

    assert lines(explain(counts)(3)) == [
        "counts: no graph was captured; everything ran as plain Python.",
        f"counts ({stands(counts)}) is not compiled: it has neither a tensor input nor a tensor operation.",
        "No action needed unless you expected tensors here.",
    ]


def test_nothing_at_all() -> None:
    """An empty recording says so."""
    assert list(headline(Recording(title="f")).lines) == [
        "f: nothing was captured.",
        "No function that the engine can capture was called.",
    ]


def test_a_bug_of_the_engine() -> None:
    """It is named, the result is right all the same, and somebody should hear of it."""
    recording = toy()
    recording.record(ev.EngineFailed(frame=1, attempt=2, offset=30, error="KeyError: 'x'", where="names.py:12"))
    what, where, remedy = headline(recording).lines
    assert what.startswith("toy: a bug in dynexplore;") and where == "It failed at example.py:11 in toy: KeyError: 'x'"
    assert "plain Python" in remedy


def refuses(frame: Any, step: Any, ctx: Any) -> None:
    raise AssertionError("no remainders today")


def remainder(x: torch.Tensor) -> torch.Tensor:
    return x % 2


def calls_remainder(x: torch.Tensor) -> torch.Tensor:
    return remainder(x + 1)


@pytest.mark.engine_errors_fall_back
@pytest.mark.usefixtures("caplog")
def test_a_bug_of_the_engine_names_the_line_of_the_program() -> None:
    """The line that was being interpreted, also in a function that is inlined; the result is the program's own."""
    with dispatch.override("BINARY_OP", refuses):
        explanation = explain(remainder)(torch.ones(2))
        inlining = explain(lambda x: remainder(x))(torch.ones(2))
    stand = place(remainder, 1)
    for told in (explanation, inlining):
        where, remedy = lines(told)[1:]
        assert where == f"It failed at {stand}: AssertionError: no remainders today"
        assert remedy.startswith("The function ran as plain Python, so its result is right.")


def test_a_bug_of_the_engine_that_is_raised_leaves_no_result() -> None:
    """Where engine errors are raised, as one can ask for, the headline does not say that the result is right."""
    with dispatch.override("BINARY_OP", refuses), explain(remainder) as watched:
        with pytest.raises(EngineError):
            watched(torch.ones(2))
    what, _, remedy = lines(watched.explanation)
    assert what.startswith("It ended in EngineError. remainder: a bug in dynexplore;")
    assert remedy.startswith("It was raised, so there is no result.")


def raises_at_two(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    if x.shape[0] == 2:
        raise ValueError
    return y


def test_a_run_that_ended_in_an_exception_says_that_first() -> None:
    """Beside a traceback nothing is good news; a later call that returns is."""
    with explain(raises_at_two) as watched:
        watched(torch.ones(3))
        with pytest.raises(ValueError):
            watched(torch.ones(2))
        told = headline(watched.explanation.recording)
        assert told.summary.startswith("It ended in ValueError. raises_at_two: ") and told.level != "good"
        watched(torch.ones(3))
    assert lines(watched.explanation)[0].startswith("raises_at_two: ")


def test_the_exception_of_a_script_is_cut_between_words_and_has_no_colors() -> None:
    """A library that prints with colors formats its exceptions with them as well."""
    recording = Recording(title="train.py")
    message = " ".join(f"word{number}" for number in range(40))
    error = f"ValueError: \x1b[1m{message}\x1b[0m\nmore"
    recording.record(ev.ProgramEnded(frame=0, status=1, error=error, file="train.py", line=3))
    summary = headline(recording).summary
    assert summary.startswith("train.py ended with ValueError: word0 word1 ") and summary.endswith(" ... (train.py:3).")
    assert "\x1b" not in summary and re.search(r"word\d+ \.\.\.", summary)


def test_a_limit() -> None:
    """Where a function was compiled as often as it may be, the last guard that failed is named."""
    recording = Recording(title="f")
    at = {"frame": 1, "entry": 1, "index": 0, "scope": "local", "source": "n"}
    recording.record(ev.GuardFailed(**at, kind="EQUALS", expected="1", actual="2"))
    recording.record(ev.CacheLimitReached(frame=1, function="f", limit=8, reason="n"))
    assert list(headline(recording).lines) == [
        "f: 0 graphs, 0 graph breaks, 0 recompiles; the recompile limit of 8 was reached.",
        "f runs as plain Python from then on: `n` changed from 1 to 2.",
        "Keep the value in the guard constant, or pass it as a tensor; config.cache_size_limit raises the limit.",
    ]


def test_a_recompile_beside_a_break() -> None:
    """What changed stands behind the counts, once for all functions that one change compiles again, and what to do about it."""
    told = lines(explain(branches).calls((torch.ones(2), torch.ones(2)), (torch.ones(3), torch.ones(3))))
    assert "2 recompiles (`a` and `" in told[0] and told[0].endswith("` changed from 2 elements to 3).")
    assert told[1].startswith("The graph breaks") and "`if` on a tensor value" in told[1]
    assert told[2].endswith("For the recompiles: no action needed; the new versions accept other sizes, too.")


def test_a_recompile_by_texts_with_backquotes_beside_a_break() -> None:
    """A name is told apart from what happened to it by what it is, and not by the marks around it."""

    def fn(x: torch.Tensor, before: str, after: str) -> torch.Tensor:
        x = x * len(before)
        graph_break()
        return x * len(after)

    told = lines(explain(fn).calls((X, "a` b", "a` b"), (X, "c", "c")))
    assert told[0].endswith("2 recompiles (`before` and `after` changed from 'a` b' to 'c').")


def test_a_limit_beside_a_break() -> None:
    """A break comes first; that something else runs as plain Python for good, and for what, stands behind the counts."""
    recording = Recording(title="f")
    stack = (ev.UserFrame("m.py", 3, "f", "print(x)"),)
    recording.record(Cause("message", "printing", fix="Do not.", user_stack=stack).event(frame=1, attempt=1, **NOWHERE))
    at = {"entry": 0, "index": 0, "scope": "local"}
    recording.record(ev.GuardFailed(frame=2, source="n", kind="EQUALS", expected="1", actual="2", **at))
    recording.record(ev.CacheLimitReached(frame=2, function="g", limit=8, reason="n"))
    recording.record(ev.GuardFailed(frame=3, source="k", kind="EQUALS", expected="7", actual="8", **at))
    counted = "0 graphs, 1 graph break, 0 recompiles; g reached the recompile limit of 8 (`n` changed from 1 to 2)."
    assert headline(recording).lines[0] == f"f: {counted}"


def test_the_break_to_open_at() -> None:
    """The entry that calls a module reports no break of its own: the only one is that of `forward`."""
    recording = explain(Chatty())(torch.ones(2, 4)).recording
    (broke,) = recording.breaks
    assert worst_break(recording) is broke and recording.frame(broke.frame).code.qualname == "Chatty.forward"
    assert worst_break(Recording()) is None


# -- ten seconds ---------------------------------------------------------------------------------------------------------


class Encoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 8)
        self.encoder = nn.TransformerEncoder(nn.TransformerEncoderLayer(8, 2, 16, batch_first=True), 2)
        self.head = nn.Linear(8, 20)

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        return self.head(self.encoder(self.embed(tokens)))


class Attention(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.qkv = nn.Linear(8, 24)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        q, k, v = self.qkv(x).chunk(3, -1)
        weights = (q @ k.transpose(-1, -2)).softmax(-1)
        print("largest weight", weights.max())
        return weights @ v


class Decoder(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(20, 8)
        self.layers = nn.ModuleList(Attention() for _ in range(2))

    def forward(self, tokens: torch.Tensor) -> torch.Tensor:
        x = self.embed(tokens)
        for layer in self.layers:
            x = x + layer(x)
        return x


class Convolutions(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        body = (nn.Conv2d(3, 4, 3), nn.BatchNorm2d(4), nn.ReLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(4, 5))
        self.body = nn.Sequential(*body)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = self.body(x)
        return y / y.norm().item()


class Scaled(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.inner, self.scale = nn.Linear(4, 4), 1.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.inner(x) * self.scale


def trains(model: nn.Module, optimizer: torch.optim.Optimizer, batches: list[torch.Tensor]) -> None:
    for x in batches:
        loss = model(x).square().mean()
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()


def train(model: nn.Module, optimizer: torch.optim.Optimizer, batches: list[torch.Tensor]) -> None:
    for x in batches:
        loss = model(x).square().mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()


def searches(x: torch.Tensor) -> torch.Tensor:
    while x.sum() < 100:
        x = x * 2
    return x


def whole(model: nn.Module, x: torch.Tensor) -> Recording:
    return explain(model.eval())(x).recording  # type: ignore[no-any-return]


def training(loop: Callable[..., None]) -> Recording:
    model = nn.Linear(4, 4)
    return explain(loop)(model, torch.optim.SGD(model.parameters(), lr=0.1), [torch.ones(2, 4)] * 3).recording  # type: ignore[no-any-return]


def by_attribute() -> Recording:
    model = Scaled()
    explanation = explain(model)(torch.ones(2, 4))
    model.scale = 2.0
    explanation.call(torch.ones(2, 4))
    return explanation.recording  # type: ignore[no-any-return]


def failing() -> Recording:
    def broken(graph: torch.fx.GraphModule, inputs: list[torch.Tensor]) -> Any:
        raise RuntimeError("it is broken")

    with explain(doubles, backend=broken) as fn, pytest.raises(BackendCompilerError):
        fn(X)
    return fn.explanation.recording


def diverging() -> Recording:
    recording = toy()
    at = {"frame": 1, "attempt": 2, "offset": 12, "name": "LOAD_CONST 1", "graph": "", "where": "step", "step": 6}
    recording.record(ev.DivergenceDetected(**at, aspect="value", expected="1", actual="2"))
    return recording


TOKENS = torch.zeros(2, 5, dtype=torch.long)
NOTHING = ("", "")
KEY: dict[str, tuple[Callable[[], Recording], str, tuple[str, str], str]] = {
    # who: (recording, what happened, (where, why), what to do): what somebody has to learn who sees nothing else
    "a model": (lambda: whole(Encoder(), TOKENS), "Encoder is one graph of 30 operators", NOTHING, ""),
    "a model whose layer prints": (
        lambda: whole(Decoder(), TOKENS),
        "Decoder: .* graphs, .* graph breaks",
        (f"at {place(Attention.forward, 3)}", "printing"),
        "or remove it",
    ),
    "a model that reads a number": (
        lambda: whole(Convolutions(), torch.ones(2, 3, 8, 8)),
        "Convolutions: 2 graphs, 1 graph break",
        (f"at {place(Convolutions.forward, 2)}", r"Tensor\.item"),
        "Keep the value in a tensor",
    ),
    "a loop that trains": (
        lambda: training(trains),
        "trains: .* graphs, .* graph breaks",
        (f"at {place(trains, 3)}", r"Tensor\.backward"),
        "Compile the forward and the loss, and call backward outside",
    ),
    "a loop that trains, with a marked function of torch before the backward": (
        lambda: training(train),
        "train: .* graphs, .* graph breaks",
        (f"{place(train, 4)}", r"Tensor\.backward"),
        "Compile the forward and the loss, and call backward outside",
    ),
    "a loop that prints": (
        lambda: explain(loops)(X).recording,
        "loops: 2 graphs, 2 graph breaks",
        (f"at {place(loops, 3)}", "printing"),
        "or remove it",
    ),
    "a loop that waits for a value": (
        lambda: explain(searches)(X).recording,
        "searches: . graphs, . graph breaks",
        (f"at {place(searches, 1)}", "`while` on a tensor value"),
        "a fixed number of rounds|move the loop out",
    ),
    "another size": (
        lambda: explain(doubles).calls(torch.ones(8, 3), torch.ones(9, 3)).recording,
        "doubles: 2 graphs, .* 1 recompile",
        (rf"doubles \({stands(doubles)}\) recompiled in call 2", "`x` changed from 8 rows to 9"),
        "No action needed",
    ),
    "another number": (
        lambda: explain(scales).calls((X, 2), (X, 3)).recording,
        "scales: 2 graphs, .* 1 recompile",
        (rf"scales \({stands(scales)}\) recompiled in call 2", "`n` changed from 2 to 3"),
        "No action needed",
    ),
    "another attribute": (
        by_attribute,
        "Scaled: 2 graphs, .* 1 recompile",
        (rf"Scaled\.forward \({stands(Scaled.forward)}\) recompiled in call 2", r"`self\.scale` changed from 1\.0 to 2\.0"),
        r"No action needed: the new version accepts any value of `self.scale`\.$",
    ),
    "a failing backend": (
        failing,
        "the backend `broken` failed",
        (f"the graph of doubles at {stands(doubles)}", "it is broken"),
        'backend="eager"',
    ),
    "a diverging handler": (
        diverging,
        "1 value differs from the real run",
        ("At example.py:10 in toy", "the handler of LOAD_CONST 1 differs"),
        "If this handler is yours, make it match CPython",
    ),
    "a clean function": (lambda: explain(doubles)(X).recording, "doubles is one graph of 2 operators", NOTHING, ""),
}


@pytest.mark.parametrize("who", KEY)
def test_the_headline_alone_answers(who: str) -> None:
    """What happened, where and why, and what to do: each is in its line, and there is no line without a question."""
    make, what, (where, why), remedy = KEY[who]
    told = [*headline(make()).lines, "", ""][:3]
    assert re.search(what, told[0]), told
    assert re.search(where, told[1]) and re.search(why, told[1]) and bool(where) == bool(told[1]), told
    assert re.search(remedy, told[2]) and bool(remedy) == bool(told[2]), told


def test_lines_are_short() -> None:
    """An error that fills pages is cut."""
    recording = Recording(title="f")
    recording.record(ev.BackendFailed(frame=1, graph="g", backend="b", error="x" * 5000))
    assert max(map(len, headline(recording).lines)) == LONGEST


def test_an_abbreviation_ends_no_sentence() -> None:
    """Of a remedy that is too long its first sentence is told whole, also where it has an example in it."""
    told = (
        "If you are attempting to call a logging function (e.g. `_warnings.warn`), you can try adding it to"
        " `torch._dynamo.config.reorderable_logging_functions`."
    )
    more = " Please file an issue on GitHub so that PyTorch may add support for it. " * 2
    broke = Cause("message", "Attempted to call function", fix=f"{told}{more}").event(frame=1, attempt=1, **NOWHERE)
    assert remedy_of(broke) == told


def test_a_skipped_part_of_a_function_is_named_by_its_line() -> None:
    """A function whose rest has no tensor work is not told to have none: the part is named by its line."""

    def counts(x: torch.Tensor) -> int:
        print(end="")
        return 3

    recording = explain(counts, torch.ones(2)).recording
    line = counts.__code__.co_firstlineno + 1
    (skipped,) = recording.of(ev.FrameSkipped)
    assert skipped_name(recording, skipped) == f"counts, from line {line} on"


def test_a_launcher_is_never_the_line_that_calls() -> None:
    """The console script that ran the program is no line of it: where nothing else is known the library's line stands alone."""
    recording = Recording(title="forward")
    launcher = ev.UserFrame("/home/me/.venv/bin/dynexplore", 8, "<module>", "sys.exit(main())")
    library = ev.UserFrame("/x/site-packages/einops/einops.py", 539, "rearrange", "cast()")
    recording.record(ev.CallBegan(frame=0, call=1, arguments=(), caller=launcher))
    broke = ev.GraphBroke(frame=1, kind="DX202", title="marked", reason="marked", user_stack=(launcher, library))
    recording.record(broke)
    assert place_of_break(recording, broke) == (library.file, 539, "rearrange")
    assert "dynexplore:8" not in text.explanation(recording) and "line 8" not in text.explanation(recording)


def test_a_wrapper_of_torch_is_not_named() -> None:
    """Where nothing is seen behind torch.compile's wrapper of a module it is a module, and never `@wrap_inline`."""
    source = "    @functools.wraps(fn)\n    def inner(*args, **kwargs):\n        return fn(*args, **kwargs)"
    wrapper = ev.CodeView(1, "wrap_inline.<locals>.inner", "/x/site-packages/torch/_dynamo/external_utils.py", 67, source, ())
    recording = Recording(title="train.py")
    entered = ev.FrameEntered(frame=1, parent=None, code=wrapper, arguments=())
    recording.record(entered)
    assert frame_name(recording, entered) == "a module"
    module = ev.ValueView(1, "Module", "Sequential", "fn")
    assert frame_name(recording, dataclasses.replace(entered, arguments=(("fn", module),))) == "Sequential"


ROWS = torch.ones(2, 4)


class _Mode(enum.Enum):
    UP = "up"
    DOWN = "down"


def _scaled(x: torch.Tensor, mode: Any = None, table: Any = None) -> torch.Tensor:
    return x * 2 if mode is _Mode.UP else x * (3 + len(table or ()))


class _Layer(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.kind: str | None = None

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        if self.kind is None:
            self.kind = "first"
        return torch.dropout(self.linear(x), 0.0, self.training)


def _called(layer: torch.nn.Module, x: torch.Tensor) -> torch.Tensor:
    return layer(x).relu()  # type: ignore[no-any-return]


@pytest.mark.parametrize(
    ("fn", "calls", "cause", "remedy"),
    [
        (_scaled, [(X, _Mode.UP), (X, _Mode.DOWN)], "`mode` changed from _Mode.UP to _Mode.DOWN", "if you use both values"),
        (_scaled, [(X,), (X.clone().requires_grad_(),)], "`x` now requires gradients", "if you need it both with and without"),
        (_scaled, [(ROWS,), (ROWS[:1],)], "`x` changed from 2 rows to 1", "sizes 0 and 1 each get their own compiled version"),
        (_scaled, [(X, None, {"a": 1}), (X, None, {"b": 1})], "now include `b` and no longer", "the same keys"),
        (_called, [(_Layer(), ROWS)] * 2, "`layer.kind` changed from None to 'first'", "Set `layer.kind` before the first call"),
    ],
    ids=["enum", "gradients", "size one", "keys", "set by the first call"],
)  # fmt: skip
def test_causes_and_remedies_of_recompiles(fn: Any, calls: list[tuple[Any, ...]], cause: str, remedy: str) -> None:
    """A recompile is told by what the program changed, and its remedy fits the kind of change."""
    line = headline(explain(fn).calls(*calls).recording)
    assert cause in line.where and remedy in line.remedy, line


def test_another_instance_is_served_by_the_new_version() -> None:
    """The second instance of a class makes code that takes its parameters as inputs: nothing need be done."""
    calls = [(nn.Linear(4, 4), ROWS), (nn.Linear(4, 4), ROWS)]
    line = headline(explain(_called).calls(*calls).recording)
    assert "is a different Linear" in line.where and line.remedy == "No action needed: the new version accepts any `Linear`."


def _mixed(x: torch.Tensor, n: int, flag: bool, keys: dict[str, int]) -> torch.Tensor:
    return x * n + len(keys) if flag else x + n + len(keys)


def _mixed_calls(*changed: str) -> list[tuple[Any, ...]]:
    """Two calls of `_mixed`, of which the second has other values for the arguments named."""
    before: dict[str, Any] = {"x": torch.ones(8, 3), "n": 2, "flag": True, "keys": {"a": 1}}
    after: dict[str, Any] = {"x": torch.ones(9, 3, dtype=torch.float64), "n": 3, "flag": False, "keys": {"a": 1, "b": 1}}
    return [tuple(before.values()), tuple(after[name] if name in changed else value for name, value in before.items())]


DTYPE_AND_ROWS = "`x` changed from float32 to float64 and from 8 rows to 9"


@pytest.mark.parametrize(
    ("changed", "causes", "advice"),
    [
        (("x",), [DTYPE_AND_ROWS], ["if you use both: each gets", ". The new version accepts other sizes, too"]),
        (("x", "flag"), [DTYPE_AND_ROWS, "`flag` changed from True to False"], ["if you use all of these: each combination gets"]),
        (("n", "flag"), ["`n` changed from 2 to 3", "`flag` changed from True to False"],
         ["any value of `n`", "both values of `flag`"]),
        (("n", "keys"), ["`n` changed from 2 to 3", "the keys of `keys` now include `b`"], ["Use the same keys in `keys`"]),
    ],
    ids=lambda value: "-".join(value) if type(value) is tuple else "",
)
@pytest.mark.parametrize("engine", ["dynexplore", pytest.param("torch.compile", marks=pytest.mark.lenses)])
def test_a_recompile_with_several_causes_names_all_of_them(
    changed: tuple[str, ...], causes: list[str], advice: list[str], engine: Any
) -> None:
    """One recompile, and more than one value that changed: after a fix of the first alone it would recompile as before."""
    torch._dynamo.reset()  # it remembers which sizes of a function have varied
    first, second = _mixed_calls(*changed)
    explained = explain(_mixed, *first, engine=engine)
    explained.call(*second)
    line = headline(explained.recording)
    longer = "`len(keys)` changed from 1 to 2"
    in_words = [longer if "keys of" in cause and engine == "torch.compile" else cause for cause in causes]
    assert all(cause in line.where for cause in in_words), line.where
    if in_words == causes:
        assert all(text in line.remedy for text in advice), line.remedy
    (cost,) = [cost for cost in costs_of(explained.recording) if cost.kind == "recompile"]
    assert cost.advice == line.remedy
    assert all(str(reason.change) in line.where or reason.change.aspect for reason in cost.all_reasons)
    (row,) = overview_data(explained.recording, Timeline(explained.recording).by_frame())["rows"]
    assert [text for name, text, _ in row["facts"] if name == "also"] == [str(reason.change) for reason in cost.further]


def test_what_follows_from_a_cause_is_not_named_beside_it() -> None:
    """eval() changes every submodule, and another number of dimensions every stride: each is one cause."""
    model = nn.TransformerEncoderLayer(4, 1, 4, dropout=0.0)
    explained = explain(model, torch.ones(2, 1, 4))
    model.eval()
    explained.call(torch.ones(2, 1, 4))
    assert headline(explained.recording).where.endswith("recompiled in call 2: `self.training` changed from True to False.")
    where = headline(explain(doubles).calls(torch.ones(8), torch.ones(8, 1, 2)).recording).where
    assert where.endswith("recompiled in call 2: `x` changed from 1 dimension to 3.")


@pytest.mark.plain("torch.compile compiles it")
def test_a_program_that_died_of_its_backend_says_at_which_operator() -> None:
    """The exception of torch.compile begins with a line that names no reason; the operator, the place and the advice are known."""
    recording = Recording(title="infer.py", engine="torch.compile")
    code = ev.CodeView(1, "rank", "infer.py", 15, "def rank(x):\n    return torch.sort(x)\n", ())
    at = {"frame": 1, "attempt": 1}
    recording.record(ev.FrameEntered(frame=1, parent=None, code=code))
    recording.record(ev.BackendFailed(**at, graph="g", backend="mine", error="NotImplementedError: no kernel for sort"))
    error = "torch._dynamo.exc.BackendCompilerFailed: backend='mine' raised:\nNotImplementedError: no kernel for sort\n"
    recording.record(ev.ProgramEnded(frame=0, status=1, error=error, file="infer.py", line=8))
    line = headline(recording)
    assert line.summary == "torch.compile of infer.py ended with BackendCompilerFailed (infer.py:8): the backend `mine` failed."
    assert line.where.startswith("It could not compile the graph of rank") and line.where.endswith("no kernel for sort")
    assert line.remedy
    other = Recording(title="infer.py", engine="torch.compile")
    other.record(ev.ProgramEnded(frame=0, status=1, error="Failed: worker 1 raised:\nValueError: no", file="infer.py", line=8))
    assert headline(other).summary.endswith("ended with Failed: worker 1 raised: ValueError: no (infer.py:8).")


def test_causes_that_do_not_fit_into_the_line_are_counted() -> None:
    """A line has 180 characters: the first causes are named, the list in the report names the others."""

    def total(**numbers: float) -> torch.Tensor:
        return X * sum(numbers.values())

    names = [f"a_long_name_{number}" for number in range(9)]
    first, second = (dict.fromkeys(names, value) for value in (1, 2))
    for number, name in enumerate(names):
        second[name] += number
    explained = explain(total, **first)
    explained.call(**second)
    line = headline(explained.recording)
    named = sum(name in line.where for name in names)
    assert 1 < named < 9 and f"; {9 - named} more values changed." in line.where
    assert len(line.where) <= LONGEST


def test_a_limit_names_every_cause_of_the_last_recompile() -> None:
    """Of two numbers that never come back a function needs versions for both; the advice is on both."""
    explained = explain(_named, X, "a", "1")
    with config.patch(cache_size_limit=2, log_level="ERROR"):
        for text in ("b", "c", "d"):
            explained.call(X, text, 2 * text)
    line = headline(explained.recording)
    assert "`first` changed from 'b' to 'c'; `second` changed from 'bb' to 'cc'" in line.where
    assert line.remedy.startswith("Move the code that depends on `first` and `second` out of the compiled function")


def _named(x: torch.Tensor, first: str, second: str) -> torch.Tensor:
    return x * len(first) + len(second)
