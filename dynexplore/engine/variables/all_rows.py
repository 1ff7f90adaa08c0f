"""All files that declare rows: importing this one fills the registries of build, rules and operators."""

import importlib

# ruff: noqa: F401 -- each of these is imported for the rows that it declares
from dynexplore.engine.variables import (
    builtin_rules,
    signatures,
)
from dynexplore.engine.variables.containers import (
    adapters,
    builtin_subclass,
    copy_rules,
    deque,
    dict_views,
    existing_iterator,
    iterator,
    itertools_rules,
    mapping,
    named_tuple,
    ranges,
    sequence,
    set_,
)
from dynexplore.engine.variables.numpy_ import (
    array,
    array_rules,
    concrete_array,
)
from dynexplore.engine.variables.objects import (
    annotation,
    break_setting,
    cached_function,
    class_,
    context_manager,
    exception,
    function,
    functional_rules,
    generator,
    instance_dict,
    logger,
    object_rules,
    object_slots,
    opaque,
    python_module,
    super_,
    user_object,
    user_operators,
    weak_reference,
)
from dynexplore.engine.variables.scalars import (
    constant,
    data_dependent,
    enumeration,
    number_rules,
    python_random,
    symbolic_number,
    text_rules,
)
from dynexplore.engine.variables.torch_ import (
    assigned_data,
    autograd_function,
    checkpoint,
    cond,
    flex_attention,
    function_modes,
    loops,
    module_copy,
    new_parameter,
    nn_module,
    optimizer,
    region_call,
    scripted,
    tensor,
    tensor_constructors,
    tensor_groups,
    tensor_numbers,
    tensor_subclass,
    torch_rules,
    vmap,
    wrapper_tensor,
)

# older versions unwrap values in C, where what leaves a level of functorch is not seen: torch.func.grad and jvp break the graph
if hasattr(importlib.import_module("torch._functorch.predispatch"), "_unwrap_for_grad"):
    from dynexplore.engine.variables.torch_ import func_grad, func_jvp
