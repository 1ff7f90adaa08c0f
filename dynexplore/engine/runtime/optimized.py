"""The wrappers: an optimized function, bound method or module, and the region of a `with` block.

The idea: a wrapper only says "from here on, look frames up in this region". For a function it is a
`native.RegionCall`, written in C: enter, call, leave, in less than a tenth of a microsecond. Everything that
has no code of its own to look up (modules, C functions, functions of files that are not looked into) gets an
*entry*: a Python function that only calls it, with a code object of its own, so that cache and limit are the
wrapper's and a module's hooks are traced.

An optimized module is an nn.Module of a generated subclass that shares the original's `__dict__`: the same
parameters, the same state_dict, isinstance holds. It pickles as the plain original, and deep-copies as an
optimized copy.

Of nested wrappers the outer wins (native/region.c); compiled graphs and `disable`d functions run with the hook off.

In: a callable and a region (None: hook off). Out: a callable of the same kind.

torch/_dynamo/eval_frame.py does the same job (OptimizeContext, OptimizedModule, DisableContext).
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
    """`target`, running in `region` when it is called; `entry`: whether what has no code to look up gets an entry.

    Raises TypeError for what cannot be called, and for classes.
    """
    if isinstance(target, staticmethod | classmethod):
        return type(target)(wrap(target.__func__, region, entry=entry))
    if isinstance(target, torch.jit.ScriptModule | torch.jit.ScriptFunction):
        return target  # compiled already: there is no Python to look at
    if isinstance(target, torch.nn.Module):
        return optimized_module(original_of(target), region)
    if isinstance(target, type):
        raise TypeError(f"an instance is expected, a function, a method or a module, not the class {target.__qualname__}")
    if not callable(target):
        raise TypeError(f"a function, a method or a module is expected, not {type(target).__qualname__}")
    target = original_of(target)
    called = entry_of(target) if entry and needs_entry(target) else target
    return dressed(RegionCall(called, region), target)


def dressed(call: Any, target: Any) -> Any:
    """Give a wrapper the name, docstring, signature and attributes of the wrapped object."""
    functools.update_wrapper(call, target)
    return call


def original_of(target: Any) -> Any:
    """The object inside a wrapper of ours; any other object itself."""
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
    """What stands in the module under a function's own name."""
    named: Any = sys.modules.get(getattr(function, "__module__", None) or "__main__")
    for part in function.__qualname__.split("."):
        named = getattr(named, part, None)
    return named


def _reduce(call: RegionCall[..., Any]) -> Any:
    """A wrapper is copied and pickled as a function is, by name; one that bears another name than its function, by the function."""
    if _named(call) is call or call.region is None or call.region not in PICKLED_AS:
        return call.__qualname__
    constructor, *arguments = PICKLED_AS[call.region]
    return constructor, (original_of(call), *arguments)


PICKLED_AS: weakref.WeakKeyDictionary[Region, tuple[Any, ...]] = weakref.WeakKeyDictionary()
"""Region of a named backend -> the function that wraps an original for it once more, and its further arguments."""

copyreg.pickle(RegionCall, _reduce)


# -- entries -------------------------------------------------------------------------------------------------


def needs_entry(target: Any) -> bool:
    """Whether calling `target`, no nn.Module, starts no Python frame that would be translated."""
    function = getattr(target, "__func__", target)
    if isinstance(function, types.FunctionType):
        return skip_reason(function.__code__) is not None
    return isinstance(function, types.BuiltinFunctionType | types.MethodDescriptorType)


def entry_of(target: Callable[..., Any]) -> Callable[..., Any]:
    """A Python function that only calls `target`, with a code object that no other function has."""

    def entry(*args: Any, **kwargs: Any) -> Any:
        return target(*args, **kwargs)

    return _entry_for(target, entry)


def entry_with(code: types.CodeType, target: Callable[..., Any]) -> Any:
    """The entry of `target` again, with the code object of one that `entry_of` made: they share their cache entries."""
    return types.FunctionType(code, globals(), code.co_name, None, (types.CellType(target),))


def with_own_code(function: Any) -> Any:
    """The same function with a code object of its own: cache entries belong to the code object.

    Its file is not one of this package, whose frames are left alone.
    """
    code = function.__code__.replace(co_filename=ENTRY_FILE)
    own = types.FunctionType(code, function.__globals__, function.__name__, function.__defaults__, function.__closure__)
    own.__kwdefaults__ = function.__kwdefaults__
    return own


# -- modules -------------------------------------------------------------------------------------------------


class OptimizedModule(torch.nn.Module):
    """The common base of all optimized modules, beside their original's class."""

    __dynexplore_original__: torch.nn.Module
    __dynexplore_region__: Region | None

    def __init_subclass__(cls) -> None:
        # the hook of the original's class is not called: nobody derived a class from it in the program
        pass

    def __reduce_ex__(self, protocol: Any) -> Any:
        reduced: Any = self.__dynexplore_original__.__reduce_ex__(protocol)
        function, args, *rest = reduced
        if function is copyreg.__newobj__:  # type: ignore[attr-defined]
            # pickle wants the class of the object itself there
            return copyreg._reconstructor, (args[0], object, None), *rest  # type: ignore[attr-defined]
        return function, args, *rest

    def __copy__(self) -> Any:
        return optimized_module(copy.copy(self.__dynexplore_original__), self.__dynexplore_region__)

    def __deepcopy__(self, memo: dict[int, Any]) -> Any:
        copied = copy.deepcopy(self.__dynexplore_original__, memo)
        return optimized_module(copied, self.__dynexplore_region__)


def optimized_module(module: torch.nn.Module, region: Region | None, called: Callable[..., Any] | None = None) -> Any:
    """An nn.Module that is `module` in everything, but whose calls are calls of `called` (the module itself) in
    `region`, and those of its `forward` too.
    """

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
    """An entry with code of its own; that of a DistributedDataParallel only lets the module inside be seen."""
    own: Callable[..., Any] = with_own_code(entry)
    if isinstance(target, torch.nn.parallel.DistributedDataParallel):
        skip_code(own.__code__)  # what it does around that module runs as plain Python (runtime/distributed.py)
    return own


def _forward(module: torch.nn.Module, region: Region | None) -> Callable[..., Any]:
    """`forward` called by the program itself: no hooks of the module run. A plain function, as torch.fx wants it."""

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
    # a metaclass of the program may keep a list of its classes, and this is none of them
    return type.__new__(metaclass, original.__name__, bases, namespace)
