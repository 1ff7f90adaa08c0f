"""One way from a captured graph to its callable: what ran is in the recording, pass by pass and wrapper by wrapper."""

from __future__ import annotations

import functools
import re
import subprocess
import sys
from typing import Any

import pytest
import torch
from recorded import recorded

import dynexplore
from dynexplore.engine import events as ev
from dynexplore.engine.aliasing.passes import PASSES
from dynexplore.engine.aliasing.wrappers import WRAPPERS
from dynexplore.engine.translate.call_wrappers import CALL_WRAPPERS
from engine_checks import CountingBackend, assert_same_as_eager
from source_tree import ROOT

ONES = torch.ones(3)
LEAF = torch.ones(3, requires_grad=True)
CALLS: list[int] = []


def enters_inference_mode(x: torch.Tensor) -> Any:
    with torch.inference_mode():
        y = x * 2
    return y, x.sin()


def reads_and_mutates(state: torch.Tensor, w: torch.Tensor) -> torch.Tensor:
    y = (state.cos() + w).sin()
    state.add_(1)
    return y


def has_a_dead_index(x: torch.Tensor, i: torch.Tensor) -> torch.Tensor:
    x[i]
    return x * 2


def returns_a_no_grad_view(x: torch.Tensor) -> Any:
    with torch.no_grad():
        view = x[:2]
    return view, x * 2


def returns_a_view_of_a_no_grad_view(x: torch.Tensor) -> Any:
    with torch.no_grad():
        view = x[:2]
    return view.view(-1), x * 2


def counts_its_calls(x: torch.Tensor) -> torch.Tensor:
    CALLS.append(1)
    return x * 2


def mutates_data(x: torch.Tensor) -> torch.Tensor:
    x.data.add_(1)
    return x * 2


