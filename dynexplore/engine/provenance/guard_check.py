"""Compile a set of guards into one fast check function and a slower one that explains failures.

The idea: the generated check is straight-line Python. Each source is evaluated once into a local variable, so the check is linear
in the number of guards. Guards on one dictionary (the globals, an object's attributes) become one `DictGuard` (C), guards on one
list or tuple one `SequenceGuard` (C). All tensors go to one `TensorGuards` call (C++), and all module state to one `GuardWalk`
(C), which the frame hook runs before it even calls the check.

In: the `GuardSet` of a finished attempt, the tensors to match, the shape expressions. Out: a `GuardCheck`: the frame hook calls
`check` with the argument slots, the closure and the globals; `first_failure` evaluates the same guards with `Source.fetch` and
reports which one fails, with the expected and actual values. PyTorch's counterpart: `CheckFunctionManager` in
torch/_dynamo/guards.py.
"""

from __future__ import annotations

import builtins
import math
import re
import weakref
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field
from typing import Any

import torch
from torch._C._dynamo.guards import GlobalStateGuard, TensorGuards
from torch.utils._device import DeviceContext

from dynexplore.engine.native import DictGuard, SequenceGuard
from dynexplore.engine.phases import timed
from dynexplore.engine.provenance.guards import GUARD_KINDS, OF_SEVERAL_SOURCES, Guard, GuardSet, names_of
from dynexplore.engine.provenance.module_guards import SubclassAnswers
from dynexplore.engine.provenance.sources import (
    AttributeSource,
    BuiltinSource,
    DynamicItemSource,
    GlobalSource,
    GlobalsSource,
    ItemSource,
    Namer,
    ObjectSource,
    PinnedSource,
    Scope,
    Source,
)
from dynexplore.engine.raw_attributes import is_a, keys_of
from dynexplore.engine.records import record

_function_modes = torch._C._len_torch_function_stack
_function_mode_at: Any = torch._C._get_function_stack_at
_CASTING_DEVICES = ("cpu", "cuda")
ShapeExpressions = Callable[[Callable[[Source], str]], list[str]]


def default_devices() -> tuple[torch.device, ...]:
    """The current default devices, set with `torch.set_default_device` or a `with torch.device(...)` block, innermost last."""
    places = range(_function_modes())
    return tuple(mode.device for place in places if type(mode := _function_mode_at(place)) is DeviceContext)


class GlobalState:
    """The process-wide modes (grad mode, autocast, ...) at frame entry; the traced code may change them later.

    Torch's guard compares the autocast dtype only while autocast is enabled. But a program that enables autocast, or reads the
    dtype, also depends on it while autocast is disabled.
    """

    def __init__(self) -> None:
        self.modes = GlobalStateGuard()
        self.function_modes = _function_modes()
        self.devices = default_devices()
        self.cast_types: dict[str, torch.dtype] = {}
        self._all_cast_types = {device: torch.get_autocast_dtype(device) for device in _CASTING_DEVICES}

    def guard_on_cast_type(self, device: str) -> None:
        """Guard on the autocast dtype of this device type, which the program has read."""
        if device in self._all_cast_types:
            self.cast_types[device] = self._all_cast_types[device]

    def cast_type_now(self) -> tuple[str, str] | None:
        """The first guarded autocast dtype that has changed, as text: the expected and the actual one; None if none has."""
        for device, expected in self.cast_types.items():
            actual = torch.get_autocast_dtype(device)
            if actual is not expected:
                return f"autocast on {device} to {expected}", f"to {actual}"
        return None

    def __str__(self) -> str:
        return "modes"


