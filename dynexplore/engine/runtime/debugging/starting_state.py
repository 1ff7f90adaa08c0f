"""The same call again and again: everything that a call starts from, so that each run finds it as the first one did.

The idea: a call changes things: its arguments, buffers and gradients of modules, the state of optimizers, the random
number generators. To run it under several compilers and compare, each run gets copies of the arguments, and modules and
optimizers that it can reach get their content back, in place, because code may hold them anywhere.

In: a function, bound method or module, and its arguments. Out: `fresh()`: arguments for one more run; `reached()`: what
that run changed. Reached are the modules and optimizers among the arguments, in the function's closure, in the globals
that its code names, and the module that it is or is bound to.

PyTorch's counterpart: torch/_dynamo/debug_utils.py (clone_inputs, same_two_models).
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import CodeType
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map


class StartingState:
    """What one call starts from; see the head of this file."""

    def __init__(self, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        self._call = (tuple(args), dict(kwargs))
        self._found = list(_reachable(fn, args, kwargs))
        self._modules = [_KeptModule(found) for found in self._found if isinstance(found, torch.nn.Module)]
        self._optimizers = [
            (found, copy.deepcopy(found.state_dict())) for found in self._found if isinstance(found, torch.optim.Optimizer)
        ]
        self._random = (torch.get_rng_state(), random.getstate())
        self._arguments = self._copies(self._call)

    def fresh(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Everything as it was before the first run; copies of the arguments."""
        for module in self._modules:
            module.restore()
        for optimizer, state in self._optimizers:
            optimizer.load_state_dict(copy.deepcopy(state))
        torch.set_rng_state(self._random[0])
        random.setstate(self._random[1])
        args, kwargs = self._copies(self._arguments)
        return args, kwargs

    def reached(self) -> dict[str, dict[str, torch.Tensor]]:
        """Parameters and buffers as they are now, and the parameters' gradients: copies, by name."""
        values: dict[str, torch.Tensor] = {}
        gradients: dict[str, torch.Tensor] = {}
        for module in self._modules:
            for name, tensor in module.tensors():
                values[name] = tensor.detach().clone()
                if tensor.grad is not None:
                    gradients[name] = tensor.grad.detach().clone()
        return {"state": values, "gradients": gradients}

    def _copies(self, call: Any) -> Any:
        """Copies of all arguments: what is there twice is one object again. What is restored in place stays itself."""
        memo: dict[int, Any] = {id(found): found for found in self._found}
        return tree_map(lambda value: _copied(value, memo), call)


def _copied(value: Any, memo: dict[int, Any]) -> Any:
    if id(value) not in memo and isinstance(value, torch.Tensor):
        memo[id(value)] = copy_of_tensor(value)
    if id(value) in memo:
        return memo[id(value)]
    try:
        return copy.deepcopy(value, memo)
    except Exception:  # an object of the program may refuse to be copied in any way: then all runs share it
        return value


def copy_of_tensor(tensor: torch.Tensor) -> torch.Tensor:
    """A leaf with the same content, strides, gradient and requires_grad."""
    made = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device=tensor.device)
    if any(size > 1 and stride == 0 for size, stride in zip(tensor.shape, tensor.stride(), strict=True)):
        made = tensor.detach().clone()  # an expanded tensor: its elements share their place
    else:
        made.copy_(tensor.detach())
    made.requires_grad_(tensor.requires_grad)
    if tensor.is_leaf and tensor.grad is not None:
        made.grad = tensor.grad.detach().clone()
    return made


class _KeptModule:
    """A module whose content can be put back."""

    def __init__(self, module: torch.nn.Module) -> None:
        self.module = module
        self._training = [(child, child.training) for child in module.modules()]
        self._kept = [
            (tensor, tensor.detach().clone(), tensor.grad.detach().clone() if tensor.grad is not None else None)
            for _, tensor in self.tensors()
        ]

    def tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Parameters and buffers with their names."""
        yield from self.module.named_parameters()
        yield from self.module.named_buffers()

    def restore(self) -> None:
        """The content as it was."""
        for child, training in self._training:
            child.training = training
        with torch.no_grad():
            for tensor, content, gradient in self._kept:
                tensor.copy_(content)
                tensor.grad = gradient.clone() if gradient is not None else None


# -- what can be reached ---------------------------------------------------------------------------------------------


def _reachable(fn: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[Any]:
    """Modules and optimizers, each once."""
    seen: set[int] = set()
    for value in tree_leaves([fn, getattr(fn, "__self__", None), list(args), dict(kwargs), list(_named_by(fn))]):
        if isinstance(value, torch.nn.Module | torch.optim.Optimizer) and id(value) not in seen:
            seen.add(id(value))
            yield value


def _named_by(fn: Any) -> Iterator[Any]:
    """What stands in a function's closure, and in the globals that its code names."""
    function = getattr(fn, "__func__", fn)
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType):
        return
    for cell in function.__closure__ or ():
        try:
            yield cell.cell_contents
        except ValueError:  # not assigned yet
            continue
    for name in _names(code):
        yield function.__globals__.get(name)


def _names(code: CodeType) -> Iterator[str]:
    yield from code.co_names
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _names(constant)
