"""Which engine a question is about, and how a function is compiled afresh by torch.compile.

The idea: a tool applied to something wrapped by torch.compile is about torch.compile; applied to anything else it is about this
engine; `engine=` overrides this. To query torch.compile without affecting its cache, the wrapped function is extracted and compiled
afresh (watching/compiled_anew.py, behind a hook: nothing else uses torch.compile). After `Module.compile()` a module's calls are
dispatched to compiled code; this dispatch is disabled during a query.

In: what users pass: a function, a method, a module, wrapped or not.
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
    """The engine that a question is about: the named one, else torch.compile if it has wrapped the target. Raises ValueError for an
    unknown name.

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
    """Whether any part of a module is compiled by torch.compile: a submodule, or its `forward`."""
    return _compiled_part(target) is not None


def _compiled_part(target: Any) -> Any:
    """The first part of a module that torch.compile compiles: a submodule or a `forward`; None if there is none."""
    original = optimized.original_of(target)
    parts = original.modules() if isinstance(original, torch.nn.Module) else ()
    for part in parts:
        for candidate in (part, vars(part).get("forward"), getattr(type(part), "forward", None)):
            if is_compiled(candidate):
                return candidate
    return None


def chosen_by_parts(engine: str | None, target: Any) -> str:
    """As `chosen`, for a tool that runs a module whole: torch.compile also where it compiles a part of the module."""
    return TORCH if engine is None and has_compiled_part(target) else chosen(engine, target)


def refuse(target: Any, tool: str) -> None:
    """Raise TypeError, in one sentence, for a target wrapped by torch.compile, in a tool that does not support it."""
    if is_compiled(target):
        raise TypeError(
            f"{tool} only supports dynexplore's captures. You passed a function that torch.compile has compiled: pass the original"
            " function"
        )


def original_of(target: Any) -> Any:
    """The object that this engine, or torch.compile, has wrapped; any other object itself."""
    original = optimized.original_of(target)
    if isinstance(original, types.MethodType):
        inside = foreign_modes.inside_torch_compile(original.__func__)
        return original if inside is original.__func__ else types.MethodType(inside, original.__self__)
    return foreign_modes.inside_torch_compile(original)


@contextlib.contextmanager
def uncompiled(target: Any) -> Iterator[None]:
    """Disable the effect of torch.compile on all modules in `target` during the block: of `Module.compile()`, of a compiled
    `forward`, and of compiled submodules.
    """
    original = original_of(target)
    owner = getattr(original, "__self__", original)
    modules = list(owner.modules()) if isinstance(owner, torch.nn.Module) else []
    undo = contextlib.ExitStack()
    with undo:
        for module in modules:
            fields, children = vars(module), module._modules
            if fields.get(_WAY) is not None:
                _replace(undo, fields, _WAY, None)
            _unwrap(undo, fields, "forward")
            for name in list(children):
                _unwrap(undo, children, name)
        for owner_class in {base for module in modules for base in type(module).__mro__ if "forward" in vars(base)}:
            forward = vars(owner_class)["forward"]
            inside = foreign_modes.inside_torch_compile(forward)
            if inside is not forward:
                undo.callback(type.__setattr__, owner_class, "forward", forward)
                type.__setattr__(owner_class, "forward", inside)
        yield


def _unwrap(undo: contextlib.ExitStack, values: dict[str, Any], name: str) -> None:
    inside = original_of(values.get(name)) if is_compiled(values.get(name)) else None
    if inside is not None and inside is not values[name]:
        _replace(undo, values, name, inside)


def _replace(undo: contextlib.ExitStack, values: dict[str, Any], name: str, value: Any) -> None:
    undo.callback(values.__setitem__, name, values[name])
    values[name] = value