class TensorMatch:
    """A tensor to match: its properties, with None for each dynamic size or stride.

    It stores the tensor's properties and not the tensor: a cache entry must not keep the first call's inputs alive.
    """

    __slots__ = ("_alone", "_class", "_example", "_words", "because", "sizes", "source", "strides")

    def __init__(
        self,
        source: Source,
        example: torch.Tensor,
        sizes: tuple[int | None, ...],
        strides: tuple[int | None, ...],
        because: int,
    ) -> None:
        self.source, self.sizes, self.strides, self.because = source, sizes, strides, because
        self._example: weakref.ref[torch.Tensor] | None = weakref.ref(example)
        self._words = describe_tensor(example, sizes)
        self._class = type(example)
        self._alone: Any = None

    @property
    def example(self) -> torch.Tensor:
        """The tensor itself, available while the frame is translated."""
        assert self._example is not None, "the frame of a guard was translated"
        tensor = self._example()
        assert tensor is not None, "the tensor of a guard is gone"
        return tensor

    def remember(self) -> None:
        """Create the guard that explains a mismatch, while the tensor is alive."""
        self._alone = _tensor_guards([self])

    def release(self) -> None:
        """Drop the tensor after translation: `torch.utils.swap_tensors` refuses tensors that are still referenced."""
        self._example = None

    def mismatch(self, value: Any) -> str | None:
        """Explain why a value does not match; None if it does. torch's explanation lacks the class that was expected."""
        if type(value) is not self._class:
            return f"class mismatch. expected {self._class.__name__}, actual {type(value).__name__}"
        result = self._alone.check_verbose(value, tensor_check_names=[self.source.text()])
        return None if result is True else str(result)

    def __str__(self) -> str:
        return self._words


class ShapeRelation:
    """A relation between symbolic sizes, as printed by ShapeEnv: `2*L0.size()[0] == L1.size()[0]`.

    `names` maps the variables of that text to their sources.
    """

    __slots__ = ("_atoms", "_code", "_names", "_namespace", "source", "text")

    def __init__(self, expression: str, names: Mapping[str, Source], namespace: dict[str, Any]) -> None:
        used = [name for name in dict.fromkeys(re.findall(r"\b[A-Za-z_]\w*", expression)) if name in names]
        self._names = {name: names[name] for name in used}
        self._namespace = namespace
        self._code = compile(expression, "<dynexplore guards>", "eval")
        self._atoms = list(dict.fromkeys(re.findall(rf"\b(?:{'|'.join(used) or 'x^'})\b(?:\.\w+\(\)(?:\[\d+\])?)?", expression)))
        self.source = next(iter(self._names.values()), None)
        self.text = self._readable(expression)

    def _readable(self, expression: str) -> str:
        return re.sub(r"\b[A-Za-z_]\w*", lambda m: self._names[m[0]].text() if m[0] in self._names else m[0], expression)

    def _values(self, scope: Scope) -> dict[str, Any]:
        return {name: source.fetch(scope) for name, source in self._names.items()}

    def holds(self, scope: Scope) -> bool:
        """Whether the relation is true for this call."""
        with torch._C.DisableTorchFunctionSubclass():
            return bool(eval(self._code, self._namespace, self._values(scope)))

    def actual(self, scope: Scope) -> str:
        """The actual sizes in this call: `x.size()[0] is 3`."""
        values = self._values(scope)
        with torch._C.DisableTorchFunctionSubclass():
            return ", ".join(f"{self._readable(atom)} is {eval(atom, self._namespace, values)}" for atom in self._atoms)

    def __str__(self) -> str:
        return self.text


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
        if state.function_modes != _function_modes() or state.devices != default_devices():
            return Failure(guard, _modes_in_words(state.function_modes, state.devices),
                           _modes_in_words(_function_modes(), default_devices()))
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
        for place in guard.source.path():
            of_class = self._class_guard(place)
            if of_class is None or of_class is guard:
                continue
            if self._failure_or_error(of_class, scope) is not None:
                return Failure(guard, GUARD_KINDS[guard.kind].describe(guard.expected), f"another class of {place.text()}")
        return self._failure_or_error(guard, scope)

    def _class_guard(self, place: Source) -> Guard | None:
        """The guard on the class of the value at a source."""
        if not self._class_guards:
            self._class_guards.update({id(guard.source): guard for guard in self.guards if guard.kind == "TYPE_MATCH"})
        return self._class_guards.get(id(place))

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


def describe_tensor(value: torch.Tensor, sizes: Sequence[int | None]) -> str:
    """A tensor as shown to users: `float32[10, ?] cpu requires_grad`, with "?" for a dynamic size."""
    dims = ", ".join("?" if size is None else str(size) for size in sizes)
    with torch._C.DisableTorchFunctionSubclass():  # do not run `__torch_function__` of the user's subclass for display
        grad = " requires_grad" if value.requires_grad else ""
        return f"{str(value.dtype).removeprefix('torch.')}[{dims}] {value.device}{grad}"


