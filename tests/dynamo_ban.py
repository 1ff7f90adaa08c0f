"""The proof that this engine is its own: PyTorch's Dynamo raises when anything under test tries to use it.

Importing `torch._dynamo` is not using it (ShapeEnv and the backend registry import it), so the ban is put on the
functions and classes that *do* capture: the frame converters, the translator, the guard builder, the evaluator's way
in, and `torch.compile` itself. Modules that are imported later, in the middle of the suite, are caught by an import
hook and banned as soon as they have run.

In: nothing; `install()` is called once by tests/conftest.py. Out: `DynamoUsed` in whichever test touches Dynamo.
A test with the marker `lenses` runs inside `lifted()`, because comparing with torch.compile is what it is about.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import importlib.abc
import importlib.machinery
import sys
from collections.abc import Iterator, Sequence
from types import ModuleType
from typing import Any

# module -> what of it captures, as dotted names inside the module
BANNED = {
    "torch": ("compile",),
    "torch._dynamo.convert_frame": (
        "convert_frame",
        "convert_frame_assert",
        "trace_frame",
        "_compile",
        "ConvertFrameAssert.__call__",
        "ConvertFrame.__call__",
        "CatchErrorsWrapper.__call__",
    ),
    "torch._dynamo.symbolic_convert": (
        "InstructionTranslatorBase.__init__",
        "InstructionTranslator.__init__",
        "InliningInstructionTranslator.__init__",
    ),
    "torch._dynamo.guards": ("GuardBuilder.__init__", "CheckFunctionManager.__init__"),
    "torch._dynamo.output_graph": ("OutputGraph.__init__",),
    "torch._dynamo.eval_frame": (
        "optimize",
        "_optimize",
        "optimize_assert",
        "_optimize_assert",
        "OptimizeContext.__init__",
        "OptimizedModule.__init__",
    ),
}


_PYTHON = ctypes.PyDLL(None)
_PYTHON.PyInterpreterState_Get.restype = ctypes.c_void_p
_PYTHON._PyInterpreterState_GetEvalFrameFunc.argtypes = [ctypes.c_void_p]
_PYTHON._PyInterpreterState_GetEvalFrameFunc.restype = ctypes.c_void_p
_PYTHON._PyInterpreterState_SetEvalFrameFunc.argtypes = [ctypes.c_void_p, ctypes.c_void_p]
_PYTHON._PyInterpreterState_SetEvalFrameFunc.restype = None


class DynamoUsed(AssertionError):
    """Something under test used PyTorch's own Dynamo or torch.compile."""


_lifted = False


@contextlib.contextmanager
def lifted() -> Iterator[None]:
    """Let torch.compile work again while the block runs (for tests of dynexplore.lenses and dynexplore.watching)."""
    global _lifted
    before, _lifted = _lifted, True
    try:
        with _evaluator_put_back():
            yield
    finally:
        _lifted = before


@contextlib.contextmanager
def _evaluator_put_back() -> Iterator[None]:
    """Dynamo leaves its evaluator installed for ever when a compilation raises; ours would stay beside it in every later test."""
    interpreter = _PYTHON.PyInterpreterState_Get()
    before = _PYTHON._PyInterpreterState_GetEvalFrameFunc(interpreter)
    try:
        yield
    finally:
        _PYTHON._PyInterpreterState_SetEvalFrameFunc(interpreter, before)


def install() -> None:
    """Ban what is imported already, and watch for what is imported later."""
    sys.meta_path.insert(0, _BanAfterImport())
    for name in BANNED:
        if name in sys.modules:
            _ban(sys.modules[name])


def _ban(module: ModuleType) -> None:
    if hasattr(module, "TorchPatcher"):
        # Once torch.compile was used, optimizers bear marks for its tracer and distributions check nothing, as long as the process
        # lives: every test after one of the lenses would see that.
        module.TorchPatcher.patch = staticmethod(lambda: None)
    for dotted in BANNED[module.__name__]:
        owner: Any = module
        *path, last = dotted.split(".")
        for part in path:
            owner = getattr(owner, part)
        setattr(owner, last, _raising(getattr(owner, last), f"{module.__name__}.{dotted}"))


def _raising(function: Any, name: str) -> Any:
    @functools.wraps(function)
    def banned(*args: Any, **kwargs: Any) -> Any:
        if _lifted:
            return function(*args, **kwargs)
        raise DynamoUsed(f"{name} was called: the engine under test must not use PyTorch's own Dynamo")

    banned.is_banned = True  # type: ignore[attr-defined]
    return banned


class _BanAfterImport(importlib.abc.MetaPathFinder):
    """Finds the watched modules where they always are, and bans their captures once they have been executed."""

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if name not in BANNED:
            return None
        spec = importlib.machinery.PathFinder.find_spec(name, path, target)
        if spec is not None and spec.loader is not None:
            execute = spec.loader.exec_module

            def exec_module(module: ModuleType) -> None:
                execute(module)
                _ban(module)

            spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