def compiled_anew(
    target: Any, backend: str | CompilerFn, *, fullgraph: bool = False, dynamic: bool | None = None
) -> Callable[..., Any]:
    """The callable inside `target`, compiled by torch.compile with this backend; earlier compilations are not reused.

    dynamic: None takes the wrapper's setting, if there is a wrapper.
    """
    hooks = tool_hooks.connected()
    assert hooks is not None  # the top-level package has set them
    dynamic_setting = _dynamic(target) if dynamic is None else dynamic
    return hooks.compiled_by_torch(original_of(target), backend, fullgraph, dynamic_setting)


def backend_of(target: Any) -> str | CompilerFn | None:
    """The backend of a torch.compile wrapper: its name if it has one, a callable for one created with a mode or options; None if
    there is no wrapper, or it cannot be determined.
    """
    return backend_in(context_of(target))


def backend_in(context: Any) -> str | CompilerFn | None:
    """As `backend_of`, for the context object of a wrapper, or None."""
    backend = getattr(context, "callback", None)
    while hasattr(backend, _INNER_BACKEND):
        backend = getattr(backend, _INNER_BACKEND)
    name, function = getattr(backend, "compiler_name", None), getattr(backend, "compiler_fn", None)
    options = getattr(backend, "config", None) or getattr(backend, "kwargs", None)
    if not isinstance(name, str) or options:
        return backend if callable(backend) else None
    return name if function is None or name in list_backends() else function


_INNER_BACKEND = "_torchdynamo_orig_backend"
"""The attribute under which torch's backend wrappers store the backend."""


def suspected(backend: str | CompilerFn | None, target: Any) -> str | CompilerFn:
    """The backend that a tool tries: the named one, else the one that `target`, or a part of it, is compiled with (by torch.compile
    or this engine), else Inductor.
    """
    return backend or backend_of(target) or _backend_of_store(target) or backend_of(_compiled_part(target)) or "inductor"


def dynamic_of(target: Any) -> bool | None:
    """The `dynamic` setting of either engine's wrapper; None if it is unset, or there is no wrapper."""
    store = _store_of(target)
    return store.options.dynamic if store is not None else dynamic_in(context_of(target) or context_of_part(target))


def _backend_of_store(target: Any) -> str | CompilerFn | None:
    store = _store_of(target)
    if store is None:
        return None
    backend = store.backend
    if backend.options:
        return functools.partial(backend.function, **backend.options)
    return backend.name if backend.name in list_backends() else backend.function


def _store_of(target: Any) -> Store | None:
    """The store of a function that this engine has wrapped, None for anything else."""
    if isinstance(target, optimized.OptimizedModule):
        return store_of_region(target.__dynexplore_region__)
    return store_of_region(target.region) if isinstance(target, RegionCall) else None


def _dynamic(target: Any) -> bool | None:
    return dynamic_in(context_of(target))


def dynamic_in(context: Any) -> bool | None:
    """The `dynamic` setting in the context object of a torch.compile wrapper; None if it is unset or cannot be determined."""
    dynamic = getattr(context, "_dynamic", None)
    return dynamic if isinstance(dynamic, bool) else None


def context_of_part(target: Any) -> Any:
    """The context object of the first part of a module that torch.compile compiles; None if there is none."""
    return context_of(_compiled_part(target))


def context_of_frame(frame: types.FrameType) -> Any:
    """The context object of the torch.compile wrapper that a frame runs; None if it is not found."""
    return frame.f_locals.get("self")


def context_of(target: Any) -> Any:
    """The context object of a torch.compile wrapper, which holds its options; None if there is none, or it is not found."""
    wrapper = optimized.original_of(target)
    fields = getattr(wrapper, "__dict__", {})
    wrapper = fields.get(_WAY) or wrapper
    context = fields.get("dynamo_ctx")
    function = getattr(wrapper, "__func__", wrapper)
    if context is None and isinstance(function, types.FunctionType) and "_torchdynamo_orig_callable" in vars(function):
        cells = dict(zip(function.__code__.co_freevars, function.__closure__ or (), strict=False))
        context = cells["self"].cell_contents if "self" in cells else None
    return context
