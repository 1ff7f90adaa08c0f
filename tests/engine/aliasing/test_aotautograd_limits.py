"""What the alias matrix cannot say of autograd: gradients asked for in between, autograd.Functions, version counters.

Mutations through views, `.data` and `detach()`, as a caller sees them, are cells of test_alias_matrix.py.
"""

from __future__ import annotations

from typing import Any

import pytest
import torch

import dynexplore
from engine_checks import CountingBackend, assert_same_as_eager, graphs_compiled


def leaf() -> torch.Tensor:
    return torch.tensor([1.0, 2.0, 3.0], requires_grad=True)


def writes_through_data(x):
    x.data.add_(1)
    return (x * x).sum()


def writes_through_data_late(x):
    y = x * x
    x.data.mul_(3)
    return y.sum()


def writes_through_a_view_of_data(x):
    y = x.exp() * x
    x.data[1:].mul_(3)
    return y.sum(), x.data[:1]


def reads_data(x):
    return x.data * 2, (x * 3).sum()


def returns_data(x):
    return x.data, x * 2


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(("fn", "graphs"), [
    (writes_through_data, 1), (writes_through_data_late, 0), (reads_data, 1), (returns_data, 1),
])  # fmt: skip
def test_autograd_does_not_hear_of_data(fn: Any, graphs: int, backend: str) -> None:
    """`.data` is another tensor on the same memory: its changes raise nothing in backward, which sees them."""
    assert_same_as_eager(fn, leaf(), backend=backend, breaks=[], graphs=graphs)


def writes_through_data_behind_products(x, w):
    y = x * (x * w)  # a compiler keeps x and w, and computes the product again
    x.data.add_(1)
    return y, (y * w.sin()).sum()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_write_through_data_changes_what_eager_saved_and_nothing_else(backend: str) -> None:
    """The graph runs as it stands: what a compiler keeps for its backward is not what autograd keeps."""
    assert_same_as_eager(writes_through_data_behind_products, leaf(), leaf(), backend=backend, breaks=[], graphs=0)


class Clamped(torch.nn.Module):
    """A layer that writes its own weight through `.data`, before or after it uses it."""

    def __init__(self, write: str, is_late: bool) -> None:
        super().__init__()
        self.linear, self.write, self.is_late = torch.nn.Linear(3, 3, bias=False), write, is_late

    def forward(self, x):
        if not self.is_late:
            WRITES[self.write](self.linear.weight)
        y = self.linear(x.sin()) * self.linear.weight.exp().sum()
        if self.is_late:
            WRITES[self.write](self.linear.weight)
        return y


WRITES = {
    "clamp": lambda weight: weight.data.clamp_(-0.1, 0.1), "mul": lambda weight: weight.data.mul_(1.5),
    "copy": lambda weight: weight.data.copy_(weight.data.sin()), "view": lambda weight: weight.data[1:].add_(0.3),
}  # fmt: skip


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("is_late", [False, True])
@pytest.mark.parametrize("write", WRITES)
def test_layers_that_write_their_own_weights_through_data(write: str, is_late: bool, backend: str) -> None:
    """A backend gets all layers if each writes its weight before autograd saves it, and none where one writes it afterwards."""
    for layers in (1, 2, 3):
        model = torch.nn.Sequential(*[Clamped(write, is_late) for _ in range(layers)])
        assert_same_as_eager(model, torch.randn(2, 3), calls=3, backend=backend, breaks=[], graphs=0 if is_late else 1)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_view_of_data(backend: str) -> None:
    """What is cut out of `.data` is as unheard of as `.data`."""
    assert_same_as_eager(writes_through_a_view_of_data, leaf(), backend=backend)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_what_was_saved_before_is_not_stale(backend: str) -> None:
    """A graph that writes through `.data` leaves the version that a backward outside waits for."""
    x = leaf()
    before = (x * x).sum()
    dynexplore.optimize(backend)(writes_through_data)(x)
    before.backward()
    assert x.grad is not None
    assert x.grad.tolist() == [4.0, 6.0, 8.0]
    assert x._version == 0
    assert graphs_compiled() == 1


def asks_how_often_data_changed(x):
    y = x.clone()
    u = y.data
    u += 1
    return u._version, u, y._version


def changes_data_twice(x):
    u = x.data
    tail = u[1:]
    tail += 1
    u.mul_(2)
    return u, tail, x._version


def counted(fn: Any) -> Any:
    """A function that says of each tensor it gives how many changes it has counted."""

    def program(x):
        outs = fn(x)
        return outs, [out._version for out in outs if isinstance(out, torch.Tensor)]

    return program


