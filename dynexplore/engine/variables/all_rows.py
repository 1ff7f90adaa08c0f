"""Imports every file that declares rules, so that the registries of build.py, rules.py and operators.py are complete.

The idea: a rule registers itself when its file is imported. In: nothing; the translator imports this file once, before it traces
anything. Out: complete registries.

PyTorch's counterpart: the handler tables that torch/_dynamo/variables/builtin.py and torch.py build when they are first used.
"""

import importlib

# ruff: noqa: F401 -- each of these is imported for the rows that it declares
from dynexplore.engine.variables import (
    builtin_rules,
    signatures,
)
from dynexplore.engine.variables.callables import (
    cached_function,
    function,
    functional_rules,
    generator,
)
from dynexplore.engine.variables.containers import (
    builtin_iterators,
    builtin_subclass,
    copy_rules,
    deque,
    dict_views,
    existing_iterator,
    iterator,
    itertools_rules,
    mapping,
    named_tuple,
    numbered_dict,
    ranges,
    regex_matches,
    sequence,
    set_,
)
from dynexplore.engine.variables.modes import (
    autocast,
    error_on_graph_break,
    grad_mode,
    inference_device,
    nested_breaks,
    null_context,
    sdpa_kernel,
    torch_function_modes,
)
from dynexplore.engine.variables.numpy_ import (
    array,
    array_rules,
    concrete_array,
)
from dynexplore.engine.variables.objects import (
    annotation,
    class_,
    exception,
    instance_dict,
    logger,
    new_descriptor,
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
    enumeration,
    number_rules,
    python_random,
    symint,
    text_rules,
    unbacked,
    wrap_literal,
)
from dynexplore.engine.variables.torch_ import (
    nested_optimize,
    torch_rules,
    torchscript,
)
from dynexplore.engine.variables.torch_.autograd import autograd_function
from dynexplore.engine.variables.torch_.higher_order import (
    checkpoint,
    cond,
    flex_attention,
    loops,
    vmap,
)
from dynexplore.engine.variables.torch_.nn import (
    module_copy,
    new_parameter,
    nn_module,
    optimizer,
)
from dynexplore.engine.variables.torch_.tensor import (
    foreach_grouping,
    set_data,
    tensor,
    tensor_constructors,
    tensor_scalar_arguments,
    tensor_subclass,
    traceable_wrapper_subclass,
)

# older versions unwrap values in C, which hides what leaves a functorch level: torch.func.grad and jvp break the graph
if hasattr(importlib.import_module("torch._functorch.predispatch"), "_unwrap_for_grad"):
    from dynexplore.engine.variables.torch_.higher_order import func_grad, func_jvp
