"""What the guards of two engines rely on, in words that both share.

Which idea lives here: torch.compile and our engine guard the same call by different checks: a list's class and length in one or
in two, the modules of a tree each by itself or all at once, a name of a library one by one or as a row of a class. Text comparison
text they would differ everywhere. So a guard is read as facts about a place: of this class, this value, this very object, so many
items. A stronger fact holds the weaker ones. What is left over is a difference in what is relied on, and that is what makes one of
them compile again where the other does not.

In:  the recordings of both. Out: `claims(recording)`: place -> `Claim`; `unlike(torch_side, engine_side)`: `GuardDifference`s.

PyTorch's counterpart: the builder methods of GuardBuilder in torch/_dynamo/guards.py, whose names are the kinds of torch's guards.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from dynexplore.engine import events as ev
from dynexplore.engine.old_names import keep_old_names
from dynexplore.recording.engines import DYNEXPLORE, TORCH
from dynexplore.recording.recording import Recording
from dynexplore.views.names import is_entry, plain_name

Place = tuple[str, str]
"""Where a guarded value is found: the function ("" for the state of the process), and the expression in it."""

_FACTS: dict[str, tuple[str, ...]] = {
    "its class": ("TYPE_MATCH", "NUMBER", "SEQUENCE_LENGTH", "FAKE_SCRIPT_TYPE_MATCH"),
    "its value": (
        "EQUALS", "SET_CONTENT", "CONSTANT_MATCH", "EQUALS_MATCH", "BOOL_MATCH", "NONE_MATCH", "CONSTANT_SUBCLASS_MATCH",
        "RANGE_ITERATOR_MATCH", "COUNT_ITERATOR_MATCH",
    ),
    "its identity": (
        "ID_MATCH", "FUNCTION_MATCH", "NN_MODULE", "CLASS_MATCH", "BUILTIN_MATCH", "MODULE_MATCH", "WEAKREF_ALIVE",
    ),
    "its code": ("CODE_MATCH", "CLOSURE_MATCH"),
    "the tensor's metadata": (
        "TENSOR_MATCH", "SUBCLASS_METADATA", "TENSOR_SUBCLASS_METADATA_MATCH", "DISPATCH_KEY_SET_MATCH", "DTENSOR_SPEC_MATCH",
    ),
    "its length": ("LIST_LENGTH", "SEQUENCE_LENGTH"),
    "its keys": ("DICT_KEYS", "DICT_KEYS_MATCH", "MAPPING_KEYS_CHECK"),
    "whether a name exists": (
        "NAME_ABSENT", "ATTRIBUTE_ABSENT", "HASATTR", "NOT_PRESENT_IN_GENERIC_DICT", "DICT_CONTAINS", "DICT_NOT_CONTAINS",
        "SET_CONTAINS", "SET_NOT_CONTAINS",
    ),
    "that no instance attribute shadows a method": ("NO_INSTANCE_OVERRIDE",),
    "that it is not None": ("NOT_NONE_MATCH",),
    "which values are the same object": (
        "ALIAS", "DISTINCT", "NO_ATTRIBUTE_ALIAS", "NO_DICT_ALIAS", "NOT_INSTANCE_DICT", "DUPLICATE_INPUT",
    ),
    "the position of an iterator": ("ITERATOR_REMAINING", "ITERATOR_HAS_MORE", "TUPLE_ITERATOR_LEN"),
    "relations of sizes": ("SHAPE_ENV",),
    "which inputs share memory": ("STORAGE_OVERLAP",),
    "the state of the module tree": ("MODULE_STATE", "EMPTY_NN_MODULE_HOOKS_DICT"),
}  # fmt: skip

_MODES = (
    "GLOBAL_STATE", "GRAD_MODE", "DETERMINISTIC_ALGORITHMS", "FSDP_TRAINING_STATE", "TORCH_FUNCTION_STATE", "DEFAULT_DEVICE",
    "DUAL_LEVEL", "FUNCTORCH_STACK_MATCH", "AUTOGRAD_SAVED_TENSORS_HOOKS",
)  # fmt: skip
"""Guards of both engines about the state of the process, which each groups in its own way."""

_HOLDS = {
    "its identity": ("its class", "its code", "that it is not None"),
    "its value": ("its class", "its length", "its keys", "that it is not None"),
    "the tensor's metadata": ("its class", "that it is not None"),
    "its class": ("that it is not None",),
    "its keys": ("its length",),
    "the state of the module tree": ("its class", "that it is not None"),
}
"""Fact -> weaker ones that follow from it."""

_OF: dict[str, frozenset[str]] = {
    kind: frozenset(fact for fact, kinds in _FACTS.items() if kind in kinds) for kinds in _FACTS.values() for kind in kinds
}


@dataclass(frozen=True, slots=True)
class Claim:
    """What one engine relies on about a value: facts, with those that follow from them, and the guards that say so."""

    facts: frozenset[str]
    guards: tuple[ev.GuardInstalled, ...]


@dataclass(frozen=True, slots=True)
class GuardDifference:
    """A place of which one engine relies on more than the other. `torch_side` and `engine_side`: the guards of each about it."""

    place: Place
    only_torch: tuple[str, ...]
    only_engine: tuple[str, ...]
    torch_side: tuple[ev.GuardInstalled, ...]
    engine_side: tuple[ev.GuardInstalled, ...]

    @property
    def cause(self) -> str:
        """What kind of difference it is."""
        sides = [(TORCH, self.only_torch), (DYNEXPLORE, self.only_engine)]
        clauses = [f"{name} checks {_listed(facts)}" for name, facts in sides if facts]
        return ", ".join(clauses) if len(clauses) > 1 else f"only {clauses[0]}"

    @property
    def message(self) -> str:
        """The same, of this place."""
        return f"`{self.place[1]}`: {self.cause}" if self.place[1] else self.cause


_TREE = frozenset(("the state of the module tree", "its class", "that it is not None"))
"""torch.compile checks a tree of modules by many guards, which stand at places of their own."""


def _listed(words: Iterable[str]) -> str:
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last


def claims(recording: Recording) -> dict[Place, Claim]:
    """What a recording's guards rely on, place by place, in the order of the guards; the state of the process is left out."""
    guards: dict[Place, list[ev.GuardInstalled]] = {}
    rename = {entered.frame: _renamed(recording, entered) for entered in recording.frames}
    for guard in recording.guards:
        is_empty = guard.kind == "SHAPE_ENV" and not (guard.expression or guard.expected)
        place = None if guard.kind in _MODES or is_empty else rename[guard.frame].place(guard)
        if place is not None:
            guards.setdefault(place, []).append(guard)
    return {
        place: Claim(_closed(frozenset().union(*map(_facts, installed))), tuple(installed)) for place, installed in guards.items()
    }


