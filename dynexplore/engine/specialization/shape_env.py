"""Symbolic sizes: torch's ShapeEnv, and the guards that it produces.

The idea: a dynamic dimension is a symbol. ShapeEnv tracks the arithmetic and the branches on it, and finally produces the relations
that the next call's sizes must satisfy (`s0 > 4`, `2*s0 == s1`). They become lines of the check function, in program order.
ShapeEnv folds conditions on a single number into bounds; these come first, because they cannot raise, and they protect the
conditions after them (`12 // (n - 1)` after `n > 1`).

Importing ShapeEnv's sources also imports parts of torch._dynamo, which is slow; this happens only once a size is dynamic.

In: sizes and numbers that are to be symbols. Out: symbols, guards as Python text. PyTorch's counterpart: `wrap_symint` in
torch/_dynamo/variables/builder.py, and the SHAPE_ENV guard in guards.py.
"""

from __future__ import annotations

import functools
import itertools
import re
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

import torch

from dynexplore.engine.graph.unbacked_symints import captures_dynamic_output_shapes, captures_scalar_outputs
from dynexplore.engine.provenance.sources import Source
from dynexplore.engine.specialization.marks import unbacked

if TYPE_CHECKING:
    from dynexplore.engine.graph.builder import GraphBuilder


def make_shape_env(
    *, depends_on_data: Callable[[Source], bool] = lambda source: False, is_size_oblivious: bool = False
) -> Any:
    """A new ShapeEnv: sizes 0 and 1 are specialized, equal sizes share a symbol (duck shaping), except for coincidental
    equality.

    `depends_on_data`: whether the first size of the tensor at a source is data-dependent. `is_size_oblivious`: operators are
    told that such a size is neither 0 nor 1 (size_oblivious.py).
    """
    return _shape_env_class()(
        depends_on_data=depends_on_data,
        is_size_oblivious=is_size_oblivious,
        allow_scalar_outputs=captures_scalar_outputs(),
        allow_dynamic_output_shape_ops=captures_dynamic_output_shapes(),
    )


_VERSIONS = itertools.count(0, 1 << 32)
"""Where each ShapeEnv begins to count its versions. torch empties the caches of its methods when it meets another version; two that
count alike would both stay in them, and so would all that follow.
"""


