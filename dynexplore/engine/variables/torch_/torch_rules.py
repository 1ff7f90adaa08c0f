"""Rules for torch functions that are not operators: queries of the process, of tensor metadata and of settings.

The idea: a torch function becomes one node by default (callables/function.py); the rules here are the exceptions. Their results are
constants, or guarded by GLOBAL_STATE or by calling the function again.

In: calls of these functions. Out: mostly constants. PyTorch's counterpart: the handlers of `TorchInGraphFunctionVariable` in
torch/_dynamo/variables/torch.py.
"""

from __future__ import annotations

import inspect
import operator
import types
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import torch
from torch._higher_order_ops.invoke_subgraph import invoke_subgraph_placeholder

from dynexplore.engine.policy import constant_functions
from dynexplore.engine.provenance.sources import CallSource, ObjectSource
from dynexplore.engine.variables.callables.function import BoundMethodVariable, FunctionVariable
from dynexplore.engine.variables.contract.base import NotConstant, VariableTracker
from dynexplore.engine.variables.operators import compare
from dynexplore.engine.variables.rules import Handler, rule
from dynexplore.engine.variables.scalars.constant import ConstantVariable, constant_of, run_now
from dynexplore.engine.variables.scalars.specialize import specialize_bool
from dynexplore.engine.variables.signatures import builtin
from dynexplore.engine.variables.torch_.tensor.tensor import TensorVariable

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext

# Functions of constants, or of process state that GLOBAL_STATE guards: evaluated at trace time.
CONSTANT_FOLDED: tuple[Callable[..., Any], ...] = (
    torch.is_grad_enabled, torch.is_inference_mode_enabled, torch.get_default_dtype, torch.finfo, torch.iinfo,
    torch.promote_types, torch.can_cast, torch.is_autocast_enabled, torch.get_autocast_dtype,
    torch.is_autocast_cache_enabled, torch.are_deterministic_algorithms_enabled, torch.device, torch.cuda.is_available,
    torch.backends.cudnn.is_available, torch.backends.mkldnn.is_available,
    torch.is_deterministic_algorithms_warn_only_enabled, torch.get_num_threads, torch.is_storage,
    torch._C._get_privateuse1_backend_name, torch.get_default_device,
    # capabilities of this build of torch and of this machine
    torch.backends.mps.is_available, torch.backends.mps.is_built, torch.backends.cuda.is_built, torch.backends.openmp.is_available,
    torch.backends.mkl.is_available, torch.xpu.is_available, torch.accelerator.is_available, torch.distributed.is_available,
    *(function for name in ("is_nccl_available", "is_gloo_available", "is_mpi_available", "is_ucc_available", "is_xccl_available")
      if (function := getattr(torch.distributed, name, None)) is not None),
    *filter(None, [getattr(torch._C, "_mps_is_available", None)]),
)


