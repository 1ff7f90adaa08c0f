"""An FX graph in the row format that all methods share.

The idea: five of the seven methods produce FX graphs. They differ in where they store the metadata of a value (`example_value`,
`val`, `tensor_meta`), and in how they name a target.

In: a `torch.fx.GraphModule`. Out: a `Graph`. PyTorch's counterpart: `torch.fx.Graph.print_tabular`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

import torch
import torch.fx
from torch.fx.passes.shape_prop import TensorMetadata

from dynexplore.engine.events import NodeAdded, clip
from dynexplore.engine.graph.qualified_names import qualified_name
from dynexplore.lenses.operators import of_nodes
from dynexplore.lenses.outcome import Graph

_PLACE = re.compile(r'File "([^"]+)", line (\d+)')


def graph_of(module: torch.fx.GraphModule, name: str) -> Graph:
    """The graph of a GraphModule as rows."""
    rows = [(node, _row(node, module, name)) for node in module.graph.nodes]
    return Graph(name, tuple(row for _, row in rows), of_nodes(row for node, row in rows if _is_on_tensors(node)))


def _row(node: torch.fx.Node, module: torch.fx.GraphModule, graph: str) -> NodeAdded:
    dtype, shape, device = _words(_traced_value(node))
    places = _PLACE.findall(str(node.meta.get("stack_trace") or ""))
    file, line = places[-1] if places else ("", 0)
    return NodeAdded(
        frame=0,
        graph=graph,
        name=node.name,
        op=node.op,
        target=_target(node, module),
        args=clip(str(node.args)) if node.args else "",
        kwargs=clip(str(node.kwargs)) if node.kwargs else "",
        inputs=tuple(entry.name for entry in node.all_input_nodes),
        dtype=dtype,
        shape=shape,
        device=device,
        module=_module_path(node),
        file=file,
        line=int(line),
    )


def _target(node: torch.fx.Node, module: torch.fx.GraphModule) -> str:
    if node.op == "call_module":
        return f"{node.target} ({type(module.get_submodule(str(node.target))).__name__})"
    if isinstance(node.target, str):
        return node.target
    if isinstance(node.target, torch._ops.OpOverload):
        return str(node.target)
    return qualified_name(node.target)


def _module_path(node: torch.fx.Node) -> str:
    """The path of the innermost nn.Module, without the prefixes that methods add."""
    stack = node.meta.get("nn_module_stack") or {}
    path = str(list(stack.values())[-1][0]) if stack else ""
    path = re.sub(r"\['?(\w+)'?\]|_modules\.", r".\1", path).replace("..", ".")
    return re.sub(r"^(L\.self|self|L__self__)?\.?(fn\.?)?", "", path).strip(".")


def _traced_value(node: torch.fx.Node) -> Any:
    return next((node.meta[key] for key in ("example_value", "val", "tensor_meta") if node.meta.get(key) is not None), None)


def _words(value: Any) -> tuple[str, str, str]:
    """dtype, shape and device as text; empty strings for a value that is not a tensor."""
    if isinstance(value, tuple | list) and len(value) == 1:
        value = value[0]
    if not isinstance(value, torch.Tensor | TensorMetadata):
        return "", "", ""
    device = str(value.device) if isinstance(value, torch.Tensor) else ""
    return str(value.dtype).removeprefix("torch."), f"[{', '.join(map(str, value.shape))}]", device


def _is_on_tensors(node: torch.fx.Node) -> bool:
    """Whether a node is known to compute on tensors, as opposed to unpacking, sizes and plain numbers."""
    value = _traced_value(node)
    if value is not None and not any(isinstance(leaf, torch.Tensor | TensorMetadata) for leaf in _leaves(value)):
        return False
    if getattr(node.target, "__name__", "") == "getitem" and isinstance(node.args[0], torch.fx.Node):
        whole = _traced_value(node.args[0])
        return not (isinstance(whole, tuple | list) and not isinstance(whole, TensorMetadata))
    return True


def _leaves(value: Any) -> Iterator[Any]:
    if isinstance(value, tuple | list) and not isinstance(value, TensorMetadata):
        for item in value:
            yield from _leaves(item)
    else:
        yield value