@functools.cache
def _shape_env_class() -> Any:
    from torch.fx.experimental.symbolic_shapes import DimDynamic, ShapeEnv

    class OwnShapeEnv(ShapeEnv):
        """torch's ShapeEnv, but inputs with a dynamic output shape share no symbol with sizes
        that are equal by coincidence, and their sizes may be size-oblivious.
        """

        def __init__(self, *, depends_on_data: Callable[[Source], bool], is_size_oblivious: bool, **settings: Any) -> None:
            self._implications: dict[Any, Any] = {}
            super().__init__(**settings)
            self._version_counter = next(_VERSIONS)
            self._depends_on_data = depends_on_data
            self.is_size_oblivious = is_size_oblivious
            self.oblivious_sizes: set[Any] = set()  # symbols of size-oblivious sizes, which may be 0 or 1
            self.hint_overrides: dict[Any, int] = {}  # those of them that are 0 or 1 in this call
            self.runs_operator = False
            self.oblivious_answers = 0  # how often an operator was told that such a size is neither 0 nor 1

        def create_symbol(self, val: Any, source: Any, dynamic_dim: Any = DimDynamic.DUCK, *args: Any, **kwargs: Any) -> Any:
            is_data_dependent = self._is_data_dependent_size(source)
            if dynamic_dim is DimDynamic.DUCK and (is_data_dependent or _property(source) == "STORAGE_OFFSET"):
                dynamic_dim = DimDynamic.DYNAMIC  # equality may be a coincidence: `nonzero(x)` is sometimes as long as `x`
                if self.is_size_oblivious and self._is_data_dependent(source.base) and (val or is_data_dependent):
                    return self._oblivious_symbol(val, source, *args, **kwargs)
            return super().create_symbol(val, source, dynamic_dim, *args, **kwargs)

        def get_implications(self, condition: Any) -> Any:  # type: ignore[override, unused-ignore]
            """What follows from a condition. torch caches it without a bound and with the ShapeEnv in the key, so that
            none is ever freed.
            """
            if condition not in self._implications:
                method = ShapeEnv.get_implications
                self._implications[condition] = getattr(method, "__wrapped__", method)(self, condition)
            return self._implications[condition]

        def _is_data_dependent(self, source: Any) -> bool:
            """Whether the first size of the tensor at this source is data-dependent; ShapeEnv also has sources of its own."""
            return isinstance(source, Source) and self._depends_on_data(source)

        def _is_data_dependent_size(self, source: Any) -> bool:
            return _property(source) == "SIZE" and source.idx == 0 and self._is_data_dependent(source.base)

        def _oblivious_symbol(self, val: Any, source: Any, *args: Any, **kwargs: Any) -> Any:
            """A symbol that may be 0 or 1: for a size, or for the storage offset of a
            tensor of that size (a column of `nonzero(x)`).
            """
            kwargs |= {"positive": None, "do_not_specialize_zero_one": True}  # sympy assumes that a positive symbol is never 0
            symbol = super().create_symbol(val, source, DimDynamic.DYNAMIC, *args, **kwargs)
            self.var_to_range[symbol] = self._default_value_range(do_not_specialize_zero_one=True)
            if self._is_data_dependent_size(source):
                self.oblivious_sizes.add(symbol)
                self.size_like.add(symbol)  # so ShapeEnv can evaluate under the assumption that it is neither 0 nor 1
            return symbol

        def _create_symbolic_sizes_strides_storage_offset(self, ex_size: Any, *args: Any, **kwargs: Any) -> Any:
            source = args[3]
            is_oblivious = self.is_size_oblivious and self._is_data_dependent(source)
            overrides = is_oblivious and ex_size[0] in (0, 1) and kwargs["symbolic_context"].dynamic_sizes[0] is DimDynamic.DUCK
            if overrides:
                kwargs["hint_overrides"] = {**(kwargs.get("hint_overrides") or {}), 0: _ANOTHER_SIZE}
            layout = super()._create_symbolic_sizes_strides_storage_offset(ex_size, *args, **kwargs)
            if overrides and isinstance(layout[0][0], torch.SymInt):
                self.hint_overrides[layout[0][0].node.expr] = int(ex_size[0])
            return layout

        def evaluate_expr(
            self, orig_expr: Any, hint: Any = None, fx_node: Any = None, size_oblivious: bool = False, *args: Any, **kwargs: Any
        ) -> Any:
            if not self.oblivious_sizes.isdisjoint(orig_expr.free_symbols):
                size_oblivious = False  # only this method reasons so
                if self.runs_operator and self._maybe_evaluate_static(orig_expr) is None:
                    answer = self._maybe_evaluate_static(orig_expr, size_oblivious=True)
                    if answer is not None:
                        self.oblivious_answers += 1
                        return answer
            return super().evaluate_expr(orig_expr, hint, fx_node, size_oblivious, *args, **kwargs)

    return OwnShapeEnv


def _property(source: Any) -> str:
    """The tensor property that a ShapeEnv source (TensorPropertySource) represents."""
    return getattr(getattr(source, "prop", None), "name", "")


_ANOTHER_SIZE = 4099  # the hint of a size that is 0 or 1: a prime, which programs seldom contain


def dynamic_context(tensor: torch.Tensor, dims: Collection[int], strides: Collection[int] = ()) -> Any:
    """The symbolic context that makes these dimensions and strides of a tensor symbolic and the others static."""
    from torch.fx.experimental.symbolic_shapes import DimDynamic, StatelessSymbolicContext

    kinds = dict.fromkeys(dims, DimDynamic.DUCK)
    kinds |= dict.fromkeys(unbacked(tensor) & kinds.keys(), DimDynamic.UNBACKED)
    base = tensor._base
    of_base: Any = None
    if base is not None and base.dim() == tensor.dim():  # else ShapeEnv treats all sizes of the base as dynamic
        sizes = [DimDynamic.DUCK if dim in kinds else DimDynamic.STATIC for dim in range(tensor.dim())]
        of_base = StatelessSymbolicContext(dynamic_sizes=sizes)
    return StatelessSymbolicContext(
        view_base_context=of_base,
        dynamic_sizes=[kinds.get(dim, DimDynamic.STATIC) for dim in range(tensor.dim())],
        dynamic_strides=[DimDynamic.DYNAMIC if dim in strides else DimDynamic.INFER_STRIDE for dim in range(tensor.dim())],
    )


def dynamic_number(graph: GraphBuilder, value: float, source: Source) -> Any:
    """A symbol for a numeric input; 0 and 1 are not specialized."""
    from torch.fx.experimental.symbolic_shapes import DimDynamic

    env = graph.ensure_shape_env()
    symbol = env.create_unspecified_symbol(value, source=source, dynamic_dim=DimDynamic.DYNAMIC)
    node = env.create_symintnode if type(value) is int else env.create_symfloatnode
    return node(symbol, hint=value, source=source)


def unbacked_number(graph: GraphBuilder, value: float) -> Any:
    """A symbol without a hint: only the number's type is known."""
    env = graph.ensure_shape_env()
    with env.ignore_fresh_unbacked_symbols():  # no operator creates it, so none must bind it
        return env.create_unbacked_symint() if type(value) is int else env.create_unbacked_symfloat()


