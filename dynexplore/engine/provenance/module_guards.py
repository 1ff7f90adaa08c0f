"""Module guards: one walk in C over the `__dict__` of modules, classes and functions checks what a capture read there.

The idea: a model is reached through one guarded object ("`self` is this very module"). Everything below it is reached through
dictionaries: `self.__dict__["_modules"]["layer"]` is that module, whose `__dict__["training"]` is True, whose class still has that
`forward`. Each such fact is one pointer comparison in C (`native.GuardWalk`), where a Python guard would be an attribute chain.

- An object is **held** when its identity is guarded: by a separate guard (the root), or as an item of a held object's dictionary.
  Facts are recorded only about held objects. A class is held by the guard on `type(value)`.
- A source is **known** when such a fact fixes which object it leads to. Guards that follow from identity (type, function, equality
  of a constant) need not be installed for it.

The same walk checks two more kinds of facts that are not about an object's dictionary:

- where a lookup through a **class** ended, found or not. All lookups through one class are one row: comparing its version tag is
  one comparison in C. If the tag differs, the names are looked up again, and the tag is renewed if all results are unchanged.
  So absence is guarded like presence.
- the code and defaults of a **function** that was inlined.

Facts about objects, classes and functions of libraries are recorded in the same way, but not displayed as guards: they are part of
GLOBAL_STATE.

In: facts (identity_facts.py), recorded by trackers while a frame is interpreted (live objects are not mutated meanwhile). Out:
a `GuardWalk`, and text. PyTorch's counterpart: the GuardManager tree over `__dict__` accessors in torch/_dynamo/guards.py.
"""

from __future__ import annotations

import abc
import weakref
from collections.abc import Callable, Iterable
from dataclasses import field
from typing import Any

from dynexplore.engine.native import type_version
from dynexplore.engine.provenance.guards import Guard
from dynexplore.engine.provenance.identity_facts import (
    ABSENT,
    ClassFacts,
    Lookup,
    ObjectFacts,
    function_spec,
    short_text,
)
from dynexplore.engine.provenance.sources import NamedSource, ObjectSource, Source
from dynexplore.engine.raw_attributes import (
    class_qualname,
    has_python_getattribute,
    is_immutable_type,
)
from dynexplore.engine.records import record

# Guards of these kinds follow from identity, for the values that are recorded here (EQUALS: immutable constants only).
IMPLIED_BY_IDENTITY = frozenset({"TYPE_MATCH", "ID_MATCH", "FUNCTION_MATCH", "NN_MODULE", "CODE_MATCH", "EQUALS"})


class SubclassAnswers:
    """Results of `issubclass` with abstract base classes. If the one process-wide token has changed, they are checked again."""

    def __init__(self) -> None:
        self._token = abc.get_cache_token()
        self._answers: dict[tuple[int, int], tuple[Any, Any, bool]] = {}

    def note(self, cls: type[Any], base: type[Any], answer: bool) -> None:
        """Record that `issubclass(cls, base)` is `answer`."""
        self._answers[id(cls), id(base)] = weakref.ref(cls), weakref.ref(base), answer

    def __bool__(self) -> bool:
        return bool(self._answers)

    def hold(self) -> bool:
        """Whether all results are unchanged."""
        token = abc.get_cache_token()
        if token != self._token:
            if any(answer for *_, answer in map(self._now, self._answers.values())):
                return False
            self._token = token
        return True

    def _now(self, answer: tuple[Any, Any, bool]) -> tuple[Any, Any, bool]:
        cls, base = answer[0](), answer[1]()
        return cls, base, cls is None or base is None or issubclass(cls, base) is not answer[2]

    def first_failure(self) -> tuple[str, str, str] | None:
        """The class, the expected and the actual result, as text; None if all are unchanged."""
        for answer in self._answers.values():
            cls, base, differs = self._now(answer)
            if differs:
                words = ("a subclass", "no subclass") if answer[2] else ("no subclass", "a subclass")
                return short_text(cls), f"{words[0]} of {short_text(base)}", f"{words[1]} of {short_text(base)}"
        return None


