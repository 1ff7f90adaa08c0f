"""Sixty questions from public threads: the tools name the cause and the line, and the remedy helps."""

from __future__ import annotations

import pytest
from views.test_remedies import counts, ran
from watching.held_out_questions import ANSWERED_LATER, HELD_OUT_BREAKS, HELD_OUT_RECOMPILES
from watching.later_questions import LATER_BREAKS, LATER_RECOMPILES
from watching.more_questions import MORE
from watching.questions import BREAKS, QUESTIONS, Question

from dynexplore.recording.recording import Recording
from dynexplore.tools.tried_remedies import applied
from dynexplore.views.ranked_costs import Cost, costs_of, remedies_of
from dynexplore.views.remedies import NO_ACTION

pytestmark = [
    pytest.mark.lenses,
    pytest.mark.filterwarnings("ignore:Guards may run slower on Python 3.13.0:RuntimeWarning"),
    pytest.mark.filterwarnings("ignore::UserWarning"),  # what the programs and torch.compile warn about is not the question
    # torch.compile asks for a class of typing that Python 3.14 warns about, when it meets a value of few kinds
    pytest.mark.filterwarnings("ignore:'_UnionGenericAlias' is deprecated:DeprecationWarning"),
]

SLICE = (
    "every number changes", "size that a branch needs", "stride of a batch of one", "targets only in training", "dict that grows",
    "rank changes", "warnings.warn", "logger", "tolist of tokens", "while on a tensor", "parsing text", "numpy of a tensor",
    "torch.equal", "sizes of parameters",
)  # fmt: skip
"""The questions of every run: those whose answers were wrong when the sixty were first asked or later, and two others."""

LATER = LATER_RECOMPILES | LATER_BREAKS
HELD_OUT = HELD_OUT_RECOMPILES | HELD_OUT_BREAKS


def cost_of(recording: Recording, question: Question) -> Cost:
    """The cost that the question is about: of several, whose order is that of their seconds, the one with its cause."""
    breaks = [*BREAKS.values(), *LATER_BREAKS.values(), *HELD_OUT_BREAKS.values()]
    kind = "graph break" if question in breaks else "recompile"
    costs = [cost for cost in costs_of(recording) if cost.kind == kind]
    return next((cost for cost in costs if cause_is_right(cost, question)), costs[0])


def cause_is_right(cost: Cost, question: Question) -> bool:
    words = " ".join([cost.cause, cost.code, *(reason.line for reason in cost.all_reasons)])
    return all(part in words for part in question.cause)


def line_is_right(cost: Cost, question: Question) -> bool:
    """The line that breaks; or the one that needed the guard, or if none did, the function's."""
    marked = next(number for number, line in enumerate(question.source.split("\n"), 1) if line.endswith("# <-"))
    needed = [reason.needed_at.line for reason in cost.all_reasons if reason.needed_at is not None]
    if cost.kind == "graph break":
        return cost.line == marked
    return needed[0] == marked if needed else cost.line in (marked, marked - 1) or bool(cost.callers)


def remedy_helps(recording: Recording, cost: Cost, question: Question) -> bool:
    """Whether fewer graph breaks and recompiles are left: after the change, as it stands in the table, or after what it says."""
    before = counts(recording)
    offered = {remedy.row: remedy for remedy in remedies_of(cost, question.source)}
    if question.remedy in offered and not question.mended:
        source, environment = applied(offered[question.remedy], cost, question.source, "<program>")
        if offered[question.remedy].how == "call":
            source = _before_the_call(question.source, offered[question.remedy].text)
        return counts(ran(source, environment)) < before
    if question.remedy not in cost.advice:
        return False
    if not question.mended:
        return cost.advice.startswith(NO_ACTION) and cost.times <= len(cost.all_reasons)  # each reason once, in many calls
    source = question.source
    for old, new in question.mended:
        assert old in source, old
        source = source.replace(old, new)
    return counts(ran(source)) < before


def _before_the_call(source: str, text: str) -> str:
    lines = source.split("\n")
    at = max(number for number, line in enumerate(lines) if line.startswith("    ") and line.endswith(")") and "# <-" not in line)
    lines.insert(at, f"    {text}")
    return "\n".join(lines)


def answered(question: Question) -> dict[str, bool]:
    """Which parts of the answer are right."""
    recording = ran(question.source)
    cost = cost_of(recording, question)
    return {
        "cause": cause_is_right(cost, question),
        "line": line_is_right(cost, question),
        "remedy": remedy_helps(recording, cost, question),
    }


@pytest.mark.parametrize("name", SLICE)
def test_a_question_is_answered(name: str) -> None:
    """Cause, line and remedy."""
    assert answered(QUESTIONS[name]) == {"cause": True, "line": True, "remedy": True}


@pytest.mark.soak
@pytest.mark.parametrize("name", [name for name in QUESTIONS if name not in SLICE])
def test_the_other_questions_are_answered(name: str) -> None:
    """The same for the rest."""
    assert answered(QUESTIONS[name]) == {"cause": True, "line": True, "remedy": True}


@pytest.mark.soak
@pytest.mark.parametrize("name", LATER)
def test_the_later_questions_are_answered(name: str) -> None:
    """Cause, line and remedy of questions that were asked after the tools had answered the sixty."""
    assert answered(LATER[name]) == {"cause": True, "line": True, "remedy": True}


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in ANSWERED_LATER else pytest.mark.soak) for n in HELD_OUT])
def test_a_question_that_was_held_out_is_answered(name: str) -> None:
    """Cause, line and remedy of questions whose keys were written before the tools were run on them."""
    assert answered(HELD_OUT[name]) == {"cause": True, "line": True, "remedy": True}


