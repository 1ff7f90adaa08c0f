"""Caches of compilers: what a backend asks of sizes reaches the entry, and Inductor's caches take our graphs."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

import dynexplore
from engine_checks import assert_same_as_eager

pytestmark = pytest.mark.filterwarnings(r"ignore:.torch\.jit\..* is deprecated:DeprecationWarning")  # torch's own, on import
COMPILER = shutil.which("g++") or shutil.which("clang++")
needs_compiler = pytest.mark.skipif(not COMPILER, reason="Inductor wants a C++ compiler")


@pytest.fixture
def cache_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """An empty cache folder of Inductor's, with everything that this process has in memory forgotten."""
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", str(tmp_path))
    torch._dynamo.utils.counters.clear()
    yield tmp_path
    torch._dynamo.utils.counters.clear()


def _counted(name: str) -> int:
    return sum(counts[name] for counts in torch._dynamo.utils.counters.values())


@needs_compiler
@pytest.mark.parametrize("dynamic", [False, True])
@pytest.mark.parametrize("grad", [False, True])
@pytest.mark.usefixtures("cache_folder")
def test_a_graph_that_was_compiled_before_comes_from_the_cache(dynamic: bool, grad: bool) -> None:
    """Forgetting the engine's own entries leaves Inductor's: the second first call compiles nothing, and gives the same."""
    model = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.GELU())
    x = torch.randn(3, 4, requires_grad=grad)
    values = []
    for _ in range(2):
        dynexplore.reset()
        with torch.set_grad_enabled(grad):
            value = dynexplore.optimize("inductor", dynamic=dynamic)(model)(x)
        if grad:
            value.sum().backward()
        values.append(value)
    torch.testing.assert_close(values[1], values[0], rtol=0, atol=0)
    torch.testing.assert_close(values[1], model(x))
    assert _counted("autograd_cache_hit") == _counted("autograd_cache_miss") == 1


@needs_compiler
def test_artifacts_of_one_process_warm_another(cache_folder: Path) -> None:
    """`torch.compiler.save_cache_artifacts` holds our graphs; with an empty folder they come back by `load_cache_artifacts`."""
    def f(x: torch.Tensor) -> torch.Tensor:
        return (x * 3).tanh() + 1

    x = torch.randn(5)
    dynexplore.optimize("inductor")(f)(x)
    saved = torch.compiler.save_cache_artifacts()
    assert saved is not None
    for file in sorted(cache_folder.rglob("*"), reverse=True):
        file.rmdir() if file.is_dir() else file.unlink()
    dynexplore.reset()
    torch.compiler.load_cache_artifacts(saved[0])
    torch.testing.assert_close(dynexplore.optimize("inductor")(f)(x), f(x))
    assert _counted("autograd_cache_hit") == 1


def test_what_a_backend_asks_of_a_size_is_guarded() -> None:
    """A decision that the compiler took by a symbolic size holds for the sizes that it was taken for."""
    chosen = []

    def large_or_small(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        sizes = [size for size in inputs[0].shape if isinstance(size, torch.SymInt)]
        chosen.append(["large" if size > 5 else "small" for size in sizes])
        return graph.forward

    def f(x: torch.Tensor) -> torch.Tensor:
        return x * x.shape[0]

    others = [(torch.ones(size),) for size in (9, 6, 4, 3, 7)]
    assert_same_as_eager(f, torch.ones(8), then=others, backend=large_or_small, graphs=3, recompiles=2)
    assert chosen == [[], ["large"], ["small"]]
