"""Tensors made of other tensors (`__tensor_flatten__`) are inputs and results of graphs, with a guard on all that is inside."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
import torch
import torch.distributed as dist
from torch import nn
from torch.testing._internal.two_tensor import TwoTensor
from torch.utils import _pytree as pytree

import dynexplore
from engine_checks import graphs_compiled

BACKENDS = ("eager", "aot_eager")


class Scaled(torch.Tensor):
    """One tensor inside, and a number beside it which each operator keeps; the data are those of the tensor times the number."""

    inner: torch.Tensor
    scale: float

    @staticmethod
    def __new__(cls, inner: torch.Tensor, scale: float) -> Any:
        return torch.Tensor._make_wrapper_subclass(  # type: ignore[attr-defined]
            cls, inner.shape, strides=inner.stride(), dtype=inner.dtype, device=inner.device, requires_grad=inner.requires_grad
        )

    def __init__(self, inner: torch.Tensor, scale: float) -> None:
        self.inner, self.scale = inner, scale

    def __tensor_flatten__(self) -> tuple[list[str], float]:
        return ["inner"], self.scale

    @staticmethod
    def __tensor_unflatten__(tensors: Any, metadata: Any, size: Any, stride: Any) -> Scaled:
        return Scaled(tensors["inner"], metadata)

    def __repr__(self) -> str:  # type: ignore[override]
        return "Scaled"

    def doubled(self) -> Any:
        return self * 2

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        scales = [leaf.scale for leaf in pytree.tree_leaves(args) if isinstance(leaf, Scaled)]
        args, kwargs = pytree.tree_map_only(Scaled, lambda one: one.inner, (args, kwargs or {}))
        return pytree.tree_map_only(torch.Tensor, lambda one: Scaled(one, scales[0]), func(*args, **kwargs))


def two(*sizes: int) -> Any:
    return TwoTensor(torch.randn(*sizes), torch.randn(*sizes))


def same(left: Any, right: Any) -> bool:
    """Of one class, with the same inside."""
    if type(left) is not type(right):
        return False
    if not hasattr(left, "__tensor_flatten__"):
        return bool(torch.equal(left, right))
    (names, metadata), other = left.__tensor_flatten__(), right.__tensor_flatten__()
    return (names, metadata) == other and all(same(getattr(left, name), getattr(right, name)) for name in names)


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("fn", [
    lambda x: x.sin() + 1,
    lambda x: (x.view(2, 2).t().contiguous() * 3).sum(),
    lambda x: (x * 2).a + x.b,
    lambda x: x + torch.ones(4),
    lambda x: x * 2 if isinstance(x + 1, TwoTensor) and type(x.sin()) is TwoTensor else x,
], ids=["operators", "views", "what is inside", "with a plain tensor", "its class"])  # fmt: skip
def test_one_graph(backend: str, fn: Any) -> None:
    """Whatever is done with a tensor made of two is one graph, and gives what eager gives."""
    x = two(4)
    fast = dynexplore.optimize(backend, nopython=True)(fn)
    assert same(fast(x), fn(x))
    y = two(4)
    assert same(fast(y), fn(y))
    assert graphs_compiled() == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_gradients(backend: str) -> None:
    """Backward through the graph gives the gradient, which is made of two as well; so does one for a parameter of a module."""
    x, y = two(4).requires_grad_(), two(4).requires_grad_()
    with torch.no_grad():
        y.copy_(x)
    fast = dynexplore.optimize(backend, nopython=True)(lambda z: (z.sin() * 2).sum())
    fast(x).backward()
    (y.sin() * 2).sum().backward()
    assert same(x.grad, y.grad)
    linear = nn.Linear(4, 4)
    linear.weight = nn.Parameter(two(4, 4))
    z = torch.randn(2, 4)
    assert same(dynexplore.optimize(backend, nopython=True)(linear)(z).detach(), linear(z).detach())
    assert graphs_compiled() == 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_the_class_keeps_is_guarded(backend: str) -> None:
    """Another number beside the same tensor compiles anew, and so does another dtype or another size inside."""

    def fn(x: Any) -> Any:
        return (x + 1).doubled() * x.scale

    fast = dynexplore.optimize(backend, nopython=True)(fn)
    x = torch.randn(3)
    for given, graphs in (
        (Scaled(x, 2.0), 1), (Scaled(x + 1, 2.0), 1), (Scaled(x, 3.0), 2), (Scaled(x.double(), 2.0), 3), (Scaled(x[:2], 2.0), 4),
    ):  # fmt: skip
        assert same(fast(given), fn(given))
        assert graphs_compiled() == graphs
    misses = dynexplore.explain(fn, Scaled(x, 2.0)).session.check(Scaled(x, 5.0))
    assert [guard.kind for guard in misses[0].guards if guard.verdict == "fail"] == ["SUBCLASS_METADATA"]


@pytest.mark.parametrize("backend", BACKENDS)
def test_what_is_inside_may_be_an_argument_of_its_own(backend: str) -> None:
    """The same tensor inside and beside, of a size that changes: the results are right, whatever is captured."""

    def fn(x: Any, y: Any) -> Any:
        return x * 2, y + 1

    def other(y: Any, x: Any) -> Any:
        return y + 1, x * 2

    for program, places in ((fn, (0, 1)), (other, (1, 0))):
        fast = dynexplore.optimize(backend)(program)
        for size in (3, 4, 5):
            x = torch.randn(size)
            given = [(Scaled(x, 2.0), x)[place] for place in places]
            for got, wanted in zip(fast(*given), program(*given), strict=True):
                assert same(got, wanted)
    assert graphs_compiled() >= 2


def test_a_plain_tensor_does_not_hit() -> None:
    """Nor does one of another class."""
    fast = dynexplore.optimize("eager", nopython=True)(lambda x: x + 1)
    for given in (two(3), torch.ones(3), Scaled(torch.ones(3), 2.0)):
        assert same(fast(given), given + 1)
    assert graphs_compiled() == 3


def test_a_write_is_left_to_python() -> None:
    """An operator that writes to one breaks the graph: which of the inner tensors share memory nobody could say."""

    def fn(x: Any) -> Any:
        y = x.sin()
        x.add_(1)
        return y + x

    x, y = two(3), two(3)
    y.copy_(x)
    assert same(dynexplore.optimize("eager")(fn)(x), fn(y)) and same(x, y)
    (reason,) = dynexplore.graph_breaks()
    assert "an unsupported tensor subclass" in str(reason)
    assert graphs_compiled() == 2


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("place", ["before", "after", "through another name"])
def test_a_write_to_what_is_inside_is_left_to_python(backend: str, place: str) -> None:
    """A compiler would take the tensor inside and the same tensor beside for two, and compute with the old data."""

    def fn(x: Any, t: Any) -> Any:
        if place == "before":
            t.add_(1)
            return x * 2
        y = x.sin()
        (x.a if place == "after" else t).add_(1)
        return x * 2 + y

    def made() -> Any:
        t = torch.arange(3.0)
        return TwoTensor(t, torch.ones(3)), t

    fast = dynexplore.optimize(backend)(fn)
    for _ in range(2):
        expected, actual = made(), made()
        assert same(fast(*actual), fn(*expected))
        assert torch.equal(actual[1], expected[1])
    assert graphs_compiled() >= 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_write_elsewhere_is_in_the_graph(backend: str) -> None:
    """A tensor that has nothing to do with it may be written to."""

    def fn(x: Any, t: Any) -> Any:
        t.add_(1)
        return x * 2, t

    x, t, other = two(3), torch.ones(3), torch.ones(3)
    fast = dynexplore.optimize(backend, nopython=True)(fn)
    assert same(fast(x, t)[0], fn(x, other)[0]) and torch.equal(t, other)
    assert graphs_compiled() == 1


@pytest.fixture
def mesh() -> Iterator[Any]:
    """A mesh of this process alone."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    try:
        yield dist.device_mesh.init_device_mesh("cpu", (1,))
    finally:
        dist.destroy_process_group()


