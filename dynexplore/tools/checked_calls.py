"""`watch(check=True)`: each call of a function compiled by torch.compile beside eager mode, and the first operator that differs.

The idea: a wrong value shows up far from the call that computed it. So each outermost compiled call also runs in eager mode: first
on copies of its arguments, with everything else that it can reach restored afterwards (engine/runtime/call_snapshot.py), then the
real call runs as if nothing had happened. Values, changed arguments, parameters and buffers are compared. If they differ, the call
is repeated on copies with its backend wrapped, which finds the graph and the operator (wrong_operator.py). The first calls of each
function are checked, then each whose number is a power of two.

Checked are functions passed to torch.compile during the watch, and modules. A call that draws random numbers is compared by types
and shapes only, because Inductor has its own generator; one that can reach an optimizer is not checked, because restoring an
optimizer replaces its state; nor is one that can reach an iterator, which cannot be set back. All are counted. Side effects outside
of what a snapshot restores, such as files, happen twice.

In: calls. Out: `CheckedCalls`: the number of calls checked, `wrong`, and `report()`, lines.

PyTorch's counterpart: `repro_level=4` in torch/_dynamo/config.py, the accuracy minifier, which compares single graphs.
"""

from __future__ import annotations

import contextlib
import functools
import io
import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
from torch.utils._pytree import tree_leaves, tree_map

from dynexplore.engine import events as ev
from dynexplore.engine.runtime import numpy_state
from dynexplore.engine.runtime.call_snapshot import CallSnapshot
from dynexplore.engine.runtime.optimized import name_of
from dynexplore.session import torch_compiled
from dynexplore.tools.accuracy import Difference, common_parts, first_difference, named_parts
from dynexplore.tools.wrong_operator import WrongOperator, wrong_operator
from dynexplore.views.counts import plural

MOST_CALLS = 8
"""The number of calls of each function that are checked, before only those whose number is a power of two are."""

_ANY_VALUES = float("inf")


@dataclass(frozen=True, slots=True)
class WrongCall:
    """A call whose result differs from eager mode: its number among the calls of the function, and the operator, if found."""

    function: str
    number: int
    difference: Difference
    operator: WrongOperator | None

    def __str__(self) -> str:
        sentence = f"Call {self.number} of {self.function} differs from eager mode: {self.difference}."
        if self.operator is None:
            return f"{sentence} No single operator of its graphs differs on copies of the inputs; see diagnose."
        return f"{sentence} {self.operator}"


@dataclass
class _Eager:
    """The result of the eager run, on copies: the value or the exception, the arguments afterwards, what it changed elsewhere."""

    value: Any
    raised: str
    arguments: Any
    state: dict[str, torch.Tensor]
    counts: dict[str, int]
    is_random: bool


