"""Canonical operator names: `operator.add`, `aten::add`, `aten.add.Tensor` and `x.add(y)` are all `add`.

The idea: graphs of different methods are comparable only in a common vocabulary. The name is extracted from each method's
spelling, one table maps synonyms to one name, and nodes that only handle Python values (sizes, unpacking, conversions to a
number) are omitted. The differences that remain are real: `linear` in one graph is `t` and `addmm` in another.

In: rows of graphs. Out: `of_nodes(rows)`: names in order, never `""`. PyTorch's counterpart: torch/fx/operator_schemas.py
(normalization of targets), for FX graphs only.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from dynexplore.engine.events import NodeAdded

ALSO_KNOWN_AS = {
    "truediv": "div", "true_divide": "div", "divide": "div", "itruediv": "div_",
    "floordiv": "floor_divide", "mod": "remainder", "fmod": "fmod",
    "multiply": "mul", "imul": "mul_", "iadd": "add_", "isub": "sub_",
    "subtract": "sub", "rsub": "sub", "negative": "neg", "absolute": "abs",
    "and": "bitwise_and", "and_": "bitwise_and", "or": "bitwise_or", "or_": "bitwise_or",
    "xor": "bitwise_xor", "invert": "bitwise_not",
    "lshift": "bitwise_left_shift", "rshift": "bitwise_right_shift",
    "greater": "gt", "greater_equal": "ge", "less": "lt", "less_equal": "le", "not_equal": "ne",
    "concat": "cat", "concatenate": "cat", "clip": "clamp", "detach_copy": "detach",
    "select": "getitem", "slice": "getitem", "index": "getitem", "select_copy": "getitem", "slice_copy": "getitem",
    "conv1d": "convolution", "conv2d": "convolution", "conv3d": "convolution",
    "swapaxes": "transpose", "swapdims": "transpose", "reshape_as": "reshape", "view_as": "view",
    "t_copy": "t", "view_copy": "view", "permute_copy": "permute", "expand_copy": "expand",
    "transpose_copy": "transpose", "unsqueeze_copy": "unsqueeze", "squeeze_copy": "squeeze",
    "local_scalar_dense": "item",
}  # fmt: skip
"""Synonym of an operator -> its canonical name."""

BOOKKEEPING = {
    "", "size", "sym_size", "stride", "dim", "numel", "len", "getattr", "Int", "Bool", "Float", "ScalarImplicit",
    "FloatImplicit", "IntImplicit", "Size", "device_data", "append", "format", "warn", "print", "range", "keys", "values",
    "items", "set_grad_enabled", "_set_grad_enabled", "_assert_async", "_assert_scalar", "assert_tensor_metadata", "scalar",
    "__range_length", "__derive_index", "__getitem__", "_enter_autocast", "_exit_autocast",
}  # fmt: skip
"""Nodes of graphs that are not operators on tensors."""


def of_nodes(nodes: Iterable[NodeAdded]) -> tuple[str, ...]:
    """The operators of a graph, in order. Indexing that consists of several selects and slices counts once."""
    names: list[str] = []
    for node in nodes:
        name = normalised(node)
        if name and not (name == "getitem" and names and names[-1] == "getitem"):
            names.append(name)
    return tuple(names)


def normalised(node: NodeAdded) -> str:
    """The canonical name of one row, or "" if it is not an operator on tensors.

    >>> row = NodeAdded(frame=0, graph="g", name="a", op="call_function", target="aten::add")
    >>> normalised(row)
    'add'
    """
    if not node.op.startswith("call_") or node.target.startswith("prim::"):
        return ""
    return plain_name(node.target, is_module=node.op == "call_module")


def plain_name(target: str, *, is_module: bool = False) -> str:
    """The operator that a target names, in any spelling.

    >>> [plain_name(word) for word in ("aten::add", "aten.add.Tensor", "operator.add", "torch._C._nn.linear", "__rsub__")]
    ['add', 'add', 'add', 'linear', 'sub']
    >>> plain_name("0 (BatchNorm1d)", is_module=True)
    'batch_norm'
    """
    if is_module:
        return _of_module(target)
    name = target.split("::")[-1]
    parts = name.split(".")
    if parts[0] == "aten" and len(parts) > 1:  # aten.add.Tensor: the last part is the overload
        name = parts[1]
    else:
        name = parts[-1]
    if name in BOOKKEEPING:
        return ""
    is_dunder = name.startswith("__") and name.endswith("__")
    name = name.strip("_") if is_dunder else name.lstrip("_")
    return "" if name in BOOKKEEPING else ALSO_KNOWN_AS.get(name, name)


def _of_module(target: str) -> str:
    """The functional form of a layer: `0 (BatchNorm1d)` -> `batch_norm`."""
    match = re.search(r"\((\w+)\)$", target)
    kind = match[1] if match else target.split(".")[-1]
    functional_names = {"ReLU": "relu", "GELU": "gelu", "SiLU": "silu", "ELU": "elu"}
    words = functional_names.get(kind) or re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", kind).lower()
    words = re.sub(r"_?\dd$", "", words) if words.startswith(("batch", "instance")) else words
    return ALSO_KNOWN_AS.get(words, words)
