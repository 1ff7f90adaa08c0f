"""torch.utils.checkpoint: a checkpointed function is a body of the graph, which really is computed again in backward."""

from __future__ import annotations

import functools
import random
import shutil
from collections.abc import Callable, Mapping
from typing import Any

import pytest
import torch
from programs.program_table import Programs
from torch.nn.functional import dropout
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.checkpoint import CheckpointPolicy, checkpoint, checkpoint_sequential, create_selective_checkpoint_contexts

import dynexplore
from engine_checks import assert_same_as_eager

PROGRAMS = Programs()
program = PROGRAMS.add
X = torch.arange(6.0).reshape(2, 3).requires_grad_()
LAYER = torch.nn.Linear(3, 3)
NORM = torch.nn.BatchNorm1d(3)
BLOCKS = torch.nn.Sequential(torch.nn.Linear(3, 4), torch.nn.ReLU(), torch.nn.Linear(4, 3), torch.nn.Tanh())
SEEN: list[int] = []
COMPILER = shutil.which("g++") or shutil.which("clang++")
needs_compiler = pytest.mark.skipif(not COMPILER, reason="Inductor wants a C++ compiler")


@program(X, graphs=1)
def a_function_with_dropout(x):
    y = x * 2
    z = checkpoint(lambda a: dropout(torch.relu(LAYER(a)), 0.5) * y.sin(), y, use_reentrant=False)
    return z + dropout(x, 0.5), y


@program(X, graphs=1)
def a_module_in_a_loop(x):
    for _ in range(3):
        x = checkpoint(LAYER, x, use_reentrant=False, preserve_rng_state=True)
    return x


@program(X, graphs=1)
def keyword_arguments_and_a_nest_as_result(x):
    def body(a, *, scale, parts):
        first, second = (a * scale).chunk(2)
        return {"first": first.exp(), "rest": [second + parts[0], a, a.shape[0], None]}

    found = checkpoint(body, x, scale=3.0, parts=(x[0],), use_reentrant=False)
    return found["first"] * found["rest"][2], found["rest"][:2], found["rest"][1] is x


@program(X, graphs=1)
def one_inside_another(x):
    def outer(a):
        inner = checkpoint(lambda b: dropout(LAYER(b).sin(), 0.5), a.cos(), use_reentrant=False)
        return inner.exp() * a

    return checkpoint(outer, x, use_reentrant=False) + 1


@program(X, graphs=1)
def two_beside_each_other_inside_a_third(x):
    def outer(a):
        first = checkpoint(torch.sin, a, use_reentrant=False)
        second = checkpoint(torch.cos, first * a, use_reentrant=False)
        return first, second, second + first

    return checkpoint(outer, x, use_reentrant=False)


@program(X, graphs=1)
def modes_inside_and_around(x):
    def body(a):
        with torch.no_grad():
            fixed = a.exp()
        return (LAYER(a) * fixed).float()

    with torch.autocast("cpu"):
        cast = checkpoint(body, x, use_reentrant=False)
    with torch.no_grad():
        return cast, checkpoint(body, x, use_reentrant=False)


@program(X, graphs=1)
def new_objects_of_the_body_may_change(x):
    def body(a):
        found, total = [], 0

        def note(value):
            nonlocal total
            total = total + value.sum()
            found.append(value)

        for row in a:
            note(row.sin())
        fresh = torch.zeros(3)
        fresh.add_(found[1])
        return fresh * total

    return checkpoint(body, x, use_reentrant=False)


@program(X, graphs=1)
def sequential_blocks(x):
    return checkpoint_sequential(BLOCKS, 2, x, use_reentrant=False)


@program(X, graphs=1)
def a_body_without_an_operator(x):
    return checkpoint(lambda a: (a, 3), x, use_reentrant=False), x.sin()


