"""Random modules that compute under torch's modes, called while modes and modules change between calls.

The idea: a mode (gradients, inference, autocast, the default dtype) is around a call, is entered inside it, or is left switched on;
what is captured under one must not be used under another, and a compiler must meet each operator in its own. Beside that the module
changes as modules do: train and eval, a buffer exchanged, a parameter frozen or replaced, a hook added or removed, another dtype,
another submodule. After each call the gradients of what came out are computed.

Of autocast there is one dtype only: its cache holds one copy of each weight, whatever the dtype, so that blocks of two dtypes
inside each other make plain PyTorch raise; a compiler makes a copy for each, under torch.compile as well (docs/guide/training.md).
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import strategies as st
from properties.fuzz_rounds import Passed, finds, run_drawn_for_long, run_slice
from properties.two_worlds import ZEROS, World, function_of, graphs_of_same_worlds

from dynexplore.engine.translate import codegen

PRELUDE = '''
hooks = []

class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.lin, self.norm, self.act = nn.Linear(3, 3), nn.BatchNorm1d(3), nn.Tanh()
        self.register_buffer("b", torch.tensor([1.0, 2.0, 3.0]))
        self.w = nn.Parameter(torch.tensor([0.5, -1.0, 2.0]))
        self.k = 2.0

'''

BLOCKS = st.sampled_from([
    "torch.no_grad()", "torch.enable_grad()", "torch.inference_mode()", "torch.inference_mode(False)",
    "torch.set_grad_enabled(self.training)", "torch.autocast('cpu', torch.bfloat16)", "torch.autocast('cpu', enabled=False)",
])
STEPS = st.sampled_from([
    "y = self.lin(y)", "y = self.lin(y)", "y = self.act(y)", "y = self.norm(y)", "y = y * self.w", "y = y + self.b",
    "y = y * self.k", "z = y @ self.lin.weight", "z = x.sin() * self.w", "y = y.detach()", "y = y.float()",
    "y = y + torch.ones(3)", "z = y.mul_(2)", "self.b.add_(1)", "self.b = self.b + 1", "self.k += 1", "self.seen = y.detach()",
    "z = y.view(-1)", "y = y if y.requires_grad else y + 1", "y = y * 2 if torch.is_grad_enabled() else y",
    "y = y + 1 if torch.is_inference_mode_enabled() else y", "y = y - 1 if self.training else y",
    "y = y * 2 if torch.is_autocast_enabled('cpu') else y", "print('here')", "z = torch.tensor(1.5)",
    "torch.set_grad_enabled(False)", "torch.set_grad_enabled(True)", "torch.set_default_dtype(torch.float64)",
])  # fmt: skip
CHANGES = st.sampled_from([
    "pass", "net.train()", "net.eval()", "net.b = torch.ones(3) if net.b is None else net.b.detach() * 2",
    "net.b = torch.ones(3, dtype=torch.float64)",
    "net.b = None", "net.w.requires_grad_(False)", "net.requires_grad_()", "net.w = nn.Parameter(torch.full((3,), 2.0))",
    "net.k = 3.0", "net.k = 2", "hooks.append(net.lin.register_forward_hook(lambda m, i, o: o * 2))",
    "[hook.remove() for hook in hooks]", "hooks.append(net.act.register_forward_pre_hook(lambda m, i: (i[0] + 1,)))",
    "hooks.append(net.w.requires_grad_().register_hook(lambda g: g if g is None else g * 2))",
    "hooks.append(net.act.register_full_backward_hook(lambda m, i, o: (i[0] * 3,)))", "net.act = nn.ReLU()",
    "net.act = nn.Identity()", "net.lin = nn.Linear(3, 3, bias=False)", "net.lin.weight.data.mul_(2)", "net.double()",
    "net.float()", "net.norm.momentum = 0.5", "net.act.forward = lambda v: v * 3", "net.zero_grad()",
    "net.lin.requires_grad_(False)", "net.b = torch.ones(3, requires_grad=True)",
    "net.load_state_dict({name: value * 2 for name, value in net.state_dict().items()})",
])  # fmt: skip
AROUND: dict[str, Callable[[], Any]] = {
    "nothing": contextlib.nullcontext,
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "float64": lambda: _set_to(torch.set_default_dtype, torch.float64),
    "deterministic": lambda: _set_to(torch.use_deterministic_algorithms, True),
    "device": lambda: torch.device("cpu"),
}


@dataclass(frozen=True)
class Case:
    """A module's `forward`, what is around each call and what changes before it."""

    body: tuple[str, ...]
    calls: tuple[tuple[str, str], ...]
    backend: str

    @property
    def text(self) -> str:
        """The source of the program."""
        head = ["    def forward(self, x):", "        y, z = x * 1, None"]
        lines = [*head, *(f"        {line}" for line in self.body), "        return y, z, torch.is_grad_enabled()"]
        return PRELUDE + "\n".join([*lines, "", "net = program = Net()"]) + "\n"


