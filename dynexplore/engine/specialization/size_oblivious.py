"""Size-oblivious reasoning: inputs with a dynamic output shape, with one graph for size 0, 1 or more.

The idea: torch specializes sizes 0 and 1, because operators test for them: whether a dimension is broadcast, whether a tensor is
contiguous. An operator with a dynamic output shape (rows that a mask selects) returns each size sooner or later, so the part of a
program after it, which has that tensor as an input, would be compiled three times. If an *operator* tests whether such a size is
0 or 1, it therefore gets the answer for any other number, without a guard. If the size is 0 or 1 in this very
call, its hint is overridden and the frame is interpreted as if it were another number. Tests by the program itself are guarded as
usual.

This is speculation, and it is validated before the graph is used: the graph's operators run once more on fake tensors, with the
size 0 and with the size 1. The speculation holds if each result has the sizes, strides, dtype and storage that the captured result
has for that number. Otherwise a guard excludes the number. If the guards then exclude the call itself, the frame is interpreted
once more, with its actual sizes as hints.

Tests by a backend are not validated: they become guards of the entry. If a backend does this, the speculation saves nothing, and
sizes are no longer size-oblivious for that backend.

In: a captured graph and its ShapeEnv. Out: whether the graph serves the current call. PyTorch's counterpart:
`torch.fx.experimental._config.backed_size_oblivious`, which reasons in the same way without validation.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import torch
import torch.utils._pytree as pytree
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.node import map_aggregate

from dynexplore.engine.aliasing.storage import storage_of
from dynexplore.engine.graph.unbacked_symints import running_operator

if TYPE_CHECKING:
    import sympy

    from dynexplore.engine.graph.builder import GraphBuilder

_PLAIN: dict[type[Any], Any] = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}
_MOST = 2  # at most this many sizes of a graph are combined: 8 runs on fake tensors


@dataclass
class BackendSizeGuards:
    """Whether a backend adds guards on size-oblivious sizes."""

    guards_sizes: bool = False
    leaves_sizes: bool = False  # it compiled a graph with such sizes and added no guard on them

    def note(self, env: Any, guards_before: int) -> None:
        """Record the guards that compiling a graph added; `guards_before` is their number before."""
        guards = [guard for guard in env.guards[guards_before:] if not env.oblivious_sizes.isdisjoint(guard.expr.free_symbols)]
        self.guards_sizes |= bool(guards)
        self.leaves_sizes |= not guards


def validate_size_oblivious(graph: GraphBuilder) -> None:
    """Guard against the sizes for which the size-oblivious answers are wrong."""
    env = graph.shape_env
    if env is None or not env.oblivious_answers:
        return
    sizes = sorted({root for size in env.oblivious_sizes if (root := env.replace(size)) in env.oblivious_sizes}, key=str)
    hints = {size: int(env.backed_var_to_val[size]) for size in sizes}
    if len(sizes) > _MOST:
        for number in (0, 1):
            _guard_not_equal(env, dict.fromkeys(sizes, number))
        return
    for case in _cases(hints):
        if _guards_admit(env, case) and not _is_as_captured(graph, case):
            _guard_not_equal(env, {size: number for size, number in case.items() if number < 2})


def guards_admit_current_hints(graph: GraphBuilder) -> bool:
    """Whether the guards so far accept this call, whose sizes 0 and 1 were overridden by other hints."""
    env = graph.shape_env
    return env is None or not env.hint_overrides or _guards_admit(env, env.hint_overrides)


def _cases(hints: dict[sympy.Symbol, int]) -> list[dict[sympy.Symbol, int]]:
    """Each combination in which some of the sizes are 0 or 1, and the others are unchanged; those with a single one come first."""
    products = itertools.product(*((0, 1, size) for size in hints.values()))
    cases = [dict(zip(hints, numbers, strict=True)) for numbers in products]
    small = [case for case in cases if min(case.values(), default=2) < 2]
    return sorted(small, key=lambda case: sum(number < 2 for number in case.values()))


def _guard_not_equal(env: Any, case: dict[sympy.Symbol, int]) -> None:
    """Guard that none of these sizes has this value."""
    import sympy

    for size, number in case.items():
        env.evaluate_expr(sympy.Ne(size, number))


def _guards_admit(env: Any, case: dict[sympy.Symbol, int]) -> bool:
    """Whether the guards so far accept a call with these sizes."""
    if any(env.var_to_range[size].lower > number for size, number in case.items()):
        return False
    numbers = _numbers(env, case)
    return not any(_is_false(guard.expr, numbers) for guard in env.guards)


def _numbers(env: Any, case: dict[sympy.Symbol, int]) -> dict[sympy.Symbol, Any]:
    """The value of each symbol in a call with these sizes."""
    import sympy

    return {**env.backed_var_to_val, **{size: sympy.Integer(number) for size, number in case.items()}}


def _is_false(expression: Any, numbers: dict[Any, Any]) -> bool:
    try:
        return bool(expression.xreplace(numbers) == False)  # noqa: E712  # sympy's own boolean
    except ZeroDivisionError:  # undecided
        return False


class _Inconclusive(Exception):
    """The graph contains something that cannot be run again."""


def _is_as_captured(graph: GraphBuilder, case: dict[sympy.Symbol, int]) -> bool:
    """Whether the graph's operators reproduce the captured results, with these sizes substituted."""
    env = graph.shape_env
    try:
        with torch.no_grad(), FakeTensorMode(static_shapes=True), running_operator(env):
            return _Trial(_numbers(env, case)).agrees(list(graph.graph.nodes))
    except Exception:  # an operator may raise anything: then it does not behave as captured
        return False


