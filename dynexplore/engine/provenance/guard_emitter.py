"""Emitter of guard code: the straight-line body of a check function, in which each source is evaluated once.

In: sources and conditions, in the order of the guards. Out: lines of Python, and the namespace with their constants. PyTorch's
counterpart: `PyExprCSEPass` in torch/_dynamo/guards.py.
"""

from __future__ import annotations

from typing import Any

import torch

from dynexplore.engine.provenance.sources import DynamicItemSource, ItemSource, Namer, ObjectSource, Source


class _GuardNamer(Namer):
    """Names the constants of the guard function, which become its globals."""

    def __init__(self) -> None:
        self.namespace: dict[str, Any] = {"__builtins__": {"type": type, "len": len, "id": id, "int": int, "str": str,
                                                           "bytes": bytes, "float": float}}
        self._names: dict[int, str] = {}
        self._keep: list[object] = []

    def name(self, value: object) -> str:
        name = self._names.get(id(value))
        if name is None:
            name = self._names[id(value)] = f"c{len(self._names)}"
            self.namespace[name] = value
            self._keep.append(value)  # an id is unique only while its object is alive
        return name


class Emitter:
    """Writes the straight-line body of the check function; each source is evaluated once."""

    def __init__(self) -> None:
        self.namer = _GuardNamer()
        self.lines: list[str] = []
        self._variables: dict[int, str] = {}
        self.sources: dict[str, Source] = {}
        self.classes: dict[int, type[Any]] = {}  # the class of the value at a source, once a condition requires it

    def variable(self, source: Source) -> str:
        """The local variable that holds the value at `source`; emits the code that computes it."""
        variable = self._variables.get(id(source))
        if variable is not None:
            return variable
        path: list[Source] = []
        step: Source | None = source
        while step is not None and id(step) not in self._variables:
            path.append(step)
            step = step.base
        base = self._variables[id(step)] if step is not None else ""
        for step in reversed(path):
            text = self._step(step, base)
            if not text.isidentifier():
                name = f"v{len(self._variables)}"
                self.lines.append(f"{name} = {text}")
                text = name
            base = self._variables[id(step)] = text
            self.sources[text] = step
        return base

    def _step(self, step: Source, base: str) -> str:
        if not isinstance(step, ItemSource | DynamicItemSource):
            return step.expression(base, self.namer)
        below = step.base
        base_class = type(below.value) if type(below) is ObjectSource else None
        return step.expression_of(base, self.namer, self.classes.get(id(below), base_class))

    def require(self, condition: str) -> None:
        """Emit: return False unless the condition is true."""
        if condition not in ("True", ""):
            self.lines.append(f"if not ({condition}): return False")

    def without_subclasses(self, first: int) -> None:
        """Evaluate the conditions from this line on without `__torch_function__`: reading a size must not call a subclass."""
        lines = self.lines[first:]
        if lines:
            switched_off = self.namer.name(torch._C.DisableTorchFunctionSubclass)
            self.lines[first:] = [f"with {switched_off}():", *(f"    {line}" for line in lines)]