@pytest.mark.parametrize("requires_grad", [False, True])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("fn", [asks_how_often_data_changed, changes_data_twice])
def test_data_counts_changes_of_its_own(fn: Any, backend: str, requires_grad: bool) -> None:
    """What `.data` gave counts its changes apart from the tensor, which has heard of none."""
    x = leaf().detach().requires_grad_(requires_grad)
    optimized = dynexplore.optimize(backend)(fn)
    expected, actual = counted(fn)(x.clone()), counted(optimized)(x.clone())
    assert repr(actual) == repr(expected)
    assert graphs_compiled() > 0


def product_and_alias(x):
    y = x * x
    return y.sum(), x.detach()


def writes_through_the_data_of_an_alias(x):
    total, alias = product_and_alias(x)
    dynexplore.graph_break()
    alias.data.add_(1)
    return total


def writes_through_data_and_for_all_to_hear(x):
    alias = x.detach()
    dynexplore.graph_break()
    alias.data.add_(1)
    alias.mul_(2)
    return x.sum(), alias._version


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("fn", [writes_through_the_data_of_an_alias, writes_through_data_and_for_all_to_hear])
def test_autograd_does_not_hear_of_the_data_of_an_alias(fn: Any, backend: str) -> None:
    """A detached tensor counts together with its origin: a write through the `.data` of one is unheard of by both."""
    assert_same_as_eager(fn, leaf(), backend=backend)


def keeps(x):
    y = x * 2
    y.retain_grad()
    return y, (y * y).sum()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_gradient_that_is_kept(backend: str) -> None:
    """`retain_grad` is asked of a real tensor, between two graphs."""
    outcomes = []
    for fn in (keeps, dynexplore.optimize(backend)(keeps)):
        y, z = fn(leaf())
        z.backward()
        outcomes.append(y.grad.tolist())
    assert outcomes[0] == outcomes[1] == [4.0, 8.0, 12.0]
    assert dynexplore.counters["stats"]["graphs"] == 2


def second_derivative(x):
    y = (x**3).sum()
    (first,) = torch.autograd.grad(y, x, create_graph=True)
    return (first * first).sum()


def asks_for_what_is_unused(x, w):
    y, z = x * w, x.sin()
    unused = torch.autograd.grad(z.sum(), w, retain_graph=True, allow_unused=True)[0]
    return y, z, unused is None


def backward_of_a_part(x, w):
    y, z = x * w, x.sin()
    z.sum().backward(retain_graph=True)
    return y, w.grad is None


def backward_of_a_part_behind_a_look(x, w):
    y, z = x * w, x.sin()
    before = y.grad  # of no leaf: torch warns, and the graph ends
    z.sum().backward(retain_graph=True)
    return y, before, w.grad is None


def backward_of_all(x, w):
    y = x * w
    loss = y.sin().sum()
    loss.backward()
    return y.detach(), w.grad


def goes_on_with_another_part(x, w):
    y, z = x * w, x.sin()
    y.sum().backward(retain_graph=True)
    z.retain_grad()
    torch.autograd.grad(z.sum(), w, retain_graph=True, materialize_grads=True)
    return y.detach(), z.grad is None


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_backward_leaves_no_gradient_where_none_comes(backend: str) -> None:
    """`backward` of a tensor that depends on some leaves only: the graph runs as it stands, another is compiled."""
    assert_same_as_eager(backward_of_a_part, leaf(), leaf(), backend=backend, breaks=["DX406"], graphs=0)
    assert_same_as_eager(backward_of_a_part_behind_a_look, leaf(), leaf(), backend=backend, breaks=["DX411", "DX406"])
    assert_same_as_eager(goes_on_with_another_part, leaf(), leaf(), backend=backend)
    assert_same_as_eager(backward_of_all, leaf(), leaf(), backend=backend, breaks=["DX406"], graphs=2)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_gradients_in_the_middle(backend: str) -> None:
    """A graph whose gradients the program asks for itself runs as it stands: they have gradients, and None is None."""
    assert_same_as_eager(second_derivative, leaf(), backend=backend, breaks=["DX406"])
    assert_same_as_eager(asks_for_what_is_unused, leaf(), leaf(), backend=backend, breaks=["DX406"])


def changes_what_is_saved(x):
    y = x.exp()
    with torch.no_grad():
        y.add_(1)
    return y


def multiplies_in_place(x):
    y = x * 1
    y.mul_(y)
    return x * 2, y