def _tensor_guards(matches: Sequence[TensorMatch]) -> Any:
    return TensorGuards(
        *[match.example for match in matches],
        dynamic_dims_sizes=[list(match.sizes) for match in matches],  # type: ignore[misc]
        dynamic_dims_strides=[list(match.strides) for match in matches],  # type: ignore[misc]
    )


class _Emitter:
    """Writes the straight-line body of the check function; each source is evaluated once."""

    def __init__(self) -> None:
        self.namer = _GuardNamer()
        self.lines: list[str] = []
        self._variables: dict[int, str] = {}
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


_PLAIN = (torch.Tensor, torch.nn.Parameter)  # reading the sizes of these calls no user code


@timed("guards")
def compile_check(
    guards: GuardSet,
    slot_names: tuple[str, ...],
    shape_expressions: ShapeExpressions | None = None,
    subclass_answers: SubclassAnswers | None = None,
) -> GuardCheck:
    """Compile the check function of a guard set. `slot_names`: the frame's argument slots, in order."""
    emitter = _Emitter()
    global_state = None
    for state in [guard.expected for guard in guards.guards if guard.kind == "GLOBAL_STATE"]:
        global_state = state.modes
        emitter.require(f"{emitter.namer.name(global_state.check)}()")
        # torch's guard does not cover TorchFunctionModes, which may change what every operator does
        emitter.require(f"{emitter.namer.name(_function_modes)}() == {state.function_modes}")
        if state.devices:
            emitter.require(f"{emitter.namer.name(default_devices)}() == {emitter.namer.name(state.devices)}")
        for device, dtype in state.cast_types.items():
            emitter.require(f"{emitter.namer.name(torch.get_autocast_dtype)}({device!r}) is {emitter.namer.name(dtype)}")
    if subclass_answers:
        emitter.require(f"{emitter.namer.name(subclass_answers.hold)}()")
    tensors = [guard for guard in guards.guards if guard.kind == "TENSOR_MATCH"]
    groups = _facts_of_dictionaries(guards.guards) | _facts_of_sequences(guards.guards)
    for guard in guards.guards:
        group: _DictFacts | _SequenceFacts | None = groups.get(id(guard))
        if group is None:
            _emit_guard(emitter, guard)
        elif not group.emitted:
            group.emit(emitter)
    for guard in tensors:
        guard.expected.remember()
    _emit_tensors(emitter, tensors)
    matched = len(emitter.lines)
    for guard in guards.guards:  # they read tensors, which must have been matched first
        if guard.kind == "STORAGE_OVERLAP":
            values = [emitter.variable(source) for source in guard.expected.sources]
            emitter.require(guard.expected.condition(values, emitter.namer))
    shape_code, relations = _shape_relations(emitter, guards, shape_expressions)
    if any(type(guard.expected.example) not in _PLAIN for guard in tensors):
        emitter.without_subclasses(matched)
    parameters = ", ".join([f"L{slot}" for slot in range(len(slot_names))] + ["F", "G"])
    code = f"def check({parameters}):\n" + "".join(f"    {line}\n" for line in emitter.lines) + "    return True\n"
    namespace = emitter.namer.namespace
    namespace.update({name: helper for name, helper in _SHAPE_NAMES.items() if name not in namespace})
    exec(compile(code, "<dynexplore guards>", "exec"), namespace)
    return GuardCheck(namespace.pop("check"), code, [*guards.guards, *relations], [g.expected for g in tensors],
                      global_state, shape_code, namespace, slot_names, subclass_answers)


# The names that appear in ShapeEnv's expressions: `min(512, n)`, `round(n / 3)`, `not math.isnan(f)`, `torch.sym_float(n) > 2.5`.
_SHAPE_NAMES: dict[str, Any] = {"math": math, "torch": torch, "min": min, "max": max, "abs": abs, "round": round}