def _constant_folded(function: Callable[..., Any]) -> Handler:
    def handler(ctx: TraceContext, args: Sequence[VariableTracker],
               kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
        name = getattr(function, "__name__", str(function))
        if ctx.function_modes.may_dispatch:
            dispatched = ctx.calls.dispatch_torch_function("call_function", function, args, kwargs)
            if dispatched is not None:
                return dispatched
        ctx.graph.asked_about_gradients |= function is torch.is_grad_enabled
        values = [constant_of(ctx, arg, name) for arg in args]
        named = {key: constant_of(ctx, arg, name) for key, arg in kwargs.items()}
        if function is torch.get_autocast_dtype:
            ctx.global_state.guard_on_cast_type(str([*values, *named.values(), ""][0]))
        return ctx.build(run_now(ctx, function, *values, **named), None)

    return handler


# Process-wide settings, which programs change: evaluated at trace time, and again by a guard.
_SETTINGS = (
    "_get_cudnn_enabled", "_get_cudnn_benchmark", "_get_cudnn_deterministic", "_get_cudnn_allow_tf32", "_get_mkldnn_enabled",
    "_get_mkldnn_deterministic", "_get_onednn_allow_tf32", "_get_nnpack_enabled", "_get_cublas_allow_tf32",
    "_get_cublas_allow_fp16_reduced_precision_reduction", "_get_cublas_allow_bf16_reduced_precision_reduction",
    "_get_cublas_allow_fp16_accumulation", "_get_flash_sdp_enabled", "_get_mem_efficient_sdp_enabled", "_get_math_sdp_enabled",
    "_get_cudnn_sdp_enabled", "_get_overrideable_sdp_enabled", "_get_float32_matmul_precision", "_get_linalg_preferred_backend",
)


def _process_setting(function: Callable[..., Any], name: str) -> Handler:
    path = name if name.startswith("torch.") else f"torch._C.{name}"
    source = CallSource(ObjectSource(function, path), operator.call, "operator.call")

    def handler(ctx: TraceContext, args: Sequence[VariableTracker],
               kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
        if args or kwargs:
            ctx.break_graph("DX203" if isinstance(function, types.FunctionType) else "DX201", function=name)
        return ctx.build(run_now(ctx, function), source)

    return handler


for _name in _SETTINGS:
    if (_function := getattr(torch._C, _name, None)) is not None:
        rule(_function)(_process_setting(_function, _name))
rule(torch.get_float32_matmul_precision)(_process_setting(torch.get_float32_matmul_precision, "_get_float32_matmul_precision"))


def _process_group_query(name: str) -> Handler:
    """The rule of a query about a process group: groups can be created and destroyed between calls."""
    in_group = _process_setting(torch.distributed.is_initialized, "torch.distributed.is_initialized")
    query = _process_setting(getattr(torch.distributed, name), f"torch.distributed.{name}")

    def handler(ctx: TraceContext, args: Sequence[VariableTracker],
               kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
        in_group(ctx, (), {})  # without a process group the query may raise, so this is guarded first
        return query(ctx, args, kwargs)

    return handler


for _name in ("is_initialized", "get_rank", "get_world_size", "is_torchelastic_launched"):
    if hasattr(torch.distributed, _name):
        rule(getattr(torch.distributed, _name))(_process_group_query(_name))


for _function in CONSTANT_FOLDED:
    rule(_function)(_constant_folded(_function))


@rule(torch.is_tensor)
def _is_tensor(ctx: TraceContext, args: Sequence[VariableTracker],
               kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    return ConstantVariable(isinstance(args[0], TensorVariable))


def _constant_result(function: Callable[..., Any]) -> Any:
    """The rule of a function whose result is constant at trace time."""

    def row(ctx: TraceContext) -> VariableTracker:
        value = constant_functions.constant_result(function)
        if value is True and ctx.frames.runs_as_in_eager():
            value = False
        ctx.effects.observed_is_compiling |= value is True
        return ConstantVariable(value)

    return row


for _function, _ in constant_functions.table():
    builtin(_function)(_constant_result(_function))


# Queries about a tensor's metadata: evaluated on the fake tensor, without a node.
METADATA_FUNCTIONS: tuple[Callable[..., Any], ...] = (
    torch.is_complex, torch.is_floating_point, torch.is_signed, torch.is_conj, torch.is_neg, torch.is_same_size,
    torch.is_distributed, torch.is_inference, torch.numel, torch.result_type, torch.get_device,
)


def _metadata_query(function: Callable[..., Any]) -> Handler:
    def handler(ctx: TraceContext, args: Sequence[VariableTracker], kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
        return ctx.operation("call_function", function, args, kwargs)

    return handler


for _function in METADATA_FUNCTIONS:
    rule(_function)(_metadata_query(_function))


@rule(torch.nn.parallel.DistributedDataParallel.forward)
def _ddp_forward(ctx: TraceContext, args: Sequence[VariableTracker],
                kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    """Break the graph at DistributedDataParallel.forward: what it does around the wrapped module involves other processes."""
    ctx.break_graph("DX418", type=args[0].python_type().__qualname__)


@rule(torch._assert)
def _assert(ctx: TraceContext, args: Sequence[VariableTracker],
            kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    condition = args[0].truth(ctx)
    if not isinstance(condition, bool):
        ctx.break_graph("DX106")
    if not condition:
        message = args[1] if len(args) > 1 else kwargs["message"]
        ctx.raise_exception(AssertionError, message.as_constant())
    return ConstantVariable(None)


@rule(invoke_subgraph_placeholder)
def _nested_region(ctx: TraceContext, args: Sequence[VariableTracker],
                   kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    """A function under `torch.compiler.nested_compile_region` is inlined like any other."""
    return args[0].call(ctx, args[1:], kwargs)


@rule(torch._C._log_api_usage_once)
def _log_api_usage(ctx: TraceContext, args: Sequence[VariableTracker],
             kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    return ConstantVariable(None)


def _dropout(function: Callable[..., Any]) -> Handler:
    """Without dropout the result is the argument itself, which torch's decomposition (torch/_decomp, dropout) would copy."""

    def handler(ctx: TraceContext, args: Sequence[VariableTracker],
               kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
        result = ctx.operation("call_function", function, args, kwargs)
        arguments = {**dict(zip(("input", "p", "training", "inplace"), args, strict=False)), **kwargs}
        tensor = arguments.get("input")
        if ctx.function_modes.may_dispatch or type(tensor) is not TensorVariable or type(result) is not TensorVariable:
            return result
        training = arguments.get("training", arguments.get("train", ConstantVariable(True)))
        share = arguments.get("p", ConstantVariable(0.5))
        drops = specialize_bool(ctx, training) and not specialize_bool(ctx, compare(ctx, "==", share, ConstantVariable(0)))
        return result if drops and 0 not in tensor.fake.shape else tensor

    return handler


for _function in (torch.dropout, torch.nn.functional.dropout, torch.alpha_dropout, torch.nn.functional.alpha_dropout):
    rule(_function)(_dropout(_function))


@rule(torch.autograd.grad)
def _autograd_grad(ctx: TraceContext, args: Sequence[VariableTracker],
                   kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    ctx.break_graph("DX406", operation="torch.autograd.grad")


@rule(torch.jit.annotate)
def _annotate(ctx: TraceContext, args: Sequence[VariableTracker],
              kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    """torch.jit.annotate(type, value) returns the value."""
    return args[1] if len(args) > 1 else kwargs["the_value"]


@rule(torch.autograd.Variable)
def _variable(ctx: TraceContext, args: Sequence[VariableTracker],
              kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    """The legacy `Variable(x)`: a new tensor on the same data (torch/csrc/utils/tensor_new.cpp, legacy_tensor_ctor)."""
    wants_grad = [*args[1:2], *(value for name, value in kwargs.items() if name == "requires_grad")]
    others = set(kwargs) - {"requires_grad", "volatile"}
    if not args or others or any(not value.is_constant() or value.as_constant() for value in wants_grad):
        ctx.break_graph("DX407", operation="Variable")
    return ctx.operation("call_method", "detach", [args[0]], {})


@rule(inspect.signature)
def _signature(ctx: TraceContext, args: Sequence[VariableTracker],
               kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    """`inspect.signature`: a constant as long as everything it reads is unchanged."""
    target = args[0]
    function = target.function if isinstance(target, BoundMethodVariable) else target
    if kwargs or len(args) != 1 or not _guard_on_signature(ctx, function):
        ctx.break_graph("DX203", function="inspect.signature")
    if isinstance(target, BoundMethodVariable):
        return ctx.build(inspect.signature(types.MethodType(target.function.live_value(), object())), None)
    return ctx.build(inspect.signature(target.live_value()), None)


def _guard_on_signature(ctx: TraceContext, function: VariableTracker) -> bool:
    """Guard what `inspect.signature` reads: code and defaults, through `__wrapped__`; returns whether that can be guarded."""
    while isinstance(function, FunctionVariable) and not function.by_code:
        function.guard_on_code(ctx)
        own = function.function.__dict__
        if "__signature__" in own:
            return False
        function.guard_on_absence(ctx, "__signature__")
        if "__wrapped__" not in own:
            function.guard_on_absence(ctx, "__wrapped__")
            return True
        function = function.get_attribute(ctx, "__wrapped__")
    return False


@rule(vars(inspect.Signature)["parameters"].fget)
def _signature_parameters(ctx: TraceContext, args: Sequence[VariableTracker],
                          kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    """`Signature.parameters` of a signature that the cache entry itself holds; one
    that the caller passes may differ in the next call.
    """
    if not isinstance(args[0].source, ObjectSource | None):
        ctx.break_graph("DX203", function="inspect.Signature.parameters")
    return ctx.build(args[0].live_value().parameters, None)


_LAZY_PROPERTY: Any = vars(torch.distributions.utils)["_lazy_property_and_property"]


@rule(_LAZY_PROPERTY)
def _lazy_property(ctx: TraceContext, args: Sequence[VariableTracker],
                              kwargs: Mapping[str, VariableTracker]) -> VariableTracker:
    """`Categorical.logits`, which a distribution reads to validate its arguments: a property with a known function."""
    try:
        return ctx.build(run_now(ctx, _LAZY_PROPERTY, args[0].live_value()), None)
    except NotConstant:
        ctx.break_graph("DX203", function="lazy_property")
