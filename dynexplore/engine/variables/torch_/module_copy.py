"""Deep copies of modules and tensors: `copy.deepcopy(model)` for a target network, an average of weights, a layer repeated.

The idea: Python copies a module like any object, attribute by attribute (objects/object_copy.py); what it registers is copied into
the new module's registries. The copy of a parameter is a new parameter (new_parameter.py) with the same data, that of another
tensor is a clone in the graph. Nothing of it becomes real unless the copy outlives the frame.

Tensors that share memory with each other do so in the copy: that is left to Python, and so are modules with hooks, or with a
protocol of their own for being copied.

In:  trackers of modules and tensors. Out: trackers of their copies.
Lib/copy.py, torch/_tensor.py (__deepcopy__) and torch/nn/parameter.py say what is copied.
"""

from __future__ import annotations

import copyreg
from typing import TYPE_CHECKING

import torch
from torch import nn

from dynexplore.engine.graph.fake_mode import storage_of
from dynexplore.engine.provenance.dictionaries import REGISTRIES
from dynexplore.engine.raw_attributes import instance_dict, is_a
from dynexplore.engine.variables.containers.copy_rules import COPIES, Memo, deep_copy, refuse_copy
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.objects.class_facts import raw_lookup
from dynexplore.engine.variables.objects.class_lookup import class_tracker
from dynexplore.engine.variables.objects.instance_dict import InstanceDictVariable
from dynexplore.engine.variables.torch_.new_parameter import is_dense, new_parameter, why_not_made
from dynexplore.engine.variables.torch_.nn_module import UNTRACED, NNModuleVariable, waits_for_its_first_input
from dynexplore.engine.variables.torch_.tensor import TensorVariable

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext

# How a class says that it is copied in a way of its own, and what stands there otherwise.
_PROTOCOL = {
    "__reduce_ex__": object.__reduce_ex__, "__reduce__": object.__reduce__, "__getnewargs__": None, "__getnewargs_ex__": None,
    "__getstate__": nn.Module.__getstate__, "__new__": object.__new__, "__deepcopy__": None,
}
_LEFT_OUT = frozenset({*REGISTRIES, "_compiled_call_impl"})
_MADE_BY_INIT = instance_dict(nn.Module())
_OWN = frozenset({*REGISTRIES, "training", "_non_persistent_buffers_set"})


def _copy_module(ctx: TraceContext, module: NNModuleVariable, memo: Memo) -> VariableTracker:
    _refuse_other_protocol(ctx, module)
    made = memo[module] = NNModuleVariable(module.cls, class_variable=class_tracker(ctx, module.cls))
    made.has_registries = True
    for registry in REGISTRIES:
        for name in module.names(ctx, registry):
            made.place(ctx, registry, name, deep_copy(ctx, module.entry(ctx, registry, name), memo))
    for name in InstanceDictVariable(module).names(ctx):
        if name in module.placed or name in _LEFT_OUT:
            continue
        if name in _MADE_BY_INIT and name not in _OWN:
            _rely_on_first_value(ctx, module, name)
        else:
            made.store_own(ctx, name, deep_copy(ctx, module.lazy_attribute(ctx, name), memo))
    return made


def _refuse_other_protocol(ctx: TraceContext, module: NNModuleVariable) -> None:
    cls = module.cls
    others = [name for name, plain in _PROTOCOL.items() if raw_lookup(ctx, cls, name) is not plain]
    if not str(getattr(raw_lookup(ctx, cls, "__setstate__"), "__module__", "")).startswith("torch."):
        others.append("__setstate__")  # torch's own fill in what old files lack
    foreign = is_a(module.value, *UNTRACED) or waits_for_its_first_input(module.value) or cls in copyreg.dispatch_table
    if others or foreign or not module.answers_plainly(ctx) or not module.has_registries or module.has_hooks(ctx):
        refuse_copy(ctx, module)


def _rely_on_first_value(ctx: TraceContext, module: NNModuleVariable, name: str) -> None:
    """What Module.__init__ made stands there unchanged: empty registries of hooks, as a rule."""
    if module.value is None:
        if name in module.stored:
            refuse_copy(ctx, module)
        return
    value = instance_dict(module.value)[name]
    if value != _MADE_BY_INIT[name]:
        refuse_copy(ctx, module)
    if isinstance(value, dict) and ctx.module_guards.is_held(module.value):
        ctx.module_guards.rely_on_emptiness(module.value, name)


def _copy_tensor(ctx: TraceContext, tensor: TensorVariable, memo: Memo) -> VariableTracker:
    fake = tensor.fake
    if tensor.python_type() is nn.Parameter:
        because = why_not_made(ctx, tensor, fake.requires_grad)
        if because is None:
            return new_parameter(ctx, fake, tensor, requires_grad=fake.requires_grad, is_own=False)
    elif type(tensor) is TensorVariable and _is_plain(tensor) and not _shares_memory(tensor, memo):
        return ctx.operation("call_method", "clone", [tensor], {})
    ctx.break_graph("DX416", operation="copy.deepcopy")


def _is_plain(tensor: TensorVariable) -> bool:
    """Whether its values are all there is to be copied."""
    fake, real = tensor.fake, tensor.real
    has_more = real is not None and (bool(instance_dict(real)) or real.grad is not None)
    return tensor.python_type() is torch.Tensor and not fake.requires_grad and is_dense(fake) and not has_more


def _shares_memory(tensor: TensorVariable, memo: Memo) -> bool:
    """Whether another tensor in the same memory is copied, too."""
    copied = [other.fake for other in memo if isinstance(other, TensorVariable)]
    return storage_of(tensor.fake) in map(storage_of, copied)



COPIES += [(NNModuleVariable, _copy_module), (TensorVariable, _copy_tensor)]
