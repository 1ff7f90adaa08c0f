"""What a cache entry's guards notice: each property of a tensor that was relied on, and what is said about it."""

from __future__ import annotations

from typing import Any

import pytest
import torch

import dynexplore
from dynexplore.engine import events as ev
from dynexplore.engine.provenance.guard_check import compile_check, describe_tensor
from dynexplore.engine.provenance.guards import GuardSet, Identity
from dynexplore.engine.provenance.sources import LocalSource, Scope
from dynexplore.engine.runtime.optimized import wrap
from dynexplore.engine.runtime.stores import Options
from dynexplore.recording.recording import Recording
from dynexplore.session.session import watched_store
from engine_checks import CountingBackend


class Subclass(torch.Tensor):
    """A subclass that changes nothing."""


def like(x: torch.Tensor) -> torch.Tensor:
    return x * 2


def captured(first: torch.Tensor, *others: torch.Tensor) -> tuple[CountingBackend, Any]:
    """Capture `like` for a tensor, then call it with others."""
    dynexplore.reset()
    backend = CountingBackend()
    optimized = dynexplore.optimize(backend, dynamic=False)(like)
    for x in (first, *others):
        result = optimized(x)
        expected = like(x)
        assert type(result) is type(expected) and result.dtype is expected.dtype and result.stride() == expected.stride()
    return backend, optimized


def plain() -> torch.Tensor:
    return torch.ones(2, 3)


# property of the tensor -> one that differs from `plain()` in nothing but this
PROPERTIES: dict[str, torch.Tensor] = {
    "class": torch.nn.Parameter(plain(), requires_grad=False),
    "dtype": plain().double(),
    "device": plain().to("meta"),
    "requires_grad": plain().requires_grad_(),
    "dispatch keys": torch._neg_view(plain()),
    "ndim": torch.ones(6),
    "sizes": torch.ones(2, 4),
    "strides": torch.ones(3, 2).t(),
}


@pytest.mark.parametrize("name", PROPERTIES)
def test_each_property_of_a_tensor_is_matched(name: str) -> None:
    """A tensor that differs in one property misses the entry and gets one of its own; the first still fits its own."""
    backend, optimized = captured(plain(), plain(), PROPERTIES[name])
    assert len(backend.graphs) == 2
    optimized(plain())
    optimized(PROPERTIES[name])
    assert (len(backend.graphs), backend.runs) == (2, 5)


@pytest.mark.parametrize("name", PROPERTIES)
def test_a_mismatch_is_explained(name: str) -> None:
    """The report of the miss names the argument, what was expected, and what was found."""
    dynexplore.reset()
    recording = Recording()
    with dynexplore.config.patch(dynamic_shapes=False):
        optimized = wrap(like, watched_store("eager", Options(), recording).region)
        optimized(plain())
        optimized(PROPERTIES[name])
    (failed,) = recording.of(ev.GuardFailed)
    assert (failed.kind, failed.source, failed.expected) == ("TENSOR_MATCH", "x", "float32[2, 3] cpu")
    assert failed.actual.startswith(describe_tensor(PROPERTIES[name], tuple(PROPERTIES[name].shape)))


def test_thread_local_dispatch_keys_are_matched() -> None:
    """Inference mode changes the dispatch keys of every tensor that is made in it, and of the thread."""
    with torch.inference_mode():
        made_there = plain()
    backend, _ = captured(plain(), made_there)
    assert len(backend.graphs) == 2
    dynexplore.reset()
    backend = CountingBackend()
    optimized = dynexplore.optimize(backend)(like)
    x = plain()
    optimized(x)
    with torch.inference_mode():
        assert optimized(x).is_inference()
    assert not optimized(x).is_inference()
    assert len(backend.graphs) == 2


def test_a_subclass_does_not_fit_a_plain_tensor() -> None:
    """A tensor of a subclass is not taken for a plain one: it breaks the graph, and the result has its class."""
    backend, _ = captured(plain(), plain().as_subclass(Subclass), plain())
    assert len(backend.graphs) == 1


