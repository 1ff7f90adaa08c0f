"""What is captured does not depend on the backend: graphs, guards and breaks are equal, node by node (docs/design/capture.md, D16).

The programs are those of the docs (each row of both tables), those of translate/ and variables/, and, in
a long run, the models of the benchmarks, as many as are installed.
"""

from __future__ import annotations

import importlib.util
import linecache
import random
import sys
import types
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
from captures import differences_by_backend
from programs.program_table import Programs
from seeding import seed_everything

import dynexplore
from dynexplore.engine.aliasing.eligibility import RULES
from dynexplore.engine.graph_breaks import KINDS
from engine_checks import copied, with_own_closure

Optimize = Callable[[Any], Any]

NOT_ALIKE = {
    "DX219": "the program counts its runs",
    "DX312": "an import is captured the first time alone",
    "DX409": "nothing is captured",
    "DX411": "the program asks for the grad_fn of what the graph returned",
    "DX414": "a warning is shown the first time alone",
    "DX418": "what a library imports late is captured the first time alone",
    "DX503": "the program runs into a limit of the process",
    "DX505": "the program measures time",
    "wrapped_functions": "what is cached in the program is captured the first time alone",
}
"""Programs of which no two runs are alike, whatever the backend, with the reason."""

EXAMPLES = {row.id: row.example for row in (*RULES.values(), *KINDS.values()) if row.example and row.id not in NOT_ALIKE}


def program_of(name: str, optimize: Optimize) -> None:
    """The example of a row, run as a module anew, and called."""
    text = EXAMPLES[name].strip() + "\n"
    file = f"<capture of {name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    namespace: dict[str, Any] = {"__name__": "example", "torch": torch, "dynexplore": dynexplore}
    exec(compile(text, file, "exec"), namespace)
    optimize(namespace["f"])(*namespace.get("args", (torch.ones(3),)))


def rows_of_tables() -> Iterator[Any]:
    """The programs of the files that go through a whole room, each with its calls."""
    for name in ("translate.test_translator", "variables.test_model_code", "variables.test_rules"):
        module = importlib.import_module(f"engine.{name}")
        for table in vars(module).values():
            if isinstance(table, Programs):
                yield from (pytest.param(row, id=row.fn.__name__) for row in table if row.fn.__name__ not in NOT_ALIKE)


@pytest.mark.parametrize("name", EXAMPLES)
def test_each_example_of_the_docs_is_captured_alike(name: str) -> None:
    """Under "eager", AOTAutograd and a backend of the program's own."""
    assert differences_by_backend(lambda optimize: program_of(name, optimize)) == []


@pytest.mark.parametrize("row", list(rows_of_tables()))
def test_each_program_of_the_tables_is_captured_alike(row: Any) -> None:
    """Over all its calls, with copies of its arguments."""

    def program(optimize: Optimize) -> None:
        row.set_up()
        seed_everything()
        memo: dict[int, Any] = {}
        own = with_own_closure(row.fn, memo) if isinstance(row.fn, types.FunctionType) else copied(row.fn, memo)
        optimized = optimize(own)
        for arguments in copied(row.calls, memo):
            optimized(*arguments)

    assert differences_by_backend(program) == []


def becomes_a_tensor(x: Any, a: float) -> Any:
    return (a - x) * a + x / (a * 2)


def stays_a_float(x: Any, a: float) -> Any:
    return torch.full((2,), a), torch.add(x, x, alpha=a)


def draws_a_number(x: Any, a: float) -> Any:
    return torch.add(x, x, alpha=random.random() + a)


@pytest.mark.parametrize("program", [becomes_a_tensor, stays_a_float, draws_a_number])
def test_floats_are_captured_alike(program: Any) -> None:
    """A float that changes is an input, whether the backend takes it, gets a tensor, or a constant with a guard."""

    def two_calls(optimize: Optimize) -> None:
        random.seed(0)
        run = optimize(program)
        for value in (0.5, 0.75):
            run(torch.ones(3), value)

    assert differences_by_backend(two_calls) == []


def test_hooks_that_the_first_call_registers_are_captured_alike() -> None:
    """The guards name the hooks of a module by their numbers, which torch counts over the process."""

    class Registers(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.linear = torch.nn.Linear(3, 3)

        def forward(self, x: Any) -> Any:
            if not self.linear._forward_hooks:
                self.linear.register_forward_hook(lambda module, args, output: output * 2)
            return self.linear(x)

    def two_calls(optimize: Optimize) -> None:
        seed_everything()
        run = optimize(Registers())
        for _ in range(2):
            run(torch.ones(3))

    assert differences_by_backend(two_calls) == []


@pytest.mark.soak
def test_models_are_captured_alike(capfd: pytest.CaptureFixture[str]) -> None:
    """Those of the benchmarks; which package a model needs and is not there is said."""
    models = importlib.import_module("benchmarks.support.models")
    differ = {}
    with capfd.disabled():
        for model in models.MODELS:
            if model.package and importlib.util.find_spec(model.package) is None:
                print(f"{model.name}: no {model.package}", file=sys.stderr)
                continue

            def program(optimize: Optimize, model: Any = model) -> None:
                seed_everything()
                module, args, kwargs = model.make()
                optimize(module)(*args, **kwargs)

            differ[model.name] = differences_by_backend(program)
            print(f"{model.name}: {len(differ[model.name])} lines differ", file=sys.stderr)
    assert {name: lines for name, lines in differ.items() if lines} == {}
