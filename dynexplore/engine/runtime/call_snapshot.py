"""Snapshot and restore of a call (arguments, buffers, gradients, optimizers, RNG, globals), so that each run starts alike.

The idea: a call has side effects: on its arguments, buffers and gradients of modules, optimizer state, the random number
generators, globals. To run it under several compilers and compare, each run gets copies of the arguments, and everything else that
it can reach is restored in place, because code may refer to it from anywhere.

In: a function, bound method or module, and its arguments. Out: `fresh()`: arguments for one more run; `reached()`: the state after
that run. Restored are modules, optimizers and random number generators among the arguments, in the function's closure, in the
globals that its code names, and the module that it is or is bound to; in closure and globals also tensors, lists, dicts and sets,
and the bindings themselves (function_environment.py). PyTorch's counterpart: `clone_inputs` in torch/_dynamo/utils.py, and
`same_two_models` in torch/_dynamo/debug_utils.py.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from dynexplore.engine.raw_attributes import is_a
from dynexplore.engine.runtime.function_environment import Surroundings, copy_of_tensor, named_by, rebind, refill


class CallSnapshot:
    """The state from which one call starts; see the head of this file."""

    def __init__(self, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        self._call = (tuple(args), dict(kwargs))
        self._objects = list(_reachable(fn, args, kwargs))
        self._modules = [_ModuleState(module) for module in self._objects if isinstance(module, torch.nn.Module)]
        self._optimizers = [
            (value, copy.deepcopy(value.state_dict())) for value in self._objects if isinstance(value, torch.optim.Optimizer)
        ]
        self._generators = [(value, value.get_state()) for value in self._objects if isinstance(value, torch.Generator)]
        self._random = (torch.get_rng_state(), random.getstate())
        self._around = Surroundings(fn)
        self._arguments = self._copies(self._call)

    def fresh(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """Restore everything to its state before the first run; returns copies of the arguments."""
        for module in self._modules:
            module.restore()
        for optimizer, state in self._optimizers:
            optimizer.load_state_dict(copy.deepcopy(state))
        for generator, random_state in self._generators:
            generator.set_state(random_state)
        torch.set_rng_state(self._random[0])
        random.setstate(self._random[1])
        self._around.restore()
        args, kwargs = self._copies(self._arguments)
        return args, kwargs

    def reached(self) -> dict[str, dict[str, torch.Tensor]]:
        """Copies of the current parameters, buffers and the parameters' gradients, by name."""
        values: dict[str, torch.Tensor] = {}
        gradients: dict[str, torch.Tensor] = {}
        for module in self._modules:
            for name, tensor in module.tensors():
                values[name] = tensor.detach().clone()
                if tensor.grad is not None:
                    gradients[name] = tensor.grad.detach().clone()
        for name, tensor in self._around.tensors():
            values[name] = tensor.detach().clone()
            if tensor.is_leaf and tensor.grad is not None:
                gradients[name] = tensor.grad.detach().clone()
        return {"state": values, "gradients": gradients}

    @property
    def has_optimizer(self) -> bool:
        """Whether an optimizer is among what is restored: its state is then replaced by copies."""
        return bool(self._optimizers)

    def tensors(self) -> Iterator[torch.Tensor]:
        """The tensors that are restored in place."""
        for module in self._modules:
            yield from (tensor for _, tensor in module.tensors())
        yield from (tensor for _, tensor in self._around.tensors())

    def _copies(self, call: Any) -> Any:
        """Copies of all arguments, with object identity preserved; objects that are restored in place are not copied."""
        memo: dict[int, Any] = {id(value): value for value in self._objects}
        return tree_map(lambda value: _copied(value, memo), call)


def _copied(value: Any, memo: dict[int, Any]) -> Any:
    if id(value) not in memo and is_a(value, torch.Tensor):
        memo[id(value)] = copy_of_tensor(value)
    if id(value) in memo:
        return memo[id(value)]
    try:
        return copy.deepcopy(value, memo)
    except Exception:  # a user's object may refuse to be copied: then all runs share it
        return value


class _ModuleState:
    """A module whose state can be restored."""

    def __init__(self, module: torch.nn.Module) -> None:
        self.module = module
        children = list(module.modules())
        own = [registry for child in children for registry in (vars(child), child._parameters, child._buffers, child._modules)]
        self._bindings = [rebind(registry) for registry in own]
        inner = (refill(value) for child in module.modules() for name, value in vars(child).items() if not name.startswith("_"))
        self._contents = [restore for restore in inner if restore is not None]
        self._saved_tensors = [
            (tensor, tensor.detach().clone(), tensor.grad.detach().clone() if tensor.grad is not None else None)
            for _, tensor in self.tensors()
        ]

    def tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Parameters and buffers with their names."""
        yield from self.module.named_parameters()
        yield from self.module.named_buffers()

    def restore(self) -> None:
        """Restore the saved values, and the attributes bound to them."""
        for restore in (*self._bindings, *self._contents):
            restore()
        with torch.no_grad():
            for tensor, content, gradient in self._saved_tensors:
                tensor.copy_(content)
                tensor.grad = gradient.clone() if gradient is not None else None


# -- reachable objects ------------------------------------------------------------------------------------------------


def _reachable(fn: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Iterator[Any]:
    """Modules, optimizers and random number generators, each once."""
    seen: set[int] = set()
    named_values = [value for _, value in named_by(fn)]
    for value in tree_leaves([fn, getattr(fn, "__self__", None), list(args), dict(kwargs), named_values]):
        if is_a(value, torch.nn.Module, torch.optim.Optimizer, torch.Generator) and id(value) not in seen:
            seen.add(id(value))
            yield value
