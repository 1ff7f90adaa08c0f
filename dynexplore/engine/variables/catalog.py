"""All files that declare rows: importing this one fills the registries of build, rules and operators."""

from dynexplore.engine.variables import (
    adapters,
    builtin_rules,
    class_,
    constant,
    context_manager,
    exception,
    function,
    generator,
    iterator,
    itertools_rules,
    mapping,
    nn_module,
    opaque,
    python_module,
    ranges,
    sequence,
    set_,
    super_,
    symbolic_number,
    tensor,
    torch_rules,
    user_object,
)

__all__ = [
    "adapters", "builtin_rules", "class_", "constant", "context_manager", "exception", "function", "generator", "iterator",
    "itertools_rules", "mapping", "nn_module", "opaque", "python_module", "ranges", "sequence", "set_", "super_",
    "symbolic_number", "tensor", "torch_rules", "user_object",
]
