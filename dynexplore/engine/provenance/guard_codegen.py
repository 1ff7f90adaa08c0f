"""Code generation for guards: a guard set becomes one fast check function.

The idea: the generated check is straight-line Python (guard_emitter.py), linear in the number of guards. Guards on one dictionary
(the globals, an object's attributes) become one `DictGuard` (C), guards on one list or tuple one `SequenceGuard` (C). All tensors
go to one `TensorGuards` call (C++), and all module state to one `GuardWalk` (C), which the frame hook runs before it even calls
the check.

In: the `GuardSet` of a finished attempt, the tensors to match, the shape expressions. Out: a `GuardCheck` (guard_check.py).
PyTorch's counterpart: `CheckFunctionManager` in torch/_dynamo/guards.py.
"""

from __future__ import annotations

import builtins
import math
from collections.abc import Callable, Sequence
from dataclasses import field
from typing import Any

import torch

from dynexplore.engine.native import DictGuard, SequenceGuard
from dynexplore.engine.phases import timed
from dynexplore.engine.provenance.guard_check import GuardCheck
from dynexplore.engine.provenance.guard_emitter import Emitter
from dynexplore.engine.provenance.guards import GUARD_KINDS, OF_SEVERAL_SOURCES, Guard, GuardSet
from dynexplore.engine.provenance.module_guards import SubclassAnswers
from dynexplore.engine.provenance.sources import (
    AttributeSource,
    BuiltinSource,
    GlobalSource,
    GlobalsSource,
    ItemSource,
    ObjectSource,
    PinnedSource,
    Source,
)
from dynexplore.engine.provenance.torch_guards import ShapeRelation, default_devices, function_modes, tensor_guards
from dynexplore.engine.records import record

ShapeExpressions = Callable[[Callable[[Source], str]], list[str]]


_PLAIN = (torch.Tensor, torch.nn.Parameter)  # reading the sizes of these calls no user code


@timed("guards")
def compile_check(
    guards: GuardSet,
    slot_names: tuple[str, ...],
    shape_expressions: ShapeExpressions | None = None,
    subclass_answers: SubclassAnswers | None = None,
) -> GuardCheck:
    """Compile the check function of a guard set. `slot_names`: the frame's argument slots, in order."""
    emitter = Emitter()
    global_state = _emit_global_state(emitter, guards.guards)
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
    _emit_overlaps(emitter, guards.guards)
    shape_code, relations = _shape_relations(emitter, guards, shape_expressions)
    if any(type(guard.expected.example) not in _PLAIN for guard in tensors):
        emitter.without_subclasses(matched)
    parameters = ", ".join([f"L{slot}" for slot in range(len(slot_names))] + ["F", "G"])
    code = f"def check({parameters}):\n" + "".join(f"    {line}\n" for line in emitter.lines) + "    return True\n"
    namespace = emitter.namer.namespace
    namespace.update({name: helper for name, helper in _SHAPE_NAMES.items() if name not in namespace})
    exec(compile(code, "<dynexplore guards>", "exec"), namespace)
    return GuardCheck(namespace.pop("check"), code, [*guards.guards, *relations], [g.expected for g in tensors],
                      global_state, shape_code, namespace, slot_names, subclass_answers, emitter.sources)


def _emit_global_state(emitter: Emitter, guards: Sequence[Guard]) -> Any:
    """Emit the guards on process-wide modes; returns torch's guard on them, if any."""
    modes = None
    for state in [guard.expected for guard in guards if guard.kind == "GLOBAL_STATE"]:
        modes = state.modes
        emitter.require(f"{emitter.namer.name(modes.check)}()")
        # torch's guard does not cover TorchFunctionModes, which may change what every operator does
        emitter.require(f"{emitter.namer.name(function_modes)}() == {state.function_modes}")
        if state.devices:
            emitter.require(f"{emitter.namer.name(default_devices)}() == {emitter.namer.name(state.devices)}")
        for device, dtype in state.cast_types.items():
            emitter.require(f"{emitter.namer.name(torch.get_autocast_dtype)}({device!r}) is {emitter.namer.name(dtype)}")
    return modes


def _emit_overlaps(emitter: Emitter, guards: Sequence[Guard]) -> None:
    """Emit the guards on storages that overlap: they read tensors, which must have been matched first."""
    for guard in guards:
        if guard.kind == "STORAGE_OVERLAP":
            values = [emitter.variable(source) for source in guard.expected.sources]
            emitter.require(guard.expected.condition(values, emitter.namer))