def test_a_backward_that_would_raise() -> None:
    """A program that changes what autograd saved does so in peace until backward is called, which raises as in eager."""
    assert_same_as_eager(changes_what_is_saved, leaf(), backend="aot_eager", breaks=0)
    assert_same_as_eager(multiplies_in_place, leaf(), backend="aot_eager", breaks=0)
    out = dynexplore.optimize("aot_eager")(changes_what_is_saved)(leaf())
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        out.sum().backward()


class NoBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2


class FailingBackward(NoBackward):
    @staticmethod
    def backward(ctx, gradient):
        raise KeyError("no backward today")


class WrongBackward(NoBackward):
    @staticmethod
    def backward(ctx, gradient):
        return torch.ones(7)


WITHOUT_DERIVATIVE = [
    lambda x: 2.5 % x, lambda x: torch.igamma(x, x), lambda x: x.heaviside(x),
    NoBackward.apply, FailingBackward.apply, WrongBackward.apply, lambda x: torch.where(x > 0, x // 2.5, x),
]  # fmt: skip
NAMES = ["remainder", "igamma", "heaviside", "none", "raises", "wrong shape", "behind zeros"]


@pytest.mark.parametrize("operator", WITHOUT_DERIVATIVE, ids=NAMES)
def test_a_backward_that_raises_is_heard_of_when_it_is_called(operator: Any) -> None:
    """A compiler traces the backward with the forward: what fails there must not fail a program that never asks for it."""

    def program(x, y):
        return operator(x) + y, x * y

    assert_same_as_eager(program, leaf(), leaf(), backend="aot_eager", breaks=0, gradients=False)
    expected, actual = program(leaf(), leaf()), dynexplore.optimize("aot_eager")(program)(leaf(), leaf())
    for mine, theirs in zip(actual, expected, strict=True):
        raised = [_raised_by_backward(mine), _raised_by_backward(theirs)]
        assert raised[0] == raised[1]
    assert graphs_compiled()


def _raised_by_backward(out: torch.Tensor) -> str | None:
    try:
        out.sum().backward()
    except (RuntimeError, KeyError) as error:
        return f"{type(error).__name__}: {error}"
    return None


SCALE = 2.0
TABLE = {"k": 2.0}


class ReadsGlobal(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 1

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient * SCALE


class ReadsTable(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.k = TABLE["k"]
        return x * ctx.k

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient * ctx.k


class ForwardReadsNumber(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.scale = SCALE
        return x * SCALE

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient * ctx.scale


class ReadsNothing(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any, scale: float) -> Any:
        ctx.scale = scale
        return x * scale

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return torch.neg(gradient) * ctx.scale, None


def in_turn(fn: Any, wrap: Any) -> list[Any]:
    """The gradients of three calls, before each of which, and before the backward of which, what is outside changes."""
    global SCALE
    SCALE, TABLE["k"] = 2.0, 2.0
    run, found = wrap(fn), []
    for _ in range(3):
        SCALE, TABLE["k"] = SCALE + 1, TABLE["k"] + 1
        x = leaf()
        out = run(x).sum()
        SCALE, TABLE["k"] = SCALE + 1, TABLE["k"] + 1
        out.backward()
        found.append((out.tolist(), x.grad.tolist()))  # type: ignore[union-attr]
    return found


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize(("function", "graphs"), [(ReadsGlobal, 1), (ReadsTable, 1), (ForwardReadsNumber, 3)])
def test_a_function_that_reads_from_outside(function: Any, graphs: int, backend: str) -> None:
    """What `forward` and `backward` read is what is there when they run: the backend gets the graph around such a function, or one
    that is guarded on the number that forward reads."""

    def fn(x):
        return function.apply(x.sin())

    expected = in_turn(fn, lambda fn: fn)
    assert in_turn(fn, dynexplore.optimize(backend)) == expected
    assert not dynexplore.graph_breaks()
    assert graphs_compiled() == (graphs if backend == "aot_eager" else 1)


CALLS: list[Any] = []
TIMES = {"forward": 0}


def noted(x: Any) -> Any:
    same = CALLS
    same += [tuple(x.shape)]
    return x


class ForwardAppends(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        CALLS.append(tuple(x.shape))
        return x * 2

    @staticmethod
    def backward(ctx: Any, gradient: Any) -> Any:
        return gradient * 2


class ForwardCounts(ForwardAppends):
    count = 0

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ForwardCounts.count += 1
        CALLS[:] = [ForwardCounts.count]
        return x * 2


class HelperNotes(ForwardAppends):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return noted(x) * 2


class SetupNotes(ForwardAppends):
    @staticmethod
    def forward(x: Any) -> Any:  # type: ignore[override]
        return x * 2

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        TIMES["forward"] += 1
        CALLS[:] = [TIMES["forward"]]


def counting_in_a_closure() -> Any:
    times = 0

    class CountsInClosure(ForwardAppends):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            nonlocal times
            times += 1
            return x * times

    return CountsInClosure


NOTING = [ForwardAppends, ForwardCounts, HelperNotes, SetupNotes]


@pytest.mark.parametrize("make", [*[lambda made=made: made for made in NOTING], counting_in_a_closure])
def test_what_a_forward_changes_outside_is_changed_once_a_call(make: Any) -> None:
    """Capture runs forward on fake tensors, too: what it notes or counts there would be there twice."""
    def two_calls(fn: Any) -> Any:
        CALLS.clear()
        TIMES["forward"] = ForwardCounts.count = 0
        return [fn(leaf()).tolist() for _ in range(2)], list(CALLS)

    eager, captured = make(), make()
    expected = two_calls(lambda x: eager.apply(x.sin()) + 1)
    assert two_calls(dynexplore.optimize("eager")(lambda x: captured.apply(x.sin()) + 1)) == expected
    assert len([reason for reason in dynexplore.graph_breaks() if "autograd.Function" in reason]) == 1


def test_a_function_that_reads_nothing_is_one_graph() -> None:
    """Libraries, arguments and `ctx` are fixed."""
    assert_same_as_eager(lambda x: ReadsNothing.apply(x, 3.0), leaf(), backend="aot_eager", graphs=1, breaks=0)


def of_settings(x):
    flags = torch.backends.cudnn.benchmark, torch.backends.mkldnn.enabled, torch.backends.cudnn.deterministic
    others = [torch.backends.cuda.flash_sdp_enabled(), torch.get_float32_matmul_precision()]
    return [x + 1 if flag else x - 1 for flag in flags] + others


def test_settings_are_asked_again() -> None:
    """`torch.backends` is read anew: the same setting hits, another one compiles once more, and no graph breaks."""
    before = torch.backends.cudnn.benchmark, torch.backends.mkldnn.enabled
    fn, found = dynexplore.optimize("eager")(of_settings), []
    try:
        for benchmark, mkldnn in ((False, True), (True, True), (False, True), (False, False), (True, True)):
            torch.backends.cudnn.benchmark = benchmark
            torch.backends.mkldnn.set_flags(mkldnn)
            found.append(repr(fn(torch.ones(2))) == repr(of_settings(torch.ones(2))))
    finally:
        torch.backends.cudnn.benchmark = before[0]
        torch.backends.mkldnn.set_flags(before[1])
    assert found == [True] * 5
    assert dynexplore.counters["stats"]["recompiles"] == 2
    assert not dynexplore.graph_breaks()


def makes_an_input_part_of_the_graph(a, c):
    before = a * 1
    a.mul_(c)
    return before, a.requires_grad, before.requires_grad


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_what_was_read_before_a_write_needs_no_gradient(backend: str) -> None:
    """What was read before has no gradient, and the graph, which makes an input part of autograd's, runs as it stands."""
    args = [(torch.ones(3), leaf()) for _ in range(3)]
    assert_same_as_eager(makes_an_input_part_of_the_graph, *args[0], then=args[1:], backend=backend, graphs=0, breaks=0)


def test_a_tensor_that_keeps_its_gradient_hears_of_what_passes_it() -> None:
    """`autograd.grad` with respect to an input that the tensor does not depend on does not pass it, also through a compiler."""

    def fn(x: torch.Tensor, w: torch.Tensor) -> Any:
        y, z = x * w, x.sin()
        z.retain_grad()
        g = torch.autograd.grad(z.sum(), w, retain_graph=True, materialize_grads=True)[0]
        return y, z, g, z.grad

    x, w = (torch.tensor([0.5, -1.0], requires_grad=True) for _ in range(2))
    assert_same_as_eager(fn, x, w, backend="aot_eager", graphs=0)  # captured, and run as it stands


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_what_is_kept_for_another_backward_can_be_asked_for_its_gradient(backend: str) -> None:
    """`y` is behind `z`: once it keeps its gradient, the second backward brings it what comes through `z`, too."""

    def f(x: torch.Tensor, w: torch.Tensor) -> Any:
        y = x * w
        z = y.sin()
        y.sum().backward(retain_graph=True)
        y.retain_grad()
        (y * z).sum().backward()
        return y, y.grad

    pairs = [(torch.linspace(-1, 1, 4).requires_grad_(), torch.linspace(0, 1, 4).requires_grad_()) for _ in range(3)]
    assert_same_as_eager(f, *pairs[0], then=pairs[1:], backend=backend, gradients=False)


def behind_another(x):
    y = x * 2
    return y, y * 3


def test_what_a_compiler_made_of_a_graph_is_one_operation() -> None:
    """A known difference, shared with torch.compile: results that lie behind each other do so in eager alone."""
    seen: list[tuple[list[float], str]] = []
    for fn in (behind_another, dynexplore.optimize("aot_eager")(behind_another)):
        hooked: list[float] = []
        y, z = fn(leaf())
        y.register_hook(lambda grad, hooked=hooked: hooked.extend(grad.tolist()))
        (y.sum() + z.sum()).backward()
        seen.append((hooked, type(z.grad_fn).__name__))
    assert seen == [([4.0] * 3, "MulBackward0"), ([1.0] * 3, "CompiledFunctionBackward")]
    assert graphs_compiled() == 1


def test_a_second_derivative_through_a_compiled_graph_is_refused() -> None:
    """A known difference, shared with torch.compile: AOTAutograd compiles a backward without one of its own."""
    x = leaf()
    y = dynexplore.optimize("aot_eager")(lambda x: (x * x * x).sum())(x)
    with pytest.raises(RuntimeError, match="does not currently support double backward"):
        (grad,) = torch.autograd.grad(y, x, create_graph=True)
        grad.sum().backward()
    assert graphs_compiled() == 1


def new_leaf_by(make):
    def program(x):
        weight = make(x)
        with torch.no_grad():
            weight.mul_(2)
        return weight * x, weight

    return program


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("make", [
    lambda x: torch.ones(2, requires_grad=True),
    lambda x: torch.ones_like(x, requires_grad=True),
    lambda x: x.new_ones(2, requires_grad=True),
    lambda x: torch.eye(2, requires_grad=True)[0] * 3,
])  # fmt: skip
def test_what_is_made_with_requires_grad_gets_gradients(make: Any, backend: str) -> None:
    """A tensor made in the function with `requires_grad=True` is a leaf: what depends on it alone has a history."""
    counting = CountingBackend(backend)
    plain, compiled = new_leaf_by(make), dynexplore.optimize(counting)(new_leaf_by(make))
    for wants in (False, True, False):
        x = torch.tensor([1.0, 2.0], requires_grad=wants)
        (expected, leaf), (result, own) = plain(x), compiled(x)
        assert torch.equal(result, expected) and result.requires_grad and own.is_leaf == leaf.is_leaf
        if leaf.is_leaf:
            expected.sum().backward()
            result.sum().backward()
            assert torch.equal(own.grad, leaf.grad)
    assert graphs_compiled()  # the graph mutates the leaf, so it is not cut, and no backend gets it
    assert not dynexplore.counters["graph_break"]
    assert not counting.graphs


def changes_of_a_made_one(x):
    y = x * 2
    y.add_(1)
    y[0] = 3
    return y, y._version, y.view(-1)._version, y.detach()._version, (y + 1)._version


def changes_of_a_view(x):
    y = x.clone()
    y.view(-1).mul_(2)
    return y, y._version


def changes_of_an_argument(x):
    x.mul_(2)
    y = x._version
    x.add_(1)
    return x, y, x._version


def changes_by_lists(x):
    y = x * 2
    torch._foreach_add_([y, x], 1)
    return y, y._version


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("program", [changes_of_a_made_one, changes_of_a_view, changes_of_an_argument, changes_by_lists])
def test_changes_are_counted_as_the_program_makes_them(program: Any, backend: str) -> None:
    """A compiler writes to a copy, and copies that back: the program does not count this."""
    again = torch.ones(3)
    again.add_(1)  # it comes with changes of its own
    assert_same_as_eager(program, torch.ones(3), then=[(again,)], backend=backend)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_changes_behind_an_inference_tensor_are_counted(backend: str) -> None:
    """The clone of an inference tensor has been written to once."""
    with torch.inference_mode():
        again = torch.ones(3)
    with torch.no_grad():
        assert_same_as_eager(changes_of_a_view, torch.ones(3), then=[(again,), (torch.zeros(3),)], backend=backend)


def test_a_tensor_made_in_the_graph_knows_how_often_it_was_changed() -> None:
    """No break is needed for that."""
    assert_same_as_eager(changes_of_a_made_one, torch.ones(3), graphs=1, breaks=0, backend="aot_eager")