def _facts(guard: ev.GuardInstalled) -> frozenset[str]:
    return _OF.get(guard.kind, frozenset((guard.kind,)))


def _closed(facts: frozenset[str]) -> frozenset[str]:
    while (more := facts.union(*(_HOLDS.get(fact, ()) for fact in facts))) != facts:
        facts = more
    return facts


def unlike(torch_side: Mapping[Place, Claim], engine_side: Mapping[Place, Claim]) -> Iterator[GuardDifference]:
    """Where one side relies on more than the other, the places of torch.compile's guards first."""
    nothing = Claim(frozenset(), ())
    for place in dict.fromkeys((*torch_side, *engine_side)):
        torch_claim, engine_claim = torch_side.get(place, nothing), engine_side.get(place, nothing)
        only_torch, only_engine = (
            _strongest(torch_claim.facts - engine_claim.facts),
            _strongest(engine_claim.facts - torch_claim.facts - _more_of_trees(engine_claim)),
        )
        if only_torch and not engine_claim.guards and _is_covered(place, engine_side):
            only_torch = ()
        if only_torch or only_engine:
            yield GuardDifference(place, only_torch, only_engine, torch_claim.guards, engine_claim.guards)


def _more_of_trees(claim: Claim) -> frozenset[str]:
    return _TREE if "the state of the module tree" in claim.facts else frozenset()


def _strongest(facts: frozenset[str]) -> tuple[str, ...]:
    """The facts without those that follow from others of them, in the order of the table."""
    weaker = {weak for fact in facts for weak in _HOLDS.get(fact, ())}
    return tuple([fact for fact in _FACTS if fact in facts - weaker] + sorted(facts - _FACTS.keys()))


def _is_covered(place: Place, engine_side: Mapping[Place, Claim]) -> bool:
    """Whether our engine checks it as part of something: the tree of a module, or the rows of classes and of what libraries use,
    which are part of GLOBAL_STATE and MODULE_STATE."""
    function, source = place
    if re.match(r"torch\b|__import_|__builtins|dict\(type\(|type\(", source):
        return True
    heads = [source[: match.start()] for match in re.finditer(r"[.\[]", source)] + [source]
    return any(
        "the state of the module tree" in engine_side[function, head].facts for head in heads if (function, head) in engine_side
    )


# -- places ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Names:
    """How the sources of a frame are said: the function they belong to, what stands for the beginning of a source, and the file
    of the function. `wraps`: it is the engine's wrapper around a module, whose own arguments nobody asks about."""

    function: str
    beginnings: Mapping[str, str]
    file: str = ""
    wraps: bool = False

    def place(self, guard: ev.GuardInstalled) -> Place | None:
        """Where the value of a guard is found; None: in the wrapper alone, or on the stack where a graph broke, without a name."""
        source, is_own = self._name_of(guard.source)
        if re.search(r"\b___stack\d", source):
            return None
        if guard.kind == "NAME_ABSENT":
            return self.function, f"{source}[{guard.expected}]"
        if guard.scope == "global" and not is_own:
            return "", self._in_its_module(source)
        return None if self.wraps and not is_own else (self.function, source)

    def _name_of(self, source: str) -> tuple[str, bool]:
        for beginning, name in self.beginnings.items():
            if source == beginning or source.startswith((f"{beginning}.", f"{beginning}[")):
                return f"{name}{source[len(beginning) :]}", True
        return source, False

    def _in_its_module(self, source: str) -> str:
        """A global of the function's own module by its bare name."""
        parts = re.split(r"[/\\]", self.file.removesuffix(".py"))
        homes = (".".join(parts[start:]) for start in range(len(parts)))
        home = next((module for module in homes if module and source.startswith(f"{module}.")), "")
        return source.removeprefix(f"{home}.") if home else source


def _renamed(recording: Recording, entered: ev.FrameEntered) -> _Names:
    """Our engine enters a module through a wrapper, whose `target` and `args[0]` are `self` and `x` of the function behind it."""
    code = recording.original_code(entered.frame)
    if not is_entry(code):
        return _Names(plain_name(code.qualname), {}, code.file)
    called = [inlined for inlined in recording.of_frame(entered.frame, ev.InlineEntered) if not is_entry(inlined.code)]
    forward = next((inlined for inlined in called if inlined.attempt == recording.final_attempt(entered.frame)), None)
    if forward is None:
        return _Names("", {}, "", wraps=True)
    beginnings = {view.source: name for name, view in forward.arguments if view.source}
    longest_first = dict(sorted(beginnings.items(), key=lambda pair: -len(pair[0])))
    return _Names(plain_name(forward.code.qualname), longest_first, forward.code.file, wraps=True)


keep_old_names(globals())