class CheckedCalls:
    """The checks of one watch, from `begin` to `end`; in an `unwatched()` block, torch is not recorded. `torch_module`
    is torch, `module_class` its class of compiled modules.
    """

    def __init__(
        self, unwatched: Callable[[], contextlib.AbstractContextManager[None]], torch_module: Any, module_class: Any
    ) -> None:
        self.checked = 0
        self.random = 0
        self.with_optimizer = 0
        self.with_iterator = 0
        self.wrong: list[WrongCall] = []
        self._numbers: Counter[str] = Counter()
        self._is_on = False
        self._is_inside = False
        self._unwatched, self._torch, self._module_class = unwatched, torch_module, module_class
        self._compile: Any = None
        self._call_module: Any = None

    def begin(self) -> None:
        """Replace torch.compile, and the call of compiled modules."""
        self._compile, self._call_module = self._torch.compile, self._module_class.__call__
        self._is_on = True
        self._torch.compile = self._compiling(self._compile)
        self._module_class.__call__ = self._of_module(self._call_module)

    def end(self) -> None:
        """Restore both; functions compiled during the watch run unchecked from now on."""
        self._is_on = False
        self._torch.compile, self._module_class.__call__ = self._compile, self._call_module

    def report(self) -> list[str]:
        """What was checked, in sentences."""
        lines = [ev.wrapped(str(wrong), 2) for wrong in self.wrong]
        same = self.checked - len(self.wrong)
        lines.append(f"Checked: {plural(self.checked, 'compiled call')}, {same} as in eager mode.")
        if self.random:
            lines.append(f"{plural(self.random, 'call')} drew random numbers: compared by types and shapes only.")
        if self.with_optimizer:
            calls = plural(self.with_optimizer, "call")
            lines.append(f"Not checked: {calls} whose arguments, closure or globals refer to an optimizer.")
        if self.with_iterator:
            calls = plural(self.with_iterator, "call")
            lines.append(f"Not checked: {calls} that can advance an iterator, which cannot be set back.")
        return lines

    # -- the replaced functions ----------------------------------------------------------------------------------------

    def _compiling(self, original: Any) -> Any:
        @functools.wraps(original)
        def compile(model: Any = None, *args: Any, **kwargs: Any) -> Any:
            if model is None:
                return lambda function: compile(function, *args, **kwargs)
            compiled = original(model, *args, **kwargs)
            return compiled if isinstance(compiled, torch.nn.Module) else self._around(compiled)

        return compile

    def _around(self, compiled: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(compiled)
        def call(*args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling() or not self._is_on or self._is_inside:
                return compiled(*args, **kwargs)
            return self._checked_call(compiled, compiled, args, kwargs)

        return call

    def _of_module(self, original: Any) -> Any:
        @functools.wraps(original)
        def call(module: Any, *args: Any, **kwargs: Any) -> Any:
            if torch.compiler.is_compiling() or not self._is_on or self._is_inside:
                return original(module, *args, **kwargs)
            return self._checked_call(module, functools.partial(original, module), args, kwargs)

        return call

    # -- a call --------------------------------------------------------------------------------------------------------

    def _checked_call(self, target: Any, call: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        original = torch_compiled.original_of(target)
        name = name_of(original)
        self._numbers[name] += 1
        number = self._numbers[name]
        if number > MOST_CALLS and number & (number - 1):
            return call(*args, **kwargs)
        start = CallSnapshot(original, args, kwargs)
        if start.has_optimizer:
            self.with_optimizer += 1
            return call(*args, **kwargs)
        if start.iterators:
            self.with_iterator += 1
            return call(*args, **kwargs)
        self.checked += 1
        self._is_inside = True
        try:
            eager = _run_eagerly(original, start)
            value, error = None, None
            try:
                value = call(*args, **kwargs)
            except Exception as raised:  # compared, and raised again
                error = raised
            difference = _difference(eager, value, error, (args, kwargs), start)
            self.random += eager.is_random
            if difference is not None:
                snapshot = functools.partial(CallSnapshot, original, args, kwargs)
                self._report(name, number, difference, target, start, snapshot, error is not None)
        finally:
            self._is_inside = False
        if error is not None:
            raise error
        return value

    def _report(
        self,
        name: str,
        number: int,
        difference: Difference,
        target: Any,
        start: CallSnapshot,
        snapshot: Callable[[], CallSnapshot],
        raised: bool,
    ) -> None:
        """Find the operator in further runs from the same start, and restore what the real call has changed, by a `snapshot`."""
        if any(wrong.function == name for wrong in self.wrong):
            self.wrong.append(WrongCall(name, number, difference, None))
            return
        operator = None
        if not raised:
            with self._unwatched(), _undisturbed(snapshot()):
                operator = wrong_operator(target, start)
        self.wrong.append(WrongCall(name, number, difference, operator))


def _run_eagerly(original: Any, start: CallSnapshot) -> _Eager:
    """Run the function on copies, without torch.compile, and restore what it changed."""
    with _undisturbed(start):
        args, kwargs = start.fresh()
        before = _random_state()
        value, raised = None, ""
        try:
            with torch.compiler.set_stance("force_eager"), contextlib.redirect_stdout(io.StringIO()):
                value = original(*args, **kwargs)
        except Exception as error:  # compared with that of the compiled call
            raised = _words(error)
        state, counts = start.reached()["state"], start.counts()
        return _Eager(_detached(value), raised, _detached((args, kwargs)), state, counts, _random_state() != before)


@contextlib.contextmanager
def _undisturbed(start: CallSnapshot) -> Iterator[None]:
    """Restore everything that runs in the block have changed: values without a new version for autograd, the gradients themselves,
    random number generators, CUDA's included.
    """
    tensors = [tensor for tensor in start.tensors() if not tensor.is_inference()]
    gradients = [(tensor, tensor.grad) for tensor in tensors if tensor.is_leaf]
    of_cuda = _random_state_of_cuda()
    with torch.autograd._unsafe_preserve_version_counter(tuple(tensors)):  # type: ignore[attr-defined]
        for tensor, gradient in gradients:
            tensor.grad = gradient.clone() if gradient is not None else None
        try:
            yield
        finally:
            start.fresh()
            for tensor, gradient in gradients:
                tensor.grad = gradient
            if of_cuda:
                torch.cuda.set_rng_state_all(of_cuda)


def _random_state_of_cuda() -> list[torch.Tensor]:
    is_initialized: Callable[[], bool] = torch.cuda.is_initialized
    return torch.cuda.get_rng_state_all() if is_initialized() else []


def _random_state() -> tuple[Any, ...]:
    of_cuda = _random_state_of_cuda()
    return (*(state.numpy().tobytes() for state in (torch.get_rng_state(), *of_cuda)), random.getstate())


def _detached(value: Any) -> Any:
    """A result whose graph for the backward pass can be freed."""
    return tree_map(lambda leaf: leaf.detach() if isinstance(leaf, torch.Tensor) else leaf, value)


def _words(error: BaseException) -> str:
    return f"{type(error).__name__}: {ev.clip(str(error).splitlines()[0] if str(error) else '', 160)}"


def _difference(eager: _Eager, value: Any, error: Exception | None, arguments: Any, start: CallSnapshot) -> Difference | None:
    raised = _words(error) if error is not None else ""
    if bool(eager.raised) != bool(raised):
        outcomes = [f"raises {words}" if words else "returns" for words in (eager.raised, raised)]
        return Difference("", f"eager mode {outcomes[0]}, the compiled call {outcomes[1]}")
    if raised:
        return None
    allowed = _ANY_VALUES if eager.is_random else None
    state = start.reached()["state"]
    parts = [
        ("the value", eager.value, _detached(value)),
        ("the arguments afterwards", _tensors(eager.arguments), _tensors(_detached(arguments))),
        *([] if eager.is_random else named_parts("after the call", eager.state, state)),
        *named_parts("after the call", *common_parts(eager.counts, start.counts())),
    ]
    differences = (first_difference(expected, actual, allowed, title) for title, expected, actual in parts)
    return next(filter(None, differences), None)


def _tensors(value: Any) -> Any:
    """Arguments may be any objects: their tensors, arrays and plain values are compared."""
    plain = (torch.Tensor, bool, int, float, str)
    return [leaf for leaf in tree_leaves(value) if isinstance(leaf, plain) or numpy_state.is_array(leaf)]
