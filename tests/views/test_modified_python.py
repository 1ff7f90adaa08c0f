"""views/modified_python.py: modified code as Python says exactly what the bytecode does, because it does the same when it runs."""

from __future__ import annotations

import dataclasses
import importlib
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from properties.program_files import drawn_once
from properties.random_programs import assert_program_is_right
from properties.test_random_programs import SEEDS
from python_in_place import modified_code_as_python

import dynexplore
import engine_checks
from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from dynexplore.views.explorer_data import explorer_data
from dynexplore.views.modified_python import modified_python, python_of, python_of_frame
from engine_checks import assert_same_as_eager
from sample_recordings import toy, watched

THEMES = (
    "array", "autograd_function", "rules", "container_styles", "containers", "exception", "torch_function_modes", "generator",
    "builtin_iterators", "model_code", "nn_module", "user_object", "translator", "torch_rules", "unreconstructible", "protocol",
)  # fmt: skip
"""The test files, in whatever folder, whose tables of programs are run."""

X = torch.tensor([1.0, -3.0])
TABLE: dict[str, object] = {}


@pytest.fixture
def without_tracebacks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The text stands in no file, so that tracebacks name other lines than the program's."""
    monkeypatch.setattr(engine_checks, "tracebacks_of", lambda error: [])


def module_with_table(theme: str) -> str:
    """The dotted name of the test file of that theme that has a table of programs."""
    tests = Path(__file__).parents[1]
    (path,) = (path for path in tests.rglob(f"test_{theme}.py") if "PROGRAMS = Programs()" in path.read_text(encoding="utf-8"))
    return ".".join(path.relative_to(tests).with_suffix("").parts)


@pytest.mark.parametrize("theme", THEMES)
def test_programs_do_the_same_when_the_text_runs_in_place(theme: str, without_tracebacks: None) -> None:
    """Each program of a table gives what eager gives with its modified code run as Python; what has no such form says why."""
    module = importlib.import_module(module_with_table(theme))
    failures = []
    with modified_code_as_python() as replaced:
        for parameter in module.PROGRAMS.parameters().args[1]:
            try:
                parameter.values[0]()
            except AssertionError as error:
                failures.append(f"{parameter.id}: {error}")
    assert not failures, "\n\n".join(failures)
    assert replaced.texts, "no modified code was run as Python"
    # what the program itself does while it handles an exception cannot be written outside of its `except`
    assert {reason.split()[0] for reason in replaced.refused} <= {"PUSH_EXC_INFO", "POP_EXCEPT", "it"}, replaced.refused
    assert sum(replaced.refused.values()) <= len(replaced.texts) / 2


@pytest.mark.parametrize("name", [
    "two_calls_deep", "closure_of_the_middle", "modules", "branch", "in_a_block", "raised_by_the_call_that_breaks",
])  # fmt: skip
def test_chains_do_the_same(name: str, without_tracebacks: None) -> None:
    """What goes on in callees has a form, too: each local of a callee is a variable of its own."""
    nested = importlib.import_module("engine.translate.test_nested_break")
    program = getattr(nested, name)
    graphs, breaks = nested.PROGRAMS[program]
    with modified_code_as_python() as replaced, dynexplore.config.patch(nested_graph_breaks=True):
        assert_same_as_eager(program, nested.X, calls=2, graphs=graphs, breaks=breaks)
    assert replaced.texts and not replaced.refused


ONE_OF = 12
"""Every so many seeds stand in `make test`; the soak run has them all."""

LINE_IN_TRACEBACK = "e.__traceback__.tb_lineno - e.__traceback__.tb_frame.f_code.co_firstlineno"
"""What drawn programs ask of a traceback. The text stands in no file: its lines are others."""


@pytest.mark.parametrize("seed", [pytest.param(one, marks=[pytest.mark.soak] * (one % ONE_OF > 0)) for one in range(SEEDS)])
def test_random_programs_do_the_same(seed: int, without_tracebacks: None) -> None:
    """Random programs, too, in every call; each has modified code that ran as Python. None asks for lines of a traceback."""
    program, calls = drawn_once(seed)
    with modified_code_as_python() as replaced:
        assert_program_is_right(program.replace(LINE_IN_TRACEBACK, "0"), calls)
    assert replaced.texts


