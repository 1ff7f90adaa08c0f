"""Changed inputs: a new tensor is like the old one in all that was not changed, and the recorded inputs stay as they are."""

from __future__ import annotations

from collections import namedtuple
from typing import Any

import pytest
import torch

from dynexplore.session.changed_inputs import changed_call, inputs_of, like

pytestmark = pytest.mark.plain("makes inputs from inputs; nothing is called")

Pair = namedtuple("Pair", "first second")


def test_what_is_not_changed_stays() -> None:
    """dtype, device, requires_grad, class and the order of strides are those of the old tensor."""
    turned = torch.ones(2, 3).t().requires_grad_()
    made = like(turned, shape=(5, 7))
    assert (made.shape, made.stride(), made.dtype, made.requires_grad) == ((5, 7), (1, 5), torch.float32, True)
    assert like(turned).stride() == turned.stride()
    last = torch.ones(2, 3, 4, 5).contiguous(memory_format=torch.channels_last)
    assert like(last, shape=(1, 8, 2, 2)).is_contiguous(memory_format=torch.channels_last)
    assert isinstance(like(torch.nn.Parameter(torch.ones(2)), shape=(3,)), torch.nn.Parameter)
    assert not like(turned, dtype=torch.int64).requires_grad


def test_no_random_number_is_drawn() -> None:
    """Making a tensor leaves the random numbers as they are."""
    state = torch.get_rng_state()
    like(torch.ones(3), dtype="float64", requires_grad=True)
    assert torch.equal(torch.get_rng_state(), state)


def test_paths_lead_into_containers_which_are_copied() -> None:
    """A path names an item of a tuple, list, dict or namedtuple; the recorded containers stay as they are."""

    def program(xs: Any, batch: Any, *rest: Any, flag: bool = False, **more: Any) -> None: ...

    xs, batch = [torch.ones(2), 3], {"mask": Pair(torch.ones(1), "a")}
    changes = {"xs[0]": {"shape": [4]}, "batch['mask'][1]": "b", "rest": (7,), "flag": True, "more['k']": 5}
    args, kwargs = changed_call(program, (xs, batch, 1), {"k": 4}, changes)
    assert args[0][0].shape == (4,) and args[0][1] == 3 and args[1]["mask"].second == "b" and args[2] == 7
    assert kwargs == {"flag": True, "k": 5} and type(args[1]["mask"]) is Pair
    assert xs[0].shape == (2,) and batch["mask"].second == "a"
    with pytest.raises(ValueError, match="the list has no 5"):
        changed_call(program, (xs, batch), {}, {"xs[5]": 1})


def test_the_form_of_the_call_stays() -> None:
    """What was passed by position or by name is passed so again, and defaults that nobody changes are not passed."""

    def program(a: Any, b: int = 1, *, c: int = 2) -> None: ...

    assert changed_call(program, (1,), {}, {}) == ((1,), {})
    assert changed_call(program, (1,), {}, {"c": 5}) == ((1,), {"c": 5})
    assert changed_call(program, (), {"b": 3, "a": 1}, {"a": 2}) == ((), {"b": 3, "a": 2})
    assert changed_call(lambda a, b=1, c=2, /: None, (1,), {}, {"c": 5}) == ((1, 1, 5), {})


def test_inputs_are_listed_with_what_can_be_changed() -> None:
    """Tensors with their properties, plain values as literals, other objects by their repr; defaults are there, too."""

    def program(x: Any, n: int = 3, obj: Any = None, xs: Any = ()) -> None: ...

    found = inputs_of(program, (torch.ones(2, 3), 4), {"obj": object, "xs": [torch.ones(1), {"a": torch.ones(2)}]})
    assert [(one.path, one.kind) for one in found] == [
        ("x", "tensor"), ("n", "value"), ("obj", "object"), ("xs[0]", "tensor"), ("xs[1]['a']", "tensor"),
    ]  # fmt: skip
    assert (found[0].shape, found[0].dtype, found[0].device, found[1].text) == ((2, 3), "float32", "cpu", "4")


def test_a_module_takes_what_its_forward_takes() -> None:
    """The inputs of a module have the names of its forward's parameters."""
    assert [one.path for one in inputs_of(torch.nn.Linear(2, 2), (torch.ones(2),), {})] == ["input"]
