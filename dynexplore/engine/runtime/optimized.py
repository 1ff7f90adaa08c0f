"""The wrappers: an optimized function, bound method or module, and the region of a `with` block.

The idea: a wrapper only means "from here on, look frames up in this region". For a function it is a `native.RegionCall`, written
in C: enter, call, leave, in less than a tenth of a microsecond. Callables without code to look up (modules, C functions, functions
in files that are not traced) get an *entry*: a Python function that only calls them, with a separate code object, so that cache
and recompile limit belong to the wrapper and a module's hooks are traced.

An optimized module is an nn.Module of a generated subclass that shares the original's `__dict__`: the same parameters, the same
state_dict, and isinstance holds. It pickles as the plain original, and deep-copies as an optimized copy.

If wrappers are nested, the outer one applies (native/region.c); compiled graphs and `disable`d functions run with the hook
disabled.

In: a callable and a region (None: hook disabled). Out: a callable of the same kind. PyTorch's counterpart: `OptimizeContext`,
`OptimizedModule` and `DisableContext` in torch/_dynamo/eval_frame.py.
"""

from __future__ import annotations

import copy
import copyreg
import functools
import sys
import types
import weakref
from abc import ABCMeta
from collections.abc import Callable
from typing import Any, cast

import torch

from dynexplore.engine.native import ENTRY_FILE, Region, RegionCall, skip_code
from dynexplore.engine.policy.skip import skip_reason


def wrap(target: Any, region: Region | None, *, entry: bool = True) -> Any:
    """`target`, running in `region` when it is called; `entry`: whether a callable without code to look up gets an entry.

    Raises TypeError for non-callables and for classes.
    """
    if isinstance(target, staticmethod | classmethod):
        return type(target)(wrap(target.__func__, region, entry=entry))
    if isinstance(target, torch.jit.ScriptModule | torch.jit.ScriptFunction):
        return target  # compiled already: no Python code to capture
    if isinstance(target, torch.nn.Module):
        return optimized_module(original_of(target), region)
    if isinstance(target, type):
        raise TypeError(f"expected a function, a method or a module, not the class {target.__qualname__}")
    if not callable(target):
        raise TypeError(f"expected a function, a method or a module, not {type(target).__qualname__}")
    target = original_of(target)
    called = entry_of(target) if entry and needs_entry(target) else target
    return copy_metadata(RegionCall(called, region), target)


def copy_metadata(call: Any, target: Any) -> Any:
    """Give a wrapper the name, docstring, signature and attributes of the wrapped object."""
    functools.update_wrapper(call, target)
    return call


def original_of(target: Any) -> Any:
    """The object inside one of dynexplore's wrappers; any other object itself."""
    while True:
        if type(target) is RegionCall:
            target = target.__wrapped__
        elif isinstance(target, OptimizedModule):
            target = target.__dynexplore_original__
        else:
            return target


def name_of(target: Any) -> str:
    """The display name of a function, a method or a module, wrapped or not."""
    original = original_of(target)
    name = getattr(original, "__qualname__", None)
    return name if isinstance(name, str) else type(original).__qualname__


def _named(function: Any) -> Any:
    """The object in the function's module under the function's own name."""
    named: Any = sys.modules.get(getattr(function, "__module__", None) or "__main__")
    for part in function.__qualname__.split("."):
        named = getattr(named, part, None)
    return named


def _reduce(call: RegionCall[..., Any]) -> Any:
    """Copy and pickle a wrapper like a function, by name; if its name differs from its function's, by the function."""
    if _named(call) is call or call.region is None or call.region not in PICKLED_AS:
        return call.__qualname__
    constructor, *arguments = PICKLED_AS[call.region]
    return constructor, (original_of(call), *arguments)


PICKLED_AS: weakref.WeakKeyDictionary[Region, tuple[Any, ...]] = weakref.WeakKeyDictionary()
"""Region of a named backend -> the function that wraps an unpickled original again, and its further arguments."""

copyreg.pickle(RegionCall, _reduce)


# -- entries -------------------------------------------------------------------------------------------------


def needs_entry(target: Any) -> bool:
    """Whether calling `target`, not an nn.Module, starts no Python frame that would be translated."""
    function = getattr(target, "__func__", target)
    if isinstance(function, types.FunctionType):
        return skip_reason(function.__code__) is not None
    return isinstance(function, types.BuiltinFunctionType | types.MethodDescriptorType)