def test_a_subclass_that_is_to_be_traced() -> None:
    """`config.traceable_tensor_subclasses` names subclasses that are captured as if they were plain, with a graph of their own."""
    with dynexplore.config.patch(traceable_tensor_subclasses=(Subclass,)):
        backend, _ = captured(plain(), plain().as_subclass(Subclass), plain(), plain().as_subclass(Subclass))
    assert len(backend.graphs) == 2 and backend.runs == 4


def test_sizes_and_strides_are_optional() -> None:
    """With a dynamic dimension neither its size nor the strides it makes are matched."""
    dynexplore.reset()
    backend = CountingBackend()
    optimized = dynexplore.optimize(backend, dynamic=True)(like)
    for rows in (2, 3, 5):
        optimized(torch.ones(rows, 4))
    assert len(backend.graphs) == 1


# -- kinds of guards --------------------------------------------------------------------------------------------------


class Box:
    """An object with attributes."""


BOX, OTHER = Box(), Box()

# kind -> what is expected, a value that fits, one that does not
KINDS: dict[str, tuple[Any, Any, Any]] = {
    "TYPE_MATCH": (int, 3, True),
    "ID_MATCH": (Identity(BOX, keep=False), BOX, OTHER),
    "FUNCTION_MATCH": (Identity(like, keep=True), like, captured),
    "NN_MODULE": (Identity(BOX, keep=False), BOX, OTHER),
    "CODE_MATCH": (like.__code__, like.__code__, captured.__code__),
    "EQUALS": (1.5, 1.5, 2.5),
    "NUMBER": (None, 2.5, True),
    "LIST_LENGTH": (2, [1, 2], [1]),
    "DICT_KEYS": ((1, "a"), {1: 0, "a": 0}, {True: 0, "a": 0}),
    "SET_CONTENT": (frozenset({1, 2}), {1, 2}, {1}),
    "NAME_ABSENT": ("name", {}, {"name": 1}),
    "KEY_ABSENT": ("key", {}, {"key": 1}),
    "SEQUENCE_ITERATOR_LEFT": (2, iter([1, 2]), iter([1])),
    "SEQUENCE_ITERATOR_MORE": (1, iter([1, 2]), iter([1])),
}


@pytest.mark.plain("makes checks of guards written by hand")
@pytest.mark.parametrize("kind", KINDS)
def test_check_and_explanation_agree(kind: str) -> None:
    """The fast check and the slow one, which explains, say the same of a value."""
    expected, right, wrong = KINDS[kind]
    guards = GuardSet()
    guards.add(LocalSource("v", 0), kind, expected, 0)
    check = compile_check(guards, ("v",))
    for value, fits in ((right, True), (wrong, False)):
        scope = Scope({"v": value}, None, {})
        assert check.check(value, None, {}) is fits
        assert (check.first_failure(scope) is None) is fits


@pytest.mark.plain("makes checks of guards written by hand")
def test_equal_zeros_and_nans() -> None:
    """-0.0 is not 0.0, and NaN is NaN: what was computed with one is not right for the other."""
    for expected, others in ((0.0, (-0.0, 0, False)), (float("nan"), (1.0,)), (1, (True, 1.0))):
        guards = GuardSet()
        guards.add(LocalSource("v", 0), "EQUALS", expected, 0)
        check = compile_check(guards, ("v",))
        assert check.check(expected, None, {}) is True
        assert not any(check.check(other, None, {}) for other in others)


@pytest.mark.plain("makes checks of guards written by hand")
def test_two_objects_that_become_one() -> None:
    """ALIAS and DISTINCT are about two sources."""
    first, second = LocalSource("a", 0), LocalSource("b", 1)
    for kind, expected, same in (("ALIAS", second, True), ("DISTINCT", [second], False)):
        guards = GuardSet()
        guards.add(first, kind, expected, 0)
        check = compile_check(guards, ("a", "b"))
        one, two = [], []  # type: ignore[var-annotated]
        assert check.check(one, one, None, {}) is same
        assert check.check(one, two, None, {}) is not same
        assert (check.first_failure(Scope({"a": one, "b": one}, None, {})) is None) is same
