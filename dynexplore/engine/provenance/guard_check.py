"""The check of a cache entry, and the explanation of a miss.

The idea: the frame hook calls one generated function per entry (guard_codegen.py), which only says yes or no. If a call misses, the
same guards are evaluated one by one with `Source.fetch`, and the first one that fails is reported with the expected and the actual
value.

In: a compiled check and its guards. Out: `GuardCheck`: the frame hook calls `check` with the argument slots, the closure and the
globals; `first_failure` and `failures` explain. PyTorch's counterpart: `GuardManagerWrapper` and `get_guard_fail_reason` in
torch/_dynamo/guards.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import field
from typing import Any

import torch

from dynexplore.engine.provenance.guards import GUARD_KINDS, OF_SEVERAL_SOURCES, Guard, names_of
from dynexplore.engine.provenance.module_guards import SubclassAnswers
from dynexplore.engine.provenance.sources import Scope, Source
from dynexplore.engine.provenance.torch_guards import (
    GlobalState,
    ShapeRelation,
    TensorMatch,
    default_devices,
    describe_tensor,
    function_modes,
)
from dynexplore.engine.raw_attributes import is_a, keys_of
from dynexplore.engine.records import record


def _modes_in_words(count: int, devices: tuple[torch.device, ...]) -> str:
    if not count:
        return "no TorchFunctionMode"
    if len(devices) == count:
        return f"default device {devices[-1]}"
    return f"{count} active"


@record()
class Failure:
    """A guard that failed, and the value that was found instead."""

    guard: Guard
    expected: str
    actual: str

    def text(self) -> str:
        """One line: `a TENSOR_MATCH: expected float32[10] cpu, found float32[11] cpu`."""
        return f"{self.guard.source.text()} {self.guard.kind}: expected {self.expected}, found {self.actual}"


@record(frozen=False)
class GuardCheck:
    """The compiled form of a guard set; see the head of this file."""

    check: Callable[..., bool]
    code: str
    guards: list[Guard]
    tensors: list[TensorMatch]
    global_state: Any
    shape_code: list[str]
    namespace: dict[str, Any] = field(repr=False, default_factory=dict)
    slot_names: tuple[str, ...] = ()
    subclass_answers: SubclassAnswers | None = None
    sources: Mapping[str, Source] = field(repr=False, default_factory=dict)
    """Variable of the check -> the source whose value it holds."""
    _class_guards: dict[int, Guard] = field(repr=False, default_factory=dict)

    def holds(self, scope: Scope) -> bool:
        """Whether the check passes for this call."""
        arguments = [scope.arguments.get(name) for name in self.slot_names]
        try:
            return bool(self.check(*arguments, scope.closure, scope.globals))
        except Exception:  # the same rule as in the frame hook: an exception while fetching is a cache miss
            return False

    def first_failure(self, scope: Scope) -> Failure | None:
        """The first guard that fails for this call, or None if all pass."""
        of_process = next((guard for guard in self.guards if guard.kind == "GLOBAL_STATE"), None)
        failure = self._failure_of_process(of_process) if of_process is not None else None
        if failure is not None:
            return failure
        failures = (self._failure_or_error(guard, scope) for guard in self.guards)
        return next((failure for failure in failures if failure is not None), None) or self._aliased(scope)

    def failures(self, scope: Scope) -> Iterator[Failure]:
        """Every guard that fails for this call, each evaluated separately, except those below a value of an unexpected class."""
        of_process = next((guard for guard in self.guards if guard.kind == "GLOBAL_STATE"), None)
        failure = self._failure_of_process(of_process) if of_process is not None else None
        if failure is not None:
            yield failure
        of_another_class: set[int] = set()
        for guard in self.guards:
            if not of_another_class.isdisjoint(map(id, guard.source.path())):
                continue
            failure = self._failure_or_error(guard, scope)
            if failure is not None:
                if guard.kind == "TYPE_MATCH":
                    of_another_class.add(id(guard.source))
                yield failure

    def _failure_of_process(self, guard: Guard) -> Failure | None:
        state: GlobalState = guard.expected
        if self.global_state is not None and not self.global_state.check():
            return Failure(guard, "the state at capture", str(self.global_state.reason()))
        if state.function_modes != function_modes() or state.devices != default_devices():
            return Failure(guard, _modes_in_words(state.function_modes, state.devices),
                           _modes_in_words(function_modes(), default_devices()))
        cast_type = state.cast_type_now()
        if cast_type is not None:
            return Failure(guard, *cast_type)
        answer = self.subclass_answers.first_failure() if self.subclass_answers is not None else None
        if answer is not None:
            return Failure(guard, f"{answer[0]} is {answer[1]}", f"{answer[0]} is {answer[2]}")
        return None

    def failure_of(self, guard: Guard, scope: Scope) -> Failure | None:
        """Evaluate one guard by itself. If a value on its path has an unexpected class, the guard fails without being evaluated:
        fetching further could run code of that class.
        """
        for source in guard.source.path():
            of_class = self._class_guard(source)
            if of_class is None or of_class is guard:
                continue
            if self._failure_or_error(of_class, scope) is not None:
                return Failure(guard, GUARD_KINDS[guard.kind].describe(guard.expected), f"another class of {source.text()}")
        return self._failure_or_error(guard, scope)

    def _class_guard(self, source: Source) -> Guard | None:
        """The guard on the class of the value at a source."""
        if not self._class_guards:
            self._class_guards.update({id(guard.source): guard for guard in self.guards if guard.kind == "TYPE_MATCH"})
        return self._class_guards.get(id(source))

    def _failure_or_error(self, guard: Guard, scope: Scope) -> Failure | None:
        """Evaluate a guard; if that raises, the guard fails, and the exception is what was found.

        `12 % n == 0` raises for n = 0, and so does a path through an object that differs from the first call's.
        """
        try:
            return self._failure_of(guard, scope)
        except Exception as error:  # any exception is reported as the value found
            return _raised(guard, error)

    def _failure_of(self, guard: Guard, scope: Scope) -> Failure | None:
        kind = GUARD_KINDS[guard.kind]
        if guard.kind in ("GLOBAL_STATE", "MODULE_STATE"):
            return None
        if guard.kind == "SHAPE_ENV":
            return self._shape_failure(guard, scope)
        value = guard.source.fetch(scope)
        if guard.kind == "TENSOR_MATCH":
            return self._tensor_failure(guard, value)
        if guard.kind == "STORAGE_OVERLAP":
            return _overlap_failure(guard, scope)
        expected = guard.expected
        if guard.kind == "ALIAS":
            expected = expected.fetch(scope)
        elif guard.kind in OF_SEVERAL_SOURCES:
            expected = [source.fetch(scope) for source in expected]
        if kind.holds(value, expected):
            return None
        if guard.kind in OF_SEVERAL_SOURCES:
            return Failure(guard, kind.describe(guard.expected), _ALIASED[guard.kind])
        actual = type(value) if guard.kind == "TYPE_MATCH" else value
        if guard.kind == "LIST_LENGTH":
            actual = len(value)
        elif guard.kind in ("DICT_KEYS", "SET_CONTENT"):
            actual = type(guard.expected)(keys_of(value))
            return Failure(guard, kind.describe(guard.expected), kind.describe(actual))
        if is_a(actual, torch.Tensor):  # tensor values do not help a reader, and reading them synchronizes with the GPU
            return Failure(guard, kind.describe(guard.expected), _describe_value(actual))
        return Failure(guard, kind.describe(guard.expected), GUARD_KINDS["EQUALS"].describe(actual)
                       if guard.kind not in ("TYPE_MATCH", "ID_MATCH") else _short_object(actual))

    def _tensor_failure(self, guard: Guard, value: Any) -> Failure | None:
        match: TensorMatch = guard.expected
        mismatch = match.mismatch(value)
        return None if mismatch is None else Failure(guard, str(match), f"{_describe_value(value)} ({mismatch})")

    def _shape_failure(self, guard: Guard, scope: Scope) -> Failure | None:
        relation: ShapeRelation = guard.expected
        return None if relation.holds(scope) else Failure(guard, str(relation), relation.actual(scope))

    def _aliased(self, scope: Scope) -> Failure | None:
        """Torch's guards also require that no two tensors are the same object; no separate guard states that."""
        seen: dict[int, Guard] = {}
        for guard in self.guards:
            if guard.kind != "TENSOR_MATCH":
                continue
            first = seen.setdefault(id(guard.source.fetch(scope)), guard)
            if first is not guard:
                name = first.source.text()
                return Failure(guard, f"another tensor than {name}", f"the same object as {name}")
        return None


_ALIASED = {"DISTINCT": "the same object", "NO_ATTRIBUTE_ALIAS": "the same attributes", "NO_DICT_ALIAS": "the same dictionary"}


def _overlap_failure(guard: Guard, scope: Scope) -> Failure | None:
    overlap: Any = guard.expected  # aliasing/overlap_guard.py: StorageOverlap
    tensors = [source.fetch(scope) for source in overlap.sources]
    return None if overlap.holds(*tensors) else Failure(guard, str(overlap), overlap.actual(*tensors))


def _raised(guard: Guard, error: Exception) -> Failure:
    return Failure(guard, GUARD_KINDS[guard.kind].describe(guard.expected), f"{type(error).__name__}: {error}")


def _short_object(value: Any) -> str:
    name, _ = names_of(value)
    return str(name) if name else GUARD_KINDS["EQUALS"].describe(value)


def _describe_value(value: Any) -> str:
    if not is_a(value, torch.Tensor):
        name = type(value).__qualname__
        return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"
    with torch._C.DisableTorchFunctionSubclass():
        return describe_tensor(value, tuple(value.shape))