@program(X.detach(), graphs=1)  # with gradients, eager's own checkpoint of torch 2.11 raises once more in backward
def an_error_inside_that_the_program_handles(x):
    def body(a):
        b = a.sin()
        if b.shape[0] == 2:
            raise ValueError("two rows")
        return b

    try:
        return checkpoint(body, x, use_reentrant=False)
    except ValueError as error:
        return x.cos(), str(error)


# -- the reentrant kind --------------------------------------------------------------------------------------------------


@program(X, graphs=1, breaks=0)
def reentrant_with_dropout(x):
    y = x * 2
    z = checkpoint(lambda a: dropout(torch.relu(LAYER(a)), 0.5), y, use_reentrant=True)
    return z + dropout(x, 0.5), y


@program(X, graphs=1, breaks=0)
def reentrant_blocks_in_a_loop(x):
    for _ in range(3):
        x = checkpoint(LAYER, x, use_reentrant=True, preserve_rng_state=True)
    return x


@program(X, graphs=1, breaks=0)
def reentrant_sequential_blocks(x):
    return checkpoint_sequential(BLOCKS, 2, x, use_reentrant=True)


@program(X, graphs=1, breaks=0)
def reentrant_with_several_results(x):
    def body(a, scale, b):
        with torch.no_grad():
            fixed = a.exp()
        return (LAYER(a) * fixed) * scale, a.argmax(), None, 3, b.sin()

    parts = checkpoint(body, x, 2.0, x.cos(), use_reentrant=True)
    return parts[0] + parts[4], parts[1], parts[2:4]


@program(X, graphs=1, breaks=0)
def one_kind_inside_the_other(x):
    def outer(a):
        inner = checkpoint(lambda b: dropout(LAYER(b).sin(), 0.5), a.cos(), use_reentrant=True)
        return inner.exp() * a

    return checkpoint(outer, x, use_reentrant=False) + 1


@program(X, graphs=1, breaks=0)
def reentrant_under_autocast(x):
    with torch.autocast("cpu"):
        return checkpoint(LAYER, x, use_reentrant=True)


@program(X, graphs=1, breaks=0)
def reentrant_without_gradients(x):
    with torch.no_grad():
        return checkpoint(LAYER, x, use_reentrant=True)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("fn", [
    reentrant_with_dropout, reentrant_blocks_in_a_loop, reentrant_sequential_blocks, reentrant_with_several_results,
    one_kind_inside_the_other, reentrant_under_autocast,
])  # fmt: skip
def test_backward_of_the_reentrant_kind(fn: Callable[..., Any], backend: str) -> None:
    """`backward` gives the gradients of eager, those of layers too; a compiler carries out both kinds alike."""
    dynexplore.reset()
    seen = []
    for run in (fn, dynexplore.optimize(backend, nopython=True)(fn)):
        own = X.detach().clone().requires_grad_()
        torch.manual_seed(3)
        first = run(own)
        value = first[0] if isinstance(first, tuple) else first
        value.float().sin().sum().backward()
        seen.append((value, own.grad, *(one.grad for one in (*LAYER.parameters(), *BLOCKS.parameters())), torch.rand(2)))
        LAYER.zero_grad()
        BLOCKS.zero_grad()
    torch.testing.assert_close(*seen)
    assert dynexplore.counters["stats"]["graphs"] == 1


def asks_for_the_grad_mode(a):
    return a.sin() if torch.is_grad_enabled() else a.cos()


def asks_a_tensor(a):
    return a.sin() if (a * 2).requires_grad else a.cos()


REENTRANT_REFUSED: dict[str, Callable[..., Any]] = {
    "its own argument": lambda a: a,
    "a view of its argument": lambda a: a.view(-1),
    "another one inside": lambda a: checkpoint(torch.sin, a, use_reentrant=True),
    "a result without gradient": lambda a: (a.sin(), a.detach().cos()),
    "a list": lambda a: [a.sin(), a.cos()],
    "a nest": lambda a: (a.sin(), {"b": a.cos()}),
    "one tensor twice": lambda a: (a.sin(),) * 2,
    "the grad mode": asks_for_the_grad_mode,
    "whether a tensor wants a gradient": asks_a_tensor,
}


