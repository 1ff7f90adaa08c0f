"""Training steps under the engine: parameters, gradients, buffers, optimizer state and random numbers are eager's."""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import dynexplore
from engine_checks import CountingBackend, graphs_compiled

# torch itself uses what it has deprecated when its decompositions are imported
pytestmark = pytest.mark.filterwarnings(r"ignore:.torch\.jit\..* is deprecated:DeprecationWarning")

BACKENDS = ["eager", "aot_eager", "aot_eager_decomp_partition"]
X = torch.linspace(-1, 1, 24).reshape(6, 4)
TARGET = torch.arange(6) % 3


class Net(nn.Module):
    """Layers with parameters, running statistics and random numbers."""

    def __init__(self, dropout: float = 0.0) -> None:
        super().__init__()
        self.first = nn.Linear(4, 8, bias=False)  # the norm takes a bias away: its gradient would be mere rounding
        self.norm = nn.BatchNorm1d(8)
        self.dropout = nn.Dropout(dropout)
        self.last = nn.Linear(8, 3)

    def forward(self, x: Any) -> Any:
        """One pass."""
        return self.last(self.dropout(F.gelu(self.norm(self.first(x)))))


class Breaks(Net):
    """The same with a break in the middle, so that compiled and eager autograd nodes mix."""

    def forward(self, x: Any) -> Any:
        """One pass in two graphs."""
        hidden = self.norm(self.first(x))
        scale = hidden.abs().mean().item()
        return self.last(F.gelu(hidden) * scale)


def state_of(model: nn.Module, optimizer: Any = None) -> dict[str, Any]:
    """Everything that training changes."""
    return {
        "tensors": {name: tensor.clone() for name, tensor in model.state_dict().items()},
        "gradients": {name: None if p.grad is None else p.grad.clone() for name, p in model.named_parameters()},
        "optimizer": copy.deepcopy(optimizer.state_dict()["state"]) if optimizer is not None else None,
        "random": torch.get_rng_state(),
    }


def same(expected: Any, actual: Any, exact: bool) -> None:
    """Compare nests of tensors; bit by bit where the same operators run."""
    torch.testing.assert_close(actual, expected, **({"rtol": 0, "atol": 0} if exact else {"rtol": 1e-4, "atol": 1e-5}))


def train(step: Callable[..., Any], model: nn.Module, optimizer: Any, steps: int = 3) -> tuple[list[float], dict[str, Any]]:
    """Losses and the state after some steps."""
    torch.manual_seed(0)
    losses = [float(step(model, optimizer, X + number / 10)) for number in range(steps)]
    return losses, state_of(model, optimizer)


def compare(make: Callable[[], Any], optimizer_of: Callable[..., Any], step: Callable[..., Any], wrap: Any, exact: bool) -> int:
    """Train plainly and under the engine, from the same start; gives how many graphs were compiled."""
    torch.manual_seed(0)
    model = make()
    other = copy.deepcopy(model)
    expected = train(step, model, optimizer_of(model.parameters()))
    before = graphs_compiled()
    actual = train(wrap(step), other, optimizer_of(other.parameters()))
    same(expected, actual, exact)
    return graphs_compiled() - before


def full_step(model: Any, optimizer: Any, x: Any) -> Any:
    optimizer.zero_grad()
    loss = F.cross_entropy(model(x.to(model.last.weight.dtype)), TARGET)
    loss.backward()
    optimizer.step()
    return loss.detach()


def precise() -> Any:
    """A model in which rounding stays small, whatever an optimizer divides by."""
    return Net().double()


sgd = functools.partial(torch.optim.SGD, lr=0.1, momentum=0.9)


@pytest.mark.parametrize("model", [Net, Breaks])
@pytest.mark.parametrize("backend", [*BACKENDS, "inductor"])
def test_forward_compiled_backward_outside(backend: str, model: Any) -> None:
    """The module is compiled, the step is not: per segment between breaks a forward graph with its backward."""
    dynexplore.reset()

    def step(model: Any, optimizer: Any, x: Any) -> Any:
        return full_step(dynexplore.optimize(backend)(model), optimizer, x)

    torch.manual_seed(0)
    plain = model()
    other = copy.deepcopy(plain)
    expected = train(full_step, plain, sgd(plain.parameters()))
    actual = train(step, other, sgd(other.parameters()))
    same(expected, actual, exact=backend == "eager")
    # each wrapper has an entry of its own; with a break inside, what is compiled is the forward that they share
    assert graphs_compiled() == (2 if model is Breaks else 3)


