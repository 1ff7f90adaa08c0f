"""Symbolic sizes: torch's ShapeEnv, and the guards it asks for.

The idea: a dimension that varies is a symbol. ShapeEnv follows the arithmetic and the decisions made with it, and at
the end says which relations the next call's sizes must satisfy (`s0 > 4`, `2*s0 == s1`). They become lines of the
check function, in the order in which the program asked. What was asked of a single number ShapeEnv folds into bounds; they come
first, because they cannot raise, and protect what the program asked behind them (`12 // (n - 1)` behind `n > 1`).

Importing ShapeEnv's sources pulls in parts of torch._dynamo, which is slow; it happens only when a size is dynamic.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

import torch

from dynexplore.engine.config import config
from dynexplore.engine.graph.data_symbols import takes_shapes_of_data
from dynexplore.engine.policy.dimensions import unbacked
from dynexplore.engine.provenance.sources import Source

if TYPE_CHECKING:
    from dynexplore.engine.graph.builder import GraphBuilder


def make_shape_env(*, opens_sizes: bool = False) -> Any:
    """A new ShapeEnv: sizes 0 and 1 are specialized, equal sizes share a symbol, but not what is equal by chance.

    `opens_sizes`: those that only data told are not specialized (open_sizes.py).
    """
    return _shape_env_class()(
        opens_sizes=opens_sizes,
        allow_scalar_outputs=config.capture_scalar_outputs,
        allow_dynamic_output_shape_ops=takes_shapes_of_data(),
    )


@functools.cache
def _shape_env_class() -> Any:
    from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv

    class OwnShapeEnv(ShapeEnv):
        """torch's, but that what is equal to a size by chance shares no symbol with it, and that some sizes are open."""

        def __init__(self, *, opens_sizes: bool, **settings: Any) -> None:
            super().__init__(**settings)
            self.opens_sizes = opens_sizes
            self.open_sizes: set[Any] = set()  # the symbols of sizes that may be 0 and 1
            self.taken_for_others: dict[Any, int] = {}  # those of them that are 0 or 1 in this call
            self.is_operator_asking = False
            self.guesses = 0  # how often an operator was told that such a size is neither

        def create_symbol(self, val: Any, source: Any, dynamic_dim: Any = DimDynamic.DUCK, *args: Any, **kwargs: Any) -> Any:
            if dynamic_dim is DimDynamic.DUCK and _is_equal_by_chance(source):
                dynamic_dim = DimDynamic.DYNAMIC
                if self.opens_sizes and getattr(source.base, "size_of_data", False) and (val or _is_size_of_data(source)):
                    return self._open_number(val, source, *args, **kwargs)
            return super().create_symbol(val, source, dynamic_dim, *args, **kwargs)

        def _open_number(self, val: Any, source: Any, *args: Any, **kwargs: Any) -> Any:
            """A symbol that may be 0 and 1: of a size, or of where a tensor of that size begins (a column of `nonzero(x)`)."""
            kwargs |= {"positive": None, "do_not_specialize_zero_one": True}  # a symbol that is positive is never 0 to sympy
            symbol = super().create_symbol(val, source, DimDynamic.DYNAMIC, *args, **kwargs)
            self.var_to_range[symbol] = self._default_value_range(do_not_specialize_zero_one=True)
            if _is_size_of_data(source):
                self.open_sizes.add(symbol)
                self.size_like.add(symbol)  # so that ShapeEnv can tell what holds where it is neither 0 nor 1
            return symbol

        def _create_symbolic_sizes_strides_storage_offset(self, ex_size: Any, *args: Any, **kwargs: Any) -> Any:
            is_open = self.opens_sizes and getattr(args[3], "size_of_data", False)  # of the source
            is_taken = is_open and ex_size[0] in (0, 1) and kwargs["symbolic_context"].dynamic_sizes[0] is DimDynamic.DUCK
            if is_taken:
                kwargs["hint_overrides"] = {**(kwargs.get("hint_overrides") or {}), 0: _ANOTHER_SIZE}
            made = super()._create_symbolic_sizes_strides_storage_offset(ex_size, *args, **kwargs)
            if is_taken and isinstance(made[0][0], torch.SymInt):
                self.taken_for_others[made[0][0].node.expr] = int(ex_size[0])
            return made

        def evaluate_expr(
            self, orig_expr: Any, hint: Any = None, fx_node: Any = None, size_oblivious: bool = False, *args: Any, **kwargs: Any
        ) -> Any:
            if not self.open_sizes.isdisjoint(orig_expr.free_symbols):
                size_oblivious = False  # nobody but this method takes a size for neither 0 nor 1
                if self.is_operator_asking and self._maybe_evaluate_static(orig_expr) is None:
                    told = self._maybe_evaluate_static(orig_expr, size_oblivious=True)
                    if told is not None:
                        self.guesses += 1
                        return told
            return super().evaluate_expr(orig_expr, hint, fx_node, size_oblivious, *args, **kwargs)

    return OwnShapeEnv


def _is_equal_by_chance(source: Any) -> bool:
    """Whether a number of a tensor that is a size's, too, says nothing of the next call.

    Such are the offset of a view in its storage, and a size that only data told: `nonzero(x)` is as long as `x` now and then.
    """
    return _property(source) == "STORAGE_OFFSET" or _is_size_of_data(source)


def _is_size_of_data(source: Any) -> bool:
    return _property(source) == "SIZE" and source.idx == 0 and getattr(source.base, "size_of_data", False)


