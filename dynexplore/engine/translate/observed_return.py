"""Objects whose end the program observes, and that a callee releases when it returns to the frame in which it was resumed.

The idea: after a nested break, one resume function runs the rest of all frames, and has the values of each as parameters. If it is
one graph, they live until it returns: a `__del__` of what a callee held would run after its caller's next lines. So before anything
is interpreted, references are counted: a value ends with a callee if the callee's parameters account for all references to it, and
so does what only such values refer to. If the callee then returns, and neither its result nor another frame refers to the value,
the callee runs as a separate frame (`CallOfCallee`), which releases it where eager does.

In: the values of a resume function; a callee that returns. Out: SkipFrame, or nothing. PyTorch's counterpart: none; there these
objects end when the resume function returns.
"""

from __future__ import annotations

import gc
import sys
import types
from collections import Counter
from collections.abc import Collection, Iterator, Mapping
from typing import Any

import torch

from dynexplore.engine.graph_breaks import SkipFrame
from dynexplore.engine.provenance.sources import LocalSource
from dynexplore.engine.raw_attributes import class_qualname, is_a
from dynexplore.engine.translate.handlers.observed_end import has_finalizer
from dynexplore.engine.translate.resume import ResumeCode
from dynexplore.engine.translate.symbolic_frame import NULL, SymbolicFrame
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.objects.weak_reference import is_weakly_referenced

_MOST_OBJECTS = 1000  # that are looked at behind the values of one callee
_LIVE_ON = (type, types.ModuleType, types.CodeType, types.FrameType)
_REFERENCES_HERE = 2  # a variable, and the argument of getrefcount
_REFERENCES_OF_PARAMETER = 3  # the frame's variable, the values of the request, and the arguments of the call that is captured

Observed = list[tuple[type[Any], frozenset[str]]]
"""The class of an object that ends observably, and the parameters that all have to be released for that."""


def observed_with_callees(resume: ResumeCode | None, values: Mapping[str, object]) -> list[Observed]:
    """What ends observably with each callee, outermost first; a callee's includes that of the callees in which it resumes."""
    observed: list[Observed] = []
    callee = resume.inner if resume is not None else None
    while callee is not None:
        observed.append(list(_observed_with(callee.parameters_in_caller, values)))
        callee = callee.inner
    return observed


def refuse_observed_return(observed: Observed, callee: SymbolicFrame, remaining: Collection[SymbolicFrame]) -> None:
    """Run a callee as a separate frame if its return releases such an object. `remaining`: the frames around it."""
    if not observed:
        return
    live_names = {name for value in _values_of(callee.returned, remaining) for name in _parameters_in(value)}
    for kind, parameters in observed:
        if not parameters & live_names:
            raise SkipFrame(f"the called function releases an object whose end the program observes ({class_qualname(kind)})")


def _observed_with(parameters: Collection[str], values: Mapping[str, object]) -> Iterator[tuple[type[Any], frozenset[str]]]:
    """Follow references from the values of these parameters to what ends with them."""
    names: dict[int, set[str]] = {}
    for name in parameters:
        if name in values:
            names.setdefault(id(values[name]), set()).add(name)
    references = Counter({number: _REFERENCES_OF_PARAMETER * len(of_value) for number, of_value in names.items()})
    waiting = {number: values[next(iter(of_value))] for number, of_value in names.items()}
    ended: set[int] = set()
    looked_at = 0
    while waiting and looked_at < _MOST_OBJECTS:
        number = next(iter(waiting))
        value = waiting.pop(number)
        looked_at += 1
        if is_a(value, *_LIVE_ON) or sys.getrefcount(value) - _REFERENCES_HERE > references[number]:
            continue
        ended.add(number)
        if has_finalizer(type(value)) or is_weakly_referenced(value):
            yield type(value), frozenset(names[number])
        for referent in [] if is_a(value, torch.Tensor) else gc.get_referents(value):
            if id(referent) not in ended:
                references[id(referent)] += 1
                names.setdefault(id(referent), set()).update(names[number])
                waiting[id(referent)] = referent
        referent = None  # the loop's variable would be another reference


def _values_of(returned: VariableTracker | None, frames: Collection[SymbolicFrame]) -> Iterator[VariableTracker]:
    if returned is not None:
        yield returned
    for frame in frames:
        for value in (*frame.stack, *frame.locals.values(), *(cell.content for cell in frame.cells.values())):
            if value is not None and value is not NULL:
                yield value


def _parameters_in(value: VariableTracker) -> Iterator[str]:
    """The parameter that a value was read from, and those of the items of a new container."""
    if value.source is not None:
        root = value.source.root()
        if isinstance(root, LocalSource):
            yield root.local
        return
    contents = value.contents()
    for item in contents.items if contents is not None else []:
        for part in item if isinstance(item, tuple) else (item,):
            if isinstance(part, VariableTracker) and part.source is not None:
                yield from _parameters_in(part)
