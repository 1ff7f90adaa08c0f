"""tools/minifier.py: from hundreds of operators to the one that is to blame."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest
import torch
import torch.fx

import dynexplore
from dynexplore.tools.minifier import NothingFails, operators
from warm_python import python

needs_compiler = pytest.mark.skipif(not (shutil.which("g++") or shutil.which("clang++")), reason="Inductor wants a C++ compiler")


def long_model(x: Any, weights: Any) -> Any:
    for number, weight in enumerate(weights):
        y = torch.tanh(x @ weight) + x * 0.5
        if number == 97:
            y = torch.erf(y)
        x = y * 1.01
    return x.sum(), x


_RANDOM = torch.Generator().manual_seed(0)
ARGUMENTS = (
    torch.randn(4, 4, generator=_RANDOM),
    [torch.randn(4, 4, generator=_RANDOM).requires_grad_() for _ in range(100)],
)


def crashes(graph: torch.fx.GraphModule, inputs: Any) -> Any:
    """A backend that cannot do one operator."""
    for node in graph.graph.nodes:
        if node.op == "call_function" and node.target in (torch.erf, torch.ops.aten.erf.default):
            raise NotImplementedError("erf")
    return graph.forward


class Off(torch.fx.Interpreter):
    """Runs a graph, one operator off by 1e-2."""

    def call_function(self, target: Any, args: Any, kwargs: Any) -> Any:
        """One operator."""
        result = super().call_function(target, args, kwargs)
        return result + 1e-2 if target is torch.erf else result


def is_off(graph: torch.fx.GraphModule, inputs: Any) -> Any:
    """A backend that is wrong on one operator."""
    return lambda *inputs: Off(graph).run(*inputs)


@pytest.mark.parametrize("backend", [crashes, is_off])
def test_one_bad_node_of_five_hundred(backend: Any) -> None:
    """A crash and an error of 1e-2 both come down to the operator that is to blame."""
    small = dynexplore.minify(long_model, *ARGUMENTS, backend=backend)
    assert operators(small.before) >= 500 and operators(small.graph) == 1
    assert "torch.erf" in small.graph.code and "torch.erf" in str(small)
    assert "<table>" in small._repr_html_()


def test_behind_aot_autograd() -> None:
    """The forward graph of aten operators is cut."""
    small = dynexplore.minify(long_model, *ARGUMENTS, backend=crashes, after="aot")
    assert "torch.ops.aten.erf.default" in small.graph.code and operators(small.graph) == 1


def test_a_predicate_of_ones_own() -> None:
    """What counts as failing may be anything."""

    def has_two_matmuls(graph: torch.fx.GraphModule, inputs: Any) -> bool:
        return graph.code.count("@") >= 2

    small = dynexplore.minify(long_model, ARGUMENTS[0], ARGUMENTS[1][:10], fails=has_two_matmuls, backend="eager")
    assert small.graph.code.count("@") == 2 and operators(small.graph) <= 5


def run(repro: Path) -> subprocess.CompletedProcess[str]:
    """Run a written program in a process of its own."""
    return python(repro, cwd=repro.parent)


BACKEND_FILE = """
import torch

def no_cosine(graph, inputs):
    if "torch.cos" in graph.code:
        raise NotImplementedError("cos")
    return graph.forward

def zero_where_large(graph, inputs):
    return lambda *inputs: [torch.where(one > 50, 0, one) for one in graph(*inputs)]
"""


def test_the_program_fails_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A backend found by import; a failure that shows for any input of the shape; exit status 1."""
    (tmp_path / "my_backend.py").write_text(BACKEND_FILE)
    monkeypatch.syspath_prepend(str(tmp_path))
    import my_backend  # type: ignore[import-not-found]

    small = dynexplore.minify(lambda x: torch.cos(x * 2) + 1, torch.randn(3).double(), backend=my_backend.no_cosine)
    done = run(small.write(tmp_path / "repro.py"))
    assert done.returncode == 1 and "NotImplementedError: cos" in done.stderr
    assert "torch.randn((3,), dtype=torch.float64" in small.repro

    wrong = dynexplore.minify(lambda x: x * 2, torch.tensor([1.0, 100.0]), backend=my_backend.zero_where_large)
    done = run(wrong.write(tmp_path / "wrong.py"))
    assert done.returncode == 1 and "result 0 differs" in done.stderr
    assert "unpacked(" in wrong.repro.partition("def repro_inputs")[2]  # it depends on the content of the inputs


