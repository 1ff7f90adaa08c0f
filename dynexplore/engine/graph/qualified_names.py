"""Public qualified names of functions: `torch.abs`, where `__qualname__` is `_VariableFunctionsClass.abs`.

The idea: torch's C functions are defined in private classes and modules. Steps of a recording, graph nodes and messages show the
public name that programs use.

In: a function, or a node of an FX graph. Out: its name, as text. PyTorch's counterpart: `torch.fx.node._get_qualified_name`, whose
names can be looked up.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.fx

#: the public names of modules
KNOWN_AS = {"_operator": "operator", "torch._C._VariableFunctions": "torch", "torch._C._nn": "torch.nn.functional"}


def target_text(node: torch.fx.Node) -> str:
    """A node's target as displayed: `torch.abs`, `operator.add`, a method's name."""
    return node.target if isinstance(node.target, str) else qualified_name(node.target)


def qualified_name(function: Any) -> str:
    """A function's name, prefixed with its module's public name if known.

    >>> qualified_name(torch.abs), qualified_name(torch.nn.functional.gelu), qualified_name(len)
    ('torch.abs', 'torch.nn.functional.gelu', 'len')
    """
    name = getattr(function, "__name__", None) or str(function)
    module = getattr(function, "__module__", None) or ("torch" if getattr(torch, name, None) is function else "")
    module = KNOWN_AS.get(module, module)
    return f"{module}.{name}" if module and module != "builtins" else name


def callable_name(function: Any) -> str:
    """The name of a C function on the symbolic stack: the public name if it is torch's, else its own name.

    >>> callable_name(torch.abs), callable_name(str.join), callable_name(len)
    ('torch.abs', 'str.join', 'len')
    """
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", None) or type(function).__qualname__
    if str(name).startswith("_VariableFunctionsClass.") or getattr(function, "__module__", None) in KNOWN_AS:
        return qualified_name(function)
    return str(name)
