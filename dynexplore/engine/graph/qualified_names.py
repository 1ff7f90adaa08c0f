"""Public qualified names of functions: `torch.abs`, where `__qualname__` says `_VariableFunctionsClass.abs`.

The idea: torch's functions written in C live in classes and modules that no program names. What a step of a recording, a node of
a graph or a message says of them is the name under which programs know them.

In:  a function, or a node of an FX graph.
Out: its name, as text.

PyTorch's counterpart: torch.fx.node._get_qualified_name, which makes names that can be looked up.
"""

from __future__ import annotations

from typing import Any

import torch
import torch.fx

#: where people know a module's functions from
KNOWN_AS = {"_operator": "operator", "torch._C._VariableFunctions": "torch", "torch._C._nn": "torch.nn.functional"}


def target_text(node: torch.fx.Node) -> str:
    """A node's target as people read it: `torch.abs`, `operator.add`, a method's name."""
    return node.target if isinstance(node.target, str) else qualified_name(node.target)


def qualified_name(function: Any) -> str:
    """A function's name behind its module's, where that is known.

    >>> qualified_name(torch.abs), qualified_name(torch.nn.functional.gelu), qualified_name(len)
    ('torch.abs', 'torch.nn.functional.gelu', 'len')
    """
    name = getattr(function, "__name__", None) or str(function)
    module = getattr(function, "__module__", None) or ("torch" if getattr(torch, name, None) is function else "")
    module = KNOWN_AS.get(module, module)
    return f"{module}.{name}" if module and module != "builtins" else name


def callable_name(function: Any) -> str:
    """What a function written in C is called on the symbolic stack: as in the program where it is torch's own, else its own name.

    >>> callable_name(torch.abs), callable_name(str.join), callable_name(len)
    ('torch.abs', 'str.join', 'len')
    """
    name = getattr(function, "__qualname__", None) or getattr(function, "__name__", None) or type(function).__qualname__
    if str(name).startswith("_VariableFunctionsClass.") or getattr(function, "__module__", None) in KNOWN_AS:
        return qualified_name(function)
    return str(name)
