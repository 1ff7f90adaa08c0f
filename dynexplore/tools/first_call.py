"""The first call of a target in a running program, intercepted by the frame hook with its real arguments.

The idea: the tools need a function and arguments, and a script has both, somewhere in the middle. So it runs in a region whose
callback translates nothing and asks session/targets.py about each frame that is about to begin, as `explain` does. The first target
determines the call: function and arguments as the program created them, under the modes (no_grad, autocast) that it set. The tool
runs at this point, and then the program is ended, because the rest of it is not needed.

In: a program as a function, its `Targets`. Out: the tool's result.

PyTorch's counterpart: none.
"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import torch

from dynexplore.engine.errors import DynexploreError
from dynexplore.engine.native import CacheStore, Entry, FrameState, Region, RegionCall, unskip_code
from dynexplore.engine.runtime import foreign_modes, optimized
from dynexplore.engine.runtime.backends import CompilerFn
from dynexplore.session import torch_compiled
from dynexplore.session.call_facts import MODULE_CALL
from dynexplore.session.target_search import ProgramStopped, imports_unhooked
from dynexplore.session.targets import Targets, call_of

_DYNAMO = "torch._dynamo"

_COMPILED_ANYWAY = {"driver", "parameters", "method of a driver", "driving arguments", "no tensor", "loop around a model"}
"""The rows of session/targets.py that are guesses: a function that the program itself passes to torch.compile is the target."""


class NotCalled(DynexploreError, LookupError):
    """The program ended without calling the target; the message names what it called."""


@dataclass(frozen=True, slots=True)
class FirstCall:
    """A call as the program makes it: `target(*args, **kwargs)`."""

    target: Any
    args: tuple[Any, ...]
    kwargs: Mapping[str, Any]
    is_compiled: bool = False
    """Whether the program compiles it by torch.compile."""
    backend: str | CompilerFn | None = None
    dynamic: bool | None = None
    """The backend and the option `dynamic` that the program compiles it with; None: unset, or unknown."""

    @property
    def name(self) -> str:
        """The target's display name."""
        return optimized.name_of(self.target)


def at_first_call(program: Callable[[], object], targets: Targets, look: Callable[[FirstCall], Any]) -> Any:
    """Run the program up to the first call of a target, and return the result of `look` for that call.

    Raises NotCalled, and what `look` raises.
    """
    watch = _Watch(targets, look)
    watched = RegionCall(program, Region(CacheStore(), watch))
    unskip_code(MODULE_CALL)  # an earlier region may have marked it as skipped; the next one will do so again
    with contextlib.suppress(ProgramStopped), watch.torch_compile, imports_unhooked():
        watched()
    if watch.error is not None:
        raise watch.error
    if not watch.is_reached:
        raise NotCalled(what_is_missing(targets))
    return watch.result


class _Watch:
    """The callback of the region; it never creates a cache entry."""

    def __init__(self, targets: Targets, look: Callable[[FirstCall], Any]) -> None:
        self.targets, self.look = targets, look
        self.torch_compile = contextlib.ExitStack()
        """Until the call, functions compiled by torch.compile run as plain Python: otherwise torch.compile would see the frame
        first.
        """
        self._stances: list[object] = []
        self.is_reached = False
        self.result: Any = None
        self.error: BaseException | None = None

    def __call__(self, state: FrameState) -> Entry | None:
        if self.is_reached:
            return None
        if not self._stances and _is_imported(_DYNAMO):
            self._stances.append(self.torch_compile.enter_context(torch.compiler.set_stance("force_eager")))
            for code in foreign_modes.code_of_wrappers():
                unskip_code(code)  # for the same reason
        choice = self.targets.decide(state)
        may_be_compiled = choice.row in _COMPILED_ANYWAY  # also by a later call than this one: the code is not skipped
        is_compiled = may_be_compiled and foreign_modes.is_called_by_wrapper(sys._getframe(1))
        if not choice.is_target and not is_compiled:
            state.cache.skip = choice.answer == "never" and state.code is not MODULE_CALL and not may_be_compiled
            return None
        call = _call_of(state)
        self.is_reached = True
        self.torch_compile.close()
        try:
            with foreign_modes.dynamo_off(), torch_compiled.uncompiled(call.target):
                self.result = self.look(call)
        except BaseException as error:  # the program must not catch an exception of the tool
            self.error = error
        raise ProgramStopped("the call was reached")


def what_is_missing(targets: Targets) -> str:
    """Why there is no such call, in one sentence that names what was called."""
    passed = sorted(targets.passed.values(), key=lambda function: -function.calls)
    called = (
        "; ".join(f"{function.choice.name} ({function.choice.place}): {function.choice.why}" for function in passed[:3])
        or "none of its functions"
    )
    if targets.only:
        names = " or ".join(pattern.text for pattern in targets.only)
        names_called = ", ".join(function.choice.name for function in list(targets.passed.values())[:12]) or "none of its functions"
        return f"{names} is not called when the script runs, or is a generator; the script calls: {names_called}"
    return f"the script calls no module, and passes no tensor to its own functions; it calls: {called}"


def _is_imported(name: str) -> bool:
    """Whether a module has been fully imported."""
    spec = getattr(sys.modules.get(name), "__spec__", None)
    return spec is not None and not getattr(spec, "_initializing", False)


def _call_of(state: FrameState) -> FirstCall:
    """The call that a frame begins with."""
    wrapper = foreign_modes.torch_compile_frame(sys._getframe())
    context = None if wrapper is None else torch_compiled.context_of_frame(wrapper)
    is_compiled = wrapper is not None
    if state.code is MODULE_CALL:
        module, args, kwargs = state.values
        is_compiled = is_compiled or torch_compiled.is_compiled(module) or torch_compiled.has_compiled_part(module)
        context = context or torch_compiled.context_of(module) or torch_compiled.context_of_part(module)
        target, args = torch_compiled.original_of(module), tuple(args)
    else:
        target, args, kwargs = call_of(state)
    settings = torch_compiled.backend_in(context), torch_compiled.dynamic_in(context)
    return FirstCall(target, args, dict(kwargs), is_compiled, *settings)
