"""numpy's functions as operators: both faces say the same, and a graph's text finds them by name."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch._subclasses.fake_tensor import FakeTensorMode

from dynexplore.engine.graph import numpy_operators
from dynexplore.engine.graph.numpy_operators import IN_PLACE, numpy_operator, wrapped_from_numpy, wrapped_mixed

pytestmark = pytest.mark.plain("works on operators and modes by itself, without a frame")


@pytest.mark.parametrize("name", ["sin", "add", "ndarray.sum", "T", "getitem", "stack", "iadd"])
def test_both_faces_agree(name: str) -> None:
    """What numpy computes on real tensors has the dtype and shape that torch's imitation gives on fake ones."""
    x = torch.arange(6.0).reshape(2, 3)
    arguments = {"add": (x, x), "getitem": (x, (0, slice(1, None))), "stack": ([x, x],), "iadd": (x, 1)}.get(name, (x,))
    found = numpy_operator(name)(*arguments)
    with FakeTensorMode(allow_non_fake_inputs=True):
        fake = numpy_operator(name)(*arguments)
    assert type(found) is torch.Tensor and (found.dtype, found.shape) == (fake.dtype, fake.shape)


def test_numpy_itself_computes_for_real() -> None:
    """On plain tensors the numbers are numpy's to the last bit, and in a traced graph they are operators of torch."""
    x = torch.linspace(0, 3, 50)
    assert np.array_equal(numpy_operator("sin")(x).numpy(), np.sin(x.numpy()))
    traced = torch.fx.experimental.proxy_tensor.make_fx(numpy_operator("sin"))(x)
    assert "aten.sin" in traced.code


def test_names_in_a_graphs_text() -> None:
    """Each operator is an attribute of the module under its own name; other names are not."""
    for operator in (numpy_operator("sin"), numpy_operator("ndarray.sum"), numpy_operator("getitem", copied=True)):
        assert getattr(numpy_operators, operator.__name__) is operator
    with pytest.raises(AttributeError, match="no_such_thing"):
        numpy_operators.no_such_thing


def test_a_copied_result_is_no_view() -> None:
    """A scalar that is taken out of an array does not change with it."""
    x = torch.zeros(3)
    part, view = numpy_operator("getitem", copied=True)(x, 1), numpy_operator("getitem")(x, slice(1, 2))
    x.fill_(7)
    assert part.item() == 0 and view.item() == 7


@pytest.mark.parametrize("name", sorted(IN_PLACE))
def test_in_place_operators_write_where_the_array_lies(name: str) -> None:
    """`array += other` writes into the tensor's memory and gives the tensor itself."""
    x = torch.tensor([7, 5]) if name in ("iand", "ior", "ixor") else torch.tensor([7.0, 5.0])
    expected, other = x.clone().numpy(), 2
    expected = getattr(__import__("operator"), name)(expected, other)
    assert numpy_operator(name)(x, other) is x and np.array_equal(x.numpy(), expected)


def test_between_tensors_and_arrays() -> None:
    """A tensor made of an array is another tensor on its memory; an operator between both gives a tensor."""
    x = torch.ones(2)
    other = wrapped_from_numpy(x)
    assert other is not x and other.data_ptr() == x.data_ptr()
    with pytest.warns(DeprecationWarning, match="__array_wrap__"):
        assert wrapped_mixed("add", x, other, 1).tolist() == [2, 2]
