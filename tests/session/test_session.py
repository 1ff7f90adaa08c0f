"""The session beside a recording: guards of another input, what another call would do, several calls, nothing touched."""

from __future__ import annotations

import gc
import random
import re
import weakref
from typing import Any

import pytest
import torch

import dynexplore
from dynexplore.engine import events as ev
from dynexplore.views import cache_timeline

X = torch.ones(4)
SCALE = 2


def program(x: torch.Tensor, n: int = 3, mode: str = "sin", more: Any = None) -> torch.Tensor:
    y = x.sin() * n
    if mode == "relu":
        y = y.relu()
    return y + more[0] if more else y + SCALE


class Broken(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        y = x * 2
        dynexplore.graph_break()
        return y + 1


def session_of(fn: Any, *args: Any, **options: Any) -> Any:
    return dynexplore.explain(fn, **options)(*args).session


# -- guards ------------------------------------------------------------------------------------------------------


def test_each_guard_of_each_entry_says_pass_fail_or_not_reached() -> None:
    """check gives one verdict per guard and entry, with expected and actual; a guard that is not reached says what it would."""
    session = dynexplore.explain(program).calls(X, (X, 4)).session
    newest, oldest = session.check(torch.ones(5), 5, "relu")
    for entry in (newest, oldest):
        words = [guard.verdict for guard in entry.guards]
        assert not entry.hits and words.count("fail") == 1
        fail = words.index("fail")
        assert set(words[:fail]) == {"pass"} and set(words[fail + 1 :]) == {"not reached"}
        assert (entry.failed.source, entry.failed.kind) == ("x", "TENSOR_MATCH")
        assert entry.failed.expected == "float32[4] cpu" and entry.failed.actual.startswith("float32[5] cpu")
    alone = {guard.source: (guard.alone, guard.expected, guard.actual) for guard in oldest.guards if guard.verdict == "not reached"}
    assert alone["n"] == ("fail", "3", "5") and alone["mode"] == ("fail", "'sin'", "'relu'") and alone["more"][0] == "pass"
    assert "would fail, too: expected 3, found 5" in str(oldest)


def test_verdicts_print_as_lines_and_are_a_table_in_a_notebook() -> None:
    """All entries in the order in which they are tried; the title says what a call would do; nothing is an escaped list."""
    session = dynexplore.explain(program).calls(X, (X, 4)).session
    verdicts = session.check(X, mode="relu")
    assert verdicts == list(verdicts) and repr(verdicts) == "\n".join(map(str, verdicts)) and not repr(verdicts).startswith("[")
    shown = verdicts._repr_html_()
    assert "<strong>no entry matches: a call would be compiled</strong>" in shown
    assert shown.count("<tr>") == 1 + sum(len(entry.guards) for entry in verdicts)
    assert f"<strong>cache hit: entry {verdicts[0].entry}</strong>" in session.check(X, 4)._repr_html_()


def test_a_verdict_leads_to_the_recorded_guard() -> None:
    """index and because are those of the GuardInstalled event: the expression and who asked for it stand there."""
    explanation = dynexplore.explain(program, X)
    (entry,) = explanation.session.check(X)
    recorded = {guard.index: guard for guard in explanation.guards if guard.frame == entry.frame}
    assert entry.hits and len(recorded) == len(entry.guards)
    for guard in entry.guards:
        found = recorded[guard.index]
        assert (found.source, found.kind, found.expression, found.reason) == (
            guard.source, guard.kind, guard.expression, guard.reason,
        )  # fmt: skip
        assert found.offset == guard.because
    assert re.match(r"LOAD_FAST(_BORROW)? x \(offset ", entry.guards[1].asked_by)


def test_sizes_that_vary_have_guards_that_can_be_read() -> None:
    """A relation between symbolic sizes is a guard like any other: it is recorded, and fails with the sizes it found."""

    def like_cat(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + 1 if x.shape[0] == 2 * y.shape[0] else x - 1

    explanation = dynexplore.explain(like_cat, dynamic=True)(torch.ones(8), torch.ones(4))
    (relation,) = [guard for guard in explanation.guards if guard.kind == "SHAPE_ENV" and "2*" in guard.expected]
    assert relation.expected == "x.size()[0] == 2*y.size()[0]"
    (entry,) = explanation.session.check(torch.ones(9), torch.ones(4))
    assert re.match(r"LOAD_FAST(_BORROW)? x \(offset ", entry.failed.asked_by) and entry.failed.because == relation.offset
    assert entry.failed.kind == "SHAPE_ENV" and entry.failed.actual == "x.size()[0] is 9, y.size()[0] is 4"
    explanation.call(torch.ones(9), torch.ones(4))
    assert explanation.outcomes == ["compile", "recompile"]


def test_one_tensor_for_two_inputs_is_told() -> None:
    """An entry for two tensors does not fit one that is passed twice, and the guard says so."""

    def add(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return x + y

    session = session_of(add, torch.ones(2), torch.ones(2))
    x = torch.ones(2)
    (entry,) = session.check(x, x)
    assert not entry.hits and entry.failed.actual == "the same object as x"


def test_the_state_of_modules_is_checked_first() -> None:
    """A module that changed fails its own guard, before any guard of the arguments is reached."""
    module = torch.nn.Sequential(torch.nn.Linear(4, 2), torch.nn.Dropout())
    session = session_of(module, torch.ones(3, 4))
    module.eval()
    (entry,) = session.check(torch.ones(5, 4))
    assert entry.failed.kind == "MODULE_STATE" and "[1]" in entry.failed.source
    assert {guard.verdict for guard in entry.guards if guard.kind != "MODULE_STATE"} == {"not reached"}


# -- what if -----------------------------------------------------------------------------------------------------


def test_what_if_an_input_were_another_one() -> None:
    """Shape, dtype, requires_grad and Python values, by name or path: outcome, failing guards, and what would be different."""
    session = session_of(program, X, 3, "sin", [torch.ones(4)])
    assert session.what_if().outcome == session.what_if(n=3).outcome == "hit"
    shape = session.what_if(x={"shape": (5,)}, more=[torch.ones(5)])
    assert shape.outcome == "recompile" and shape.graphs[0].nodes[0].shape.startswith("[s")  # automatic dynamic shapes
    assert [guard.source for guard in shape.would_fail] == ["x", "more[0]"]
    assert [row.sign for row in shape.difference.nodes].count("~") >= 4
    double = session.what_if({"more[0]": {"dtype": torch.float64}})
    assert [guard.source for guard in double.would_fail] == ["more[0]"] and double.graphs[0].nodes[-2].dtype == "float64"
    assert session.what_if(x={"requires_grad": True}).outcome == "recompile"
    mode = session.what_if(mode="relu")
    assert [row.after for row in mode.difference.nodes if row.sign == "+"] == ["relu = relu(mul): float32[4]"]
    assert str(mode).startswith("it recompiles: local 'mode' EQUALS: expected 'sin', found 'relu'")
    assert session.what_if(x={"device": "meta"}).graphs[0].nodes[0].device == "meta"


def test_what_if_says_what_cannot_be() -> None:
    """Inputs that there are not, and tensors that cannot be, are one sentence."""
    session = session_of(program, X)
    assert len(session.entries) == 1
    for changes, error, sentence in (
        ({"z": 1}, TypeError, "there is no input 'z'; the inputs are: x, n, mode, more"),
        ({"x": {"size": 3}}, TypeError, "these properties of x can be changed: shape, dtype, device, requires_grad; not 'size'"),
        ({"x": {"dtype": "float23"}}, ValueError, "there is no dtype 'float23'"),
        ({"x": {"shape": (-1,)}}, ValueError, "a shape is a tuple of sizes of at least 0"),
        ({"x": {"device": "moon"}}, ValueError, "there is no device 'moon'"),
        ({"x": {"dtype": torch.int64, "requires_grad": True}}, ValueError, "only floating point and complex"),
        ({"x": {"shape": (10**15, 10**9)}}, ValueError, "there can be no torch.float32 tensor of shape"),
        ({"x[0]": 1}, TypeError, "only the items of tuples, lists and dicts"),
        ({"x y": 1}, ValueError, "an input is named as in Python"),
    ):
        with pytest.raises(error) as raised:
            session.what_if(changes)
        assert sentence in str(raised.value) and "\n" not in str(raised.value)
    with pytest.raises(TypeError, match="missing a required argument: 'x'"):
        session.predict()


def test_break_and_plain_python_are_foretold() -> None:
    """A new capture that would break, one that nopython forbids, and a function that is left alone."""

    def breaks(x: torch.Tensor, n: int = 0) -> torch.Tensor:
        if n:
            dynexplore.graph_break()
        return x + 1

    foretold = session_of(breaks, X).what_if(n=1)
    assert foretold.outcome == "recompile" and len(foretold.breaks) == 1
    foretold = session_of(breaks, X, nopython=True).what_if(n=1)
    assert foretold.outcome == "raises" and foretold.reason.startswith("Unsupported: Graph break")
    skipped = dynexplore.skip(lambda x: x + 1)
    assert session_of(skipped, X).what_if().outcome == "plain Python"
    session = session_of(program, X)
    for stance, outcome in (("fail_on_recompile", "raises"), ("eager_on_recompile", "plain Python")):
        with dynexplore.stance(stance) as refused:
            assert session.what_if(n=9).outcome == outcome and session.what_if().outcome == "hit" and not refused


def test_the_limit_of_the_cache_is_foretold() -> None:
    """With as many entries as allowed nothing more is compiled."""
    with dynexplore.config.patch(cache_size_limit=1):
        session = session_of(program, X)
        assert session.what_if(mode="relu").outcome == "limit reached"


def test_a_modules_own_frame_is_foretold() -> None:
    """Where a module's forward breaks the graph, the prediction is about the forward and not about who calls it."""
    module = Broken()
    explanation = dynexplore.explain(module, X)
    session = explanation.session
    assert session.what_if().outcome == "hit" and len(session.check(X)[0].guards) > 2
    foretold = session.what_if(x={"shape": (5,)})
    assert foretold.outcome == "recompile" and foretold.would_fail[0].source == "x"
    explanation.call(torch.ones(5))
    outcomes = {frame.function: frame.outcome for frame in cache_timeline.calls(explanation.recording)[-1].frames}
    assert outcomes["Broken.forward"] == "recompile"


def test_the_form_of_the_call_is_kept() -> None:
    """A module's inputs that nobody changes are passed as they were: defaults are not, names stay names."""

    class Scaled(torch.nn.Module):
        def forward(self, x: torch.Tensor, scale: float = 2.0, *, shift: float = 0.0) -> torch.Tensor:
            return x * scale + shift

    module = Scaled()
    for explanation in (dynexplore.explain(module)(X), dynexplore.explain(module)(x=X, shift=1.0)):
        session = explanation.session
        assert session.what_if().outcome == session.what_if(x=torch.zeros(4)).outcome == "hit"
        assert session.what_if(scale=3.0).outcome == "recompile"


def test_asking_touches_nothing() -> None:
    """No call, no entry, no count, no random number, no log line: the next real call is as if nobody had asked."""
    seen: list[int] = []

    def noisy(x: torch.Tensor, n: int = 1) -> torch.Tensor:
        seen.append(1)
        y = x.dropout(0.5, True) if hasattr(x, "dropout") else torch.nn.functional.dropout(x, 0.5)
        dynexplore.graph_break()
        return y * n

    def asked_before(ask: bool) -> Any:
        dynexplore.reset()
        torch.manual_seed(0)
        random.seed(0)
        explanation = dynexplore.explain(noisy, X)
        if ask:
            for changes in ({"n": 2}, {"x": {"shape": (2, 2)}}, {"x": 3}):
                explanation.session.what_if(changes)
        explanation.call(X, 2)
        frames = [(e.entry, e.position, e.guard_count) for e in explanation.recording.of(ev.CacheEntryAdded)]
        first = frames[0][0]
        names = [graph.name for graph in explanation.recording.graphs]
        return [(e - first, p, g) for e, p, g in frames], names, torch.rand(1), random.random(), dynexplore.counters.snapshot()

    assert asked_before(True) == asked_before(False)
    assert len(seen) == 4


def test_another_source_is_explained_beside_the_recorded_one() -> None:
    """rerun compiles the text in the function's globals and explains it with copies of the inputs: before beside after."""
    seen = torch.zeros(4)

    def breaks(x: torch.Tensor) -> torch.Tensor:
        x.add_(1)
        print("halfway")
        return x * SCALE + seen

    x = torch.zeros(4)
    session = session_of(breaks, x)
    before = x.clone()
    done = session.rerun(session.source.replace('print("halfway")', "pass"))
    assert (done.before.breaks, done.after.breaks) == (1, 0) and done.after.graphs == 1 and not done.error
    assert torch.equal(x, before)
    assert "breaks     1 -> 0" in str(done)
    assert session.rerun("def breaks(x):\n    raise ValueError('no')\n").error == "it raises ValueError in line 2: no"
    for text, sentence in (
        ("def breaks(x:\n", "the text has a syntax error in line 1"),
        ("x = 1", "the text defines no function named 'breaks'"),
        ("def breaks(x, y=nothing): pass", "the text cannot be run: NameError"),
        ("return 3\ndef breaks(x): pass", "the text does not end with a function"),
    ):
        done = session.rerun(text)
        assert done.after is None and done.error.startswith(sentence) and "\n" not in done.error


def test_another_forward_of_a_module() -> None:
    """A module's forward can be edited: same parameters, zero-argument super; the module itself stays as it is."""

    class Child(Broken):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return super().forward(x)

    module = Child()
    module.register_buffer("seen", torch.zeros(1))
    session = session_of(module, X)
    done = session.rerun("def forward(self, x):\n    self.seen = self.seen + 1\n    return super().train() and x + self.seen\n")
    assert done.after is not None and done.error == "" and done.after.breaks == 0
    assert module.seen.item() == 0 and type(module) is Child
    assert session.what_if().outcome == "hit"


def test_what_cannot_be_edited_says_so() -> None:
    """A lambda, and a function written in C."""
    for fn, args, sentence in ((lambda x: x + 1, (X,), "defined with `def`"), (torch.add, (X, X), "only a Python function")):
        session = session_of(fn, *args)
        assert len(session.entries) == 1
        assert sentence in session.rerun("").error


# -- several calls -----------------------------------------------------------------------------------------------


def test_a_session_of_a_module_outlives_the_garbage_collector() -> None:
    """Nothing of what check and call need is lost when the collector runs, and the function itself is not held."""
    module = torch.nn.Linear(4, 2)
    explanation = dynexplore.explain(module, X)
    gc.collect()
    assert [entry.hits for entry in explanation.session.check(X)] == [True]
    explanation.call(X)
    assert explanation.outcomes == ["compile", "hit"]
    gone, session = weakref.ref(module), explanation.session
    del module, explanation
    gc.collect()
    assert gone() is None
    with pytest.raises(LookupError, match="the function of this recording no longer exists"):
        session.what_if()


def test_an_explanation_holds_its_function() -> None:
    """A lambda that nobody else holds can be asked about as long as its explanation is there."""
    explanation = dynexplore.explain(lambda x: x + 1, X)
    gc.collect()
    assert explanation.session.what_if(x={"shape": (5,)}).outcome == "recompile"


def test_several_calls_are_one_explanation() -> None:
    """calls, the context manager and call go into one recording with one cache; each call says how it ended."""
    explanation = dynexplore.explain(program).calls(X, X, (X, 4))
    assert explanation.outcomes == ["compile", "hit", "recompile"]
    with dynexplore.explain(program) as watched:
        watched(X)
        with pytest.raises(TypeError):
            watched(X, "a", "b", 3, 4)
        watched(X, n=5)
    assert watched.explanation.session.call_count == 3
    ends = watched.explanation.recording.of(ev.CallEnded)
    assert [end.error for end in ends] == ["", "TypeError", ""]


def test_what_a_session_answers_is_words_at_a_prompt() -> None:
    """A prompt shows a prediction and the entries in words, not as a dump of their fields."""
    session = session_of(program, X)
    answer = session.predict(X, 4)
    assert repr(answer) == str(answer) and "Prediction(" not in repr(answer)
    (entry,) = session.entries
    assert repr(entry) == f"<entry 1: compiled as frame 1, {len(entry.guards.guards)} guards>"


def test_a_recording_counts_its_entries_from_one_whatever_else_was_compiled() -> None:
    """Entries of a recording are 1, 2, ... also where other functions were compiled before it, and between its calls."""

    def other(x: torch.Tensor) -> torch.Tensor:
        return x - 1

    def scaled(x: torch.Tensor, factor: int) -> torch.Tensor:
        return x * factor

    x = torch.ones(3)
    dynexplore.explain(other)(x)
    told = dynexplore.explain(scaled)(x, 2)
    dynexplore.optimize("eager")(other)(x)
    told.session.call(x, 3)
    assert [added.entry for added in told.recording.of(ev.CacheEntryAdded)] == [1, 2]