def test_a_local_without_a_value_is_no_global() -> None:
    """A branch that no modified code takes binds `math`, so that the name is local, and unbound, everywhere."""

    def unbound(x: torch.Tensor, flag: bool) -> torch.Tensor:
        print("before")
        if flag:
            math = 1
        return x * math

    with modified_code_as_python() as replaced, pytest.raises(UnboundLocalError, match="'math'"):
        dynexplore.optimize("eager")(unbound)(X, False)
    assert any("math: object" in text for text in replaced.texts)


# -- the text ----------------------------------------------------------------------------------------------------------


def text_of(function: Callable[..., Any], *args: Any) -> str:
    with dynexplore.config.patch(log_level="ERROR"):
        text: str = dynexplore.explain(function, *args).modified_python
    return re.sub(r"(__compiled_fn|__resume_at)_[\d_]+", r"\1", text)


def test_a_branch_on_a_tensor() -> None:
    """The graph's call, the branch, and a call of a resume function on each side."""

    def branches(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        z = x + 1
        if y.sum() < 0:
            return z * 2
        return z

    first = text_of(branches, X, X * 2).split("\n\n")[0].splitlines()
    text = first[first.index("def branches(x, y):") :]
    assert text[:8] == [
        "def branches(x, y):",
        "    try:",
        "        ___v_0 = __compiled_fn(x, y)",
        "    except BaseException as ___raised:",
        "        if __must_run_again(___raised):",
        "            return __run_again(___function(___original), x, y)",
        "        raise",
        "    ___out_1, ___out_0 = ___v_0",
    ]
    assert "    z = ___out_1" in text
    assert text[-3:] in (
        [f"    if {truth}:", "        return __resume_at(x, None, z)", "    return __resume_at(x, None, z)"]
        for truth in ("___out_0", "___tmp_0")  # the truth is an instruction of its own since Python 3.12
    )


def test_side_effects_are_statements() -> None:
    """What the program changes is changed after the graph has run, and the names say what the engine put there."""

    def keeps(x: torch.Tensor) -> torch.Tensor:
        TABLE["last"] = x * 2
        print("kept")
        return x.relu()

    text = text_of(keeps, X)
    assert "['last'] = ___out_0" in text and "('kept')" in text
    assert re.search(r"^# (__object_\d+): print$", text, re.MULTILINE)


def test_the_handler_of_what_broke() -> None:
    """An instruction that broke inside a `try` is in a `try`, and its handler goes on in a resume function."""

    def tries(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        try:
            print(y.sum() > 100)
        except ValueError:
            y = y - 1
        return y * 2

    text = text_of(tries, X)
    assert "    except BaseException as ___raised:\n        return __resume_at(" in text and "___raised)" in text


def test_constants_that_no_text_can_hold_have_names() -> None:
    """A long constant is not written where it may have been cut: it has a name, and a comment shows what is known of it."""
    long = "a" * 500

    def says(x: torch.Tensor) -> object:
        return x + 1, long, float("inf"), -0.0, ...

    text = text_of(says, X)
    assert "aaa" in text and long not in text
    assert re.search(r"^# ___const_\d+: 'aaa.*\.\.\..*'$", text, re.MULTILINE)
    assert re.search(r"___const_\d+, ___const_\d+, -0\.0, \.\.\.", text)


def test_it_is_said_why_there_is_no_python() -> None:
    """Without steps of the modified code, and where an instruction has no Python equivalent, a reason stands in its place."""
    view = ev.CodeView(1, "f", "f.py", 1, "", (ev.ListingRow(0, "NOP", steps=(ev.StepView(0, "PUSH_EXC_INFO"),)),))
    assert python_of(view, ["x"]).why == "PUSH_EXC_INFO has no Python equivalent"
    assert python_of(dataclasses.replace(view, rows=()), []).why == "the recording does not contain its instructions' effects"
    assert modified_python(watched(toy())) == modified_python(Recording()) == ""
    recording = Recording()
    recording.record(ev.FrameEntered(frame=1, parent=None, code=view))
    recording.record(ev.CodeEmitted(frame=1, attempt=1, code=view))
    assert python_of_frame(recording, 1) == "# f cannot be written as Python: PUSH_EXC_INFO has no Python equivalent"


def test_a_saved_recording_has_the_same_text() -> None:
    """The text is made of the recording alone, and so of a file as well."""

    def adds(x: torch.Tensor) -> list[object]:
        return [x + 1, x.shape[0]]

    recording = dynexplore.explain(adds, X).recording
    text = modified_python(recording)
    assert "[___out_0, 2]" in text and modified_python(Recording.from_json(recording.to_json())) == text
    assert explorer_data(recording)["frames"][0]["python"] == text
