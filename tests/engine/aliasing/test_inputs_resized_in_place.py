"""What the alias matrix cannot say of inputs that are resized in place: each operator by name, also of torch.ops.

The graph begins with the sizes that the argument has then, not with those that it has when the graph has run.
"""

from __future__ import annotations

import pytest
import torch

import dynexplore
from engine_checks import graphs_compiled

aten = torch.ops.aten


def squeezed_and_written(x):
    x.squeeze_(1).add_(1)
    return x * 2


def turned_behind_a_reader(x):
    before = x.sum(1)
    x.t_()
    return before, x @ x.t()


def turned_twice(x):
    x.t_()
    x.transpose_(0, 1)
    return x + 1


def turned_under_a_view(x):
    flat = x.view(-1)
    x.swapdims_(0, 1)
    flat.mul_(3)
    return flat, x + 1


IN_PLACE = {
    **{fn.__name__: fn for fn in (squeezed_and_written, turned_behind_a_reader, turned_twice, turned_under_a_view)},
    "squeeze_": lambda x: x.squeeze_(),
    "squeeze_ of several": lambda x: x.squeeze_((0, 1)) + 1,
    "unsqueeze_": lambda x: (x.unsqueeze_(0), x.view(-1)),
    "as_strided_": lambda x: x.as_strided_((1,), (1,)) * 2,
    "an overload": lambda x: aten.squeeze_.dim(x, 1) + 1,
}
OTHER_MEMORY = {
    "resize_": lambda x: x.resize_(2) + 1,
    "resize_as_": lambda x: x.resize_as_(torch.zeros(2)) + 1,
    "a function": lambda x: torch.resize_as_(x, torch.zeros(2)) + 1,
    "of torch.ops": lambda x: aten.resize_(x, (2,)) + 1,
    "set_ of torch.ops": lambda x: aten.set_(x, torch.zeros(3)) + 1,
}


def same_in_three_calls(fn, backend, size):
    """Result, and sizes and values of the argument and of what shares its memory, beside plain Python."""
    compiled = dynexplore.optimize(backend)(fn)
    for call in range(3):
        seen = []
        for run in (fn, compiled):
            x = torch.arange(float(size[0] * size[1])).view(size) + call
            beside = x.view(-1)
            result = run(x)
            first = result[0] if isinstance(result, tuple) else result
            seen.append((repr(result), x.shape, x.stride(), repr(x), repr(beside), first is x))
        assert seen[0] == seen[1]


@pytest.mark.parametrize("size", [(2, 1), (3, 2)], ids=str)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("fn", IN_PLACE.values(), ids=IN_PLACE)
def test_other_sizes_of_the_same_memory(fn, backend, size):
    """The graph begins with the sizes that the argument has then, not with those that it has when the graph has run."""
    same_in_three_calls(fn, backend, size)
    assert graphs_compiled() == 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("fn", OTHER_MEMORY.values(), ids=OTHER_MEMORY)
def test_other_memory(fn, backend):
    """Python gives it, under whatever name it is asked for."""
    same_in_three_calls(fn, backend, (3, 2))
    assert graphs_compiled()
