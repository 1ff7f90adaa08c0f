"""What TENSOR_MATCH does not say of an input: leaf or view, where it lies in its storage, whether it keeps its gradient.

One function is called with tensors that agree in all that operators depend on.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import dynexplore
from engine_checks import assert_same_as_eager, graphs_compiled


def inputs() -> Iterator[torch.Tensor]:
    """Tensors of two ones: leaves, views, outputs, shared, beginning later in their storage, keeping their gradient."""
    yield torch.ones(2)
    yield torch.ones(2, requires_grad=True)
    yield torch.ones(2, requires_grad=True) * 1
    kept = torch.ones(2, requires_grad=True) * 1
    kept.retain_grad()
    yield kept
    yield torch.ones(4, requires_grad=True).split(2)[1]
    yield torch.ones(2, 2, requires_grad=True)[1]
    yield torch.ones(2, 2)[1]
    yield torch.ones(2).share_memory_()
    yield torch.ones(2)


def is_a_leaf(x: torch.Tensor) -> Any:
    return x * 2, x.is_leaf


def has_a_history(x: torch.Tensor) -> Any:
    return x * 2, x.grad_fn is not None


def keeps_its_gradient(x: torch.Tensor) -> Any:
    return x * 2, x.retains_grad


def shall_keep_its_gradient(x: torch.Tensor) -> Any:
    if x.requires_grad:
        x.retain_grad()
    return x * 2, x


def number_among_outputs(x: torch.Tensor) -> Any:
    return x * 2, x.output_nr


def is_a_view(x: torch.Tensor) -> Any:
    return x * 2, x._is_view()


def where_it_begins(x: torch.Tensor) -> Any:
    return x * 2, x.storage_offset()


def where_a_part_of_it_begins(x: torch.Tensor) -> Any:
    y = x[1:].view(-1)
    return y * 2, y.storage_offset(), y.is_leaf


def is_shared_with_processes(x: torch.Tensor) -> Any:
    return x * 2, x.is_shared()


def is_the_same_view(x: torch.Tensor) -> Any:
    return x * 2, x.is_set_to(x), x.is_set_to(x[:1])


ASKING = [
    is_a_leaf, has_a_history, keeps_its_gradient, shall_keep_its_gradient, number_among_outputs, is_a_view, where_it_begins,
    where_a_part_of_it_begins, is_shared_with_processes, is_the_same_view,
]  # fmt: skip


@pytest.mark.parametrize("last_first", [False, True])
@pytest.mark.parametrize("asking", ASKING)
def test_what_an_input_is_asked_is_true_of_this_call(asking: Callable[..., Any], last_first: bool) -> None:
    """A tensor that agrees in dtype and sizes is not told what was true of the one before it."""
    compiled = dynexplore.optimize("eager")(asking)
    pairs = list(zip(inputs(), inputs(), strict=True))
    for x, y in reversed(pairs) if last_first else pairs:
        expected, got = asking(x), compiled(y)
        assert repr(got[1:]) == repr(expected[1:])
        assert y.retains_grad == x.retains_grad
        assert torch.equal(got[0], expected[0])
    assert graphs_compiled() > 0


def test_one_guard_for_what_was_asked() -> None:
    """Tensors of which the same is true share an entry; what nobody asks is not guarded."""
    compiled = dynexplore.optimize("eager")(where_it_begins)
    base = torch.ones(8)
    assert [compiled(base[place : place + 2])[1] for place in (0, 2, 0, 2)] == [0, 2, 0, 2]
    assert dynexplore.counters["stats"]["graphs"] == 2


def test_an_offset_that_varies_is_read_out() -> None:
    """Where sizes vary, so may the offset: it is read between two graphs."""
    compiled = dynexplore.optimize("aot_eager")(where_a_part_of_it_begins)
    for size in (4, 5, 6, 7):
        for start in (0, 1, 2):
            part = torch.arange(12.0)[start : start + size]
            assert repr(compiled(part)) == repr(where_a_part_of_it_begins(part))
    assert graphs_compiled() > 0


def detached_in_place(y: torch.Tensor) -> Any:
    before = y * 2
    y.detach_()
    return before, y * 3, y.requires_grad, y.is_leaf


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_what_was_made_of_an_input_keeps_its_history(backend: str) -> None:
    """`detach_` of an input takes effect where it stands: what was computed before has its gradient."""
    compiled = dynexplore.optimize(backend)(detached_in_place)
    for make in (lambda x: x * 1, lambda x: x.detach().requires_grad_(), lambda x: x.detach()):
        outcomes = []
        for fn in (detached_in_place, compiled):
            x = torch.ones(2, requires_grad=True)
            y = make(x)
            before, after, *told = fn(y)
            if before.requires_grad:
                before.sum().backward()
            outcomes.append((before.requires_grad, after.requires_grad, told, y.requires_grad, y.is_leaf, repr(x.grad)))
        assert outcomes[0] == outcomes[1]
    assert graphs_compiled() > 0


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_view_that_autograd_no_longer_answers_for(backend: str) -> None:
    """A view made without gradients, written to without them: to ask what made it raises, and only what uses it must."""

    def makes(x: torch.Tensor, w: torch.Tensor) -> Any:
        y = x * w
        with torch.no_grad():
            v = x[0]
            print("a break")
            v.add_(1)
        return y.detach() + w

    def uses(x: torch.Tensor, v: torch.Tensor) -> Any:
        with torch.no_grad():
            v.add_(1)
        return x.sin(), v * 2

    def pair() -> tuple[torch.Tensor, torch.Tensor]:
        x = torch.ones(2, 3, requires_grad=True)
        with torch.no_grad():
            return x, x[0]

    assert_same_as_eager(makes, *pair(), then=[pair(), pair()], backend=backend)
    assert_same_as_eager(uses, *pair(), then=[pair(), pair()], backend=backend)


def marked(mark: str) -> torch.Tensor:
    """A plain tensor with an attribute by which torch counts it as a parameter or a buffer; `mark` empty: without one."""
    tensor = torch.ones(2)
    if mark:
        setattr(tensor, mark, True)
    return tensor


@pytest.mark.parametrize("marks", [
    ("_is_buffer", "", "_is_param"), ("", "_is_buffer", "_is_param"), ("_is_param", "", "_is_buffer"),
])  # fmt: skip
def test_a_mark_makes_a_buffer(marks: tuple[str, ...]) -> None:
    """`isinstance(t, nn.Buffer)` goes by an attribute of the tensor, which the next tensor may lack."""

    def kinds(x: torch.Tensor) -> Any:
        return x * 2, isinstance(x, torch.nn.Buffer), isinstance(x, torch.nn.Parameter), isinstance(x * 1, torch.nn.Buffer)

    compiled = dynexplore.optimize("eager")(kinds)
    for mark in marks:
        x = marked(mark)
        assert compiled(x)[1:] == (mark == "_is_buffer", mark == "_is_param", False)
    assert graphs_compiled() == 3


class Keeps(torch.nn.Module):
    """Keeps what it was called with."""

    def forward(self, x: torch.Tensor, kept: torch.Tensor) -> Any:
        """Tell where it is kept."""
        self.kept = kept
        return x + self.kept, "kept" in self._buffers, "kept" in self.__dict__, len(list(self.buffers()))


@pytest.mark.parametrize("persistent", [True, False])
def test_a_marked_tensor_is_registered(persistent: bool) -> None:
    """A module that is given an `nn.Buffer` has it among its buffers at once, and in its state if it is to last."""
    expected, module = Keeps(), Keeps()
    compiled = dynexplore.optimize("eager")(module)
    for kept in (torch.nn.Buffer(torch.ones(2), persistent=persistent), torch.zeros(2)):
        assert compiled(torch.ones(2), kept)[1:] == expected(torch.ones(2), kept)[1:]
        assert list(module.state_dict()) == list(expected.state_dict()) == ["kept"] * persistent
    assert graphs_compiled() > 0