def specialized_size(size: Any) -> int | None:
    """The only value that a size can still have, because something required it; None while it is dynamic."""
    return size if isinstance(size, int) else size.node.maybe_as_int()


def shape_guards(graph: GraphBuilder) -> Callable[[Callable[[Source], str]], list[str]]:
    """The relations on which ShapeEnv relied, as Python text; the caller supplies the variable name of each input."""
    inputs = _symbolic_inputs(graph)
    env = graph.shape_env

    def expressions(variable: Callable[[Source], str]) -> list[str]:
        texts = env.produce_guards(
            [entry.node.meta["example_value"] for entry in inputs],
            [entry.source for entry in inputs],
            source_ref=lambda source: _reference(source, variable),
            ignore_static=False,  # a symbol that was specialized meanwhile is static now, but no tensor guard checks it
        )
        guards = [text for text in texts if text != "True" and not _STATIC_OFFSET.search(text)]
        return sorted(guards, key=lambda text: not _BOUND.fullmatch(text))

    return expressions


def relies_on_unnamed_sizes(graph: GraphBuilder) -> bool:
    """Whether a size of an input, or a relation, contains a symbol that is not a size of an
    input: a size of a view's base, which no guard can read.
    """
    env = graph.shape_env
    if env is None:
        return False
    values = [entry.node.meta["example_value"] for entry in _symbolic_inputs(graph)]
    expressions = [number.node.expr for value in values for number in _numbers_of(value)]
    named = {expression for expression in expressions if expression.is_Symbol}
    guarded = {symbol for expression in expressions for symbol in expression.free_symbols}
    guarded |= {symbol for guard in env.guards for symbol in env.replace(guard.expr).free_symbols}
    return any(symbol in env.backed_var_to_val for symbol in guarded - named)


def _symbolic_inputs(graph: GraphBuilder) -> list[Any]:
    entries = [*graph.inputs, *graph.dropped_inputs]  # an input that the graph does not use may have guards
    return [entry for entry in entries if entry.source.guardable and _is_symbolic(entry.node.meta["example_value"])]


def _numbers_of(value: Any) -> list[Any]:
    """The symbolic numbers of an input: the input itself, or its sizes, strides and storage offset."""
    numbers = (*value.shape, *value.stride(), value.storage_offset()) if isinstance(value, torch.Tensor) else (value,)
    return [number for number in numbers if isinstance(number, torch.SymInt | torch.SymFloat)]


_PLACE = r"[A-Za-z_]\w*(\.\w+\(\)(\[\d+\])?)?"
_CONSTANT = r"-?\d[\w.]*"
_BOUND = re.compile(rf"{_CONSTANT} <= {_PLACE}(( and {_PLACE})? <= {_CONSTANT})?|{_PLACE} <= {_CONSTANT}")
_STATIC_OFFSET = re.compile(r"storage_offset\(\) == \d+$")  # views with any offset are accepted, as by TensorGuards


def _is_symbolic(value: Any) -> bool:
    return isinstance(value, torch.SymInt | torch.SymFloat) or (
        isinstance(value, torch.Tensor) and any(isinstance(size, torch.SymInt) for size in (*value.shape, *value.stride()))
    )


def _reference(source: Any, variable: Callable[[Source], str]) -> str:
    """Python text for a size, a stride or a number: `v3.size()[0]`."""
    if isinstance(source, Source):
        return variable(source)
    base = variable(_engine_source(source.base))  # torch's TensorPropertySource
    method = {"SIZE": "size()", "STRIDE": "stride()", "STORAGE_OFFSET": "storage_offset()"}[source.prop.name]
    return f"{base}.{method}" if source.idx is None else f"{base}.{method}[{source.idx}]"


def _engine_source(source: Any) -> Source:
    """Our source for one that ShapeEnv derived from ours: the sizes of a view's base belong to its `_base`."""
    return source if isinstance(source, Source) else _engine_source(source.base).attribute(source.member, "getattr")


def is_never_negative(value: torch.SymInt) -> bool:
    """Whether a number cannot be below 0, like a size; adds no guard."""
    from torch.fx.experimental.symbolic_shapes import statically_known_true

    return bool(statically_known_true(value >= 0))


def is_computed_from_sizes(value: torch.SymInt) -> bool:
    """Whether a number is computed only from tensor sizes, which are small, and not from other numbers of the program."""
    sources = value.node.shape_env.var_to_sources
    symbols = value.node.expr.free_symbols
    return bool(symbols) and all(symbol in sources and not isinstance(sources[symbol][0], Source) for symbol in symbols)
