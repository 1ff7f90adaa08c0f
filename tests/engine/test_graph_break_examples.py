"""Every kind of graph break is met by the program that the docs show for it, which still does what eager does."""

from __future__ import annotations

import linecache
import random
import re
import warnings
import zlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from recorded import recorded

import dynexplore
from dynexplore.engine import events as ev
from dynexplore.engine.graph_breaks import KINDS, Kind
from dynexplore.engine.variables import rules
from dynexplore.engine.variables.scalars.number_rules import runs_on_constants
from dynexplore.recording.recording import Recording
from engine_checks import assert_same_as_eager

ENGINE = Path(dynexplore.__file__).parent / "engine"

# Nothing needs fixing: the module inside is captured on its own.
WITHOUT_FIX = {"DX418"}

# Nothing is left in these examples that a graph could hold; after DX505 the frame is plain Python.
WITHOUT_GRAPH = {"DX409", "DX505"}


@pytest.fixture
def program(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """The example of a kind, run as a module: a namespace with `f`, and perhaps `args` and `options`."""
    yield from run_as_module(f"<example of {request.param.id}>", request.param.example)


@pytest.fixture
def fixed(request: pytest.FixtureRequest) -> Iterator[dict[str, Any]]:
    """The same for the example after the fix."""
    yield from run_as_module(f"<fix of {request.param.id}>", request.param.fixed)


def run_as_module(name: str, source: str) -> Iterator[dict[str, Any]]:
    """The namespace of a program whose lines tracebacks can show."""
    text = source.strip() + "\n"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    namespace: dict[str, Any] = {"__name__": "example", "torch": torch, "dynexplore": dynexplore}
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # of torch.jit, whose modules are an example
        exec(compile(text, name, "exec"), namespace)
    yield namespace
    del linecache.cache[name]


def with_example() -> list[Kind]:
    return [kind for kind in KINDS.values() if kind.example]


def calls_of(program: dict[str, Any]) -> tuple[Callable[..., Any], tuple[Any, ...]]:
    return program["f"], program.get("args", (torch.ones(3),))


@pytest.mark.parametrize("program", with_example(), indirect=True, ids=lambda kind: kind.id)
def test_the_example_breaks_as_its_kind_says(program: dict[str, Any], request: pytest.FixtureRequest) -> None:
    """Running the example under the engine, one of the graph breaks is of that kind."""
    kind = request.node.callspec.params["program"]
    function, arguments = calls_of(program)
    recording = Recording()
    with dynexplore.config.patch(program.get("options", {})):
        try:
            recorded(function, arguments, recording=recording)
        except ValueError as error:
            assert str(error) == "no"  # the example of DX310 raises
    assert kind.id in {broke.kind for broke in recording.breaks}, [broke.reason for broke in recording.breaks]


WITH_FIX = [kind for kind in KINDS.values() if kind.fixed]


@pytest.mark.parametrize(("program", "fixed"), list(zip(WITH_FIX, WITH_FIX)), indirect=True, ids=[kind.id for kind in WITH_FIX])
def test_the_fix_is_one_graph_with_the_same_values(
    program: dict[str, Any], fixed: dict[str, Any], request: pytest.FixtureRequest, capsys: pytest.CaptureFixture[str]
) -> None:
    """As the docs page says above it, and it prints and raises the same."""
    compiled = request.node.callspec.params["fixed"].compiled
    expected = plain(seeded(program)), capsys.readouterr().out
    with dynexplore.config.patch(fixed.get("options", {})), dynexplore.explain(fixed[compiled]) as fixed[compiled]:
        value = seeded(fixed)
    assert (plain(value), capsys.readouterr().out) == expected
    explanation = fixed[compiled].explanation
    assert (explanation.graph_count, explanation.graph_break_count) == (1, 0)


def seeded(program: dict[str, Any]) -> Any:
    """What the program's function returns, or the exception that leaves it, each time with the same random numbers."""
    random.seed(0)
    np.random.seed(0)
    function, arguments = calls_of(program)
    try:
        return function(*arguments)
    except ValueError as error:  # one of the examples raises it
        return repr(error)


def plain(value: Any) -> Any:
    """A value to compare with that of another program: a class by its name."""
    if isinstance(value, torch.Tensor):
        return value.tolist()
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value.__name__ if isinstance(value, type) else value


@pytest.mark.parametrize("program", with_example(), indirect=True, ids=lambda kind: kind.id)
def test_the_example_does_what_eager_does(program: dict[str, Any], request: pytest.FixtureRequest) -> None:
    """Value, exception, prints and mutations of the example are the same with and without the engine."""
    function, arguments = calls_of(program)
    with dynexplore.config.patch(program.get("options", {})):
        graphs = 0 if request.node.callspec.params["program"].id in WITHOUT_GRAPH else None
        assert_same_as_eager(function, *arguments, graphs=graphs)


def test_a_c_function_is_traced_once_it_has_a_rule(monkeypatch: pytest.MonkeyPatch) -> None:
    """One line, as CONTRIBUTING.md has it, is all that a C function needs which acts on nothing but its arguments."""
    monkeypatch.setattr(rules, "_RULES", dict(rules._RULES))
    runs_on_constants(zlib.crc32)

    def f(x: torch.Tensor) -> torch.Tensor:
        return x * zlib.crc32(b"a")

    assert_same_as_eager(f, torch.ones(3, dtype=torch.float64), graphs=1, breaks=0)


def test_a_missing_rule_is_reported_as_not_done_yet() -> None:
    """The break report of a C function without a rule says what to do in the program, and is never called fundamental."""

    def f(x: torch.Tensor) -> torch.Tensor:
        return x * zlib.crc32(b"a")

    (broke,) = recorded(f, (torch.ones(3),)).of(ev.GraphBroke)
    report = broke.report(width=0)
    assert "Move the call out of the compiled function" in report and "number_rules" not in report
    assert report.endswith("docs/graph-breaks.md#dx201        (not supported yet)")


@pytest.mark.plain("reads the table of kinds")
def test_every_kind_has_an_example() -> None:
    """A kind whose example needs no fix is listed as such."""
    assert all(kind.example for kind in KINDS.values())
    assert {kind.id for kind in KINDS.values() if not kind.fixed} == WITHOUT_FIX


@pytest.mark.plain("reads the table of kinds and the source")
def test_the_engine_uses_each_kind_and_no_others() -> None:
    """Each row of the table is raised somewhere in the engine, and each id that the engine names is a row."""
    named: set[str] = set()
    for path in ENGINE.rglob("*.py"):
        if path.name != "graph_breaks.py":
            named |= set(re.findall(r'"(DX\d{3})"', path.read_text(encoding="utf-8")))
    assert named == set(KINDS)


def test_a_break_is_reported_with_place_and_advice() -> None:
    """The report of a real break names file, line, function, the code under marks, why, fix and what came of it."""

    def f(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        if y.sum() > 0:
            return y * 2
        return y

    recording = recorded(f, (torch.ones(3),))
    (broke,) = recording.of(ev.GraphBroke)
    lines = broke.report().splitlines()
    assert lines[0] == "Graph break DX104: `if` on a tensor value"
    assert re.fullmatch(r"  at    .*test_graph_break_examples\.py:\d+ in .*f", lines[1])
    assert lines[2:4] == ["            if y.sum() > 0:", "               ^^^^^^^^^^^"]
    assert lines[-1] == "  more  docs/graph-breaks.md#dx104        (fundamental)"
