"""Calls on behalf of trackers: inlining, resuming generators, and dispatch to the innermost TorchFunctionMode.

The idea: trackers are in a lower layer than inlining.py, operations.py and variables/modes/torch_function_modes.py, which do the
work, so they reach them through this object.

In: trackers of functions and arguments. Out: trackers of the results. PyTorch's counterpart:
`InliningInstructionTranslator.inline_call` (torch/_dynamo/symbolic_convert.py) and `dispatch_torch_function`
(torch/_dynamo/variables/torch_function.py).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dynexplore.engine.graph.torch_function_probe import TorchFunctionDispatched
from dynexplore.engine.translate import class_statement, inlining, operations
from dynexplore.engine.variables.callables.function import FunctionVariable
from dynexplore.engine.variables.callables.generator import GeneratorVariable
from dynexplore.engine.variables.contract.base import Args, Kwargs, VariableTracker
from dynexplore.engine.variables.modes.torch_function_modes import dispatch_torch_function
from dynexplore.engine.variables.objects.namespace import NamespaceVariable

if TYPE_CHECKING:
    from dynexplore.engine.translate.contract.interpreter import Interpreter


class CallDispatcher:
    """The calls of one attempt; implements the protocol `Calls` of the trackers' context."""

    def __init__(self, ctx: Interpreter) -> None:
        self._ctx = ctx
        self.generators: list[GeneratorVariable] = []
        self.module_path: list[tuple[str, str]] = []  # the nn.Modules whose forward is being interpreted
        root = NamespaceVariable(ctx.request.globals, of_frame=True)
        self.namespaces: dict[int, NamespaceVariable] = {id(ctx.request.globals): root}

    def inline(self, function: VariableTracker, args: Args, kwargs: Kwargs) -> VariableTracker:
        """Interpret a Python function's body as a nested symbolic frame."""
        return inlining.inline(self._ctx, function, args, kwargs)

    def make_enumeration(self, base: Any, args: Args, kwargs: Kwargs) -> VariableTracker:
        """`Enum("Color", "RED GREEN")`: the class that the equivalent class statement would create."""
        return class_statement.make_enumeration(self._ctx, base, args, kwargs)

    def make_class(self, name: str, bases: list[VariableTracker], namespace: VariableTracker) -> VariableTracker:
        """`type(name, bases, namespace)`: the class that the equivalent class statement would create."""
        return class_statement.make_class(self._ctx, name, bases, namespace)

    def resume_generator(
        self, generator: VariableTracker, sent: VariableTracker, thrown: VariableTracker | None = None
    ) -> VariableTracker | None:
        """Run an inlined generator to its next `yield`."""
        return inlining.resume_generator(self._ctx, generator, sent, thrown)

    def dispatch_torch_function(self, op: str, target: Any, args: Args, kwargs: Kwargs) -> VariableTracker | None:
        """The result that the innermost TorchFunctionMode returns for a call; None if torch does not dispatch to it."""
        return dispatch_torch_function(self._ctx, op, target, args, kwargs)

    def torch_function_call(self, op: str, target: Any, args: Args, kwargs: Kwargs) -> TorchFunctionDispatched | None:
        """The arguments that torch passes to `__torch_function__` for this call."""
        return operations.torch_function_call(self._ctx, op, target, args, kwargs)

    def namespace_of(self, function: Any) -> NamespaceVariable:
        """The tracker of a function's globals."""
        values = function.global_namespace()
        namespace = self.namespaces.get(id(values))
        if namespace is None:
            owner = function.own_source(self._ctx) if isinstance(function, FunctionVariable) else function.source
            namespace = self.namespaces[id(values)] = NamespaceVariable(values, of_frame=False, owner=owner)
        return namespace
