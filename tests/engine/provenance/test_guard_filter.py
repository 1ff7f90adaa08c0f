"""guard_filter_fn: the program says which guards are checked; what it leaves out no longer makes a call miss."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from typing import Any

import pytest
import torch
from torch import nn

import dynexplore
from dynexplore import GuardFilterEntry, exc
from engine_checks import graphs_compiled

X = torch.ones(2, 4)
SCALE = 3.0


class Block(nn.Module):
    """A module of the program around one of torch.nn."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)
        self.factor = 2

    def forward(self, x: Any) -> Any:
        return self.linear(x) * self.factor


def scaled(x: Any, times: Any = 1) -> Any:
    return x * SCALE * times


def filtered(fn: Any, keep: Callable[[GuardFilterEntry], bool]) -> Any:
    def choose(entries: Sequence[GuardFilterEntry]) -> list[bool]:
        return [keep(entry) for entry in entries]

    return dynexplore.optimize("eager", guard_filter_fn=choose)(fn)


def test_an_entry_says_name_value_type_and_place() -> None:
    """Each guard is one entry, with its path, the value of the captured call, its kind, and whether it begins at a global."""
    seen: list[GuardFilterEntry] = []
    fn = filtered(scaled, lambda entry: seen.append(entry) or True)  # type: ignore[func-returns-value]
    assert torch.equal(fn(X), X * 3)
    told = {(entry.name, entry.guard_type, entry.is_global) for entry in seen}
    assert {("x", "TENSOR_MATCH", False), ("SCALE", "EQUALS", True)} <= told
    (of_tensor,) = [entry for entry in seen if entry.guard_type == "TENSOR_MATCH"]
    assert of_tensor.has_value and of_tensor.value is X
    assert "GLOBAL_STATE" not in {entry.guard_type for entry in seen}


def test_what_is_left_out_is_no_miss() -> None:
    """A number whose guard is left out stays what it was when the function was captured."""
    fn = filtered(scaled, lambda entry: entry.name != "times")
    assert torch.equal(fn(X, 2), X * 6)
    assert torch.equal(fn(X, 5), X * 6)
    assert graphs_compiled() == 1
    assert torch.equal(filtered(scaled, lambda entry: True)(X, 5), X * 15)


def test_modes_are_always_checked() -> None:
    """Under a filter that keeps nothing another default dtype or grad mode compiles anew, as it does in torch."""
    fn = filtered(lambda x: x.new_ones(2) + x.sum().requires_grad, lambda entry: False)
    weight = X.clone().requires_grad_()
    assert fn(weight).tolist() == [2, 2]
    with torch.no_grad():
        assert fn(weight).tolist() == [1, 1]
    assert graphs_compiled() == 2


@pytest.mark.parametrize("name, another_factor, another_shape", [
    ("skip_guard_on_inbuilt_nn_modules_unsafe", 2, 3),
    ("skip_guard_on_all_nn_modules_unsafe", 1, 2),
    ("keep_tensor_guards_unsafe", 1, 2),
    ("skip_guard_on_globals_unsafe", 2, 3),
    ("skip_all_guards_unsafe", 1, 1),
])  # fmt: skip
def test_the_filters_of_torch_count_as_they_do_there(name: str, another_factor: int, another_shape: int) -> None:
    """After a module's attribute and then a shape has changed there are as many graphs as the filter's name says."""
    guard_filter = getattr(torch.compiler, name, None)
    if guard_filter is None:
        pytest.skip("a filter of newer versions of torch")
    block = Block()
    fn = dynexplore.compile(block, backend="eager", options={"guard_filter_fn": guard_filter})
    assert torch.equal(fn(X), block(X))
    block.linear.training = False
    fn(X)
    assert graphs_compiled() == 1
    block.factor = 3
    fn(X)
    assert graphs_compiled() == another_factor
    fn(torch.ones(5, 4))
    assert graphs_compiled() == another_shape


def test_a_module_whose_guard_is_left_out_keeps_its_own_parameters() -> None:
    """Two instances that share an entry are each read from where they stand; a replaced parameter is seen."""

    def call(module: Any, x: Any) -> Any:
        return module(x)

    fn = filtered(call, lambda entry: False)
    first, second = nn.Linear(4, 4), nn.Linear(4, 4)
    assert torch.equal(fn(first, X), first(X))
    assert torch.equal(fn(second, X), second(X))
    first.weight = nn.Parameter(torch.zeros(4, 4))
    assert torch.equal(fn(first, X), first(X))
    assert graphs_compiled() == 1


def test_relations_between_sizes_are_one_entry() -> None:
    """With symbolic sizes there is one entry SHAPE_ENV; left out, no relation is checked."""
    kinds: list[str] = []

    def choose(entries: Sequence[GuardFilterEntry]) -> list[bool]:
        kinds[:] = [entry.guard_type for entry in entries]
        return [entry.guard_type != "SHAPE_ENV" for entry in entries]

    fn = dynexplore.optimize("eager", dynamic=True, guard_filter_fn=choose)(lambda x: x * 2 if x.shape[0] > 3 else x)
    assert torch.equal(fn(torch.ones(5, 2)), torch.full((5, 2), 2.0))
    assert kinds.count("SHAPE_ENV") == 1
    assert torch.equal(fn(torch.ones(2, 2)), torch.full((2, 2), 2.0)), "the branch of the first call"
    assert graphs_compiled() == 1


def test_an_answer_that_is_no_list_of_bools_is_an_error() -> None:
    """The sentence says how many answers were wanted."""
    fn = dynexplore.optimize("eager", guard_filter_fn=lambda entries: [True])(scaled)
    with pytest.raises(exc.GuardFilterError, match=r"returned 1 answers for \d guards"):
        fn(X)


def test_what_is_no_function_is_refused() -> None:
    """`optimize` and `compile` say at once that it must be one."""
    with pytest.raises(ValueError, match="guard_filter_fn must be a function or None, not 3"):
        dynexplore.optimize("eager", guard_filter_fn=3)  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="guard_filter_fn"):
        dynexplore.compile(scaled, options={"guard_filter_fn": 3})


def keep_all(entries: Sequence[GuardFilterEntry]) -> list[bool]:
    return [True for _ in entries]


decorated = dynexplore.optimize("eager", guard_filter_fn=keep_all)(scaled)


def test_a_filter_survives_pickling() -> None:
    """A pickled wrapper is made again with its filter, and shares its entries."""
    again = pickle.loads(pickle.dumps(decorated))
    assert torch.equal(decorated(X), again(X))
    assert graphs_compiled() == 1