@pytest.mark.parametrize("body", REENTRANT_REFUSED.values(), ids=list(REENTRANT_REFUSED))
def test_what_the_reentrant_kind_makes_otherwise_breaks(body: Callable[..., Any]) -> None:
    """Its forward runs without gradients, and torch makes of its results tensors of an autograd function."""

    def run(x: Any) -> Any:
        result = checkpoint(body, x * 2, use_reentrant=True)
        tensors = result if isinstance(result, (tuple, list)) else [result]
        return [tensor if isinstance(tensor, dict) else tensor.exp() for tensor in tensors]

    assert "DX421" in assert_same_as_eager(run, X).breaks


@pytest.mark.parametrize("wants", [False, True])
def test_a_warning_of_the_reentrant_kind_is_given(wants: bool) -> None:
    """torch warns where no argument wants a gradient, or where the kind is not named; so does the captured function."""

    def run(x: Any) -> Any:
        return checkpoint(torch.sin, x * 2, use_reentrant=True) if not wants else checkpoint(torch.sin, x * 2)

    assert "DX421" in assert_same_as_eager(run, X.detach().requires_grad_(wants)).breaks


def test_the_reentrant_kind_refuses_autograd_grad() -> None:
    """It knows only `backward()`: torch says so, captured or not."""
    dynexplore.reset()
    result = dynexplore.optimize("eager", nopython=True)(lambda x: checkpoint(torch.sin, x, use_reentrant=True) * 2)(X)
    with pytest.raises(RuntimeError, match="use_reentrant=True"):
        torch.autograd.grad(result.sum(), X)
    assert dynexplore.counters["stats"]["graphs"] == 1


# -- options -----------------------------------------------------------------------------------------------------------


def keeps_products(ctx, operator, *args, **kwargs):
    return CheckpointPolicy.MUST_SAVE if operator is torch.ops.aten.addmm.default else CheckpointPolicy.PREFER_RECOMPUTE


@program(X, graphs=1, breaks=0)
def without_a_check(x):
    return checkpoint(lambda a: LAYER(a).sin(), x * 2, use_reentrant=False, determinism_check="none") + 1


@program(X, graphs=1, breaks=0)
def a_policy_in_a_partial(x):
    contexts = functools.partial(create_selective_checkpoint_contexts, keeps_products)
    return checkpoint(lambda a: LAYER(a).sin().exp(), x * 2, use_reentrant=False, context_fn=contexts) + 1


@program(X, graphs=1, breaks=0)
def a_policy_in_a_function(x):
    def contexts():
        return create_selective_checkpoint_contexts([torch.ops.aten.addmm.default])

    return checkpoint(lambda a: LAYER(a).sin().exp(), x * 2, use_reentrant=False, context_fn=contexts) + 1


def test_contexts_of_the_program_break() -> None:
    """What they would change is not known while tracing."""

    def contexts() -> Any:
        return torch.autocast("cpu"), torch.autocast("cpu")

    def run(x: Any) -> Any:
        return checkpoint(LAYER, x * 2, use_reentrant=False, context_fn=contexts) + 1

    assert "DX421" in assert_same_as_eager(run, X).breaks


def test_a_policy_is_asked_when_the_graph_runs() -> None:
    """It may read what changes between two calls; no call compiles again."""
    asked: list[str] = []
    keep = [True]

    def policy(ctx: Any, operator: Any, *args: Any, **kwargs: Any) -> CheckpointPolicy:
        asked.append(str(operator))
        return CheckpointPolicy.MUST_SAVE if keep[0] else CheckpointPolicy.PREFER_RECOMPUTE

    contexts = functools.partial(create_selective_checkpoint_contexts, policy)
    dynexplore.reset()
    compiled = dynexplore.optimize("eager", nopython=True)(
        lambda x: checkpoint(lambda a: a.exp().tanh(), x, use_reentrant=False, context_fn=contexts)
    )
    again: list[bool] = []
    for keep[0] in (True, False):
        asked.clear()
        result = compiled(X).sum()
        assert "aten.tanh.default" in asked
        with _Operators() as seen:
            torch.autograd.grad(result, X)
        again.append("aten.tanh.default" in seen.names)
    assert again == [False, True]
    assert dynexplore.counters["stats"]["graphs"] == 1