@pytest.mark.parametrize("backend", BACKENDS)
def test_the_whole_step_compiled(backend: str) -> None:
    """zero_grad, forward, backward and optimizer step inside of one region."""
    assert compare(Net, sgd, full_step, dynexplore.optimize(backend), exact=backend == "eager") == 4


OPTIMIZERS = {
    "sgd": functools.partial(torch.optim.SGD, lr=0.1),
    "momentum": functools.partial(torch.optim.SGD, lr=0.1, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adam": functools.partial(torch.optim.Adam, lr=0.01),
    "amsgrad": functools.partial(torch.optim.Adam, lr=0.01, amsgrad=True, foreach=False),
    "adamw": functools.partial(torch.optim.AdamW, lr=0.01, foreach=True),
    "rmsprop": functools.partial(torch.optim.RMSprop, lr=0.01, momentum=0.5, centered=True),
    "adagrad": functools.partial(torch.optim.Adagrad, lr=0.1),
    "adadelta": functools.partial(torch.optim.Adadelta, lr=0.5),
    "adamax": functools.partial(torch.optim.Adamax, lr=0.01),
    "nadam": functools.partial(torch.optim.NAdam, lr=0.01),
    "radam": functools.partial(torch.optim.RAdam, lr=0.01),
    "asgd": functools.partial(torch.optim.ASGD, lr=0.01),
    "rprop": functools.partial(torch.optim.Rprop, lr=0.01),
}


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers(name: str) -> None:
    """State is made on the first step and kept; every parameter ends where eager's does.

    Told that they are compiled, most of them keep step counts as tensors where they else read a number out: rounding differs.
    """
    exact = name in ("sgd", "momentum")
    graphs = compare(precise, OPTIMIZERS[name], full_step, dynexplore.optimize("eager"), exact)
    assert graphs == (3 if name in ("sgd", "adagrad") else 4)  # the others make state on the first step


@pytest.mark.parametrize("name", ["sgd", "momentum", "adam", "adamw"])
def test_only_the_optimizer_compiled(name: str) -> None:
    """`optimizer.step` as a function of its own: its operators are in graphs from the second step on."""
    backend = CountingBackend()

    def step(model: Any, optimizer: Any, x: Any) -> Any:
        optimizer.zero_grad()
        loss = F.cross_entropy(model(x.double()), TARGET)
        loss.backward()
        dynexplore.optimize(backend)(optimizer.step)()
        return loss.detach()

    torch.manual_seed(0)
    model = precise()
    other = copy.deepcopy(model)
    expected = train(full_step, model, OPTIMIZERS[name](model.parameters()))
    actual = train(step, other, OPTIMIZERS[name](other.parameters()))
    same(expected, actual, exact=name in ("sgd", "momentum"))
    assert sum(node.op.startswith("call_") for graph in backend.graphs for node in graph.graph.nodes) > 3


@pytest.mark.parametrize("name", ["radam", "asgd", "nadam", "adam"])
def test_a_step_is_one_graph_because_step_counts_stay_tensors(name: str) -> None:
    """torch.optim's two ways to write a step: the one without branches on numbers is captured; the settings stay as they are."""
    model = precise()
    optimizer = OPTIMIZERS[name](model.parameters())
    F.cross_entropy(model(X.double()), TARGET).backward()
    optimizer.step()  # state is there
    backend = CountingBackend()
    dynexplore.reset()
    dynexplore.optimize(backend)(optimizer.step)()
    assert len(backend.graphs) == 1
    assert not any("Tensor.item" in reason or "tensor value" in reason for reason in dynexplore.graph_breaks())
    assert optimizer.param_groups[0]["capturable"] is False


def test_state_on_another_device_is_left_alone() -> None:
    """Step counts stay on the CPU where the flag is off: the way that mixes devices is not taken."""
    parameter = torch.zeros(3, device="meta", requires_grad=True)
    parameter.grad = torch.zeros(3, device="meta")
    optimizer = torch.optim.RAdam([parameter], lr=0.1)
    optimizer.step()
    assert optimizer.state[parameter]["step"].device.type == "cpu"
    dynexplore.optimize("eager")(optimizer.step)()
    assert optimizer.state[parameter]["step"].item() == 2
    assert graphs_compiled() == 2


@pytest.mark.parametrize(("nests", "graphs"), [(False, 4), (True, 5)])
def test_a_schedule_of_learning_rates(nests: bool, graphs: int) -> None:
    """A learning rate that changes every step is right, and does not recompile up to the limit. Behind a nested break the operator
    behind `optimizer.step` is compiled with it.
    """

    def step(model: Any, optimizer: Any, x: Any) -> Any:
        loss = full_step(model, optimizer, x)
        for group in optimizer.param_groups:
            group["lr"] *= 0.5
        return loss

    with dynexplore.config.patch(nested_graph_breaks=nests):
        assert compare(Net, sgd, step, dynexplore.optimize("eager"), exact=True) == graphs


def clipped(model: Any, optimizer: Any, x: Any) -> Any:
    for part in x.chunk(2):
        (F.cross_entropy(model(part), TARGET[:3]) / 2).backward()
    norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.1)
    optimizer.step()
    optimizer.zero_grad(set_to_none=True)
    return norm.detach()