def test_the_advice_on_another_comparison_helps() -> None:
    """`torch.allclose` returns a bool, too: the advice names what returns a tensor, and with it nothing breaks."""
    source = QUESTIONS["torch.equal"].source.replace("torch.equal", "torch.allclose")
    before = ran(source)
    assert "`torch.isclose(a, b).all()`, and choose with torch.where" in costs_of(before)[0].advice
    old = "    if torch.allclose(a, x):  # <-\n        return x * x\n    return x + 1"
    assert old in source
    assert counts(ran(source.replace(old, "    return torch.where(torch.isclose(a, x).all(), x * x, x + 1)"))) < counts(before)


ANSWERS = {
    "one cycle": ("`self.param_groups[0]['betas'][0]` changed from 0.95 to 0.94", "No action needed: the new version accepts"),
    "two backends": ("the backend is a different one", "No action needed if you use both backends"),
    "device context": ("the stack of torch function modes changed", "No action needed if you call it inside and outside the mode"),
    "buffers of DDP": ("_broadcast_coalesced", "Compile the module before it is wrapped"),
    "plateau": ("`torch._dynamo.graph_break()` in _use_grad", "No action needed: torch breaks the graph here on purpose"),
}
"""Of the ten later questions those with another answer than when they were asked first: words of the cause and of the advice."""


@pytest.mark.soak
@pytest.mark.filterwarnings("ignore::DeprecationWarning")  # of torch's own optimizers
@pytest.mark.parametrize("name", ANSWERS)
def test_a_later_question_is_answered(name: str) -> None:
    """Cause and advice stand together, at the marked line or at the function that contains it."""
    cause, advice = ANSWERS[name]
    source = MORE[name].source
    costs = costs_of(ran(source))
    assert [cost for cost in costs if cause in cost.cause and advice in cost.advice], [(c.cause, c.advice) for c in costs]


@pytest.mark.soak
def test_a_module_that_is_compiled_before_it_is_wrapped_does_not_break() -> None:
    """What the advice about DistributedDataParallel says."""
    source = MORE["buffers of DDP"].source
    mended = source.replace("(torch.nn.BatchNorm1d(4))", '(torch.compile(torch.nn.BatchNorm1d(4), backend="eager"))')
    mended = mended.replace('@torch.compile(backend="eager")\n', "")
    assert mended.count("torch.compile") == 1
    after = ran(mended)
    assert counts(after) == 0 and len(after.graphs) == 1 and counts(ran(source)) > 0


@pytest.mark.parametrize("module", ["torch.nn.BatchNorm1d(4)", "torch.nn.Linear(4, 4)"])
def test_every_break_inside_ddp_has_the_same_advice(module: str) -> None:
    """With gradients, too: DistributedDataParallel breaks the graph wherever it calls C++. torch.compile compiles no module of
    torch.nn as a frame of its own, so that nothing is captured; the advice gives one graph.
    """
    source = MORE["buffers of DDP"].source.replace("torch.nn.BatchNorm1d(4)", module)
    source = source.replace("torch.no_grad()", "torch.enable_grad()")
    before = ran(source)
    assert not before.graphs
    assert {cost.advice for cost in costs_of(before)} == {
        "Compile the module before it is wrapped: DistributedDataParallel(torch.compile(module))."
    }
    mended = source.replace('@torch.compile(backend="eager")\n', "")
    after = ran(mended.replace(f"({module})", f'(torch.compile({module}, backend="eager"))'))
    assert (counts(after), len(after.graphs)) == (0, 1)


IN_THE_PROGRAMS_WORDS = {
    "a member of a set": ("""
import torch
@torch.compile(backend="eager")
def f(x, tags): return x * 2 if "train" in tags else x
f(torch.ones(3), {"train"}); f(torch.ones(3), {"eval"})
""", "`'train' in tags` changed from true to false"),
    "an environment variable": ("""
import os, torch
os.environ["DYNEXPLORE_TEST_MODE"] = "a"
@torch.compile(backend="eager")
def f(x): return x + 1 if os.environ["DYNEXPLORE_TEST_MODE"] == "a" else x
f(torch.ones(3)); os.environ["DYNEXPLORE_TEST_MODE"] = "b"; f(torch.ones(3))
""", "`os.environ['DYNEXPLORE_TEST_MODE']` changed from"),
    "another device": ("""
import torch
@torch.compile(backend="eager")
def f(x): return x * 2
f(torch.ones(3)); f(torch.ones(3, device="meta"))
""", "`x` moved from cpu to meta"),
}
"""Causes that torch states by its own names: a program, and words of the cause."""


@pytest.mark.parametrize("name", IN_THE_PROGRAMS_WORDS)
def test_a_cause_is_in_the_words_of_the_program(name: str) -> None:
    """Not `set.__contains__(tags, 'train')`, `os.environ._data[b'MODE']` or a set of dispatch keys."""
    source, cause = IN_THE_PROGRAMS_WORDS[name]
    assert cause in costs_of(ran(source))[0].cause


@pytest.mark.plain("about the table")
def test_there_are_sixty_and_each_has_its_thread() -> None:
    """A thread of a repository, a marked line, and a cause."""
    assert len(QUESTIONS) == 60
    for question in QUESTIONS.values():
        repository, _, number = question.thread.partition("#")
        assert repository.count("/") == 1 and number.isdigit()
        assert question.source.count("# <-") == 1 and all(question.cause)
