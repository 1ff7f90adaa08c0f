"""Graph inputs, and trackers of values: tensors and sizes that come from outside, or that the graph computes.

The idea: a tensor of the program becomes a placeholder with a fake tensor and a TENSOR_MATCH guard. specialization/decide.py
decides which of its sizes are symbols; variables/scalars/wrap_literal.py handles numbers.

In: live values and their sources. Out: nodes and trackers. PyTorch's counterpart: `VariableBuilder.wrap_tensor` in
torch/_dynamo/variables/builder.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch
import torch.fx

from dynexplore.engine.provenance.sources import ObjectSource, Source
from dynexplore.engine.provenance.torch_guards import TensorMatch
from dynexplore.engine.specialization import marks
from dynexplore.engine.specialization.shape_env import dynamic_context
from dynexplore.engine.translate import operations
from dynexplore.engine.variables.containers.iterator import ItemsIteratorVariable
from dynexplore.engine.variables.containers.lazy import LazyVariable
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.torch_.tensor.tensor import TensorVariable
from dynexplore.engine.variables.torch_.tensor.traceable_wrapper_subclass import is_traceable_wrapper

if TYPE_CHECKING:
    from dynexplore.engine.translate.contract.interpreter import Interpreter


class ValueBuilder:
    """Creates the inputs of one attempt; implements the protocol `Values` of the trackers' context."""

    def __init__(self, ctx: Interpreter) -> None:
        self._ctx = ctx
        self.dynamic_constraints: list[tuple[Source, torch.Tensor, int]] = []  # dimensions marked by `mark_dynamic`
        self.symbolic_inputs: dict[Source, VariableTracker] = {}  # the symbols of numbers that are graph inputs
        self._size_nodes: dict[tuple[torch.fx.Node, int], torch.fx.Node] = {}

    # -- live values

    def lazy(self, value: object, source: Source | None) -> VariableTracker:
        """A live value that becomes a tracker when it is first accessed."""
        return self._ctx.build(value, None) if source is None else LazyVariable(value, source)

    def iterator_over(self, items: list[VariableTracker]) -> VariableTracker:
        """An iterator over known items."""
        return ItemsIteratorVariable(items)

    # -- tensors

    def guard_tensor(self, tensor: torch.Tensor, source: Source) -> torch.fx.Node:
        """Make a live tensor an input of the graph."""
        specializer = self._ctx.specializer
        decided = specializer.decide_tensor(source, tensor, self._fixed_layout(tensor))
        dynamic, strides = decided.dynamic_sizes, decided.dynamic_strides
        context = dynamic_context(tensor, dynamic, strides) if dynamic or strides else None
        fake = self._ctx.graph.fake_tensor(tensor, source, context)
        if context is not None:
            self.dynamic_constraints += [(source, fake, dim) for dim in marks.dynamic(tensor)]
            for dim in dynamic:
                specializer.note_symbol(f"{source.text()}.size()[{dim}]", fake.shape[dim])
        sizes = tuple(map(_static, fake.shape))
        fixed = tuple(map(_static, fake.stride())) if context is None else (None,) * fake.dim()
        match = TensorMatch(source, tensor, sizes, fixed, self._ctx.frames.root.current.offset)
        self._ctx.guard(source, "TENSOR_MATCH", match)
        return self._placeholder(tensor, source, fake)

    def _fixed_layout(self, tensor: torch.Tensor) -> str:
        """Why no size of a tensor may be a symbol; "" if sizes may be symbols."""
        if is_traceable_wrapper(tensor):
            return "wrapper"
        if self._ctx.request.views_are_static and tensor._is_view():
            return "view"
        return "" if self._ctx.graph.written_base(tensor) is None else "written view"

    def new_input(self, tensor: torch.Tensor, source: Source) -> torch.fx.Node:
        """Make a tensor that the modified code creates an input of the graph, without a guard."""
        return self._placeholder(tensor, source, self._ctx.graph.fake_tensor(tensor, source))

    def _placeholder(self, tensor: torch.Tensor, source: Source, fake: torch.Tensor) -> torch.fx.Node:
        node = self._ctx.graph.placeholder(source.text(), source, tensor, fake)
        if self._ctx.emitter is not None:
            self._ctx.emitter.node_added(node)
        return node

    def constant_tensor(self, tensor: torch.Tensor) -> VariableTracker:
        """A tensor that the engine itself holds, as an attribute of the graph."""
        source = ObjectSource(tensor, "constant")
        fake = self._ctx.graph.fake_tensor(tensor, source)
        return TensorVariable(self._ctx.graph.attribute("constant", tensor, fake), fake, source, tensor)

    def wrap_size(self, size: torch.Size, tensor: VariableTracker) -> VariableTracker:
        """The tracker of a torch.Size; symbolic entries become nodes on first use."""
        return operations.wrap_size(self._ctx, size, tensor, self._size_nodes)


def _static(size: Any) -> int | None:
    """A size that is specialized; None for a symbol."""
    return size if isinstance(size, int) else None
