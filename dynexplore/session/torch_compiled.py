"""Whose capture a question is about, and how a function is given to torch.compile anew.

Which idea lives here: whoever hands a tool something that torch.compile has wrapped asks about torch.compile; whoever hands it
anything else asks about this engine; and `engine=` says it outright. To ask torch.compile without moving what it remembers, the
function inside is taken out and compiled anew (watching/compiled_anew.py, behind a hook: nothing else uses torch.compile).
A module after `.compile()` is one whose call goes another way; for the time of a question that way is closed.

In:  what people pass: a function, a method, a module, wrapped or not.
Out: `chosen`, the name of an engine; `compiled_anew`, a callable; `uncompiled`, a block in which modules run as plain Python;
`suspected` and `dynamic_of`, the backend and the option `dynamic` that a question is about.

PyTorch's counterpart: `innermost_fn` in torch/_dynamo/eval_frame.py.
"""

from __future__ import annotations

import contextlib
import functools
import types
from collections.abc import Callable, Iterator
from typing import Any

import torch

from dynexplore.engine import tool_hooks
from dynexplore.engine.native import RegionCall
from dynexplore.engine.runtime import foreign_modes, optimized
from dynexplore.engine.runtime.backends import CompilerFn, list_backends
from dynexplore.engine.runtime.stores import Store, store_of_region
from dynexplore.recording.engines import DYNEXPLORE, ENGINES, TORCH

_WAY = foreign_modes.COMPILED_CALL


def chosen(engine: str | None, target: Any) -> str:
    """The engine that is asked: the one that is named; for what torch.compile has wrapped, torch.compile. ValueError: no such name.

    >>> chosen(None, torch.abs), chosen("torch.compile", torch.abs)
    ('dynexplore', 'torch.compile')
    """
    if engine is None:
        return TORCH if is_compiled(target) else DYNEXPLORE
    if engine not in ENGINES:
        raise ValueError(f"there is no engine {engine!r}; there are: {', '.join(ENGINES)}")
    return engine


def is_compiled(target: Any) -> bool:
    """Whether torch.compile has wrapped this function, method or module, or its `.compile()` was called."""
    original = optimized.original_of(target)
    if original_of(target) is not original:
        return True
    return isinstance(original, torch.nn.Module) and foreign_modes.is_compiled_module(original)


def has_compiled_part(target: Any) -> bool:
    """Whether something in a module is compiled by torch.compile: a module in it, or its `forward`."""
    original = optimized.original_of(target)
    if not isinstance(original, torch.nn.Module):
        return False
    return any(is_compiled(part) or is_compiled(getattr(type(part), "forward", None)) for part in original.modules())


def refuse(target: Any, tool: str) -> None:
    """TypeError, in one sentence, for what torch.compile has wrapped, where a tool has nothing to say of that."""
    if is_compiled(target):
        raise TypeError(f"{tool} is about what dynexplore captures, and this is compiled by torch.compile: pass what is inside it")


def original_of(target: Any) -> Any:
    """What this engine, or torch.compile, has wrapped; any other object itself."""
    original = optimized.original_of(target)
    if isinstance(original, types.MethodType):
        inside = foreign_modes.inside_torch_compile(original.__func__)
        return original if inside is original.__func__ else types.MethodType(inside, original.__self__)
    return foreign_modes.inside_torch_compile(original)


@contextlib.contextmanager
def uncompiled(target: Any) -> Iterator[None]:
    """While the block runs, no module in `target` goes the way that `Module.compile()` made."""
    original = original_of(target)
    owner = getattr(original, "__self__", original)
    modules = owner.modules() if isinstance(owner, torch.nn.Module) else ()
    closed = [(vars(module), vars(module)[_WAY]) for module in modules if vars(module).get(_WAY) is not None]
    try:
        for attributes, _ in closed:
            attributes[_WAY] = None
        yield
    finally:
        for attributes, way in closed:
            attributes[_WAY] = way


def compiled_anew(
    target: Any, backend: str | CompilerFn, *, fullgraph: bool = False, dynamic: bool | None = None
) -> Callable[..., Any]:
    """What is inside `target`, given to torch.compile with this backend: nothing that was compiled before serves its calls.

    dynamic: None takes what the wrapper says, where there is one.
    """
    hooks = tool_hooks.connected()
    assert hooks is not None  # the front door has connected them
    dynamic_setting = _dynamic(target) if dynamic is None else dynamic
    return hooks.compiled_by_torch(original_of(target), backend, fullgraph, dynamic_setting)


def backend_of(target: Any) -> str | CompilerFn | None:
    """The backend that a wrapper of torch.compile was given: its name where it has one, a callable for one that came with a mode or
    options; None where there is no wrapper, or it cannot be read."""
    backend = getattr(_context(target), "callback", None)
    while hasattr(backend, _INNER_BACKEND):
        backend = getattr(backend, _INNER_BACKEND)
    name, function = getattr(backend, "compiler_name", None), getattr(backend, "compiler_fn", None)
    options = getattr(backend, "config", None) or getattr(backend, "kwargs", None)
    if not isinstance(name, str) or options:
        return backend if callable(backend) else None
    return name if function is None or name in list_backends() else function


_INNER_BACKEND = "_torchdynamo_orig_backend"
"""The attribute in which what torch puts around a backend keeps it."""


def suspected(backend: str | CompilerFn | None, target: Any) -> str | CompilerFn:
    """The backend that a tool tries: the one that is named, else the one that `target` is compiled with, by torch.compile or this
    engine, else Inductor."""
    return backend or backend_of(target) or _backend_of_store(target) or "inductor"


def dynamic_of(target: Any) -> bool | None:
    """What the wrapper of either engine says of changing sizes; None where it says nothing, or there is none."""
    store = _store_of(target)
    return store.options.dynamic if store is not None else _dynamic(target)


def _backend_of_store(target: Any) -> str | CompilerFn | None:
    store = _store_of(target)
    if store is None:
        return None
    backend = store.backend
    if backend.options:
        return functools.partial(backend.function, **backend.options)
    return backend.name if backend.name in list_backends() else backend.function


def _store_of(target: Any) -> Store | None:
    """The store of what this engine has wrapped, None for anything else."""
    if isinstance(target, optimized.OptimizedModule):
        return store_of_region(target.__dynexplore_region__)
    return store_of_region(target.region) if isinstance(target, RegionCall) else None


def _dynamic(target: Any) -> bool | None:
    """What a wrapper of torch.compile says of changing sizes; None where it says nothing, or cannot be read."""
    dynamic = getattr(_context(target), "_dynamic", None)
    return dynamic if isinstance(dynamic, bool) else None


def _context(target: Any) -> Any:
    """What a wrapper of torch.compile enters around a call, which has its options; None where there is none, or it is not found."""
    wrapper = optimized.original_of(target)
    fields = getattr(wrapper, "__dict__", {})
    wrapper = fields.get(_WAY) or wrapper
    context = fields.get("dynamo_ctx")
    function = getattr(wrapper, "__func__", wrapper)
    if context is None and isinstance(function, types.FunctionType) and "_torchdynamo_orig_callable" in vars(function):
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=False))
        context = cells["self"].cell_contents if "self" in cells else None
    return context
