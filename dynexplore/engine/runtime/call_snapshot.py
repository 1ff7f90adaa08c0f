"""Snapshot and restore of a call (arguments, buffers, gradients, optimizers, RNG, globals), so that each run starts alike.

The idea: a call has side effects: on its arguments, buffers and gradients of modules, optimizer state, the random number
generators, globals. To run it under several compilers and compare, each run gets copies of the arguments, and everything else that
it can reach is restored in place, because code may refer to it from anywhere.

In: a function, bound method or module, and its arguments. Out: `fresh()`: arguments for one more run; `reached()`: the state after
that run. Restored are modules, optimizers and random number generators among the arguments, and everything that the function
reaches from its closure, its globals and the object that it is bound to (function_environment.py, reachable_state.py). Not restored
are iterators, whose names are in `iterators`, files, and parameters that have no size yet. PyTorch's counterpart:
`clone_inputs` in torch/_dynamo/utils.py, and `same_two_models` in torch/_dynamo/debug_utils.py.
"""

from __future__ import annotations

import copy
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import torch
from torch.nn.parameter import is_lazy
from torch.utils._pytree import tree_leaves, tree_map

from dynexplore.engine.raw_attributes import is_a
from dynexplore.engine.runtime.function_environment import Surroundings, copy_of_tensor
from dynexplore.engine.runtime.reachable_state import path_text
from dynexplore.engine.runtime.state_restores import rebind


class CallSnapshot:
    """The state from which one call starts; see the head of this file."""

    def __init__(self, fn: Callable[..., Any], args: Sequence[Any], kwargs: Mapping[str, Any]) -> None:
        self._call = (tuple(args), dict(kwargs))
        self._shared: list[Any] = []
        state = [value for value in tree_leaves([list(args), dict(kwargs)]) if is_a(value, *_RESTORED)]
        self._around = Surroundings(fn, *state)
        self._note_objects()
        self._arguments = self._copies(self._call)
        if self._shared:
            self._around = Surroundings(fn, *state, *self._shared)
            self._note_objects()
        self._random = (torch.get_rng_state(), random.getstate())

    def _note_objects(self) -> None:
        reachable = self._around.reachable
        self._objects = [*reachable.modules, *reachable.states, *reachable.holders]
        self._modules = [_ModuleState(module) for module in reachable.modules]
        optimizers = [value for value in reachable.states if is_a(value, torch.optim.Optimizer)]
        self._optimizers = [(value, copy.deepcopy(value.state_dict())) for value in optimizers]
        self._generators = [(value, value.get_state()) for value in reachable.states if is_a(value, torch.Generator)]

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
        for at, module in enumerate(self._modules):
            for own, tensor in module.tensors():
                name = own if own not in values else f"{own} ({at})"
                values[name] = tensor.detach().clone()
                if tensor.grad is not None:
                    gradients[name] = tensor.grad.detach().clone()
        for name, tensor in self._around.tensors():
            values[name] = tensor.detach().clone()
            if tensor.is_leaf and tensor.grad is not None:
                gradients[name] = tensor.grad.detach().clone()
        for name, tensor in self._around.arrays():
            values[name if name not in values else f"{name} (array)"] = tensor
        return {"state": values, "gradients": gradients}

    def counts(self) -> dict[str, int]:
        """The current integers and lengths of containers that the call can reach, by name."""
        return self._around.counts()

    @property
    def iterators(self) -> list[str]:
        """The names of iterators that the call can advance: they cannot be set back."""
        return [path_text(name) for name in self._around.reachable.iterators]

    @property
    def is_complete(self) -> bool:
        """Whether everything that the call can reach was found; False if there are too many objects."""
        return self._around.reachable.is_complete

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
        return tree_map(lambda value: self._copied(value, memo), call)

    def _copied(self, value: Any, memo: dict[int, Any]) -> Any:
        if id(value) not in memo and is_a(value, torch.Tensor):
            memo[id(value)] = copy_of_tensor(value)
        if id(value) in memo:
            return memo[id(value)]
        try:
            copied = copy.deepcopy(value, memo)
        except Exception:  # a user's object may refuse to be copied
            copied = value
        if copied is value:  # then all runs share it, as a function or a class, and it is restored in place
            self._shared.append(value)
        return copied


_RESTORED = (torch.nn.Module, torch.optim.Optimizer, torch.Generator)
"""Arguments that are not copied but restored."""


class _ModuleState:
    """A module whose state can be restored."""

    def __init__(self, module: torch.nn.Module) -> None:
        self.module = module
        children = list(module.modules())
        registries = [
            registry
            for child in children
            for registry in (vars(child), *map(vars(child).get, ("_parameters", "_buffers", "_modules")))
            if is_a(registry, dict)  # a module of TorchScript has something else
        ]
        self._bindings = [rebind(registry) for registry in registries]
        self._saved_tensors = [
            (tensor, tensor.detach().clone(), tensor.grad.detach().clone() if tensor.grad is not None else None)
            for _, tensor in self.tensors()
        ]

    def tensors(self) -> Iterator[tuple[str, torch.Tensor]]:
        """Parameters and buffers with their names, without those of lazy modules, which have no size yet."""
        for name, tensor in (*self.module.named_parameters(), *self.module.named_buffers()):
            if not is_lazy(tensor):
                yield name, tensor

    def restore(self) -> None:
        """Restore the saved values, and the attributes bound to them."""
        for restore in self._bindings:
            restore()
        with torch.no_grad():
            for tensor, content, gradient in self._saved_tensors:
                tensor.copy_(content)
                tensor.grad = gradient.clone() if gradient is not None else None
