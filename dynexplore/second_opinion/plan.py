"""The plan of a replay: the captured graph, copied before the backend receives it, because a backend may mutate it.

The idea: one row per node, with references by name instead of FX nodes, the symbolic run's prediction (dtype, shape, device),
and whether the node may run a second time. Operators of torch may; code of the program (a function that is allowed in the
graph, an autograd.Function), custom operators and communication may not: they may print, count or send.

In: a `FinishedGraph`. Out: `Plan`. PyTorch's counterpart: none.
"""

from __future__ import annotations

import types
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import torch
import torch.fx
from torch._ops import HigherOrderOperator, OpOverload, OpOverloadPacket

from dynexplore.engine.graph.finished_graph import FinishedGraph
from dynexplore.second_opinion.summaries import dtype_name


@dataclass(frozen=True, slots=True)
class Ref:
    """A reference to the value of the node of that name."""

    name: str


@dataclass(frozen=True, slots=True)
class Prediction:
    """The symbolic run's prediction for a tensor; a size is a number or a sympy expression."""

    dtype: str
    shape: tuple[Any, ...]
    device: torch.device


@dataclass(slots=True)
class PlanRow:
    """One node."""

    name: str
    op: str
    target: Any
    args: Any
    kwargs: Any
    predicted: Prediction | None
    refused: str = ""
    uninitialized: bool = False
    uses: tuple[str, ...] = ()  # the nodes that it reads


@dataclass(slots=True)
class Plan:
    """A graph to replay: rows in order, inputs and outputs by name, and which inputs it mutates."""

    name: str
    rows: list[PlanRow]
    inputs: list[str]
    outputs: list[str]
    written: tuple[int, ...]
    draws_random_numbers: bool
    module: torch.fx.GraphModule
    last_use: dict[str, int]


def make_plan(graph: FinishedGraph, name: str) -> Plan:
    """The plan of a graph."""
    module = graph.captured or graph.module  # nodes are compared with those that were recorded
    refused: dict[int, str] = {}  # by the id of a function: a graph calls the same few repeatedly
    rows = [_row(node, module, refused) for node in module.graph.nodes if node.op != "output"]
    outputs = [node.name for node in graph.outputs]
    last_use = {row.name: position for position, row in enumerate(rows)}
    for position, row in enumerate(rows):
        last_use |= dict.fromkeys(row.uses, position)
    live_to_the_end = [*outputs, *(graph.inputs[place].node.name for place in graph.meta.mutated_inputs)]
    last_use |= dict.fromkeys(live_to_the_end, len(rows))
    inputs = [graph_input.node.name for graph_input in graph.inputs]
    return Plan(name, rows, inputs, outputs, graph.meta.mutated_inputs, graph.meta.draws_rng, module, last_use)


def refs(value: Any) -> Iterator[Ref]:
    """Every reference in nested values."""
    if isinstance(value, Ref):
        yield value
    elif isinstance(value, tuple | list):
        for item in value:
            yield from refs(item)
    elif isinstance(value, slice):
        yield from refs((value.start, value.stop, value.step))
    elif isinstance(value, Mapping):
        yield from refs(list(value.values()))


def with_refs(value: Any) -> Any:
    """Nested values with nodes replaced by references."""
    kind = type(value)
    if kind is torch.fx.Node:
        return Ref(value.name)
    return value if kind in _SCALARS else _mapped(value, with_refs)


def with_values(value: Any, values: Mapping[str, Any]) -> Any:
    """Nested values with references replaced by values. Raises KeyError for a value that is unavailable."""
    kind = type(value)
    if kind is Ref:
        return values[value.name]
    if kind is tuple:
        return tuple([with_values(item, values) for item in value])
    return value if kind in _SCALARS else _mapped(value, lambda item: with_values(item, values))


_SCALARS = frozenset({int, float, bool, str, type(None), torch.dtype, torch.device})


def _mapped(value: Any, change: Callable[[Any], Any]) -> Any:
    """Nested values with `change` applied to each item."""
    if isinstance(value, torch.Size):
        return value  # it contains only numbers
    if isinstance(value, tuple):
        items = list(map(change, value))
        return type(value)(*items) if hasattr(value, "_fields") else tuple(items)
    if isinstance(value, list):
        return list(map(change, value))
    if isinstance(value, Mapping):
        return {key: change(item) for key, item in value.items()}
    if isinstance(value, slice):
        return slice(*map(change, (value.start, value.stop, value.step)))
    return value