@pytest.mark.skipif(not dist.is_available(), reason="torch without torch.distributed")
@pytest.mark.parametrize("backend", BACKENDS)
def test_dtensor(backend: str, mesh: Any) -> None:
    """DTensor on one process: its operators, `to_local` and `from_local` are in the graph; other placements compile anew."""
    tensor = pytest.importorskip("torch.distributed.tensor")

    def fn(x: Any) -> Any:
        return (x.sin() + 1).to_local() * 2

    fast = dynexplore.optimize(backend, nopython=True)(fn)
    local = torch.randn(4)
    for placement, graphs in ((tensor.Replicate(), 1), (tensor.Shard(0), 2), (tensor.Replicate(), 2)):
        x = tensor.DTensor.from_local(local, mesh, [placement])
        assert torch.equal(fast(x), fn(x))
        assert graphs_compiled() == graphs
    other_mesh = dist.device_mesh.DeviceMesh("cpu", [0])
    x = tensor.DTensor.from_local(local, other_mesh, [tensor.Replicate()])
    assert torch.equal(fast(x), fn(x))
    assert graphs_compiled() in (2, 3), "torch 2.11 keeps the mesh among what is compared by value"

    def through(x: Any) -> Any:
        return tensor.DTensor.from_local(x, mesh, [tensor.Replicate()], run_check=False).to_local() + 1

    assert torch.equal(dynexplore.optimize(backend)(through)(local), local + 1)
