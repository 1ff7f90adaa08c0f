"""EffectTrackingFakeMode: the FakeTensorMode of one frame, which also records the effects of operators: mutation, RNG, may raise.

The idea: an operator that the program calls runs on fake tensors as ATen operators (`aten.add_`). Their schemas state what no
Python name does: which arguments are mutated, and whether random numbers are drawn. That determines what must be restored if the
graph raises and the program's own code runs instead (translate/graph_call.py): mutated inputs and the RNG state.

In: operators, as they are dispatched while the frame is interpreted. Out: `written` (storages), `draws_random_numbers`, `may_raise`
(an operator that may raise depending on its arguments' *data*, or a dynamic number that may overflow). PyTorch's counterpart:
`FakeTensorMode` in torch/_subclasses/fake_tensor.py for the mode itself; none for the recorded effects.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
import torch.utils._pytree as pytree
from torch._higher_order_ops.utils import registered_hop_fake_fns
from torch._ops import HigherOrderOperator
from torch._subclasses.fake_impls import op_implementations_dict
from torch._subclasses.fake_tensor import (
    DataDependentOutputException,
    DynamicOutputShapeException,
    FakeTensor,
    FakeTensorMode,
    UnsupportedFakeTensorException,
    disable_fake_tensor_cache,
)

from dynexplore.engine.aliasing.storage import (
    check_in_bounds_for_storage,
    has_internal_overlap,
    overlap_in_other_elements,
    storage_of,
)
from dynexplore.engine.graph import fake_dispatch_cache
from dynexplore.engine.graph.argument_checks import CHECKS
from dynexplore.engine.graph.device_asserts import is_checked_on_the_device
from dynexplore.engine.graph.inplace_shape_checks import check_inplace_shape
from dynexplore.engine.graph.kernel_support_probe import needs_probe, probe_kernel_support
from dynexplore.engine.graph.unbacked_symints import captures_dynamic_output_shapes
from dynexplore.engine.records import record


@record()
class OperatorFacts:
    """The facts from an operator's schema; `written` are the arguments that it mutates, by position and name."""

    written: tuple[tuple[int, str], ...]
    random: bool
    may_raise: bool
    training: tuple[int, str] | None = None  # the argument that decides whether running statistics are mutated
    in_storage: bool = False  # whether it uses offsets from the start of the storage, not of the tensor
    converted: tuple[tuple[int, str], ...] = ()  # numbers that are converted to the tensor's dtype: too large ones raise
    dtype: tuple[int, str] | None = None  # the argument with the dtype of the result
    promotes: bool = True  # whether it accepts several dtypes; some meta kernels do though the operator does not

    def trains(self, args: Sequence[object], kwargs: Mapping[str, object]) -> bool:
        """Whether a call of a normalization updates its running statistics."""
        if self.training is None:
            return True
        return bool(_argument(self.training, args, kwargs, True))


def _words(text: str) -> frozenset[str]:
    return frozenset(text.split())


# Operators that may raise depending on the data of their arguments: an index out of range, a singular matrix, an invalid
# probability. The last three may raise depending on shapes that no meta kernel checks. ATen names.
_DATA_DECIDES = _words(
    """
    embedding embedding_bag _embedding_bag _embedding_bag_forward_only embedding_renorm_ index index_put
    index_put_ _index_put_impl_ index_select index_add index_add_ index_copy index_copy_ index_fill index_fill_ index_reduce
    index_reduce_ gather scatter scatter_ scatter_add scatter_add_ scatter_reduce scatter_reduce_ take put put_ one_hot
    nll_loss_forward nll_loss2d_forward multi_margin_loss multilabel_margin_loss_forward binary_cross_entropy bernoulli
    multinomial bincount histc repeat_interleave masked_select masked_scatter masked_scatter_ nonzero_static _assert_async
    _assert_tensor_metadata _assert_scalar bucketize searchsorted cholesky linalg_cholesky_ex linalg_inv_ex linalg_solve
    _linalg_solve_ex linalg_lu_factor_ex linalg_ldl_factor_ex _linalg_eigh linalg_eig _linalg_svd linalg_lstsq _linalg_det
    _linalg_check_errors inverse cholesky_solve cholesky_inverse max_unpool2d max_unpool3d grid_sampler_2d ctc_loss
    _ctc_loss poisson binomial normal item _local_scalar_dense equal segment_reduce histogram _histogramdd_bin_edges
    sparse_coo_tensor _validate_sparse_coo_tensor_args floor_divide remainder fmod
    select_scatter slice_scatter diagonal_scatter
    """
)
# Operators that mutate the running statistics (the 4th and 5th argument) in training, which their schemas do not say.
_RUNNING_STATISTICS = _words("native_batch_norm cudnn_batch_norm miopen_batch_norm batch_norm _native_batch_norm_legit")