def entry_of(target: Callable[..., Any]) -> Callable[..., Any]:
    """A Python function that only calls `target`, with a unique code object."""

    def entry(*args: Any, **kwargs: Any) -> Any:
        return target(*args, **kwargs)

    return _entry_for(target, entry)


def entry_with(code: types.CodeType, target: Callable[..., Any]) -> Any:
    """An entry of `target` with the code object of an existing entry: they share their cache entries."""
    return types.FunctionType(code, globals(), code.co_name, None, (types.CellType(target),))


def with_own_code(function: Any) -> Any:
    """The same function with a separate code object, to which its cache entries belong.

    Its file is outside this package, whose frames are skipped.
    """
    code = function.__code__.replace(co_filename=ENTRY_FILE)
    own = types.FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    own.__kwdefaults__ = function.__kwdefaults__
    return own


# -- modules -------------------------------------------------------------------------------------------------


class OptimizedModule(torch.nn.Module):
    """The common base of all optimized modules, in addition to their original's class."""

    __dynexplore_original__: torch.nn.Module
    __dynexplore_region__: Region | None

    def __init_subclass__(cls) -> None:
        # do not call `__init_subclass__` of the original's class: the program defined no subclass
        pass

    def __reduce_ex__(self, protocol: Any) -> Any:
        reduced: Any = self.__dynexplore_original__.__reduce_ex__(protocol)
        function, args, *rest = reduced
        if function is copyreg.__newobj__:  # type: ignore[attr-defined]
            # pickle requires the object's own class there
            return copyreg._reconstructor, (args[0], object, None), *rest  # type: ignore[attr-defined]
        return function, args, *rest

    def __copy__(self) -> Any:
        return optimized_module(copy.copy(self.__dynexplore_original__), self.__dynexplore_region__)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        copied = copy.deepcopy(self.__dynexplore_original__, memo)
        return optimized_module(copied, self.__dynexplore_region__)


def optimized_module(module: torch.nn.Module, region: Region | None, called: Callable[..., Any] | None = None) -> Any:
    """An nn.Module that behaves like `module`, but runs `called` (the module itself), and its `forward`, in `region`."""

    def entry(self: Any, *args: Any, **kwargs: Any) -> Any:
        return module(*args, **kwargs)

    def other_entry(self: Any, *args: Any, **kwargs: Any) -> Any:
        return called(*args, **kwargs)  # type: ignore[misc]

    call: Any = RegionCall(_entry_for(module, entry if called is None else other_entry), region)
    call.__wrapped__ = module
    call.__name__ = call.__qualname__ = "__call__"
    original = type(module)
    own_methods = {"__call__": call}
    if called is None:
        own_methods["forward"] = functools.update_wrapper(_forward(module, region), original.forward)
    namespace = {
        "__module__": original.__module__,
        "__qualname__": original.__qualname__,
        "__doc__": original.__doc__,
        **own_methods,
        "__dynexplore_original__": module,
        "__dynexplore_region__": region,
    }
    wrapper = object.__new__(_subclass(original, namespace))
    object.__setattr__(wrapper, "__dict__", module.__dict__)
    return wrapper


def _entry_for(target: object, entry: Callable[..., Any]) -> Callable[..., Any]:
    """An entry with its own code; that of a DistributedDataParallel only exposes the module inside."""
    own: Callable[..., Any] = with_own_code(entry)
    if isinstance(target, torch.nn.parallel.DistributedDataParallel):
        skip_code(own.__code__)  # DDP's code around that module runs as plain Python (runtime/distributed.py)
    return own


def _forward(module: torch.nn.Module, region: Region | None) -> Callable[..., Any]:
    """`forward` called by the program directly, without the module's hooks. A plain function, as torch.fx requires."""

    def entry(*args: Any, **kwargs: Any) -> Any:
        return module.forward(*args, **kwargs)

    call = RegionCall(_entry_for(module, entry), region)

    def forward(self: Any, *args: Any, **kwargs: Any) -> Any:
        return call(*args, **kwargs)

    return cast("Callable[..., Any]", with_own_code(forward))


def _subclass(original: type[torch.nn.Module], namespace: dict[str, Any]) -> Any:
    metaclass: Any = type(original)
    bases = (OptimizedModule, original)
    if metaclass in (type, ABCMeta):
        return metaclass(original.__name__, bases, namespace)
    # a metaclass of the program may register its classes, and this is not one of them
    return type.__new__(metaclass, original.__name__, bases, namespace)
