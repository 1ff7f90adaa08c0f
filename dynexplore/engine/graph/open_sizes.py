"""Sizes that only data told, served by one graph whether they are 0, 1 or more.

The idea: torch compiles sizes 0 and 1 for themselves, because operators ask for them: whether a dimension is broadcast, whether a
tensor is contiguous. Of a size that only data told (how many rows a mask chose) each number comes sooner or later, so the same
piece of a program would be compiled three times. So where an *operator* asks whether such a size is 0 or 1, it is told what holds
for any other number, without a guard; where the size is 0 or 1 in this very call, the frame is interpreted as if it were another
one. What the program itself asks is guarded as ever.

That is a guess, and it is tried before the graph is used: its operators are carried out once more on fake tensors, with the
size 0 and with the size 1. Where each result has the sizes, strides, type and memory that the graph's own has for that number, the
guess holds. Where not, a guard excludes the number. A call that the guards exclude is interpreted once more, with its sizes as
they are.

What a backend asks of these sizes is not tried: it becomes guards of the entry. A compiler asks, and then the guess was of no use:
no more is guessed for it.

In: a graph that was captured, its ShapeEnv. Out: whether it serves the call at hand. torch has
`torch.fx.experimental._config.backed_size_oblivious`, which guesses in the same way and does not try.
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

from dynexplore.engine.graph.data_symbols import asked_by_operators
from dynexplore.engine.graph.fake_mode import storage_of

if TYPE_CHECKING:
    import sympy

    from dynexplore.engine.graph.builder import GraphBuilder

_PLAIN: dict[type[Any], Any] = {torch.SymInt: int, torch.SymFloat: float, torch.SymBool: bool}
_MOST = 2  # sizes of one graph that are tried with each other: 8 runs on fake tensors


@dataclass
class BackendQuestions:
    """Whether a backend asks for the numbers behind open sizes."""

    asks: bool = False
    asks_nothing: bool = False  # a graph with open sizes came to it, and nothing was asked

    def note(self, env: Any, guards_before: int) -> None:
        """A graph was compiled; so many guards were there before."""
        asked = [guard for guard in env.guards[guards_before:] if not env.open_sizes.isdisjoint(guard.expr.free_symbols)]
        self.asks |= bool(asked)
        self.asks_nothing |= not asked


def try_guesses(graph: GraphBuilder) -> None:
    """Exclude the sizes for which what operators were told is not true."""
    env = graph.shape_env
    if env is None or not env.guesses:
        return
    sizes = sorted({root for size in env.open_sizes if (root := env.replace(size)) in env.open_sizes}, key=str)
    now = {size: int(env.backed_var_to_val[size]) for size in sizes}
    if len(sizes) > _MOST:
        for number in (0, 1):
            _exclude(env, dict.fromkeys(sizes, number))
        return
    for case in _cases(now):
        if _admits(env, case) and not _is_as_captured(graph, case):
            _exclude(env, {size: number for size, number in case.items() if number < 2})


def serves_this_call(graph: GraphBuilder) -> bool:
    """Whether the guards that are known by now let this call in, in which sizes are 0 or 1 that were taken for others."""
    env = graph.shape_env
    return env is None or not env.taken_for_others or _admits(env, env.taken_for_others)


def _cases(now: dict[sympy.Symbol, int]) -> list[dict[sympy.Symbol, int]]:
    """Each way in which some of the sizes are 0 or 1, and the others as they are; first those in which only one is."""
    ways = [dict(zip(now, numbers, strict=True)) for numbers in itertools.product(*((0, 1, size) for size in now.values()))]
    small = [way for way in ways if min(way.values(), default=2) < 2]
    return sorted(small, key=lambda way: sum(number < 2 for number in way.values()))


def _exclude(env: Any, case: dict[sympy.Symbol, int]) -> None:
    """Have a guard say that none of these sizes is this number."""
    import sympy

    for size, number in case.items():
        env.evaluate_expr(sympy.Ne(size, number))


def _admits(env: Any, case: dict[sympy.Symbol, int]) -> bool:
    """Whether the guards that are known by now let such a call in."""
    if any(env.var_to_range[size].lower > number for size, number in case.items()):
        return False
    numbers = _numbers(env, case)
    return not any(_is_false(guard.expr, numbers) for guard in env.guards)


def _numbers(env: Any, case: dict[sympy.Symbol, int]) -> dict[sympy.Symbol, Any]:
    """What each symbol is in such a call."""
    import sympy

    return {**env.backed_var_to_val, **{size: sympy.Integer(number) for size, number in case.items()}}


def _is_false(expression: Any, numbers: dict[Any, Any]) -> bool:
    try:
        return bool(expression.xreplace(numbers) == False)  # noqa: E712  # sympy's own
    except ZeroDivisionError:  # nobody knows
        return False


class _CannotTell(Exception):
    """Something in the graph that is not carried out once more."""


def _is_as_captured(graph: GraphBuilder, case: dict[sympy.Symbol, int]) -> bool:
    """Whether all that the graph's operators give in such a call is what they were seen to give, with these sizes put in."""
    env = graph.shape_env
    try:
        with torch.no_grad(), FakeTensorMode(static_shapes=True), asked_by_operators(env):
            return _Trial(_numbers(env, case)).agrees(list(graph.graph.nodes))
    except Exception:  # an operator may raise anything: it does not do what it was seen to do
        return False