GIVE_OTHER_MEMORY = frozenset({"resize_", "resize_as_", "resize_as_sparse_", "set_"})
"""Methods that give the tensor itself another storage or a larger one."""

_SAYS_SO = ("training", "train", "use_input_stats")

# Numbers that are computed in their own type, so that none is too large. (Not quite: 1e300 as `alpha` of `add_` raises. But a
# dynamic learning rate is in each step of an optimizer, and an operator that may fail requires copies of all mutated tensors.)
_NOT_CONVERTED = _words("other alpha beta weight")
_CONVERTS_NOTHING = _words("addcmul addcmul_ addcdiv addcdiv_ masked_fill masked_fill_ mul mul_ div div_")

# Operators that accept tensors of several dtypes though their tags do not say so.
_PROMOTES = _words("cat stack copy copy_ _foreach_copy_ equal result_type") | _RUNNING_STATISTICS


@functools.cache
def facts_of(operator: Any) -> OperatorFacts:
    """The facts about an ATen operator."""
    schema = operator._schema
    name = schema.name.partition("::")[2]
    written = [
        (position, argument.name)
        for position, argument in enumerate(schema.arguments)
        if (argument.alias_info is not None and argument.alias_info.is_write)
        or (name in _RUNNING_STATISTICS and argument.name in ("running_mean", "running_var"))
    ]
    foreign = operator.namespace not in ("aten", "prim", "prims")
    return OperatorFacts(
        tuple(written),
        torch.Tag.nondeterministic_seeded in operator.tags,
        foreign or name in _DATA_DECIDES,
        next(((index, argument.name) for index, argument in enumerate(schema.arguments) if argument.name in _SAYS_SO), None),
        name.startswith("as_strided"),
        () if name in _CONVERTS_NOTHING else _converted_numbers(schema),
        next(((index, argument.name) for index, argument in enumerate(schema.arguments) if argument.name == "dtype"), None),
        torch.Tag.pointwise in operator.tags or name in _PROMOTES,
    )


def _converted_numbers(schema: Any) -> tuple[tuple[int, str], ...]:
    return tuple(
        (position, argument.name)
        for position, argument in enumerate(schema.arguments)
        if str(argument.type) in ("number", "Optional[number]") and argument.name not in _NOT_CONVERTED
    )


_PUTS = (torch.ops.aten.index_put_.default, torch.ops.aten.index_put.default)


def _reads_masked_gradients(args: Sequence[Any], kwargs: Mapping[str, Any]) -> bool:
    """Whether the backward of `x[mask] = values` selects by the mask, with a data-dependent size."""
    _, indices, values = [*args, *kwargs.values()][:3]
    masked = any(index is not None and index.dtype in (torch.bool, torch.uint8) for index in indices)
    return masked and values.requires_grad and torch.is_grad_enabled()


# Forward-mode AD creates zero tangents without memory. Under a fake mode torch turns such a tensor into non-fake ones
# (aten/src/ATen/native/BinaryOps.cpp, mul_zerotensor); a plain zero tensor has the same shape and dtype.
_FULL = {torch.ops.aten._efficientzerotensor.default: torch.ops.aten.zeros.default}



def has_symbolic_output_sizes(operator: Any) -> bool:
    """Whether PyTorch can give the output of an operator whose shape depends on data a symbolic size.

    >>> has_symbolic_output_sizes(torch.ops.aten.nonzero.default), has_symbolic_output_sizes(torch.ops.aten._ctc_loss.Tensor)
    (True, False)
    """
    return operator in op_implementations_dict


