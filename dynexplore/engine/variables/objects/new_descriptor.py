"""`property`, `staticmethod` and `classmethod` objects created in the frame, usually by a class statement.

The idea: a tracker holds the descriptor's functions. Its decorators (`@value.setter`) create a new descriptor with one more.

In: a call of one of the three types. Out: the descriptor's tracker. PyTorch's counterpart: `PropertyVariable`,
`StaticMethodVariable` and `ClassMethodVariable` in torch/_dynamo/variables/functions.py.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, ClassVar

from dynexplore.engine.variables.contract.base import Args, Kwargs, VariableTracker
from dynexplore.engine.variables.rules import rule

if TYPE_CHECKING:
    from dynexplore.engine.variables.contract.context import TraceContext
    from dynexplore.engine.variables.contract.reconstruction import Reconstruction

_MOST_PARTS: dict[type[Any], int] = {property: 4, staticmethod: 1, classmethod: 1}
_DECORATORS = {"getter": 0, "setter": 1, "deleter": 2}


class NewDescriptorVariable(VariableTracker):
    """A descriptor created in the frame."""

    kind: ClassVar[str] = "descriptor"
    mutable = True

    def __init__(self, descriptor: type[Any], parts: Sequence[VariableTracker]) -> None:
        self.descriptor = descriptor
        self.parts = tuple(parts)

    def python_type(self) -> type[Any]:
        return self.descriptor

    def get_attribute(self, ctx: TraceContext, name: str) -> VariableTracker:
        if self.descriptor is property and name in _DECORATORS:
            return _DecoratorVariable(self, _DECORATORS[name])
        return super().get_attribute(ctx, name)

    def reconstruct(self, build: Reconstruction) -> None:
        build.call_object(self.descriptor, *self.parts)

    def text(self) -> str:
        return f"{self.descriptor.__name__} of {self.parts[0].text() if self.parts else 'nothing'}"


class _DecoratorVariable(VariableTracker):
    """`value.setter`: called with a function, it returns a property that has this function, too."""

    kind = "method"

    def __init__(self, owner: NewDescriptorVariable, index: int) -> None:
        self.owner, self.index = owner, index

    def call(self, ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
        if len(args) != 1 or kwargs or len(self.owner.parts) > 3:
            ctx.break_graph("DX218", callee="property")
        parts = [*self.owner.parts, *[ctx.build(None, None)] * (3 - len(self.owner.parts))]
        parts[self.index] = args[0]
        return NewDescriptorVariable(property, parts)

    def text(self) -> str:
        return f"a decorator of a {self.owner.text()}"


def _constructor_rule(descriptor: type[Any]) -> Callable[[TraceContext, Args, Kwargs], VariableTracker]:
    def make(ctx: TraceContext, args: Args, kwargs: Kwargs) -> VariableTracker:
        if not args or kwargs or len(args) > _MOST_PARTS[descriptor]:
            ctx.break_graph("DX209", type=descriptor.__name__)
        return NewDescriptorVariable(descriptor, args)

    return make


for _descriptor in _MOST_PARTS:
    rule(_descriptor)(_constructor_rule(_descriptor))