# The names that appear in ShapeEnv's expressions: `min(512, n)`, `round(n / 3)`, `not math.isnan(f)`, `torch.sym_float(n) > 2.5`.
_SHAPE_NAMES: dict[str, Any] = {"math": math, "torch": torch, "min": min, "max": max, "abs": abs, "round": round}


def _shape_relations(
    emitter: Emitter, guard_set: GuardSet, shape_expressions: ShapeExpressions | None
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

    source: Source
    is_attributes: bool  # the dictionary is the `__dict__` of the value at `source`
    checks: list[Any] = field(default_factory=list)
    keys: tuple[Any, ...] | None = None  # all keys in order, if guarded
    emitted: bool = False

    def emit(self, emitter: Emitter) -> None:
        """Emit one call that checks all of them."""
        variable = emitter.variable(self.source)
        dictionary = self.source.dictionary(variable, emitter.namer) if self.is_attributes else variable
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
        owner_and_key = _owner_and_key(guard, dicts)
        check = _dict_check(guard) if owner_and_key is not None else None
        if owner_and_key is None or check is None:
            continue
        source, is_attributes, key = owner_and_key
        group = groups.setdefault((id(source), is_attributes), _DictFacts(source, is_attributes))
        group.checks.append((key, *check))
        facts[id(guard)] = group
    return facts


def _owner_and_key(guard: Guard, dicts: set[int]) -> tuple[Source, bool, object] | None:
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

    source: Source
    checks: list[Any] = field(default_factory=list)
    length: int = -1  # if guarded
    emitted: bool = False

    def emit(self, emitter: Emitter) -> None:
        """Emit one call that checks all of them."""
        guard = SequenceGuard(tuple(self.checks), self.length)
        emitter.require(f"{emitter.namer.name(guard)}({emitter.variable(self.source)})")
        self.emitted = True


def _facts_of_sequences(guards: Sequence[Guard]) -> dict[int, _SequenceFacts]:
    """For each guard on an item or the length of a list or tuple with several such guards, its group of facts."""
    groups = {id(guard.source): _SequenceFacts(guard.source) for guard in guards if _is_of_plain_sequence(guard)}
    facts = {}
    for guard in guards:
        source = guard.source
        if guard.kind == "LIST_LENGTH" and id(source) in groups:
            group = groups[id(source)]
            group.length = guard.expected
            facts[id(guard)] = group
        elif isinstance(source, ItemSource) and id(source.base) in groups and type(source.index) is int and source.index >= 0:
            check = _dict_check(guard) if guard.kind not in _INSIDE else None
            if check is not None:
                group = facts[id(guard)] = groups[id(source.base)]
                group.checks.append((source.index, *check))
    return {key: group for key, group in facts.items() if len(group.checks) > 1}


def _is_of_plain_sequence(guard: Guard) -> bool:
    return guard.kind == "TYPE_MATCH" and (guard.expected is list or guard.expected is tuple)


_MANY = 16  # from this many tensors held by the entry itself, they are matched as one prebuilt tuple


def _emit_tensors(emitter: Emitter, guards: Sequence[Guard]) -> None:
    """Emit one torch guard call for all tensors, which also checks that no two are the same object; two calls if many are held."""
    pinned = [guard for guard in guards if isinstance(guard.source, PinnedSource)]
    if len(pinned) < _MANY:
        pinned = []
    pinned_ids = {id(guard) for guard in pinned}
    others = [guard for guard in guards if id(guard) not in pinned_ids]
    if others:
        check = emitter.namer.name(tensor_guards([guard.expected for guard in others]).check)
        values = [emitter.variable(guard.source) for guard in others]
        emitter.require(f"{check}({', '.join(values)})")
    if pinned:
        tensors = tuple(guard.expected.example for guard in pinned)
        check = emitter.namer.name(tensor_guards([guard.expected for guard in pinned]).check)
        emitter.require(f"{check}(*{emitter.namer.name(tensors)})")
        identities = emitter.namer.name(frozenset(map(id, tensors)))
        for guard in others:
            emitter.require(f"id({emitter.variable(guard.source)}) not in {identities}")


def _emit_guard(emitter: Emitter, guard: Guard) -> None:
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