# -- memory ------------------------------------------------------------------------------------------------------------


def _kept_for_backward(run: Callable[[Any], Any], x: torch.Tensor, mine: set[int]) -> int:
    """The bytes that forward keeps, without those that are there anyway."""
    kept: dict[int, int] = {}

    def pack(tensor: torch.Tensor) -> torch.Tensor:
        storage = tensor.untyped_storage()
        if storage.data_ptr() not in mine:
            kept[storage.data_ptr()] = storage.nbytes()
        return tensor

    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        result = run(x)
    assert result.requires_grad
    return sum(kept.values())


@pytest.mark.filterwarnings(r"ignore:.torch\.jit\..* is deprecated:DeprecationWarning")  # torch's own, on import
@pytest.mark.parametrize(("backend", "reentrant"), [
    ("aot_eager", False), ("aot_eager", True), pytest.param("inductor", True, marks=needs_compiler),
])  # fmt: skip
def test_memory_is_saved(backend: str, reentrant: bool) -> None:
    """Of a checkpointed block a compiler keeps less than of the same block without."""
    layers = torch.nn.ModuleList([torch.nn.Linear(32, 32) for _ in range(2)])

    def block(a: Any) -> Any:
        for layer in layers:
            a = torch.softmax(layer(a), 1) * torch.sin(a)
        return a

    def plain(x: Any) -> Any:
        return block(x.cos()).sum()

    def saving(x: Any) -> Any:
        return checkpoint(block, x.cos(), use_reentrant=reentrant).sum()

    dynexplore.reset()
    x = torch.rand(64, 32, requires_grad=True)
    mine = {one.untyped_storage().data_ptr() for one in (x, *layers.parameters())}
    figures, gradients = [], []
    for run in (plain, saving):
        compiled = dynexplore.optimize(backend, nopython=True)(run)
        compiled(x).backward()
        gradients.append(x.grad)
        x.grad = None
        figures.append(_kept_for_backward(compiled, x, mine))
    torch.testing.assert_close(*gradients)
    assert figures[1] < figures[0] / 2, figures
    assert dynexplore.counters["stats"]["graphs"] == 2


# -- what a second run would show --------------------------------------------------------------------------------------


def changes_a_list(a):
    SEEN.append(1)
    return a.sin()


def draws_numbers(a):
    return a.sin() * random.random()


def updates_statistics(a):
    return NORM(a).sin()


def prints(a):
    print("inside")
    return a.sin()


@pytest.mark.parametrize("body", [changes_a_list, draws_numbers, updates_statistics, prints])
def test_what_a_second_run_would_show_breaks(body: Callable[..., Any]) -> None:
    """A body that changes, draws or prints something runs as plain Python does: once in forward, once more in backward."""

    def run(x: Any) -> Any:
        SEEN.clear()
        return checkpoint(body, x * 2, use_reentrant=False).exp() + x

    report = assert_same_as_eager(
        run, X, calls=2, setup=NORM.reset_running_stats, observe=lambda: (len(SEEN), NORM.running_mean, NORM.num_batches_tracked)
    )
    assert report.breaks, "the graph breaks at the call"


def test_an_outer_list_of_the_same_frame() -> None:
    """A list that the frame made before the call is not the body's own."""

    def run(x: Any) -> Any:
        found: list[Any] = []

        def body(a: Any) -> Any:
            found.append(a.shape)
            return a.sin()

        return checkpoint(body, x * 2, use_reentrant=False), found

    assert "DX421" in assert_same_as_eager(run, X).breaks


