"""Operators under shared names: every spelling of a method means the same word."""

from __future__ import annotations

import pytest

from dynexplore.engine.events import NodeAdded
from dynexplore.lenses.operators import normalised, of_nodes, plain_name


@pytest.mark.parametrize(
    ("spellings", "name"),
    [
        (("operator.add", "torch.add", "aten::add", "aten.add.Tensor", "add", "__add__"), "add"),
        (("operator.truediv", "aten::div", "aten.div.Tensor", "torch.true_divide"), "div"),
        (("operator.iadd", "aten::add_", "aten.add_.Tensor", "add_"), "add_"),
        (("aten::rsub", "aten.rsub.Scalar", "operator.sub", "__rsub__"), "sub"),
        (("operator.getitem", "aten::select", "aten.slice.Tensor"), "getitem"),
        (("operator.and_", "aten::__and__", "aten.bitwise_and.Tensor"), "bitwise_and"),
        (("aten::_convolution", "aten.convolution.default", "torch.conv2d"), "convolution"),
        (("torch.nn.functional.linear", "aten::linear"), "linear"),
        (("aten::size", "aten.sym_size.int", "aten::Bool", "lazy_tensors::device_data"), ""),
    ],
)
def test_spellings_of_one_operator(spellings: tuple[str, ...], name: str) -> None:
    """Python's, torch's, TorchScript's and aten's names of one operator are one name."""
    assert {plain_name(spelling) for spelling in spellings} == {name}


@pytest.mark.parametrize(
    ("layer", "name"),
    [("Linear", "linear"), ("BatchNorm2d", "batch_norm"), ("ReLU", "relu"), ("Conv2d", "convolution"), ("MaxPool2d", "max_pool2d"),
     ("LayerNorm", "layer_norm")],
)  # fmt: skip
def test_layers_are_named_after_their_function(layer: str, name: str) -> None:
    """A layer that fx keeps as one node has the name of the function that it calls."""
    assert plain_name(f"block.0 ({layer})", is_module=True) == name


def test_what_is_no_operator_is_left_out() -> None:
    """Inputs, constants and control flow are rows, and no operators; indexing counts once however it is written."""
    rows = [
        NodeAdded(frame=0, graph="g", name=str(number), op=op, target=target)
        for number, (op, target) in enumerate(
            [
                ("placeholder", "x"),
                ("call_function", "aten::slice"),
                ("call_function", "aten::select"),
                ("call_function", "prim::If"),
                ("call_method", "sum"),
                ("output", "output"),
            ]
        )
    ]
    assert of_nodes(rows) == ("getitem", "sum")
    assert normalised(rows[3]) == ""