def _row(node: torch.fx.Node, module: torch.fx.GraphModule, refused: dict[int, str]) -> PlanRow:
    key = id(node.target) if node.op == "call_function" else -1
    why = refused.get(key)
    if why is None:
        why = why_not_replayed(node, module)
        if key >= 0:
            refused[key] = why
    return PlanRow(
        node.name,
        node.op,
        node.target,
        with_refs(node.args),
        with_refs(node.kwargs),
        _predicted(node.meta.get("example_value")),
        why,
        _name(node.target).split(".")[0] in _UNINITIALIZED,
        tuple([used.name for used in node.all_input_nodes]),
    )


_UNINITIALIZED = frozenset(
    {"empty", "empty_like", "new_empty", "empty_strided", "new_empty_strided", "empty_permuted", "Tensor", "new"}
)


def _predicted(value: Any) -> Prediction | None:
    if not isinstance(value, torch.Tensor):
        return None
    return Prediction(dtype_name(value), tuple(map(_size, value.shape)), value.device)


def _size(size: Any) -> Any:
    return size.node.expr if isinstance(size, torch.SymInt) else size


# -- may it run twice? -----------------------------------------------------------------------------------------

_COMPUTING_MODULES = ("torch", "_operator", "builtins", "math", "dynexplore.engine")
_COMPUTING_BUILTINS = frozenset(
    function.__name__
    for function in (abs, bool, complex, divmod, float, getattr, int, isinstance, len, list, max, min, pow, round, setattr, slice)
) | {"sum", "tuple"}
_COMMUNICATING = ("torch.distributed", "torch.multiprocessing")
_OWN_NAMESPACES = frozenset({"aten", "prim", "prims", "quantized", "quantized_decomposed"})


def why_not_replayed(node: torch.fx.Node, module: torch.fx.GraphModule) -> str:
    """Why a node must not run a second time; "" if it may."""
    if node.op == "call_method":
        return "" if callable(getattr(torch.Tensor, str(node.target), None)) else f"Tensor.{node.target} is not torch's own"
    if node.op == "call_module":
        return _of_body(module.get_submodule(str(node.target)))
    if node.op == "get_attr":
        return _of_body(_attribute(module, str(node.target)))
    return _of_function(node.target) if node.op == "call_function" else ""


def _of_body(value: Any) -> str:
    """The same for the body of a higher-order operator, considering all its nodes."""
    if isinstance(value, torch.fx.GraphModule):
        reasons: Sequence[str] = [why_not_replayed(node, value) for node in value.graph.nodes]
        return next(filter(None, reasons), "")
    return f"it calls the module {type(value).__qualname__}" if isinstance(value, torch.nn.Module) else ""


def _of_function(target: Any) -> str:
    name = _name(target)
    if isinstance(target, OpOverload | OpOverloadPacket):
        own = str(target).partition(".")[0] in _OWN_NAMESPACES or getattr(target, "namespace", "") in _OWN_NAMESPACES
        return "" if own and name != "_print" else f"{target} is a custom operator, which may have side effects"
    if isinstance(target, HigherOrderOperator):
        return ""
    if isinstance(getattr(target, "__self__", None), type) and issubclass(target.__self__, torch.autograd.Function):
        return f"{target.__self__.__qualname__} is user code"
    if getattr(target, "__module__", None) == "builtins" and isinstance(target, types.BuiltinFunctionType | type):
        return "" if name in _COMPUTING_BUILTINS else f"{name} may have side effects"
    file_module = getattr(target, "__module__", None) or ("torch" if getattr(torch, name, None) is target else "")
    if file_module.startswith(_COMMUNICATING):
        return f"{name} communicates with other processes"
    if isinstance(target, types.BuiltinFunctionType | types.MethodDescriptorType | types.WrapperDescriptorType) and not file_module:
        return ""
    inside = any(file_module == prefix or file_module.startswith(prefix + ".") for prefix in _COMPUTING_MODULES)
    return "" if inside else f"{name} is user code"


def _name(target: Any) -> str:
    return target if isinstance(target, str) else str(getattr(target, "__name__", None) or target)


def _attribute(module: torch.nn.Module, path: str) -> Any:
    value: Any = module
    for part in path.split("."):
        value = getattr(value, part)
    return value


def attribute_of(plan: Plan, row: PlanRow) -> Any:
    """The value of a `get_attr` row."""
    return _attribute(plan.module, str(row.target))