def mutates_what_it_makes(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    y.view(-1).mul_(2)
    return y


def returns_equal_calls(x: torch.Tensor) -> Any:
    return x.max(0)[0], x.max(0)[0]


def draws(x: torch.Tensor) -> torch.Tensor:
    return torch.nn.functional.dropout(x)




ROWS: list[tuple[str, Any, tuple[Any, ...]]] = [
    ("inference mode to no_grad", enters_inference_mode, (ONES,)),
    ("clone mutated inputs", reads_and_mutates, (ONES, LEAF)),
    ("keep raising operators", has_a_dead_index, (ONES, torch.tensor([1]))),
    ("no CSE", returns_equal_calls, (LEAF,)),
    ("drop extra outputs", has_a_dead_index, (ONES, torch.tensor([1]))),
    ("detach no_grad views", returns_a_no_grad_view, (LEAF,)),
    ("cut history at no_grad views", returns_a_view_of_a_no_grad_view, (LEAF,)),
    ("mark inference tensors", enters_inference_mode, (ONES,)),
    ("regenerate output aliases", mutates_what_it_makes, (ONES,)),
    ("preserve version counters", mutates_data, (ONES,)),
    ("rollback", draws, (ONES,)),
    ("restore modes", returns_a_no_grad_view, (LEAF,)),
    ("note program code", counts_its_calls, (ONES,)),
]


@pytest.mark.parametrize(("name", "program", "args"), ROWS, ids=[f"{name} {program.__name__}" for name, program, _ in ROWS])
def test_a_row_is_in_the_recording_of_the_graph_that_needs_it(name: str, program: Any, args: tuple[Any, ...]) -> None:
    """Under AOTAutograd it is named and the program behaves as in eager; under "eager" no row about compiled graphs is."""
    copies = [arg.detach().clone().requires_grad_(arg.requires_grad) for arg in args]
    (compiled,) = recorded(program, tuple(copies), backend="aot_eager").of(ev.SubgraphCompiled)
    assert name in (*compiled.passes, *compiled.wrappers)
    (as_captured,) = recorded(program, tuple(copies), backend="eager").of(ev.SubgraphCompiled)
    assert not as_captured.passes
    assert set(as_captured.wrappers) <= CALL_WRAPPERS.keys()
    assert_same_as_eager(program, *args, then=[args], graphs=1, breaks=0, backend="aot_eager")


def test_a_graph_without_aliases_and_mutations_needs_no_row() -> None:
    """Most graphs go to the backend as they were captured, and what comes back is called as it is."""
    (compiled,) = recorded(lambda x: (x * 2).sin(), (ONES,), backend="aot_eager").of(ev.SubgraphCompiled)
    assert (compiled.ran_by, compiled.because) == ("aot_eager", None)
    assert compiled.lowerings == compiled.passes == compiled.wrappers == ()


def test_symbolic_sizes_of_a_mutated_input_are_saved_with_what_is_written() -> None:
    """Backward reads the sizes of the input, and what was written to it."""
    calls = [(torch.ones(size), torch.ones(size, requires_grad=True)) for size in (3, 4, 5)]
    recording = recorded(reads_and_mutates, *calls, backend="aot_eager")
    assert "save mutated inputs" in recording.of(ev.SubgraphCompiled)[-1].passes
    state, w = torch.ones(6), torch.ones(6, requires_grad=True)
    (expected,) = torch.autograd.grad(reads_and_mutates(state.clone(), w).sum(), w)
    compiled = dynexplore.optimize("aot_eager", dynamic=True)(reads_and_mutates)
    assert torch.equal(torch.autograd.grad(compiled(state, w).sum(), w)[0], expected)


@pytest.mark.plain("looks at tables, below what `disable` switches off")
def test_each_row_has_a_name_a_reason_and_a_predicate() -> None:
    """Names are unique over all tables, and a reason is a sentence."""
    rows = [*PASSES.items(), *WRAPPERS.items(), *CALL_WRAPPERS.items()]
    assert len({name for name, _ in rows}) == len(rows)
    for name, row in rows:
        assert row.name == name and row.why.endswith(".") and callable(row.wants)


def test_a_graph_whose_backend_fails_as_eager_does_runs_as_captured() -> None:
    """The passes that ran for the backend are not claimed for the graph that runs."""

    class NoBackward(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, gradient: torch.Tensor) -> torch.Tensor:
            raise NotImplementedError("no backward")

    recording = recorded(lambda x: NoBackward.apply(x) + 1, (LEAF,), backend="aot_eager")
    (compiled,) = recording.of(ev.SubgraphCompiled)
    assert (compiled.ran_by, compiled.because.id if compiled.because else "") == ("eager", "BE25")
    assert compiled.passes == ()


def test_backends_get_what_the_passes_made() -> None:
    """The recording shows the graph as captured; the backend is shown the clone."""
    backend = CountingBackend("aot_eager")
    dynexplore.optimize(backend, nopython=True)(reads_and_mutates)(torch.ones(3), LEAF)
    assert backend.targets() == [["clone", "cos", "add", "sin", "add_"]]


def test_a_reader_who_follows_a_graph_changes_files_at_most_twenty_times() -> None:
    """From the code generator to the callable; a frame on its way through convert enters no room twice."""
    script = ROOT / "scripts" / "follow_graph.py"
    ran = subprocess.run([sys.executable, script], capture_output=True, text=True, check=False, cwd=ROOT)
    assert ran.returncode == 0, ran.stderr
    printed = ran.stdout
    (files,) = re.findall(r"(\d+) changes of file", printed)
    (rooms,) = re.findall(r"rooms entered: (.*);", printed)
    assert int(files) <= 20 and rooms == "runtime translate", printed


ASKED: list[str] = []


class Asked(torch.Tensor):
    """A class that notes of which functions it was asked."""

    @classmethod
    def __torch_function__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        ASKED.append(func.__name__)
        return super().__torch_function__(func, types, args, kwargs or {})


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_graph_asks_no_class_that_its_capture_asked(backend: str) -> None:
    """`__torch_function__` of a tensor subclass runs as often as in eager, and not again while the graph runs."""
    x = torch.ones(3).as_subclass(Asked)
    observe = functools.partial(list, ASKED)
    assert_same_as_eager(lambda x: x.sin() + 1, x, calls=3, graphs=1, setup=ASKED.clear, observe=observe, backend=backend)