@pytest.mark.parametrize("options", [{"use_reentrant": False, "debug": True}])
def test_an_option_that_is_not_traced_breaks(options: Mapping[str, Any]) -> None:
    """Its value is the same as in eager."""
    report = assert_same_as_eager(lambda x: checkpoint(torch.sin, x * 2, **options) + 1, X)
    assert "DX421" in report.breaks


# -- what is captured --------------------------------------------------------------------------------------------------


@PROGRAMS.parameters()
def test_checkpoints(run: Callable[[], Any]) -> None:
    """Each program gives what it gives in eager, gradients and random numbers included."""
    run()


@pytest.mark.parametrize("fn", [
    a_function_with_dropout, a_module_in_a_loop, keyword_arguments_and_a_nest_as_result, one_inside_another,
    two_beside_each_other_inside_a_third, modes_inside_and_around, sequential_blocks, without_a_check, a_policy_in_a_partial,
    a_policy_in_a_function,
])  # fmt: skip
def test_through_a_compiler(fn: Callable[..., Any]) -> None:
    """A compiler that traces the graph again sees the bodies in it."""
    assert_same_as_eager(fn, X, graphs=1, breaks=0, calls=2, backend="aot_eager")


def test_symbolic_sizes() -> None:
    """A size that changes goes into the body, and what it makes of it comes out."""

    def run(x: Any) -> Any:
        wide, count = checkpoint(lambda a: (a.reshape(-1).sin(), a.shape[0] * 2), x + 1, use_reentrant=False)
        return wide * count + x.shape[0]

    assert_same_as_eager(run, X, then=[(torch.ones(5, 3),), (torch.ones(7, 3),)], breaks=0)
    compiled = dynexplore.optimize("aot_eager", nopython=True)(run)
    for rows in (2, 5, 7):
        x = torch.rand(rows, 3, requires_grad=True)
        expected, found = run(x).sum(), compiled(x).sum()
        torch.testing.assert_close(found, expected)
        torch.testing.assert_close(torch.autograd.grad(found, x), torch.autograd.grad(expected, x))


class _Operators(TorchDispatchMode):
    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__()
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.names.append(str(func))
        return func(*args, **(kwargs or {}))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_backward_computes_again(backend: str) -> None:
    """What is inside the body is carried out once more in backward; what is outside is not."""
    dynexplore.reset()

    def run(x: Any) -> Any:
        return checkpoint(lambda a: a.exp().tanh().exp(), x, use_reentrant=False).atan().sum()

    result = dynexplore.optimize(backend, nopython=True)(run)(X)
    with _Operators() as seen:
        torch.autograd.grad(result, X)
    assert "aten.tanh.default" in seen.names
    assert "aten.atan.default" not in seen.names
    assert dynexplore.counters["stats"]["graphs"] == 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_backward_computes_again_with_what_was_written_since(backend: str) -> None:
    """The body's input is changed after the body has run: in eager backward computes with the changed one."""

    def changed(x: Any, u: Any) -> Any:
        z = checkpoint(lambda a: (a * x).sin(), u, use_reentrant=False)
        u.add_(1)
        return z * x

    pairs = [(X.detach().clone().requires_grad_(), torch.ones(2, 3)) for _ in range(3)]
    assert_same_as_eager(changed, *pairs[0], then=pairs[1:], backend=backend, graphs=0)  # captured, and run as it stands


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_backward_computes_again_with_the_data_assigned_since(backend: str) -> None:
    """A checkpoint keeps the tensor, not the data that it had: what it was given last counts in backward, as in eager."""

    def changed(x: Any, w: Any) -> Any:
        y = x * w
        x.data = x.detach().clone()
        z = checkpoint(lambda a: (a * 2).sin(), x, use_reentrant=False)
        x.data = y.detach().clone()
        return z

    pairs = [(X.detach().clone().requires_grad_(), torch.full((2, 3), 2.0)) for _ in range(3)]
    assert_same_as_eager(changed, *pairs[0], then=pairs[1:], backend=backend, graphs=1)  # the checkpoint is Python's