def _property(source: Any) -> str:
    """Which property of a tensor a number is, in ShapeEnv's own class of sources, TensorPropertySource."""
    return getattr(getattr(source, "prop", None), "name", "")


_ANOTHER_SIZE = 4099  # what a size 0 or 1 is taken for: a prime number, which seldom stands in programs


def dynamic_context(tensor: torch.Tensor, dims: Collection[int], strides: Collection[int] = ()) -> Any:
    """What ShapeEnv needs to make these dimensions of a tensor, and these strides, symbolic and the others static."""
    from torch.fx.experimental.symbolic_shapes import DimDynamic, StatelessSymbolicContext

    kinds = dict.fromkeys(dims, DimDynamic.DUCK)
    kinds |= dict.fromkeys(unbacked(tensor) & kinds.keys(), DimDynamic.UNBACKED)
    return StatelessSymbolicContext(
        dynamic_sizes=[kinds.get(dim, DimDynamic.STATIC) for dim in range(tensor.dim())],
        dynamic_strides=[DimDynamic.DYNAMIC if dim in strides else DimDynamic.INFER_STRIDE for dim in range(tensor.dim())],
    )


def dynamic_number(graph: GraphBuilder, value: float, source: Source) -> Any:
    """A symbol for an input that is a number; 0 and 1 are values like any other."""
    from torch.fx.experimental.symbolic_shapes import DimDynamic

    env = graph.need_shape_env()
    symbol = env.create_unspecified_symbol(value, source=source, dynamic_dim=DimDynamic.DYNAMIC)
    node = env.create_symintnode if type(value) is int else env.create_symfloatnode
    return node(symbol, hint=value, source=source)


def unknown_number(graph: GraphBuilder, value: float) -> Any:
    """A symbol for a number of which nothing is known but its type."""
    env = graph.need_shape_env()
    with env.ignore_fresh_unbacked_symbols():  # no operator makes it: none is asked where it comes from
        return env.create_unbacked_symint() if type(value) is int else env.create_unbacked_symfloat()


def settled_size(size: Any) -> int | None:
    """The one number that a size can be by now, because the program asked for it; None while it may vary."""
    return size if isinstance(size, int) else size.node.maybe_as_int()


def shape_guards(graph: GraphBuilder) -> Callable[[Callable[[Source], str]], list[str]]:
    """The relations that ShapeEnv relies on, as Python text; the caller says how each input is written there."""
    entries = [*graph.inputs, *graph.dropped_inputs]  # what the graph does not need was perhaps relied on all the same
    inputs = [entry for entry in entries if entry.source.guardable and _is_symbolic(entry.node.meta["example_value"])]
    env = graph.shape_env

    def expressions(variable: Callable[[Source], str]) -> list[str]:
        texts = env.produce_guards(
            [entry.node.meta["example_value"] for entry in inputs],
            [entry.source for entry in inputs],
            source_ref=lambda source: _reference(source, variable),
            ignore_static=False,  # a symbol that was specialized meanwhile is static now, but no tensor guard knows it
        )
        asked = [text for text in texts if text != "True" and not _STATIC_OFFSET.search(text)]
        return sorted(asked, key=lambda text: not _BOUND.fullmatch(text))

    return expressions


_PLACE = r"[A-Za-z_]\w*(\.\w+\(\)(\[\d+\])?)?"
_CONSTANT = r"-?\d[\w.]*"
_BOUND = re.compile(rf"{_CONSTANT} <= {_PLACE}(( and {_PLACE})? <= {_CONSTANT})?|{_PLACE} <= {_CONSTANT}")
_STATIC_OFFSET = re.compile(r"storage_offset\(\) == \d+$")  # views of any offset are served, as TensorGuards do


def _is_symbolic(value: Any) -> bool:
    return isinstance(value, torch.SymInt | torch.SymFloat) or (
        isinstance(value, torch.Tensor) and any(isinstance(size, torch.SymInt) for size in (*value.shape, *value.stride()))
    )


def _reference(source: Any, variable: Callable[[Source], str]) -> str:
    """Python text for a size, a stride or a number: `v3.size()[0]`."""
    if isinstance(source, Source):
        return variable(source)
    base = variable(_own(source.base))  # torch's TensorPropertySource
    method = {"SIZE": "size()", "STRIDE": "stride()", "STORAGE_OFFSET": "storage_offset()"}[source.prop.name]
    return f"{base}.{method}" if source.idx is None else f"{base}.{method}[{source.idx}]"


def _own(source: Any) -> Source:
    """Ours for a source that torch makes of one: the size of what an argument is a view of is asked of its `_base`."""
    return source if isinstance(source, Source) else _own(source.base).attribute(source.member, "getattr")


def never_negative(value: torch.SymInt) -> bool:
    """Whether a number cannot be below 0, as a size; nothing is relied on."""
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    return bool(statically_known_true(value >= 0))


def settle(value: torch.SymFloat) -> None:
    """Rely on each symbol that a float is computed from: of `ToFloat(s0) + 1e18 == 1e18` sympy would conclude that s0 is 0."""
    env = value.node.shape_env
    for symbol in value.node.expr.free_symbols:
        env.evaluate_expr(symbol, env.backed_var_to_val[symbol])


def is_of_sizes(value: torch.SymInt) -> bool:
    """Whether a number is computed from sizes of tensors alone, which are small, and not from numbers of the program."""
    places = value.node.shape_env.var_to_sources
    symbols = value.node.expr.free_symbols
    return bool(symbols) and all(symbol in places and not isinstance(places[symbol][0], Source) for symbol in symbols)
