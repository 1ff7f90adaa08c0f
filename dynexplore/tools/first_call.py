"""The first call of a function in a running program: caught by the frame hook, with its real arguments.

The idea: the tools need a function and arguments, and a script has both, somewhere in the middle. So it runs in a region whose
callback translates nothing and inspects each frame that is about to begin. The first frame that matches gives the call: function
and arguments as the program made them, under the modes (no_grad, autocast) that it set. The tool runs at this point, and then
the program is ended, because the rest of it is not needed.

In: a program as a function, the file that it comes from, the name of the target. Out: what the tool returned.

PyTorch has no counterpart.
"""

from __future__ import annotations

import contextlib
import inspect
import sys
import types
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, cast

import torch
from torch.utils._pytree import tree_leaves

from dynexplore.engine.bytecode import argument_slots
from dynexplore.engine.errors import DynexploreError
from dynexplore.engine.native import CacheStore, Entry, FrameState, Region, RegionCall, unskip_code
from dynexplore.engine.runtime import optimized, other_tracers
from dynexplore.session import torch_compiled

_MODULE_CALL = torch.nn.Module.__call__
_DYNAMO = "torch._dynamo"


class NotCalled(DynexploreError, LookupError):
    """The program ended without calling the target; the message says what it called."""


@dataclass(frozen=True, slots=True)
class FirstCall:
    """A call as the program makes it: `target(*args, **kwargs)`."""

    target: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    is_compiled: bool = False
    """Whether torch.compile compiles it in this program."""

    @property
    def name(self) -> str:
        """What people call the target."""
        return optimized.name_of(self.target)

    def has_tensor(self) -> bool:
        """Whether a tensor is among the arguments, or in a container among them."""
        return any(isinstance(leaf, torch.Tensor) for leaf in tree_leaves((self.args, dict(self.kwargs))))


class _ProgramEnded(BaseException):
    """Ends the program: no `except Exception` of its own stops it."""


def at_first_call(program: Callable[[], object], file: str, wanted: str, look: Callable[[FirstCall], Any]) -> Any:
    """Run the program up to the first call of the target, and return what `look` says of that call.

    Args: file: the program's file, as its code objects name it. wanted: a function of that file ("f", "Net.forward"), the class or
    the global name of a module; "": the first function of the file, or module, that gets a tensor.

    Raises NotCalled, and what `look` raises.
    """
    watch = _Watch(file, wanted, look)
    watched = RegionCall(program, Region(CacheStore(), watch))
    unskip_code(_MODULE_CALL.__code__)  # a region that met a module's call before has marked it; the next one will again
    with contextlib.suppress(_ProgramEnded), watch.torch_compile:
        watched()
    if watch.error is not None:
        raise watch.error
    if not watch.is_reached:
        raise NotCalled(watch.what_is_missing())
    return watch.result


class _Watch:
    """The callback of the region: no entry is ever made."""

    def __init__(self, file: str, wanted: str, look: Callable[[FirstCall], Any]) -> None:
        self.file, self.wanted, self.look = file, wanted, look
        self.called: dict[str, None] = {}
        self.torch_compile = contextlib.ExitStack()
        """Until the call, what torch.compile made runs as plain Python: it would compile the frame before it is seen here."""
        self._stances: list[object] = []
        self.is_reached = False
        self.result: Any = None
        self.error: BaseException | None = None

    def __call__(self, state: FrameState) -> Entry | None:
        if self.is_reached:
            return None
        if not self._stances and _is_imported(_DYNAMO):
            self._stances.append(self.torch_compile.enter_context(torch.compiler.set_stance("force_eager")))
            for code in other_tracers.code_of_wrappers():
                unskip_code(code)  # as of modules' calls
        call = self._wanted_module(state) if state.code is _MODULE_CALL.__code__ else self._wanted_function(state)
        if call is None:
            return None
        self.is_reached = True
        self.torch_compile.close()
        try:
            with other_tracers.dynamo_off(), torch_compiled.uncompiled(call.target):
                self.result = self.look(call)
        except BaseException as error:  # the program may not catch what is not its own
            self.error = error
        raise _ProgramEnded

    def _wanted_module(self, state: FrameState) -> FirstCall | None:
        module, args, kwargs = state.values
        is_compiled = torch_compiled.is_compiled(module) or other_tracers.is_below_torch_compile(sys._getframe())
        call = FirstCall(torch_compiled.original_of(module), tuple(args), dict(kwargs), is_compiled)
        if not self.wanted:
            return call if call.has_tensor() else None
        program = vars(sys.modules["__main__"])
        is_named = self.wanted == type(call.target).__qualname__ or program.get(self.wanted) is module
        return call if is_named else None

    def _wanted_function(self, state: FrameState) -> FirstCall | None:
        code = state.code
        own_name = code.co_qualname.rpartition("<locals>.")[2]
        if code.co_filename != self.file or not code.co_flags & inspect.CO_OPTIMIZED or own_name.endswith(">"):
            return None
        self.called[own_name] = None
        if self.wanted and self.wanted not in (own_name, code.co_qualname):
            return None
        call = _call_of(state)
        return call if self.wanted or call.has_tensor() else None

    def what_is_missing(self) -> str:
        """One sentence."""
        called = ", ".join(list(self.called)[:12]) or "no function of it"
        if self.wanted:
            return f"{self.wanted} is not called when {self.file} runs, or is a generator; called are: {called}"
        return f"no function of {self.file}, and no module, is called with a tensor; called are: {called}"


def _is_imported(name: str) -> bool:
    """Whether a module has been imported, to its end."""
    spec = getattr(sys.modules.get(name), "__spec__", None)
    return spec is not None and not getattr(spec, "_initializing", False)


def _call_of(state: FrameState) -> FirstCall:
    """The call that begins a frame, from the contents of its argument slots."""
    code = state.code
    held = dict(zip(argument_slots(code), state.values, strict=True))
    names = code.co_varnames
    kwonly_end = code.co_argcount + code.co_kwonlyargcount
    args = [held[name] for name in names[: code.co_argcount]]
    kwargs = {name: held[name] for name in names[code.co_argcount : kwonly_end]}
    others = list(names[kwonly_end : len(held)])
    if code.co_flags & inspect.CO_VARARGS:
        args += held[others.pop(0)]
    if code.co_flags & inspect.CO_VARKEYWORDS:
        kwargs.update(held[others.pop(0)])
    function: Any = cast("types.FunctionType", state.function)
    if args and _is_method_of(code, args[0]):
        receiver, *args = args
        function = types.MethodType(function, receiver)
    return FirstCall(function, tuple(args), kwargs, other_tracers.is_below_torch_compile(sys._getframe()))


def _is_method_of(code: types.CodeType, first: Any) -> bool:
    """Whether a function is defined in the class of its first argument, or in the class that this argument is."""
    owner, _, _ = code.co_qualname.rpartition(".")
    classes = first.__mro__ if isinstance(first, type) else type(first).__mro__
    return any(cls.__qualname__ == owner for cls in classes)
