"""Random programs that talk to autograd: backward inside, gradients that are kept and read, writes it does not hear of, hooks.

The idea: a compiler computes gradients of its own for a graph; what a program asks of autograd in between (`retain_grad`,
`.data`, `.grad`, `backward`, what a `Function.backward` reads from outside, flags of torch's backends) must be as in eager
all the same. After each call the gradients of what came out are computed, and between two calls, and between a call and its
gradients, what the program reads from outside changes.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import pytest
import torch
from hypothesis import strategies as st
from properties.fuzz_rounds import Passed, finds, run_drawn_for_long, run_slice
from properties.two_worlds import ZEROS, World, function_of, graphs_of_same_worlds

from dynexplore.engine.aliasing import eligibility

PRELUDE = '''
scale = 2.0
table = {"k": 3.0}
seen = []

class Settings:
    factor = 1.5

class Twice(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x * 2
    @staticmethod
    def backward(ctx, g):
        (x,) = ctx.saved_tensors
        return g * 2 + x * 0

class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 1
    @staticmethod
    def backward(ctx, g):
        return g * scale

class ByTable(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.k = table["k"]
        return x * table["k"]
    @staticmethod
    def backward(ctx, g):
        return g * ctx.k

class ByClass(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()
    @staticmethod
    def backward(ctx, g):
        return g * Settings.factor + Scaled_offset()

class Counting(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, n):
        ctx.n = n
        return x * n
    @staticmethod
    def backward(ctx, g):
        seen.append(len(seen))
        return g * ctx.n, None

def Scaled_offset():
    return scale - 1
'''


@dataclass(frozen=True)
class Case:
    """A program, and what changes between its calls and before their gradients."""

    body: tuple[str, ...]
    changes: tuple[tuple[str, str], ...]
    backend: str

    @property
    def text(self) -> str:
        """The source of the program."""
        lines = ["def program(x, w, u):", "    y, z, g = x * w, x.sin(), None", *(f"    {line}" for line in self.body)]
        return PRELUDE + "\n".join([*lines, "    return y, z, g, (y * z).sum()"]) + "\n"


def _fill(template: str, **parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.fixed_dictionaries(parts).map(lambda drawn: template.format(**drawn))


_V = st.sampled_from(["x", "y", "z", "w", "u"])
_L = st.sampled_from(["x", "w"])
_N = st.sampled_from(["y", "z"])
_FLAGS = st.sampled_from([
    "cudnn.benchmark", "cudnn.deterministic", "cudnn.enabled", "mkldnn.enabled", "cuda.matmul.allow_tf32", "opt_einsum.enabled",
    "cuda.flash_sdp_enabled()", "cudnn.allow_tf32", "mkldnn.deterministic",
])
# Of a graph that was compiled before an earlier break, autograd.grad gives zeros for None as well: both ask for zeros here.
_OFTEN = st.one_of(
    _fill("{n} = {f}.apply({v})", n=_N, v=_L, f=st.sampled_from(["Scaled", "ByTable", "ByClass"])),
    _fill("g = torch.autograd.grad({n}.sum(), {l}, retain_graph=True, materialize_grads=True)[0]", n=_N, l=_L),
    _fill("{v}.data.{f}", v=_N, f=st.sampled_from(["add_(1)", "mul_(2)"])),
    _fill("{n}.retain_grad()", n=_N),
)
STATEMENTS = st.one_of(
    _OFTEN,
    _OFTEN,
    _OFTEN,
    _fill("y = {v} * {w}", v=_V, w=_V),
    _fill("z = {v}.{f}()", v=_V, f=st.sampled_from(["sin", "exp", "tanh", "clone", "detach", "relu"])),
    _fill("{n}.retain_grad()", n=_N),
    _fill("{v}.sum().backward(retain_graph=True)", v=_N),
    _fill("g = {l}.grad", l=_V),
    _fill("g = {l}.grad * 2 if {l}.grad is not None else None", l=_L),
    _fill("{l}.grad = None", l=_L),
    _fill("if {l}.grad is not None: {l}.grad.zero_()", l=_L),
    _fill("{v}.data.{f}", v=_V, f=st.sampled_from(["add_(1)", "mul_(2)", "zero_()", "copy_(u)"])),
    _fill("g = {v}.data", v=_V),
    _fill("g = {v}.data * 2 + {w}", v=_V, w=_V),
    _fill("if g is not None: g.add_(1)"),
    _fill("{v}.data = {w}.detach().clone()", v=_L, w=_V),
    _fill("with torch.no_grad(): {v}.{f}", v=_V, f=st.sampled_from(["add_(1)", "mul_(2)"])),
    _fill("with torch.no_grad(): z = {v} * 3", v=_V),
    _fill("{n} = {n}.detach().requires_grad_()", n=_N),
    _fill("{n} = {f}.apply({v})", n=_N, v=_V, f=st.sampled_from(["Twice", "Scaled", "ByTable", "ByClass"])),
    _fill("{n} = Counting.apply({v}, {k})", n=_N, v=_V, k=st.sampled_from(["2", "scale"])),
    # A hook on a result of the same graph that the derivative does not reach is called with None (docs/guide/training.md).
    _fill("{n}.register_hook(lambda d: d if d is None else d * {k})", n=_N, k=st.sampled_from(["2", "scale"])),
    _fill("g = torch.autograd.grad({n}.sum(), {l}, retain_graph=True, materialize_grads=True)[0]", n=_N, l=_L),
    _fill("g = {v}.requires_grad, {v}.is_leaf, {v}.grad is None", v=_V),
    _fill("z = z + 1 if torch.backends.{f} else z - 1", f=_FLAGS),
    _fill("z = z * {k}", k=st.sampled_from(["scale", "table['k']", "Settings.factor"])),
    _fill("{n}.add_(1)", n=_N),
    _fill("u.add_({v}.detach())", v=_V),
    _fill("z = torch.utils.checkpoint.checkpoint(lambda t: (t * 2).sin(), {v}, use_reentrant=False)", v=_V),
    _fill("print('here')"),
)
CHANGES = st.sampled_from([
    "pass",
    "scale += 1",
    "scale += 1; table['k'] += 1; Settings.factor += 1",
    "scale += 1; table['k'] += 1; Settings.factor += 1",
    "table['k'] += 1",
    "Settings.factor += 1",
    "torch.backends.cudnn.benchmark = not torch.backends.cudnn.benchmark",
    "torch.backends.cudnn.deterministic = not torch.backends.cudnn.deterministic",
    "torch.backends.mkldnn.set_flags(not torch.backends.mkldnn.enabled)",
    "torch.backends.opt_einsum.enabled = not torch.backends.opt_einsum.enabled",
    "torch.backends.cuda.enable_flash_sdp(not torch.backends.cuda.flash_sdp_enabled())",
])


def cases(*backends: str) -> st.SearchStrategy[Case]:
    """Drawn cases for these backends."""
    return st.builds(
        Case, st.lists(STATEMENTS, min_size=1, max_size=5).map(tuple),
        st.lists(st.tuples(CHANGES, CHANGES), min_size=2, max_size=3).map(tuple), st.sampled_from(backends),
    )  # fmt: skip


def world_of(case: Case) -> World:
    """One side: a namespace of its own, leaves that keep their gradients over all calls."""
    names: dict[str, Any] = {"torch": torch}
    function = function_of(case.text, names)
    x, w = torch.tensor([0.5, -1.0, 2.0], requires_grad=True), torch.tensor([1.0, 2.0, 3.0], requires_grad=True)
    leaves = [x, w]
    now: list[Any] = []
    later = ["pass"]

    def prepare(before: str, after: str) -> tuple[Any, ...]:
        exec(before, names)
        later[:] = [after]
        now[:] = [torch.tensor([3.0, 1.0, -2.0])]
        return (*leaves, now[0])

    def observe() -> Any:
        exec(later[0], names)  # between the call and what the next one sees
        return [*leaves, *now, names["seen"]]

    def wanted() -> list[torch.Tensor]:
        exec(later[0], names)
        return leaves

    calls = [lambda change=change: prepare(*change) for change in case.changes]
    return World(function, calls, observe, wanted)


def check(case: Case) -> Passed:
    """The case does under the engine what it does without."""
    torch.manual_seed(0)
    flags = torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic, torch.backends.mkldnn.enabled, \
        torch.backends.opt_einsum.enabled, torch.backends.cuda.flash_sdp_enabled()

    def put_back() -> None:
        torch.backends.cudnn.benchmark, torch.backends.cudnn.deterministic = flags[:2]
        torch.backends.mkldnn.set_flags(flags[2])
        torch.backends.opt_einsum.enabled = flags[3]
        torch.backends.cuda.enable_flash_sdp(flags[4])

    def make() -> World:
        put_back()
        return world_of(case)

    before = ZEROS["taken for None"]
    try:
        graphs = graphs_of_same_worlds(make, case.backend, f"{case.text.replace(PRELUDE, '')}\nchanges: {case.changes}")
    finally:
        put_back()
    return Passed(graphs, (case.backend, *["zeros for None"] * (ZEROS["taken for None"] > before)))


@pytest.mark.parametrize(("backend", "count"), [("eager", 50), ("aot_eager", 30)])
def test_programs_that_talk_to_autograd_do_the_same(backend: str, count: int) -> None:
    """Random programs that ask autograd for things in the middle equal eager in values and gradients."""
    print(run_slice(cases(backend), check, count))


@pytest.mark.soak
def test_the_fuzzer_finds_a_graph_that_is_always_compiled(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """With the mend taken out, some program differs from eager."""
    monkeypatch.setattr(eligibility, "RULES", {})
    difference = finds(cases("aot_eager"), check)
    with capfd.disabled():
        print(f"\n{difference}")
    assert difference


@pytest.mark.soak
def test_programs_that_talk_to_autograd_for_long(capfd: pytest.CaptureFixture[str]) -> None:
    """Thousands of such programs, from a seed that is printed."""
    with capfd.disabled():
        tally = run_drawn_for_long(cases("eager", "aot_eager", "aot_eager"), check)
    assert not tally.failures, "\n\n".join(tally.failures)