def _block(lines: tuple[str, list[str]]) -> list[str]:
    return [f"with {lines[0]}:", *(f"    {line}" for line in lines[1])]


def _bodies() -> st.SearchStrategy[tuple[str, ...]]:
    steps = st.lists(STEPS, min_size=1, max_size=3)
    inner = st.tuples(BLOCKS, steps).map(_block)
    block = st.tuples(BLOCKS, st.lists(st.one_of(steps, steps, inner), min_size=1, max_size=2).map(_joined)).map(_block)
    return st.lists(st.one_of(steps, block), min_size=1, max_size=3).map(_joined).map(tuple)


def _joined(parts: list[list[str]]) -> list[str]:
    return [line for part in parts for line in part]


def cases(*backends: str) -> st.SearchStrategy[Case]:
    """Drawn cases for these backends."""
    calls = st.lists(st.tuples(st.sampled_from(sorted(AROUND)), CHANGES), min_size=2, max_size=4).map(tuple)
    return st.builds(Case, _bodies(), calls, st.sampled_from(backends))


@contextlib.contextmanager
def _set_to(setter: Callable[[Any], object], value: Any) -> Iterator[None]:
    setter(value)
    yield


def _put_back() -> None:
    torch.set_grad_enabled(True)
    torch.set_default_dtype(torch.float32)
    torch.use_deterministic_algorithms(False)


def world_of(case: Case) -> World:
    """One side: a module of its own, called in turn with what needs a gradient and what needs none."""
    torch.manual_seed(0)
    names: dict[str, Any] = {"torch": torch, "nn": torch.nn}
    function_of(case.text, names)
    net, around = names["net"], contextlib.ExitStack()
    modes: list[Any] = []

    def prepare(number: int, mode: str, change: str) -> tuple[Any, ...]:
        if case.backend != "eager" and getattr(net.b, "grad_fn", None) is not None:
            # the graph of the last call would be differentiated once more, which a compiled one refuses (DIFF19)
            net.b = net.b.detach().requires_grad_()
        try:
            exec(change, names)
        except RuntimeError as error:  # a buffer may be an inference tensor by now, which refuses other values
            modes.append(str(error))
        x = torch.tensor([[0.5, -1.0, 2.0], [1.0, 0.0, -0.5]], dtype=net.lin.weight.dtype, requires_grad=number % 2 == 0)
        around.enter_context(AROUND[mode]())
        return (x,)

    def wanted() -> list[torch.Tensor]:
        switched_on = torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu")
        modes.append((*switched_on, torch.get_default_dtype()))
        around.close()
        _put_back()
        return list(net.parameters())

    calls = [lambda number=number, call=call: prepare(number, *call) for number, call in enumerate(case.calls)]
    return World(net, calls, lambda: [modes, *net.parameters(), *net.buffers(), net.k, getattr(net, "seen", None)], wanted)


def check(case: Case) -> Passed:
    """The case does under the engine what it does without."""
    before = ZEROS["taken for None"]
    shown = f"{case.text.replace(PRELUDE, '')}\ncalls: {case.calls}"
    rounding = 0.1 if "autocast" in shown else None  # gradients that meet in a weight are added up in 8 bits, or after them
    try:
        graphs = graphs_of_same_worlds(lambda: world_of(case), case.backend, shown, rounding)
    finally:
        _put_back()
    zeros = ["zeros for None"] * (ZEROS["taken for None"] > before)
    return Passed(graphs, (case.backend, *{mode for mode, _ in case.calls}, *zeros))


@pytest.mark.parametrize(("backend", "count"), [("eager", 12), ("aot_eager", 6)])
def test_modules_under_modes_do_the_same(backend: str, count: int) -> None:
    """Random modules under modes that change, as the modules do, equal eager in values and gradients."""
    print(run_slice(cases(backend), check, count))


@pytest.mark.soak
def test_the_fuzzer_finds_a_graph_that_is_compiled_inside_a_mode(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """With the mend taken out, some program differs from eager."""
    monkeypatch.setattr(codegen, "leave_all", lambda modes: None)
    difference = finds(cases("aot_eager"), check)
    with capfd.disabled():
        print(f"\n{difference}")
    assert difference


@pytest.mark.soak
def test_modules_under_modes_for_long(capfd: pytest.CaptureFixture[str]) -> None:
    """Thousands of such programs, from a seed that is printed."""
    with capfd.disabled():
        tally = run_drawn_for_long(cases("eager", "aot_eager", "aot_eager"), check)
    assert not tally.failures, "\n\n".join(tally.failures)