class EffectTrackingFakeMode(FakeTensorMode):  # type: ignore[no-untyped-call]
    """A FakeTensorMode that records the effects of dispatched operators while `watching`."""

    supports_higher_order_operators = True

    def __init__(self) -> None:
        super().__init__(shape_env=None, allow_non_fake_inputs=False, static_shapes=True)
        self.watching = True
        self.ensure_shape_env: Callable[[], object] | None = None  # if a data-dependent number or size is to be captured
        self.written: set[int] = set()  # the mutated storages
        self.written_last: set[int] = set()  # those mutated since this was last cleared
        # whether one operator writes to a memory location twice, or may read where it writes: such an operator has no functional
        # form
        self.has_overlapping_write = False
        self.data_aliases: list[tuple[torch.Tensor, int]] = []  # tensors of which `.data` was read, and their versions
        self.assigned: list[tuple[torch.Tensor, int]] = []  # data that `.data = data` gave to tensors, and their versions
        self.stale_views: list[torch.Tensor] = []  # twins of views that autograd may take for leaves
        self.rows_chosen_of: set[int] = set()  # those of which data chose rows: where such a row begins is not known
        self.as_strided_storages: set[int] = set()  # those of which an operator took places that need not be the tensor's own
        self.inside = False  # an operator: those that its fake form is made of know the tensor that they are given
        self.draws_random_numbers = False
        self.may_raise = False
        self.last_may_raise = False  # whether an operator may raise since this was last set to False

    def has_mutated_assigned_data(self) -> bool:
        """Whether data that was assigned to a tensor has been mutated since."""
        return any(data._version != version for data, version in self.assigned)

    def is_view_of_assigned(self, output: Any, arguments: Sequence[torch.Tensor]) -> bool:
        """Whether a result is a view, or are views, of data that was assigned to a tensor: `detach()`, too, which has no `_base`.

        `arguments`: the operator's, of which a write returns one.
        """
        outputs = output if isinstance(output, list | tuple) else (output,)
        views = [view for view in outputs if isinstance(view, torch.Tensor) and all(view is not tensor for tensor in arguments)]
        storages = {storage_of(data) for data, _ in self.assigned}
        return any(storage_of(view) in storages for view in views)

    def dispatch(
        self, func: Any, types: Sequence[type], args: Sequence[object] = (), kwargs: Mapping[str, object] | None = None
    ) -> object:
        """Run one operator after inspecting its schema, or return its cached result."""
        keywords = kwargs or {}
        if isinstance(func, HigherOrderOperator):
            return self._carry_out_higher_order(func, types, args, keywords)
        if not self.watching:
            return super().dispatch(func, types, args, keywords)
        func = _FULL.get(func, func)
        self._note(func, args, keywords)
        key = fake_dispatch_cache.key_of(self, func, args, keywords) if fake_dispatch_cache.is_fit(func) else None
        if key is None:
            return self._carry_out(func, types, args, keywords)
        result = fake_dispatch_cache.recall(self, key, args)
        if result is None:
            result = self._carry_out(func, types, args, keywords)
            fake_dispatch_cache.remember(key, func, result)
        return result

    def _carry_out_higher_order(self, func: Any, types: Any, args: Sequence[object], kwargs: Mapping[str, object]) -> object:
        """Run a higher-order operator: its body's operators are dispatched one by one. Torch selects by the mode's exact class."""
        fake_rule = None if func in registered_hop_fake_fns else func.python_key_table.get(FakeTensorMode)
        return fake_rule(self, *args, **kwargs) if fake_rule is not None else super().dispatch(func, types, args, kwargs)

    def _carry_out(self, func: Any, types: Sequence[type], args: Sequence[object], kwargs: Mapping[str, object]) -> object:
        inside, self.inside = self.inside, True
        try:
            return self._run(func, types, args, kwargs)
        except (DataDependentOutputException, DynamicOutputShapeException):
            if self.shape_env is not None or self.ensure_shape_env is None:
                raise
            self.ensure_shape_env()
            return self._run(func, types, args, kwargs)
        finally:
            self.inside = inside

    def _run(self, func: Any, types: Sequence[type], args: Sequence[object], kwargs: Mapping[str, object]) -> object:
        if torch.is_inference_mode_enabled():  # FakeTensorMode would turn views that it has seen before into non-views
            with disable_fake_tensor_cache(self):
                return super().dispatch(func, types, args, kwargs)
        return super().dispatch(func, types, args, kwargs)

    def _note(self, func: Any, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
        facts = facts_of(func)
        self._refuse(facts, func, args, kwargs)
        if facts.written:
            check_inplace_shape(func, args, kwargs)
            self._note_written(facts, args, kwargs)
        if facts.in_storage and not self.inside and isinstance(args[0], FakeTensor):
            check_in_bounds_for_storage(func, args, kwargs)
            self.as_strided_storages.add(storage_of(args[0]))
        self.draws_random_numbers |= facts.random and not _is_attention_without_dropout(func, args, kwargs)
        may_exceed_storage = facts.in_storage and any(
            isinstance(number, torch.SymInt) for number in pytree.arg_tree_leaves(*args, **kwargs)
        )
        may_overflow = any(isinstance(_argument(parameter, args, kwargs), _VARIES) for parameter in facts.converted)
        may_raise = facts.may_raise and not is_checked_on_the_device(func, args, kwargs)
        if may_raise or may_exceed_storage or may_overflow or not (facts.promotes or _are_of_one_dtype([*args, *kwargs.values()])):
            self.may_raise = self.last_may_raise = True

    def _refuse(self, facts: OperatorFacts, func: Any, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
        """Raise if the operator itself would, or if it must not be captured; its meta kernel may do neither."""
        if facts.dtype is not None and _argument(facts.dtype, args, kwargs) in _QUANTIZED:
            raise UnsupportedFakeTensorException("a quantized tensor")  # its fake form would be a float tensor
        if func in _PUTS and _reads_masked_gradients(args, kwargs):
            if not captures_dynamic_output_shapes():
                raise DynamicOutputShapeException(func)
            if self.ensure_shape_env is not None:
                self.ensure_shape_env()  # AOTAutograd traces the backward with this mode
        if (check := CHECKS.get(func)) is not None:
            check(*args, **kwargs)
        if facts.random and any(map(_is_nan, (*args, *kwargs.values()))):
            raise RuntimeError(f"{func}: a probability that is not a number")  # NaN passes every range comparison
        if not facts.random and not self.inside and needs_probe(func, args, kwargs):
            probe_kernel_support(func, args, kwargs, on_gpus=not facts.may_raise)

    def _note_written(self, facts: OperatorFacts, args: Sequence[object], kwargs: Mapping[str, object]) -> None:
        storages: list[int] = []
        for position, name in facts.written:
            if name in ("running_mean", "running_var") and not facts.trains(args, kwargs):
                continue
            value = _argument((position, name), args, kwargs)
            for tensor in value if isinstance(value, list | tuple) else (value,):
                if isinstance(tensor, FakeTensor):
                    self._refuse_stale_view(tensor)
                    storages.append(storage_of(tensor))
                    self.written_last.add(storage_of(tensor))
                    others = _aliases_among(tensor, [*args, *kwargs.values()])
                    is_twice = has_internal_overlap(tensor)
                    self.may_raise |= is_twice or bool(others)
                    self.has_overlapping_write |= is_twice or any(overlap_in_other_elements(tensor, other) for other in others)
        self.written.update(storages)
        self.has_overlapping_write |= len(set(storages)) < len(storages)

    def _refuse_stale_view(self, written: torch.Tensor) -> None:
        """Raise as autograd does where the real tensor's grad_fn has not been read; whether it has, the twin does not know."""
        if torch.is_grad_enabled() and any(written is view for view in self.stale_views):
            raise RuntimeError("a leaf Variable that requires grad is being used in an in-place operation.")


_QUANTIZED = frozenset({torch.quint8, torch.qint8, torch.qint32, torch.quint4x2, torch.quint2x4})
_VARIES = (torch.SymInt, torch.SymFloat)


def _is_attention_without_dropout(func: Any, args: Sequence[object], kwargs: Mapping[str, object]) -> bool:
    """Whether this is an attention without dropout, as in any model in eval mode: it draws no random numbers."""
    parameter = _dropout(func)
    chance = None if parameter is None else _argument(parameter, args, kwargs, 0.0)
    return isinstance(chance, float) and chance == 0.0


@functools.cache
def _dropout(operator: Any) -> tuple[int, str] | None:
    names = [argument.name for argument in operator._schema.arguments]
    return (names.index("dropout_p"), "dropout_p") if "dropout_p" in names else None


def _is_nan(value: object) -> bool:
    """Whether this is `nan`. For a symbolic number, the answer is guarded."""
    return isinstance(value, float | torch.SymFloat) and not (value <= 1 or value > 1)


def _argument(parameter: tuple[int, str], args: Sequence[object], kwargs: Mapping[str, object], default: object = None) -> object:
    position, name = parameter
    return args[position] if position < len(args) else kwargs.get(name, default)


def _are_of_one_dtype(arguments: Sequence[object]) -> bool:
    """Whether all floating-point tensors among them have one dtype; indices and masks do not count."""
    return len({argument.dtype for argument in arguments if isinstance(argument, FakeTensor) and _is_no_integer(argument)}) < 2


def _is_no_integer(tensor: torch.Tensor) -> bool:
    return tensor.dtype.is_floating_point or tensor.dtype.is_complex


def _aliases_among(written: torch.Tensor, arguments: Sequence[object]) -> list[torch.Tensor]:
    """Other tensors that an operator reads from the storage that it mutates: it may refuse that."""
    others = [argument for argument in arguments if isinstance(argument, FakeTensor) and argument is not written]
    return [other for other in others if storage_of(other) == storage_of(written)]