def test_a_program_with_a_backend_of_ones_own(tmp_path: Path) -> None:
    """The source of a function without imports of its own is copied into the file."""

    def picky(graph, inputs):  # type: ignore[no-untyped-def]
        raise KeyError("picky")

    small = dynexplore.minify(lambda x: x + 1, torch.ones(2), backend=picky)
    done = run(small.write(tmp_path / "repro.py"))
    assert done.returncode == 1 and "KeyError: 'picky'" in done.stderr


def clamped(x: Any) -> Any:
    return torch.relu(x + 1) * 2


FAULT = {"cpp.inject_relu_bug_TESTING_ONLY": "accuracy"}
"""A setting with which Inductor computes a wrong ReLU, made for tests of minifiers."""


@needs_compiler
@pytest.mark.filterwarnings("ignore:`torch.jit:DeprecationWarning")  # importing Inductor
@pytest.mark.parametrize("compiled_by", ["torch.compile", "dynexplore"])
def test_a_backend_with_options_is_written_with_them(compiled_by: str, tmp_path: Path) -> None:
    """Inductor goes by its name, and the program that is written fails with the options of the wrapper, before and after AOT."""
    x = torch.ones(4)
    wrapper: Any = clamped if compiled_by == "torch.compile" else dynexplore.compile(clamped, options=FAULT)
    how: Any = {"backend": torch._TorchCompileInductorWrapper(None, FAULT, None)} if compiled_by == "torch.compile" else {}
    diagnosis = dynexplore.diagnose(wrapper, x, **how)
    assert diagnosis.failing is not None and (diagnosis.failing.layer, diagnosis.failing.backend) == ("backend", "inductor")
    assert "minify(f, ..., after='aot') reduces" in diagnosis.advice and "Pass the compiled f" in diagnosis.advice
    for after in ("dynamo", "aot") if how else ("aot",):
        small = dynexplore.minify(wrapper, x, after=after, **how)
        assert operators(small.graph) == 1 and "relu" in small.graph.code
        done = run(small.write(tmp_path / "repro.py"))
        assert done.returncode == 1 and "result 0 differs" in done.stderr, done.stderr
    if how:
        with pytest.raises(NothingFails, match="under inductor "):
            dynexplore.minify(lambda x: x + 1, x, **how)


def test_nothing_fails() -> None:
    """That is an error of its own, in one sentence."""
    with pytest.raises(NothingFails, match="the graph of this call does not fail under 'eager'"):
        dynexplore.minify(lambda x: x + 1, torch.ones(2), backend="eager")


@pytest.mark.plain("refused before anything is captured")
def test_a_wrong_choice() -> None:
    """`after` has two values."""
    with pytest.raises(ValueError, match="after must be 'dynamo' or 'aot', not 'never'"):
        dynexplore.minify(lambda x: x, torch.ones(2), after="never")


def test_the_model_keeps_its_gradients() -> None:
    """Copies of the graph share nothing that the call changes, and the model is as before."""
    model = torch.nn.Linear(3, 3)
    small = dynexplore.minify(lambda x: torch.erf(model(x)).sum(), torch.randn(2, 3), backend=is_off)
    assert operators(small.graph) == 1 and model.weight.grad is None


def no_symbols(graph: torch.fx.GraphModule, inputs: Any) -> Any:
    """A backend that cannot do sizes that are symbols."""
    examples = [node.meta["example_value"] for node in graph.graph.find_nodes(op="placeholder")]
    assert not any(isinstance(size, torch.SymInt) for one in examples for size in getattr(one, "shape", (one,)))
    return graph.forward


def test_graphs_with_symbolic_sizes_and_those_of_further_calls_are_tried() -> None:
    """What was not tried is not said to be right: the sentence names dynamic, and how many calls there were."""
    x, longer = torch.ones(3), torch.ones(5)
    with pytest.raises(
        NothingFails, match=r"the graph of this call does not fail under no_symbols \(after='dynamo', dynamic=False\)"
    ):
        dynexplore.minify(lambda x: x.sin() + 1, x, backend=no_symbols)
    assert dynexplore.minify(lambda x: x.sin() + 1, x, backend=no_symbols, dynamic=True).failure.error == "AssertionError"
    with pytest.raises(NothingFails, match="none of the 2 graphs of these 2 calls fails"):
        dynexplore.minify(lambda x: x.sin() + 1, x, backend=no_symbols, calls=[longer])
    decorated = dynexplore.optimize(no_symbols, dynamic=True)(lambda x: x.sin() + 1)
    assert dynexplore.minify(decorated, x).failure.error == "AssertionError"
