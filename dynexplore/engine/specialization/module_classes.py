"""Module classes with several instances in a model (repeated blocks): compiled for every instance from the first frame on.

The idea: a module that is an argument of a frame is guarded by identity at first; when another instance arrives, the frame is
recompiled once, for all instances. If a model is one graph this never happens, since its blocks are inlined. But if a block breaks,
Python calls each block separately, and the first block's frame would be compiled twice. So at a break the stack is inspected: if a
method of a block was being interpreted, and the model through which it was reached has another block of the same class, then frames
that take this class as an argument do not guard which instance it is (`Specializer.specializes`).

In: the modules whose methods are being interpreted at a break. Out: `ModuleClasses`, one per store, which each translation uses.
PyTorch's counterpart: `inline_inbuilt_nn_modules`, with which no module is guarded by identity, at a cost in each call.
"""

from __future__ import annotations

import weakref
from collections.abc import Iterable, Iterator, Mapping
from types import CellType
from typing import Any

from torch import nn

from dynexplore.engine.provenance.attribute_dicts import REGISTRIES
from dynexplore.engine.provenance.guards import is_empty
from dynexplore.engine.provenance.sources import Scope, Source
from dynexplore.engine.raw_attributes import instance_dict, is_a

_MODULES = REGISTRIES[2]


class ModuleClasses:
    """The classes known to have several instances; they are referenced weakly, and none of their code is run."""

    def __init__(self) -> None:
        self._classes: weakref.WeakValueDictionary[int, type[Any]] = weakref.WeakValueDictionary()

    def forget(self) -> None:
        """Forget all classes, together with the compiled code to which they belong."""
        self._classes.clear()

    def __contains__(self, value: object) -> bool:
        """Whether a live value is a module of such a class."""
        return self._classes.get(id(type(value))) is type(value)

    def names_of_repeated(self, values: Mapping[str, object], cells: Mapping[str, CellType]) -> frozenset[str]:
        """The names of arguments and closure variables that are such modules."""
        full = (name for name, cell in cells.items() if not is_empty(cell) and cell.cell_contents in self)
        return frozenset(name for name, value in values.items() if value in self).union(full)

    def note(self, receivers: Iterable[tuple[object, Source]], scope: Scope) -> None:
        """At a break: record the classes of the modules whose methods were being interpreted,
        because Python calls those methods next.
        """
        for block, source in receivers:
            if block in self:
                continue
            if _outermost_module(source, scope) in self or self.is_repeated(block, source, scope):
                self._classes[id(type(block))] = type(block)

    def is_repeated(self, block: object, source: Source, scope: Scope) -> bool:
        """Whether the model through which a module is reached has another module of its class. If it is reached through none,
        as a value on the stack of a resume function, its class answers.
        """
        owner = _outermost_module(source, scope)
        return block in self if owner is block else _has_several(owner, type(block))


def _outermost_module(source: Source, scope: Scope) -> object:
    """The first module on the path to a module."""
    path: list[Source] = []
    step: Source | None = source
    while step is not None:
        path.append(step)
        step = step.base
    values = (source.fetch(scope) for source in reversed(path) if source.guardable)
    return next((value for value in values if is_a(value, nn.Module)), None)


def _has_several(owner: object, cls: type[Any]) -> bool:
    """Whether a module contains more than one module of a class, itself included."""
    instances = (module for module in _modules_below(owner, set()) if type(module) is cls)
    return next(instances, None) is not None and next(instances, None) is not None


def _modules_below(module: object, met: set[int]) -> Iterator[object]:
    if not is_a(module, nn.Module) or id(module) in met:
        return
    met.add(id(module))
    yield module
    children = instance_dict(module).get(_MODULES)  # none if its class never called `Module.__init__`
    for child in dict.values(children) if is_a(children, dict) else ():  # type: ignore[arg-type]
        yield from _modules_below(child, met)
