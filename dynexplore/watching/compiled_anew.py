"""A fresh compilation of a function by torch.compile, independent of the program's own.

The idea: torch.compile attaches its cache entries to the code object and tries each of them. To observe it compile, a function
needs its own code object. All modules of a class share the code of `forward`, so a module gets a backend object that no entry
knows, and entries that do not count towards the program's limit (before torch 2.12 they do count).

In: a function, method or module, not wrapped; a backend; options of torch.compile. Out: the callable to call instead.

PyTorch's counterpart: none.
"""

from __future__ import annotations

import inspect
import types
from collections.abc import Callable
from typing import Any

import torch
import torch.fx

from dynexplore.engine.runtime.backends import CompilerFn, resolve


def compiled_anew(target: Any, backend: str | CompilerFn, fullgraph: bool, dynamic: bool | None) -> Callable[..., Any]:
    """A function, method or module under torch.compile with this backend; no entry of the program serves its calls."""
    inside = _with_own_code(target)
    options: dict[str, Any] = {"dynamic": dynamic, "fullgraph": fullgraph}
    if isinstance(inside, torch.nn.Module) and _ISOLATE in inspect.signature(torch.compile).parameters:
        options[_ISOLATE] = True
    compiled: Callable[..., Any] = torch.compile(inside, backend=_of_its_own(backend), **options)
    return compiled


_ISOLATE = "isolate_recompiles"
"""An option of torch 2.12 and later: entries that do not count towards the program's limit."""


def _of_its_own(backend: str | CompilerFn) -> CompilerFn:
    """The same backend as a new object, which matches no existing entry of torch."""
    resolved = resolve(backend)

    def compile_graph(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        return resolved(graph, inputs)

    compile_graph.__name__ = compile_graph.__qualname__ = resolved.name
    return compile_graph


def _with_own_code(target: Any) -> Any:
    """A copy of a plain function or method with its own code object: torch attaches cache entries to the code object."""
    if isinstance(target, types.MethodType):
        return types.MethodType(_with_own_code(target.__func__), target.__self__)
    if not isinstance(target, types.FunctionType):
        return target
    copied = types.FunctionType(
        target.__code__.replace(), target.__globals__, target.__name__, target.__defaults__, target.__closure__
    )
    copied.__kwdefaults__, copied.__qualname__, copied.__module__ = target.__kwdefaults__, target.__qualname__, target.__module__
    return copied