def test_accumulated_and_clipped_gradients() -> None:
    """Two backwards before one step, and a norm over all gradients."""
    assert compare(Net, sgd, clipped, dynexplore.optimize("eager"), exact=True) == 6


def mixed(model: Any, optimizer: Any, x: Any) -> Any:
    optimizer.zero_grad(set_to_none=False)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        loss = F.cross_entropy(model(x).float(), TARGET)
    loss.backward()
    optimizer.step()
    model.eval()
    with torch.no_grad():
        model(x)
    model.train()
    return loss.detach()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_autocast_and_evaluation_in_between(backend: str) -> None:
    """bfloat16 inside the block, gradients in float32; eval() and train() between steps."""
    dynexplore.reset()

    def step(model: Any, optimizer: Any, x: Any) -> Any:
        return mixed(dynexplore.optimize(backend)(model), optimizer, x)

    torch.manual_seed(0)
    model = Net()
    other = copy.deepcopy(model)
    expected = train(mixed, model, sgd(model.parameters()))
    actual = train(step, other, sgd(other.parameters()))
    torch.testing.assert_close(actual, expected, rtol=2e-2, atol=2e-2)
    assert graphs_compiled() == 6


def test_dropout_under_a_seed() -> None:
    """Random numbers are drawn in eager's order, also inside AOTAutograd's graphs without decompositions."""
    for backend in ("eager", "aot_eager"):
        dynexplore.reset()
        wrap = dynexplore.optimize(backend)
        assert compare(functools.partial(Net, 0.5), sgd, full_step, wrap, exact=backend == "eager") == 4


def saved_by(backend: str, model: nn.Module) -> int:
    """How many elements the backward keeps alive."""
    kept = []

    def pack(tensor: Any) -> Any:
        kept.append(tensor.numel())
        return tensor

    compiled = dynexplore.optimize(backend)(model)
    with torch.autograd.graph.saved_tensors_hooks(pack, lambda tensor: tensor):
        compiled(X).sum().backward()
    return sum(kept)


class Pointwise(nn.Module):
    """A long chain of cheap operators: worth computing again instead of keeping."""

    def forward(self, x: Any) -> Any:
        """The chain."""
        weight = self.weight
        for _ in range(6):
            x = torch.sigmoid(x * weight).cos()
        return x

    def __init__(self) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.ones(4))


def test_the_min_cut_saves_less() -> None:
    """The partitioner with min-cut keeps fewer elements between forward and backward than the default one."""
    dynexplore.reset()
    plain, cut = saved_by("aot_eager", Pointwise()), saved_by("aot_eager_decomp_partition", Pointwise())
    assert cut < plain


class Square(torch.autograd.Function):
    """A function with a backward of its own."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        """x squared."""
        ctx.save_for_backward(x)
        return x * x

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        """Three times too large, to be told from autograd's."""
        (x,) = ctx.saved_tensors
        return 6 * x * gradient


def double_backward(x: Any) -> Any:
    y = (x**3).sum()
    (first,) = torch.autograd.grad(y, x, create_graph=True)
    return first.pow(2).sum()


def with_function(x: Any) -> Any:
    return Square.apply(x.sin()) + 1


def checkpointed(x: Any) -> Any:
    block = functools.partial(torch.utils.checkpoint.checkpoint, lambda y: torch.tanh(y * 2).exp(), use_reentrant=False)
    return block(block(x)).sum()


def functional(x: Any) -> Any:
    per_row = torch.func.vmap(torch.func.grad(lambda row: (row**2).sum()))
    return per_row(x) * x


def toggled(x: Any) -> Any:
    weight = torch.ones(4)
    weight.requires_grad_()
    return (x * weight).sum() + (x.detach() * 2).sum()


@pytest.mark.parametrize("fn", [double_backward, with_function, checkpointed, functional, toggled])
def test_autograd_inside(fn: Any) -> None:
    """Values and gradients of what uses autograd itself are eager's."""
    x, other = X.clone().requires_grad_(), X.clone().requires_grad_()
    expected, actual = fn(x), dynexplore.optimize("eager")(fn)(other)
    same(expected, actual, exact=True)
    expected.sum().backward()
    actual.sum().backward()
    same(x.grad, other.grad, exact=True)
    assert graphs_compiled() == (2 if fn in (double_backward, toggled) else 1)