class ModuleGuards:
    """The held objects of one attempt, and the facts recorded about each."""

    def __init__(self) -> None:
        self._facts: dict[int, ObjectFacts] = {}
        self._recorded: dict[int, Source] = {}
        self._sources: dict[int, ObjectSource] = {}
        self._of_process: dict[int, ObjectFacts] = {}
        self._classes: dict[type[Any], ClassFacts] = {}
        self._functions: dict[int, Any] = {}
        self._written: dict[int, type[Any]] = {}
        self.subclass_answers = SubclassAnswers()

    # -- recording: classes and functions

    def _class_facts(self, cls: type[Any]) -> ClassFacts:
        facts = self._classes.get(cls)
        if facts is None:
            facts = self._classes[cls] = ClassFacts(cls, type_version(cls))
        elif facts.tag != type_version(cls):  # it was mutated between two lookups: no single version covers both
            facts.tag = 0
        return facts

    def guard_on_lookup(
        self, cls: type[Any], name: str, value: Any, *, owner: type[Any] | None = None, after: type[Any] | None = None,
        is_explicit: bool = False,
    ) -> None:
        """Guard that looking `name` up (after the class `after` in the MRO) ends at this very value, or is ABSENT."""
        if is_immutable_type(cls):
            return
        lookups = self._class_facts(cls).lookups
        lookup = lookups.get((name, after))
        if lookup is None:
            expected = value if value is ABSENT else (value,)
            lookups[name, after] = Lookup(name, after, expected, owner, is_explicit)
        else:
            lookup.is_explicit |= is_explicit

    def guard_on_owner(self, cls: type[Any], name: str, owner: type[Any], *, after: type[Any] | None = None) -> None:
        """Guard that looking `name` up through the class ends in this class of its MRO; the value there is guarded separately."""
        if not is_immutable_type(cls):
            self._class_facts(cls).lookups.setdefault((name, after), Lookup(name, after, None, owner, True))

    def guard_on_bases(self, cls: type[Any]) -> None:
        """Guard the bases of the class."""
        if not is_immutable_type(cls):
            self._class_facts(cls).bases = True

    def writes_to(self, cls: type[Any]) -> None:
        """Record that the frame itself sets an attribute of the class: its version changes in each call."""
        self._written[id(cls)] = cls  # by identity: the program's metaclass may compare classes, or refuse to hash them

    def guard_on_function(self, function: Any) -> None:
        """Guard the code and the defaults of the function, whose identity is guarded."""
        self._functions[id(function)] = function

    # -- recording: objects

    def track(self, value: Any, label: str, source: Source | None = None) -> ObjectFacts | None:
        """Allow facts to be recorded about `value`, whose identity is guarded. Returns None if it cannot be weakly referenced.

        `source`: a path to it that does not keep it alive, if there is one.
        """
        facts = self._facts.get(id(value))
        if facts is None:
            try:
                weakref.ref(value)
            except TypeError:
                return None
            facts = self._facts[id(value)] = ObjectFacts(value, label, source or NamedSource(label))
        return facts

    def has_facts_of(self, value: Any) -> bool:
        """Whether facts may be recorded about this object."""
        return id(value) in self._facts

    def guard_on_value(self, value: Any, key: str, expected: Any) -> None:
        """Guard that `value.__dict__[key] is expected`."""
        self._facts[id(value)].same[key] = expected

    def guard_on_process(self, value: Any, label: str, key: str, expected: Any = None) -> None:
        """Guard that `value.__dict__[key] is expected` (or ABSENT), a process-wide fact: a part of GLOBAL_STATE."""
        facts = self._of_process.setdefault(id(value), ObjectFacts(value, label, NamedSource(label)))
        if expected is ABSENT:
            facts.absent[key] = None
        else:
            facts.same[key] = expected

    def guard_on_absence(self, value: Any, key: str) -> None:
        """Guard that `key not in value.__dict__`."""
        self._facts[id(value)].absent[key] = None

    def guard_on_emptiness(self, value: Any, key: str) -> None:
        """Guard that `value.__dict__[key]` is there, and is an empty dict or None."""
        self._facts[id(value)].empty[key] = None

    def guard_on_item(self, value: Any, key: str, item: Any) -> None:
        """Guard the current object under `item` in `value.__dict__[key]`."""
        self._facts[id(value)].items.setdefault(key, {})[item] = None

    def guard_on_keys(self, value: Any, key: str) -> None:
        """Guard the current keys of `value.__dict__[key]`."""
        facts = self._facts[id(value)]
        facts.items.setdefault(key, {})
        facts.complete[key] = None

    # -- sources whose object is fixed by a fact

    def note_identity(self, source: Source) -> None:
        """Record that a fact fixes which object is at `source`."""
        self._recorded[id(source)] = source

    def note_value_identity(self, source: Source) -> None:
        """Like `note_identity`, including what a function or method refers to: its code, its function, its receiver."""
        for part in (source, source.attribute("__func__", "getattr"), source.attribute("__self__", "getattr")):
            self._recorded[id(part)] = part
            code = part.attribute("__code__", "getattr")
            self._recorded[id(code)] = code

    def source_of(self, value: Any, label: str) -> Source:
        """The unique source of an object that is the same in every call: a class, a module of a library."""
        source = self._sources.get(id(value))
        if source is None:
            source = self._sources[id(value)] = ObjectSource(value, label)
            source.runs_code = has_python_getattribute(type(value))
        return source

    def fixed_source_of(self, value: Any, label: str) -> Source:
        """The unique source of an object that the caller knows to be this one in every call."""
        source = self.source_of(value, label)
        self.note_identity(source)
        return source

    def fixes_identity(self, source: Source) -> bool:
        """Whether a fact fixes which object is at `source`."""
        return id(source) in self._recorded

    def implies(self, source: Source, kind: str, expected: Any) -> bool:
        """Whether a guard on `source` follows from the facts and need not be installed."""
        if id(source) not in self._recorded:
            return False
        return kind in IMPLIED_BY_IDENTITY or (kind == "ALIAS" and id(expected) in self._recorded)

    # -- results

    def facts(self) -> list[ObjectFacts]:
        """The facts of every object that has any."""
        return [facts for facts in self._facts.values() if facts.checks()]

    def class_facts(self) -> list[ClassFacts]:
        """The facts about lookups through classes, the displayed ones first."""
        return sorted(self._classes.values(), key=lambda facts: not facts.is_shown())

    def owners(self) -> list[tuple[Any, str]]:
        """The held objects, whose death makes the cache entry useless, and their paths."""
        owner_of_id = {id(facts.value): (facts.value, facts.label) for facts in self._facts.values()}
        owner_of_id |= {id(cls): (cls, class_qualname(cls)) for cls in self._classes}
        owner_of_id |= {id(function): (function, function.__qualname__) for function in self._functions.values()}
        return list(owner_of_id.values())

    def guards(self) -> list[Guard]:
        """The facts as displayed guards; the walk checks them."""
        guards = [Guard(facts.source, "MODULE_STATE", str(facts), 0) for facts in self.facts()]
        shown = [facts for facts in self.class_facts() if facts.is_shown()]
        return guards + [Guard(NamedSource(class_qualname(facts.cls)), "MODULE_STATE", str(facts), 0) for facts in shown]

    def guarded_objects(self) -> list[Any]:
        """The object that each of `guards()` is about."""
        return [facts.value for facts in self.facts()] + [facts.cls for facts in self.class_facts() if facts.is_shown()]

    def leave_out(self, guarded_objects: Iterable[Any]) -> None:
        """Drop all facts about these objects, a subset of `guarded_objects()`."""
        for guarded in guarded_objects:
            if self._facts.pop(id(guarded), None) is None:
                self._classes.pop(guarded, None)

    def walk(self, make: Callable[..., Any]) -> StateWalk | None:
        """The facts as a walk (`make` is `native.GuardWalk`); None if there are none."""
        facts, classes = self.facts(), self.class_facts()
        bare = [facts_of_object for facts_of_object in self._facts.values() if not facts_of_object.checks()]
        unshown = [*self._of_process.values(), *bare]
        functions = list(self._functions.values())
        rows = [
            *(StateRow(entry.label, number) for number, entry in enumerate(facts)),
            *(StateRow(entry.label, None, {}, {key: short_text(value) for key, value in entry.same.items()}) for entry in unshown),
            *(StateRow(class_qualname(entry.cls), len(facts) + number if entry.is_shown() else None, entry.shown_paths())
              for number, entry in enumerate(classes)),
            *(StateRow(function.__qualname__, None) for function in functions),
        ]
        if not rows:
            return None
        specs = [(entry.value, type(entry.value), entry.checks()) for entry in (*facts, *unshown)]
        native_walk = make(specs, [entry.spec(self._written.values()) for entry in classes], list(map(function_spec, functions)))
        return StateWalk(native_walk, tuple(rows))


