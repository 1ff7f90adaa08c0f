"""Deep copies of modules and tensors: `copy.deepcopy(model)` for a target network, weight averaging, a repeated layer.

The idea: a module is copied like any object, attribute by attribute (objects/object_copy.py); registered tensors and submodules are
copied into the new module's registries. The copy of a parameter is a new parameter (new_parameter.py) with the same data, the copy
of another tensor is a clone in the graph. Nothing is reconstructed unless the copy is live after the frame.

Tensors that alias each other must alias in the copy, too: these break the graph, and so do modules with hooks or with a custom copy
protocol.

In: trackers of modules and tensors. Out: trackers of their copies. PyTorch's counterpart: none; Dynamo breaks the graph at
copy.deepcopy. Lib/copy.py, torch/_tensor.py (__deepcopy__) and torch/nn/parameter.py define what is copied.
"""

from __future__ import annotations

import copyreg
from typing import TYPE_CHECKING

import torch
from torch import nn

from dynexplore.engine.aliasing.storage import storage_of
from dynexplore.engine.provenance.attribute_dicts import REGISTRIES
from dynexplore.engine.raw_attributes import instance_dict, is_a
from dynexplore.engine.variables.containers.copy_rules import COPIES, Memo, deep_copy, refuse_copy
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.objects.descriptors import class_tracker
from dynexplore.engine.variables.objects.instance_dict import guarded_attribute_names
from dynexplore.engine.variables.objects.type_lookup import raw_lookup
from dynexplore.engine.variables.torch_.nn.new_parameter import is_dense, new_parameter, why_not_created
from dynexplore.engine.variables.torch_.nn.nn_module import UNTRACED, NNModuleVariable, is_uninitialized_lazy_module
from dynexplore.engine.variables.torch_.tensor.tensor import TensorVariable

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext

# The methods by which a class customizes copying, and their default implementations.
_PROTOCOL = {
    "__reduce_ex__": object.__reduce_ex__, "__reduce__": object.__reduce__, "__getnewargs__": None, "__getnewargs_ex__": None,
    "__getstate__": nn.Module.__getstate__, "__new__": object.__new__, "__deepcopy__": None,
}
_NOT_COPIED = frozenset({*REGISTRIES, "_compiled_call_impl"})
_INIT_VALUES = instance_dict(nn.Module())
_STATE = frozenset({*REGISTRIES, "training", "_non_persistent_buffers_set"})


def _copy_module(ctx: TraceContext, module: NNModuleVariable, memo: Memo) -> VariableTracker:
    _break_on_copy_protocol(ctx, module)
    copied = memo[module] = NNModuleVariable(module.cls, class_variable=class_tracker(ctx, module.cls))
    copied.has_registries = True
    for registry in REGISTRIES:
        for name in module.names(ctx, registry):
            copied.register(ctx, registry, name, deep_copy(ctx, module.entry(ctx, registry, name), memo))
    for name in guarded_attribute_names(ctx, module):
        if name in module.registered or name in _NOT_COPIED:
            continue
        if name in _INIT_VALUES and name not in _STATE:
            _guard_on_init_value(ctx, module, name)
        else:
            copied.store_own(ctx, name, deep_copy(ctx, module.lazy_attribute(ctx, name), memo))
    return copied


def _break_on_copy_protocol(ctx: TraceContext, module: NNModuleVariable) -> None:
    cls = module.cls
    others = [name for name, plain in _PROTOCOL.items() if raw_lookup(ctx, cls, name) is not plain]
    if not str(getattr(raw_lookup(ctx, cls, "__setstate__"), "__module__", "")).startswith("torch."):
        others.append("__setstate__")  # torch's own only add attributes that older files lack
    foreign = is_a(module.value, *UNTRACED) or is_uninitialized_lazy_module(module.value) or cls in copyreg.dispatch_table
    plain = module.uses_default_getattribute(ctx) and module.has_registries
    if others or foreign or not plain or not module.guard_on_no_hooks(ctx):
        refuse_copy(ctx, module)


def _guard_on_init_value(ctx: TraceContext, module: NNModuleVariable, name: str) -> None:
    """Guard that an attribute still has the value that Module.__init__ gave it: usually an empty hook registry."""
    if module.value is None:
        if name in module.stored:
            refuse_copy(ctx, module)
        return
    value = instance_dict(module.value)[name]
    if value != _INIT_VALUES[name]:
        refuse_copy(ctx, module)
    if isinstance(value, dict) and ctx.module_guards.has_facts_of(module.value):
        ctx.module_guards.guard_on_emptiness(module.value, name)


def _copy_tensor(ctx: TraceContext, tensor: TensorVariable, memo: Memo) -> VariableTracker:
    fake = tensor.fake
    if tensor.python_type() is nn.Parameter:
        because = why_not_created(ctx, tensor, fake.requires_grad)
        if because is None:
            return new_parameter(ctx, fake, tensor, requires_grad=fake.requires_grad, aliases_data=False)
    elif type(tensor) is TensorVariable and _is_plain(tensor) and not _shares_storage(tensor, memo):
        return ctx.operation("call_method", "clone", [tensor], {})
    ctx.break_graph("DX416", operation="copy.deepcopy")


def _is_plain(tensor: TensorVariable) -> bool:
    """Whether a tensor has no state besides its values."""
    fake, real = tensor.fake, tensor.real
    has_more = real is not None and (bool(instance_dict(real)) or real.grad is not None)
    return tensor.python_type() is torch.Tensor and not fake.requires_grad and is_dense(fake) and not has_more


def _shares_storage(tensor: TensorVariable, memo: Memo) -> bool:
    """Whether another tensor on the same storage is copied, too."""
    copied = [other.fake for other in memo if isinstance(other, TensorVariable)]
    return storage_of(tensor.fake) in map(storage_of, copied)



COPIES += [(NNModuleVariable, _copy_module), (TensorVariable, _copy_tensor)]