def test_hooks_on_tensors_and_modules() -> None:
    """Gradient hooks run once, with eager's gradients."""
    seen: list[list[Any]] = [[], []]
    for log, wrap in zip(seen, (lambda model: model, dynexplore.optimize("eager")), strict=True):
        torch.manual_seed(0)
        model = Net()
        model.first.register_full_backward_hook(lambda module, gin, gout, log=log: log.append(gout[0].sum().item()))
        model.last.weight.register_hook(lambda gradient, log=log: log.append(gradient.sum().item()))
        x = X.clone().requires_grad_()
        wrap(model)(x).sum().backward()
        log.append(x.grad.sum().item())
    assert seen[0] == seen[1] and len(seen[0]) == 3
    assert graphs_compiled() == 2


@pytest.mark.parametrize("retain", [True, False])
def test_backward_twice(retain: bool) -> None:
    """retain_graph works as in eager; without it the second backward is eager's error."""
    for backend in ("eager", "aot_eager"):
        dynexplore.reset()
        model = dynexplore.optimize(backend)(Net())
        loss = model(X).sum()
        assert graphs_compiled() == 1
        loss.backward(retain_graph=retain)
        if retain:
            loss.backward()
        else:
            with pytest.raises(RuntimeError, match="backward through the graph a second time"):
                loss.backward()


@pytest.mark.parametrize("name", ["RAdam", "ASGD", "NAdam", "Adam", "Rprop", "RMSprop"])
@pytest.mark.parametrize("foreach", [False, True])
def test_a_step_is_one_graph(name: str, foreach: bool) -> None:
    """Compiled, an optimizer takes the way without numbers read out of tensors; its own setting stays as it was."""
    dynexplore.reset()
    worlds, counting = [], CountingBackend("eager")
    for wrap in (lambda run: run, dynexplore.optimize(counting)):
        torch.manual_seed(0)
        model = nn.Linear(3, 2)
        optimizer = getattr(torch.optim, name)(model.parameters(), lr=0.05, foreach=foreach)
        step = wrap(optimizer.step)
        for _ in range(8):  # RAdam changes its way at the sixth step
            optimizer.zero_grad()
            model(X[:, :3]).square().sum().backward()
            step()
        worlds.append((list(model.parameters()), optimizer.param_groups[0]["capturable"]))
    torch.testing.assert_close(*(params for params, _ in worlds), rtol=1e-4, atol=1e-5)
    assert worlds[0][1] is worlds[1][1] is False
    assert len(counting.graphs) == 2  # new gradients are new tensors: compiled once more with them as inputs


@pytest.mark.parametrize("backend", BACKENDS)
def test_values_written_under_a_mask_get_their_gradients(backend):
    """Their backward reads what stands under the mask, of a size that no compiler knows; a constant has none."""

    def write(x, mask, value):
        y = x * 1
        y[mask] = value
        y[~mask] = 3.0
        return (y * y).sum()

    mask, gradients = torch.tensor([True, False, True]), []
    for function in (write, dynexplore.optimize(backend)(write)):
        x, value = torch.arange(3.0).requires_grad_(), torch.tensor(2.0, requires_grad=True)
        function(x, mask, value).backward()
        gradients.append((x.grad, value.grad))
    same(*gradients, exact=True)
    assert graphs_compiled() == 2


def fitted_by_lbfgs(wrap: Callable[[Callable[[], Any]], Callable[[], Any]]) -> list[Any]:
    """Losses, evaluations and parameters of a few steps, each of which evaluates its closure several times."""
    torch.manual_seed(0)
    model, evaluations = nn.Linear(4, 1), []
    optimizer = torch.optim.LBFGS(model.parameters(), lr=0.1, max_iter=6)

    def closure() -> torch.Tensor:
        optimizer.zero_grad()
        loss = ((model(X) - TARGET[:, None]) ** 2).mean()
        loss.backward()
        evaluations.append(loss.detach())
        return loss

    step = wrap(lambda: optimizer.step(closure))
    losses = [step().item() for _ in range(4)]
    return [losses, evaluations, [parameter.tolist() for parameter in model.parameters()]]


def test_the_closure_of_lbfgs_is_captured_and_its_step_is_not() -> None:
    """The step decides by its data and keeps a history that grows: each of its parts would recompile up to the limit."""
    assert fitted_by_lbfgs(dynexplore.optimize("eager")) == fitted_by_lbfgs(lambda step: step)
    stats = dynexplore.counters["stats"]
    assert (stats["graphs"], stats["recompiles"], stats["cache_limit"]) == (2, 0, 0)
