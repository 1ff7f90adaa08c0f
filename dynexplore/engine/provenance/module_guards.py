"""What objects held in their own dictionaries when they were captured: facts for one walk in C.

The idea: a model is reached through one guarded object ("`self` is this very module"). Everything below it is reached through
dictionaries: `self.__dict__["_modules"]["layer"]` is that module, whose `__dict__["training"]` is True, whose class still has that
`forward`. Each such fact is one pointer compare in C (`native.GuardWalk`), where a Python guard would be an attribute chain.

- An object is **held** when its identity is guarded: by a guard of its own (the root), or because it stands in the dictionary
  of a held object. Only of a held object facts are noted here. Classes are held by whoever guards `type(value)`.
- A source is **known** when such a fact fixes which object stands there. Guards that follow from identity (type,
  function, equality of a constant) need not be installed for it.

In: facts, noted by the trackers of objects, classes and modules while a frame is interpreted; live objects are not changed
meanwhile, so what stands in them is what stood there. Out: the specs of a `GuardWalk`, and words for people.

torch/_dynamo/guards.py (its GuardManager tree over `__dict__` accessors) does the same job.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable
from dataclasses import field
from typing import Any

from dynexplore.engine.provenance.guards import Guard
from dynexplore.engine.provenance.sources import NamedSource, ObjectSource, Source, instance_dict
from dynexplore.engine.records import record

Check = tuple[Any, str, Any]
Spec = tuple[Any, type[Any], tuple[Check, ...]]

# What a guard of these kinds says follows from identity, for the values that are noted here (EQUALS: immutable constants only).
IMPLIED_BY_IDENTITY = frozenset({"TYPE_MATCH", "ID_MATCH", "FUNCTION_MATCH", "NN_MODULE", "CODE_MATCH", "EQUALS"})
_EVERY = object()  # every item of a dictionary was relied on


@record(frozen=False, eq=False)
class ObjectFacts:
    """What is relied on about one held object; `label` is the path that people read."""

    value: Any
    label: str
    source: Source
    same: dict[str, Any] = field(default_factory=dict)
    absent: dict[str, None] = field(default_factory=dict)
    empty: dict[str, None] = field(default_factory=dict)
    items: dict[str, dict[Any, Any]] = field(default_factory=dict)

    def checks(self) -> tuple[Check, ...]:
        """The facts in the form of `GuardWalk`."""
        own = instance_dict(self.value) if self.items else {}
        return (
            *((key, *by_identity(expected)) for key, expected in self.same.items()),
            *((key, "absent", None) for key in self.absent),
            *((key, "empty", None) for key in self.empty),
            *((key, "items", _item_checks(own[key], wanted)) for key, wanted in self.items.items()),
        )

    def __str__(self) -> str:
        """The facts in words, for the views: `training is True; _parameters: weight, bias; no forward of its own`."""
        words = [f"{key} is {_short(expected)}" for key, expected in self.same.items()]
        words += [f"{key}: {', '.join(_names(wanted))}" for key, wanted in self.items.items()]
        words += [f"empty: {', '.join(self.empty)}"] * bool(self.empty)
        words += [f"absent: {', '.join(self.absent)}"] * bool(self.absent)
        return "; ".join(words) or "this object"


def by_identity(expected: Any) -> tuple[str, Any]:
    """The kind and payload that compare with `expected`, weakly where it can be referenced weakly."""
    try:
        weakref.ref(expected)
    except TypeError:
        return "is", expected
    return "is_weak", expected


def _item_checks(mapping: dict[Any, Any], wanted: dict[Any, Any]) -> tuple[Check, ...]:
    everything = _EVERY in wanted
    return tuple(
        (key, *by_identity(value)) if everything or key in wanted else (key, "any", None) for key, value in mapping.items()
    )


def _names(wanted: dict[Any, Any]) -> list[str]:
    return ["every item"] if _EVERY in wanted else [str(key) for key in wanted] or ["its keys"]


def _short(value: object) -> str:
    name = getattr(value, "__qualname__", None)
    if isinstance(name, str):
        return name
    text = repr(value) if isinstance(value, (int, float, str, tuple, type(None))) else f"a {type(value).__qualname__}"
    return text if len(text) <= 60 else text[:57] + "..."


class ModuleGuards:
    """The held objects of one attempt, and the facts relied on about each."""

    def __init__(self) -> None:
        self._facts: dict[int, ObjectFacts] = {}
        self._known: dict[int, Source] = {}
        self._sources: dict[int, ObjectSource] = {}
        self._of_process: dict[int, ObjectFacts] = {}

    # -- noting

    def hold(self, value: Any, label: str, source: Source | None = None) -> ObjectFacts | None:
        """From now on facts may be noted about `value`, whose identity is guarded. None if it cannot be held weakly.

        `source`: the path to it, if there is one that does not keep it alive.
        """
        facts = self._facts.get(id(value))
        if facts is None:
            try:
                weakref.ref(value)
            except TypeError:
                return None
            facts = self._facts[id(value)] = ObjectFacts(value, label, source or NamedSource(label))
        return facts

    def is_held(self, value: Any) -> bool:
        """Whether facts may be noted about this object."""
        return id(value) in self._facts

    def rely_on_value(self, value: Any, key: str, expected: Any) -> None:
        """`value.__dict__[key] is expected`."""
        self._facts[id(value)].same[key] = expected

    def rely_on_process(self, value: Any, label: str, key: str) -> None:
        """`value.__dict__[key] is None`, a fact about the process: a part of GLOBAL_STATE, and no guard of its own."""
        facts = self._of_process.setdefault(id(value), ObjectFacts(value, label, NamedSource(label)))
        facts.same[key] = None

    def rely_on_absence(self, value: Any, key: str) -> None:
        """`key not in value.__dict__`."""
        self._facts[id(value)].absent[key] = None

    def rely_on_emptiness(self, value: Any, key: str) -> None:
        """`value.__dict__[key]` is an empty dict, None, or not there."""
        self._facts[id(value)].empty[key] = None

    def rely_on_item(self, value: Any, key: str, item: Any) -> None:
        """`value.__dict__[key]` has the keys that it has, and under `item` what is there now."""
        self._facts[id(value)].items.setdefault(key, {})[item] = None

    def rely_on_keys(self, value: Any, key: str) -> None:
        """`value.__dict__[key]` has the keys that it has."""
        self._facts[id(value)].items.setdefault(key, {})

    def rely_on_items(self, value: Any, key: str) -> None:
        """`value.__dict__[key]` holds exactly what it holds now."""
        self._facts[id(value)].items.setdefault(key, {})[_EVERY] = None

    # -- sources whose object is fixed by a fact

    def know(self, source: Source) -> None:
        """A fact fixes which object stands at `source`."""
        self._known[id(source)] = source

    def know_value(self, source: Source) -> None:
        """Like `know`, and what hangs on it if it is a function or method: its code, its function, its receiver."""
        for known in (source, source.attribute("__func__", "getattr"), source.attribute("__self__", "getattr")):
            self._known[id(known)] = known
            code = known.attribute("__code__", "getattr")
            self._known[id(code)] = code

    def source_of(self, value: Any, label: str) -> Source:
        """The one source of an object that is the same in every call: a class, a module of a library."""
        source = self._sources.get(id(value))
        if source is None:
            source = self._sources[id(value)] = ObjectSource(value, label)
        return source

    def knows(self, source: Source) -> bool:
        """Whether a fact fixes which object stands at `source`."""
        return id(source) in self._known

    def implies(self, source: Source, kind: str, expected: Any) -> bool:
        """Whether a guard on `source` follows from the facts, and need not be installed."""
        if id(source) not in self._known:
            return False
        return kind in IMPLIED_BY_IDENTITY or (kind == "ALIAS" and id(expected) in self._known)

    # -- what comes out

    def facts(self) -> list[ObjectFacts]:
        """The facts of every object about which something is relied on."""
        return [facts for facts in self._facts.values() if facts.checks()]

    def owners(self) -> list[tuple[Any, str]]:
        """The held objects, whose death makes the cache entry useless, and where each stood."""
        return [(facts.value, facts.label) for facts in self._facts.values()]

    def guards(self) -> list[Guard]:
        """The facts as guards that people read; they are checked by the walk."""
        return [Guard(facts.source, "MODULE_STATE", str(facts), 0) for facts in self.facts()]

    def walk(self, make: Callable[[Iterable[Spec]], Any]) -> StateWalk | None:
        """The facts as a walk (`make` is `native.GuardWalk`); None when nothing is relied on."""
        facts = [*self.facts(), *self._of_process.values()]  # of the process last: the others have guards, by their place
        if not facts:
            return None
        specs = [(entry.value, type(entry.value), entry.checks()) for entry in facts]
        return StateWalk(make(specs), tuple(entry.label for entry in facts), tuple(map(str, facts)))


@record()
class StateWalk:
    """A `GuardWalk` and, for each of its objects, the path and the facts in words. Keeps none of the objects alive."""

    walk: Any
    labels: tuple[str, ...]
    texts: tuple[str, ...]

    def first_failure(self) -> StateFailure | None:
        """What no longer holds, in words; None when all holds."""
        failure = self.walk.first_failure()
        if failure is None:
            return None
        index, key, kind, actual = failure
        path = f"{self.labels[index]}.{key}" if key else self.labels[index]
        return StateFailure(index, path, key, _EXPECTED[kind], "gone" if kind == "alive" else _actual(kind, actual))


@record()
class StateFailure:
    """The fact that does not hold any more: which object's, path of what changed, key in its owner's dictionary, expected
    and found.
    """

    index: int
    path: str
    key: str
    expected: str
    actual: str


_EXPECTED = {
    "alive": "the object that was captured", "type": "an object of the same class", "is": "the same value",
    "is_weak": "the same object", "items": "the same items", "empty": "nothing", "absent": "no attribute of its own",
}


def _actual(kind: str, actual: Any) -> str:
    if kind in ("items", "empty") and isinstance(actual, dict):
        return f"{type(actual).__qualname__} of {', '.join(map(str, actual)) or 'nothing'}"
    return _short(actual)
