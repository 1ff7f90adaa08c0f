"""A drawn program that is called several times while the world around it changes: eager beside the engine.

The idea: `assert_same_as_eager` fixes what a function closes over; here each side has a namespace of its own, in which anything may
be exchanged between two calls: globals, cells, attributes, parameters. A `World` is one side: the function, a preparation for each
call that gives its arguments, and what to look at after it. After each call the gradients of what came out are computed, too.

To autograd a compiled graph is one operation, all of whose inputs get gradients: where eager leaves None, a leaf may have zeros.
That is AOTAutograd's way, under torch.compile as well, and nobody outside of it can tell the two apart. So where a backend
compiles, zeros are taken for None; how often that was needed is counted (`ZEROS`).

In:  a function that makes a world, twice.
Out: how many graphs were captured, or an AssertionError with the program and every difference.
"""

from __future__ import annotations

import collections
import contextlib
import copy
import io
import linecache
import warnings
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch

import dynexplore
from dynexplore.engine.config import config
from engine_checks import CountingBackend, copied
from sameness import differences, tensors_in, without_addresses


@dataclass
class World:
    """One side of a comparison; see the head of this file."""

    function: Callable[..., Any]
    calls: Sequence[Callable[[], tuple[Any, ...]]]
    """For each call: changes the world, and gives the arguments."""
    observe: Callable[[], Any] = lambda: None
    leaves: Callable[[], list[torch.Tensor]] = list
    """The tensors whose gradients are compared."""


@dataclass
class _Seen:
    values: list[Any] = field(default_factory=list)
    copies: list[Any] = field(default_factory=list)
    events: list[Any] = field(default_factory=list)


def function_of(text: str, namespace: dict[str, Any]) -> Any:
    """The function `program` of a text, in this namespace, as if it stood in a file."""
    name = f"<drawn program {zlib.crc32(text.encode()):08x}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    namespace["__name__"] = "drawn_program"  # without a name its classes would be taken for builtin ones
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)
        exec(compile(text, name, "exec"), namespace)
    return namespace["program"]


def graphs_of_same_worlds(make: Callable[[], World], backend: str, text: str, rounding: float | None = None) -> int:
    """Assert that both sides do the same; the number of graphs that were captured.

    `rounding`: how much is allowed where a backend compiles, if not what a tensor's dtype has.
    """
    dynexplore.reset()
    counting = CountingBackend(backend)
    exact = backend == "eager"
    with config.patch(cache_size_limit=1000):
        expected, actual = _run(make(), lambda own: own), _run(make(), dynexplore.optimize(counting))
    problems = [
        f"call {number}: {wanted!r} expected, {found!r} found"
        for number, (wanted, found) in enumerate(zip(expected.events, actual.events, strict=True), 1)
        if wanted != found
    ]
    found = _all_differences(expected, actual, exact, rounding)
    if found and not exact:
        ZEROS["met"] += 1
        for side in (expected, actual):
            _zeros_are_none(side)
        found = _all_differences(expected, actual, exact, rounding)
        ZEROS["taken for None"] += not found and not problems
    problems += found
    if problems:
        lines = "\n  - ".join(problems[:12])
        raise AssertionError(f"backend {backend}\n{text}\n  - {lines}\n  breaks: {list(dynexplore.graph_breaks())}")
    return dynexplore.counters["stats"]["graphs"]  # those that run as they stand were not given to the backend


ZEROS: collections.Counter[str] = collections.Counter()


def _all_differences(expected: _Seen, actual: _Seen, exact: bool, rounding: float | None) -> list[str]:
    found = differences({"copies": expected.copies}, {"copies": actual.copies}, exact=exact, rounding=rounding)
    return found or differences({"values": expected.values}, {"values": actual.values}, exact=exact, rounding=rounding)


def _zeros_are_none(seen: _Seen) -> None:
    for tensor in tensors_in(seen.values):
        if tensor.is_leaf and tensor.grad is not None and not tensor.grad.count_nonzero():
            tensor.grad = None
    seen.copies = [_without_zeros(one) for one in seen.copies]
    seen.values = [(_without_zeros(value), arguments) for value, arguments in seen.values]


def _without_zeros(value: Any) -> Any:
    """None in place of a gradient of zeros, also where the program has read it and gives it back."""
    if isinstance(value, _TensorNow):
        if not value.requires_grad and not value.value.count_nonzero():
            return None
        zeros = value.gradient is not None and not value.gradient.count_nonzero()
        return _TensorNow(value.value, value.requires_grad, value.is_leaf, None) if zeros else value
    if isinstance(value, torch.Tensor):
        return value if value.requires_grad or value.count_nonzero() else None
    if isinstance(value, tuple):
        return tuple(_without_zeros(item) for item in value)
    if isinstance(value, list):
        return [_without_zeros(item) for item in value]
    return {key: _without_zeros(item) for key, item in value.items()} if isinstance(value, dict) else value


@dataclass
class _TensorNow:
    """What a tensor was after a call."""

    value: torch.Tensor
    requires_grad: bool
    is_leaf: bool
    gradient: torch.Tensor | None


_NOTES_TO_TORCH_COMPILE = ("_dynamo_propagated_dynamic_indices", "_dynamo_weak_dynamic_indices")  # AOTAutograd's, on its outputs


def _run(world: World, wrap: Callable[[Callable[..., Any]], Callable[..., Any]]) -> _Seen:
    seen, function = _Seen(), wrap(world.function)
    torch.manual_seed(0)
    for prepare in world.calls:
        arguments = prepare()
        value, event = _call(function, arguments)
        for tensor in tensors_in([value, arguments]):
            for note in _NOTES_TO_TORCH_COMPILE:
                tensor.__dict__.pop(note, None)
        event["backward"] = _backward(value, world.leaves())
        seen.values.append((value, arguments))
        seen.copies.append(copied([_plain(value), _plain(arguments), _plain(world.observe())]))
        seen.events.append(event)
    return seen


def _call(function: Callable[..., Any], arguments: tuple[Any, ...]) -> tuple[Any, dict[str, Any]]:
    printed, value, event = io.StringIO(), None, {}
    with warnings.catch_warnings(), contextlib.redirect_stdout(printed):
        warnings.simplefilter("ignore")
        try:
            value = function(*arguments)
        except Exception as error:
            event["raised"] = type(error).__name__, without_addresses(str(error))
    event["printed"] = without_addresses(printed.getvalue())
    return value, event


def _backward(value: Any, leaves: Sequence[torch.Tensor]) -> Any:
    """The gradients of all that came out, or that there are none."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of `.grad` of what is no leaf, and what operators say in their backward
        outputs = [t for t in tensors_in(value) if t.requires_grad and t.grad_fn is not None]
        if not outputs:
            return "none"
        total = sum((t.abs() if t.is_complex() else t).sum().to(torch.float64) for t in outputs)
        try:
            total.backward()  # type: ignore[union-attr]
        except RuntimeError:
            return "RuntimeError"
    return "done"


def _plain(value: Any) -> Any:
    """What a value is now: tensors by value, so that later calls do not change it, with what autograd knows of them."""
    if isinstance(value, torch.Tensor):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            grad = None if value.grad is None else value.grad.detach().clone()
        return _TensorNow(value.detach().clone(), value.requires_grad, value.is_leaf, grad)
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        return {key: _plain(item) for key, item in value.items()}
    return copy.copy(value) if type(value).__module__ == "numpy" else value