class _Trial:
    """The graph's operators on fake tensors whose sizes are numbers."""

    def __init__(self, numbers: dict[sympy.Symbol, Any]) -> None:
        self.numbers = numbers
        self.values: dict[torch.fx.Node, Any] = {}
        self.memories: dict[int, torch.Tensor] = {}  # the memory of the inputs' twins, by that of the inputs

    def agrees(self, nodes: Sequence[torch.fx.Node]) -> bool:
        """Carry them out; whether all results are as they were seen to be. Compared at the end: operators write in place."""
        given = [node for node in nodes if node.op in ("placeholder", "get_attr")]
        self._make_memories([seen for node in given if isinstance(seen := node.meta["example_value"], torch.Tensor)])
        for node in nodes:
            if node.meta.get("sets_mode") or node.meta.get("unbacked_bindings") or node.op == "call_module":
                raise _CannotTell(node)
            if node.op in ("placeholder", "get_attr"):
                self.values[node] = self._twin(node.meta["example_value"])
            elif node.op != "output":
                self.values[node] = self._carried_out(node)
        pairs = [(node.meta["example_value"], value) for node, value in self.values.items()]
        seen_leaves, leaves = (pytree.tree_leaves([pair[side] for pair in pairs]) for side in (0, 1))
        if len(seen_leaves) != len(leaves) or not all(map(self._is_same, seen_leaves, leaves)):
            return False
        return _same_memory(seen_leaves, leaves)

    def _carried_out(self, node: torch.fx.Node) -> Any:
        args = map_aggregate(node.args, self._argument)
        kwargs = map_aggregate(dict(node.kwargs), self._argument)
        if node.op == "call_method":
            return getattr(args[0], str(node.target))(*args[1:], **kwargs)
        return node.target(*args, **kwargs)  # type: ignore[operator]

    def _argument(self, value: Any) -> Any:
        return self.values[value] if isinstance(value, torch.fx.Node) else self._number(value)

    def _number(self, value: Any) -> Any:
        """What a number that the sizes decide is with these sizes."""
        if not isinstance(value, torch.SymInt | torch.SymFloat | torch.SymBool):
            return value
        number = value.node.expr.xreplace(self.numbers)
        if number.free_symbols:
            raise _CannotTell(value)
        plain = next(plain for kind, plain in _PLAIN.items() if isinstance(value, kind))
        return plain(number)

    def _make_memories(self, inputs: list[torch.Tensor]) -> None:
        """One piece of memory for all inputs that share one, as long as the longest needs it."""
        longest: dict[int, tuple[int, torch.Tensor]] = {}
        for seen in inputs:
            if seen.layout is not torch.strided or seen.is_conj() or seen.is_neg():
                raise _CannotTell(seen)
            sizes, strides, offset = self._layout(seen)
            reach = offset + 1 + sum((size - 1) * stride for size, stride in zip(sizes, strides, strict=True) if size)
            known, other = longest.get(storage_of(seen), (0, seen))
            if seen.dtype is not other.dtype:
                raise _CannotTell(seen)
            longest[storage_of(seen)] = max(known, reach), seen
        for memory, (reach, seen) in longest.items():
            self.memories[memory] = torch.empty(reach, dtype=seen.dtype, device=seen.device)

    def _twin(self, seen: Any) -> Any:
        if not isinstance(seen, torch.Tensor):
            return self._number(seen)
        return self.memories[storage_of(seen)].as_strided(*self._layout(seen))

    def _layout(self, tensor: torch.Tensor) -> tuple[tuple[int, ...], tuple[int, ...], int]:
        sizes, strides = (tuple(map(self._number, numbers)) for numbers in (tensor.shape, tensor.stride()))
        return sizes, strides, self._number(tensor.storage_offset())

    def _is_same(self, seen: Any, value: Any) -> bool:
        if not isinstance(seen, torch.Tensor):
            return bool(self._number(seen) == value)
        return (
            isinstance(value, torch.Tensor)
            and (seen.dtype, seen.device, seen.layout) == (value.dtype, value.device, value.layout)
            and self._layout(seen) == (tuple(value.shape), value.stride(), value.storage_offset())
            and all(seen.is_contiguous(memory_format=form) == value.is_contiguous(memory_format=form) for form in _forms(value))
        )


def _forms(tensor: torch.Tensor) -> list[torch.memory_format]:
    """The orders of dimensions of which a program may ask whether a tensor has them."""
    others = {4: [torch.channels_last], 5: [torch.channels_last_3d]}
    return [torch.contiguous_format, *others.get(tensor.dim(), [])]


def _same_memory(seen: list[Any], values: list[Any]) -> bool:
    """Whether the same tensors share memory with each other."""
    tensors = [pair for pair in zip(seen, values, strict=True) if isinstance(pair[0], torch.Tensor)]
    pairs = {(storage_of(one), storage_of(other)) for one, other in tensors}
    return len(pairs) == len({one for one, _ in pairs}) == len({other for _, other in pairs})