def _shape_relations(
    emitter: _Emitter, guard_set: GuardSet, shape_expressions: ShapeExpressions | None
) -> tuple[list[str], list[Guard]]:
    """Require the relations of ShapeEnv; returns the lines of the check, and the same as guards to display.

    Each is attributed to the instruction that first read the tensor or number.
    """
    names: dict[str, Source] = {}
    because: dict[int, int] = {}
    for guard in guard_set.guards:
        because.setdefault(id(guard.source), guard.because)

    def variable(source: Source) -> str:
        name = emitter.variable(source)
        names[name] = source
        return name

    shape_code = shape_expressions(variable) if shape_expressions is not None else []
    guards = []
    for expression in shape_code:
        emitter.require(expression)
        relation = ShapeRelation(expression, names, emitter.namer.namespace)
        source = relation.source or GlobalsSource()
        guards.append(Guard(source, "SHAPE_ENV", relation, because.get(id(source), 0)))
    return shape_code, guards


@record(frozen=False)
class _DictFacts:
    """Guards on one dictionary: one `DictGuard`, which compares a version tag as long as the dictionary is not mutated."""

    place: Source
    is_attributes: bool  # the dictionary is the `__dict__` of the value at `place`
    checks: list[Any] = field(default_factory=list)
    keys: tuple[Any, ...] | None = None  # all keys in order, if guarded
    emitted: bool = False

    def emit(self, emitter: _Emitter) -> None:
        """Emit one call that checks all of them."""
        place = emitter.variable(self.place)
        dictionary = self.place.dictionary(place, emitter.namer) if self.is_attributes else place
        guard_args = (tuple(self.checks),) if self.keys is None else (tuple(self.checks), self.keys)
        emitter.require(f"{emitter.namer.name(DictGuard(*guard_args))}({dictionary})")
        self.emitted = True


_BUILTINS, _GLOBALS = ObjectSource(builtins.__dict__, "builtins"), GlobalsSource()
_EXPECTED_ABSENT = frozenset({"NAME_ABSENT", "ATTRIBUTE_ABSENT"})
_INSIDE = _EXPECTED_ABSENT | {"NAME_PRESENT"}  # kinds about a key of the value at their source
_COMPARED_IN_C = (str, int, float, bytes, bool, type(None))  # comparing keys of these types runs no user code
_EXPECTED_IDENTITY = frozenset({"ID_MATCH", "FUNCTION_MATCH", "NN_MODULE"})


def _facts_of_dictionaries(guards: Sequence[Guard]) -> dict[int, _DictFacts]:
    """For each guard on a dictionary's keys or on the value under a key, the group of facts that it belongs to."""
    dicts = {id(guard.source) for guard in guards if guard.kind == "TYPE_MATCH" and guard.expected is dict}
    groups: dict[tuple[int, bool], _DictFacts] = {}
    facts = {}
    for guard in guards:
        if guard.kind == "DICT_KEYS" and id(guard.source) in dicts and all(type(key) in _COMPARED_IN_C for key in guard.expected):
            group = facts[id(guard)] = groups.setdefault((id(guard.source), False), _DictFacts(guard.source, False))
            group.keys = guard.expected
            continue
        place = _place_in_dictionary(guard, dicts)
        check = _dict_check(guard) if place is not None else None
        if place is None or check is None:
            continue
        source, is_attributes, key = place
        group = groups.setdefault((id(source), is_attributes), _DictFacts(source, is_attributes))
        group.checks.append((key, *check))
        facts[id(guard)] = group
    return facts


def _place_in_dictionary(guard: Guard, dicts: set[int]) -> tuple[Source, bool, object] | None:
    """The dictionary that a guard is about (or the object whose `__dict__` it is), and the key."""
    source = guard.source
    if guard.kind in _INSIDE:
        return (_GLOBALS if isinstance(source, GlobalsSource) else source), guard.kind == "ATTRIBUTE_ABSENT", guard.expected
    if isinstance(source, GlobalSource):
        return _GLOBALS, False, source.variable
    if isinstance(source, BuiltinSource):
        return _BUILTINS, False, source.variable
    if isinstance(source, AttributeSource) and source.in_dictionary:
        return source.base, True, source.attr
    if isinstance(source, ItemSource) and type(source.index) in (str, int) and _is_dictionary(source.base, dicts):
        return source.base, False, source.index
    return None


def _is_dictionary(source: Source, dicts: set[int]) -> bool:
    """Whether the source is a plain dict: guarded as one, or held by the cache entry (`sys.modules`)."""
    return id(source) in dicts or (type(source) is ObjectSource and type(source.value) is dict)


