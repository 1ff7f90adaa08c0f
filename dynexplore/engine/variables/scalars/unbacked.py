"""Unbacked numbers, which depend on tensor data, and the program's assertions about them.

The idea: `x.item()` breaks the graph, because a Python number is needed there. Under `config.capture_scalar_outputs`, and
with `nopython`, it becomes a node whose result is an unbacked symbol, usable in arithmetic and as an argument of operators. The
program can assert properties of the symbol (that a size is positive, say) with `torch._check`, which the graph then checks at run
time, and of all elements of a tensor with `torch._check_tensor_all`.

In: `item`, `tolist`, `torch._check...`. Out: symbolic numbers, lists of them. PyTorch's counterpart: `method_item` and
`method_tolist` in torch/_dynamo/variables/tensor.py, `handle_check` in torch.py.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import torch

from dynexplore.engine.graph.unbacked_symints import captures_scalar_outputs
from dynexplore.engine.variables.containers.sequence import ListVariable
from dynexplore.engine.variables.contract.base import Args, Kwargs, VariableTracker
from dynexplore.engine.variables.operators import compare
from dynexplore.engine.variables.rules import method, rule
from dynexplore.engine.variables.scalars.constant import ConstantVariable
from dynexplore.engine.variables.signatures import builtin
from dynexplore.engine.variables.torch_.tensor.tensor import DATA_DEPENDENT_METHODS, TensorVariable

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext

_FAILED = "a check of the program fails: the frame runs again as plain Python"
LONGEST_LIST = 64
"""The maximum number of elements for `tolist`, which reads each separately; larger tensors break the graph."""


@method(torch.Tensor, "item")
def _item(ctx: TraceContext, tensor: TensorVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    if not captures_scalar_outputs() or args or kwargs or tensor.fake.is_complex():
        ctx.break_graph(DATA_DEPENDENT_METHODS["item"], operation="Tensor.item()")
    return ctx.operation("call_method", "item", [tensor], {})


@method(torch.Tensor, "tolist")
def _tolist(ctx: TraceContext, tensor: TensorVariable, args: Args, kwargs: Kwargs) -> VariableTracker:
    """A number, or nested lists of them."""
    fake = tensor.fake
    small = all(isinstance(size, int) for size in fake.shape) and fake.numel() <= LONGEST_LIST
    if not captures_scalar_outputs() or args or kwargs or not small:
        ctx.break_graph(DATA_DEPENDENT_METHODS["tolist"], operation="Tensor.tolist()")
    if fake.dim() == 0:
        return tensor.call_method(ctx, "item", (), {})
    return ListVariable([row.call_method(ctx, "tolist", (), {}) for row in tensor.unpack(ctx)])


# -- assertions ---------------------------------------------------------------------------------------------------------

_KINDS: dict[Any, type[Exception]] = {
    torch._check: RuntimeError,
    torch._check_index: IndexError,
    torch._check_value: ValueError,
    torch._check_type: TypeError,
    torch._check_not_implemented: NotImplementedError,
}


def _promise(function: Any, error: type[Exception]) -> None:
    def row(ctx: TraceContext, cond: VariableTracker, message: VariableTracker | None = None) -> VariableTracker:
        return _promised(ctx, function.__name__, error, cond, message)

    builtin(function)(row)


def _promised(
    ctx: TraceContext, name: str, error: type[Exception], cond: VariableTracker, message: VariableTracker | None
) -> VariableTracker:
    if cond.python_type() is not bool:  # torch rejects it
        ctx.break_graph("DX205", function=f"torch.{name}", arguments=cond.type_name())
    truth = cond.truth(ctx)
    if truth is False:
        ctx.raise_exception(error, _text(ctx, message))
    if truth is not True:
        # if it fails at run time, the original code runs again and computes the message
        ctx.operation("call_function", torch._assert_scalar, [cond, ConstantVariable(f"{name} failed")], {})
    return ConstantVariable(None)


@builtin(torch._check_with)
def _check_with(ctx: TraceContext, error_type: VariableTracker, cond: VariableTracker, message: VariableTracker) -> VariableTracker:
    error = error_type.live_value()
    if not (isinstance(error, type) and issubclass(error, Exception)) or issubclass(error, Warning):
        ctx.break_graph("DX205", function="torch._check_with", arguments=error_type.type_name())
    return _promised(ctx, "_check_with", error, cond, message)


def _text(ctx: TraceContext, message: VariableTracker | None) -> Any:
    """The exception's message: `message` is a function, called only now."""
    if message is None or (message.is_constant() and message.as_constant() is None):
        return _NO_MESSAGE
    text = message.call(ctx, (), {})
    if not text.is_constant():
        ctx.break_graph("DX205", function="torch._check", arguments=text.type_name())
    return str(text.as_constant())


def _default_message() -> str:
    """Torch's message if the program passes none."""
    check: Any = torch._check
    try:
        check(False)
    except RuntimeError as error:
        return str(error)
    raise AssertionError("torch._check(False) raises")


_NO_MESSAGE = _default_message()

for _function, _error in _KINDS.items():
    _promise(_function, _error)


@builtin(torch._check_tensor_all_with)
def _check_all_with(
    ctx: TraceContext, error_type: VariableTracker, cond: VariableTracker, message: VariableTracker | None = None
) -> VariableTracker:
    """An assertion about each element of a tensor; torch rejects any other condition."""
    if not isinstance(cond, TensorVariable) or cond.fake.dtype is not torch.bool:
        ctx.break_graph("DX205", function="torch._check_tensor_all", arguments=cond.type_name())
    check_when_run(ctx, ctx.operation("call_method", "all", [cond], {}))
    return ConstantVariable(None)


@builtin(torch._check_tensor_all)
def _check_all(ctx: TraceContext, cond: VariableTracker, message: VariableTracker | None = None) -> VariableTracker:
    return _check_all_with(ctx, ctx.build(RuntimeError, None), cond, message)


def check_when_run(ctx: TraceContext, truth: VariableTracker) -> None:
    """Add a node that raises if a tensor's truth value at run time differs from the assumed one; the original code then runs
    again.

    Only the CPU reports such a failure when the node runs. A GPU reports it later, and the process cannot use the device
    afterwards. So the truth value is copied to the CPU first, which synchronizes just as the program's own check would.
    """
    if truth.fake.device.type != "cpu":  # type: ignore[attr-defined]
        truth = ctx.operation("call_method", "cpu", [truth], {})
    ctx.operation("call_function", torch._assert_async, [truth, ConstantVariable(_FAILED)], {})


@rule(torch._check_is_size)
def _check_is_size(ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
    """An assertion that a number is a valid size, with an optional upper bound."""
    bounds = [compare(ctx, ">=", args[0], ConstantVariable(0))]
    if "max" in kwargs:
        bounds.append(compare(ctx, "<=", args[0], kwargs["max"]))
    for bound in bounds:
        ctx.build(torch._check, None).call(ctx, [bound, *args[1:]], {})
    return ConstantVariable(None)