class _Trial:
    """A run of the graph's operators on fake tensors with concrete sizes."""

    def __init__(self, numbers: dict[sympy.Symbol, Any]) -> None:
        self.numbers = numbers
        self.values: dict[torch.fx.Node, Any] = {}
        self.storages: dict[int, torch.Tensor] = {}  # the storages of the substituted inputs, by those of the inputs

    def agrees(self, nodes: Sequence[torch.fx.Node]) -> bool:
        """Run the nodes; whether all results are as captured. They are compared at the end, since operators may write in place."""
        inputs = [node.meta["example_value"] for node in nodes if node.op in ("placeholder", "get_attr")]
        self._make_storages([value for value in inputs if isinstance(value, torch.Tensor)])
        for node in nodes:
            if node.meta.get("sets_mode") or node.meta.get("unbacked_bindings") or node.op == "call_module":
                raise _Inconclusive(node)
            if node.op in ("placeholder", "get_attr"):
                self.values[node] = self._twin(node.meta["example_value"])
            elif node.op != "output":
                self.values[node] = self._carried_out(node)
        pairs = [(node.meta["example_value"], value) for node, value in self.values.items()]
        seen_leaves, leaves = (pytree.tree_leaves([pair[side] for pair in pairs]) for side in (0, 1))
        if len(seen_leaves) != len(leaves) or not all(map(self._is_same, seen_leaves, leaves)):
            return False
        return _have_same_aliasing(seen_leaves, leaves)

    def _carried_out(self, node: torch.fx.Node) -> Any:
        args = map_aggregate(node.args, self._argument)
        kwargs = map_aggregate(dict(node.kwargs), self._argument)
        if node.op == "call_method":
            return getattr(args[0], str(node.target))(*args[1:], **kwargs)
        return node.target(*args, **kwargs)  # type: ignore[operator]

    def _argument(self, value: Any) -> Any:
        return self.values[value] if isinstance(value, torch.fx.Node) else self._number(value)

    def _number(self, value: Any) -> Any:
        """A symbolic number with these sizes substituted."""
        if not isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
            return value
        number = value.node.expr.xreplace(self.numbers)
        if number.free_symbols:
            raise _Inconclusive(value)
        plain = next(plain for kind, plain in _PLAIN.items() if isinstance(value, kind))
        return plain(number)

    def _make_storages(self, inputs: list[torch.Tensor]) -> None:
        """One storage for all inputs that share one, as large as the largest needs."""
        extents: dict[int, tuple[int, torch.Tensor]] = {}
        for tensor in inputs:
            if tensor.layout is not torch.strided or tensor.is_conj() or tensor.is_neg():
                raise _Inconclusive(tensor)
            sizes, strides, offset = self._layout(tensor)
            extent = offset + 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True) if size)
            longest, alias = extents.get(storage_of(tensor), (0, tensor))
            if tensor.dtype is not alias.dtype:
                raise _Inconclusive(tensor)
            extents[storage_of(tensor)] = max(longest, extent), tensor
        for storage, (extent, tensor) in extents.items():
            self.storages[storage] = torch.empty(extent, dtype=tensor.dtype, device=tensor.device)

    def _twin(self, captured: Any) -> Any:
        if not isinstance(captured, torch.Tensor):
            return self._number(captured)
        return self.storages[storage_of(captured)].as_strided(*self._layout(captured))

    def _layout(self, tensor: torch.Tensor) -> tuple[tuple[int, ...], tuple[int, ...], int]:
        sizes, strides = (tuple(map(self._number, numbers)) for numbers in (tensor.shape, tensor.stride()))
        return sizes, strides, self._number(tensor.storage_offset())

    def _is_same(self, captured: Any, value: Any) -> bool:
        if not isinstance(captured, torch.Tensor):
            return bool(self._number(captured) == value)
        return (
            isinstance(value, torch.Tensor)
            and (captured.dtype, captured.device, captured.layout) == (value.dtype, value.device, value.layout)
            and self._layout(captured) == (tuple(value.shape), value.stride(), value.storage_offset())
            and all(
                captured.is_contiguous(memory_format=memory_format) == value.is_contiguous(memory_format=memory_format)
                for memory_format in _memory_formats(value)
            )
        )


def _memory_formats(tensor: torch.Tensor) -> list[torch.memory_format]:
    """The memory formats for which a program may test a tensor."""
    others = {4: [torch.channels_last], 5: [torch.channels_last_3d]}
    return [torch.contiguous_format, *others.get(tensor.dim(), [])]


def _have_same_aliasing(captured: list[Any], values: list[Any]) -> bool:
    """Whether the same tensors share storages in both lists."""
    tensors = [pair for pair in zip(captured, values, strict=True) if isinstance(pair[0], torch.Tensor)]
    storages = {(storage_of(before), storage_of(after)) for before, after in tensors}
    return len(storages) == len({before for before, _ in storages}) == len({after for _, after in storages})