@record()
class StateRow:
    """The object that a row of the walk is about, as text, and the index of its displayed guard (None: not displayed)."""

    label: str
    guard: int | None
    shown_paths: dict[str, str] = field(default_factory=dict)
    expected: dict[str, str] = field(default_factory=dict)


@record()
class StateWalk:
    """A `GuardWalk`, and for each of its rows the object that it is about. Keeps none of the objects alive."""

    walk: Any
    rows: tuple[StateRow, ...]

    def first_failure(self) -> StateFailure | None:
        """The first fact that no longer holds, as text; None if all hold."""
        failure = self.walk.first_failure()
        return None if failure is None else self._in_words(failure)

    def failures(self) -> list[StateFailure]:
        """All facts that no longer hold, in the order in which they are checked."""
        return list(map(self._in_words, self.walk.failures()))

    def _in_words(self, failure: tuple[int, str, str, object]) -> StateFailure:
        index, key, kind, actual = failure
        row = self.rows[index]
        path = row.shown_paths.get(key) or (f"{row.label}.{key}" if key else row.label)
        actual_words = "gone" if kind == "alive" else _actual(kind, actual)
        return StateFailure(row.guard, path, key, _EXPECTED[kind], actual_words, row.expected.get(key, _EXPECTED[kind]))


@record()
class StateFailure:
    """A fact that no longer holds: the index of its displayed guard (if any), the path that changed, the key in the owner's
    dictionary, the expected and the actual value.
    """

    index: int | None
    path: str
    key: str
    expected: str
    actual: str
    words: str
    """A more precise description of what was expected, if available."""


_EXPECTED = {
    "alive": "the object that was captured", "type": "an object of the same class", "is": "the same value",
    "is_weak": "the same object", "items": "the same items",
    "some": "the same items", "empty": "nothing", "absent": "no such attribute",
    "equal": "the same value", "found_in": "found in the same class", "mro": "the same bases",
}


def _actual(kind: str, actual: Any) -> str:
    if kind in ("items", "some", "empty") and isinstance(actual, dict):
        return f"{type(actual).__qualname__} of {', '.join(map(str, actual)) or 'nothing'}"
    return short_text(actual)
