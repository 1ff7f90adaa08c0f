"""Template strings (Python 3.14): `t"{x} of {n}"` keeps its values instead of formatting them.

The idea: a template consists of strings and interpolations; an interpolation is a value with the source text of its expression. All
of them are immutable, so a template that contains tensors is captured like a tuple of them.

In: the parts, from BUILD_INTERPOLATION and BUILD_TEMPLATE. Out: a real `Template`, built as the program builds it. PyTorch's
counterpart: none; Dynamo does not trace template strings.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from dynexplore.engine.variables.containers.sequence import ListVariable, TupleVariable
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.objects.builtin_value import BuiltinValueVariable

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction


def _class(name: str) -> type[Any]:
    """A class of string.templatelib; if the module does not exist, no template can occur."""
    try:
        return getattr(importlib.import_module("string.templatelib"), name)  # type: ignore[no-any-return]
    except ModuleNotFoundError:
        return object


class InterpolationVariable(BuiltinValueVariable):
    """A value in a template string, with the source text of its expression, its conversion and its format."""

    kind = "interpolation"
    value_type = _class("Interpolation")
    mutable = True  # immutable, but two references to one must stay the same object

    def __init__(
        self, value: VariableTracker, expression: VariableTracker, conversion: VariableTracker, format_spec: VariableTracker
    ) -> None:
        self.parts = {"value": value, "expression": expression, "conversion": conversion, "format_spec": format_spec}

    def get_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        return self.parts[name].read(ctx) if name in self.parts else super().get_attribute(ctx, name)

    def reconstruct(self, build: Reconstruction) -> None:
        build.call_object(self.value_type, *self.parts.values())

    def text(self) -> str:
        return f"Interpolation({self.parts['expression'].text()})"


class TemplateVariable(BuiltinValueVariable):
    """A template string: it has one more string than interpolations."""

    kind = "template"
    value_type = _class("Template")
    mutable = True

    def __init__(self, strings: VariableTracker, interpolations: VariableTracker) -> None:
        self.strings = strings
        self.interpolations = interpolations

    def get_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        if name == "strings":
            return self.strings
        if name == "interpolations":
            return self.interpolations
        if name == "values":
            return TupleVariable([part.get_attribute(ctx, "value") for part in self.interpolations.unpack(ctx)])
        return super().get_attribute(ctx, name)

    def _in_turn(self, ctx: TraceContext) -> list[VariableTracker]:
        strings, interpolations = self.strings.unpack(ctx), self.interpolations.unpack(ctx)
        pairs = [part for pair in zip(strings, interpolations, strict=False) for part in pair]
        return [*pairs, strings[-1]]

    def unpack(self, ctx: TraceContext) -> list[VariableTracker]:
        return [part for part in self._in_turn(ctx) if not part.is_constant() or part.as_constant()]

    def iterate(self, ctx: TraceContext) -> VariableTracker:
        return ListVariable(self.unpack(ctx)).iterate(ctx)

    def reconstruct(self, build: Reconstruction) -> None:
        build.push(self.strings)
        build.push(self.interpolations)
        build.writer.emit("BUILD_TEMPLATE")

    def text(self) -> str:
        return "a template string"