def _dict_check(guard: Guard) -> tuple[str, Any] | None:
    """The guard in the form that `DictGuard` takes; None if it is more than a comparison."""
    expected = guard.expected
    if guard.kind in _EXPECTED_ABSENT:
        return "absent", None
    if guard.kind == "NAME_PRESENT":
        return "any", None
    if guard.kind in _EXPECTED_IDENTITY:
        return ("is", expected.strong) if expected.weak is None else ("is_weak", expected.weak())
    if guard.kind != "EQUALS":
        return None
    if type(expected) in (int, float, str, bytes):
        return "equal", expected
    return ("is", expected) if expected is None or expected is Ellipsis or type(expected) is bool else None


@record(frozen=False)
class _SequenceFacts:
    """Guards on one list or tuple: one `SequenceGuard`, which compares one pointer or number for each."""

    place: Source
    checks: list[Any] = field(default_factory=list)
    length: int = -1  # if guarded
    emitted: bool = False

    def emit(self, emitter: _Emitter) -> None:
        """Emit one call that checks all of them."""
        guard = SequenceGuard(tuple(self.checks), self.length)
        emitter.require(f"{emitter.namer.name(guard)}({emitter.variable(self.place)})")
        self.emitted = True


def _facts_of_sequences(guards: Sequence[Guard]) -> dict[int, _SequenceFacts]:
    """For each guard on an item or the length of a list or tuple with several such guards, its group of facts."""
    places = {id(guard.source): _SequenceFacts(guard.source) for guard in guards if _is_of_plain_sequence(guard)}
    facts = {}
    for guard in guards:
        source = guard.source
        if guard.kind == "LIST_LENGTH" and id(source) in places:
            group = places[id(source)]
            group.length = guard.expected
            facts[id(guard)] = group
        elif isinstance(source, ItemSource) and id(source.base) in places and type(source.index) is int and source.index >= 0:
            check = _dict_check(guard) if guard.kind not in _INSIDE else None
            if check is not None:
                group = facts[id(guard)] = places[id(source.base)]
                group.checks.append((source.index, *check))
    return {key: group for key, group in facts.items() if len(group.checks) > 1}


def _is_of_plain_sequence(guard: Guard) -> bool:
    return guard.kind == "TYPE_MATCH" and (guard.expected is list or guard.expected is tuple)


_MANY = 16  # from this many tensors held by the entry itself, they are matched as one prebuilt tuple


def _emit_tensors(emitter: _Emitter, guards: Sequence[Guard]) -> None:
    """Emit one torch guard call for all tensors, which also checks that no two are the same object; two calls if many are held."""
    pinned = [guard for guard in guards if isinstance(guard.source, PinnedSource)]
    if len(pinned) < _MANY:
        pinned = []
    pinned_ids = {id(guard) for guard in pinned}
    others = [guard for guard in guards if id(guard) not in pinned_ids]
    if others:
        check = emitter.namer.name(_tensor_guards([guard.expected for guard in others]).check)
        values = [emitter.variable(guard.source) for guard in others]
        emitter.require(f"{check}({', '.join(values)})")
    if pinned:
        tensors = tuple(guard.expected.example for guard in pinned)
        check = emitter.namer.name(_tensor_guards([guard.expected for guard in pinned]).check)
        emitter.require(f"{check}(*{emitter.namer.name(tensors)})")
        identities = emitter.namer.name(frozenset(map(id, tensors)))
        for guard in others:
            emitter.require(f"id({emitter.variable(guard.source)}) not in {identities}")


def _emit_guard(emitter: _Emitter, guard: Guard) -> None:
    kind = GUARD_KINDS[guard.kind]
    if guard.kind in ("TENSOR_MATCH", "STORAGE_OVERLAP", "SHAPE_ENV", "GLOBAL_STATE", "MODULE_STATE"):
        return
    expected = guard.expected
    if guard.kind == "ALIAS":
        expected = emitter.variable(expected)
    elif guard.kind in OF_SEVERAL_SOURCES:
        expected = [emitter.variable(source) for source in expected]
    emitter.require(kind.condition(emitter.variable(guard.source), expected, emitter.namer))
    if guard.kind == "TYPE_MATCH":
        emitter.classes[id(guard.source)] = expected
