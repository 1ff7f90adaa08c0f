"""Which values on the stack, at a graph break, end in a way that the program observes.

The idea: while an instruction runs, CPython's stack holds the values below its operands: the iterator of a `for` loop, the exit
function of a `with` block, arguments that are evaluated already. If it raises, they are released before the exception handler
begins, and before the exception reaches the caller: a suspended generator is closed then, a `__del__` runs, a weak reference dies.
Its operands are released as soon as it has used them. The modified code keeps stack values in temporaries, which live as long as
its frame, and a traceback keeps that frame alive. So if one of these values ends observably, the values move to the stack of the
modified code while the instruction runs (break_code.py, nested_break.py), and no other temporary holds them.

In: a symbolic frame that breaks. Out: whether its stack has such a value. PyTorch's counterpart: none; there they live on in the
frame.
"""

from __future__ import annotations

import types
from collections.abc import Iterator
from typing import Any

import torch

from dynexplore.engine.bytecode import argument_slots
from dynexplore.engine.provenance.sources import LocalSource
from dynexplore.engine.translate.handlers.observed_end import has_finalizer
from dynexplore.engine.translate.symbolic_frame import NULL, SymbolicFrame
from dynexplore.engine.variables.callables.function import NestedFunctionVariable
from dynexplore.engine.variables.containers.iterator import IteratorVariable
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.scalars.constant import LITERALS, TORCH_CONSTANTS

_FUNCTIONS = (types.FunctionType, types.BuiltinFunctionType, types.MethodType, types.WrapperDescriptorType,
              types.MethodDescriptorType, types.MethodWrapperType)  # fmt: skip
_GENERATORS = (types.GeneratorType, types.CoroutineType, types.AsyncGeneratorType)
_ENDS_SILENTLY: tuple[type[Any], ...] = (torch.Tensor, *LITERALS, *TORCH_CONSTANTS, range, slice, type, types.ModuleType)


def stack_ends_observably(frame: SymbolicFrame) -> bool:
    """Whether the program may observe when a value on the stack of this frame is released."""
    seen: set[int] = set()  # a tuple may hold another one many times
    return any(value is not NULL and _ends_observably(value, frame, seen) for value in frame.stack)


def _ends_observably(value: VariableTracker, frame: SymbolicFrame, seen: set[int]) -> bool:
    if id(value) in seen or any(local is value for local in frame.locals.values()):
        return False  # it has been looked at, or the local variable holds it
    seen.add(id(value))
    try:
        kind = value.python_type()
    except NotImplementedError:
        return True
    if has_finalizer(kind) or issubclass(kind, _GENERATORS):
        return True
    if issubclass(kind, _ENDS_SILENTLY):
        return False
    if value.source is not None:  # what came in on the stack, or in a local of a resume function, may have no other owner
        root = value.source.root()
        return isinstance(root, LocalSource) and root.local not in argument_slots(frame.parsed.code)
    if kind is tuple or issubclass(kind, _FUNCTIONS) or isinstance(value, IteratorVariable):
        return isinstance(value, NestedFunctionVariable) or any(
            _ends_observably(part, frame, seen) for part in _parts_of(value)
        )
    return True


def _parts_of(value: VariableTracker) -> Iterator[VariableTracker]:
    """What a new tuple, iterator or bound method holds."""
    for part in vars(value).values():
        for item in part if isinstance(part, list | tuple) else (part,):
            if isinstance(item, VariableTracker):
                yield item
