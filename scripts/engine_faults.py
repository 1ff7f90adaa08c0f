"""What can be broken in the engine: guards that hold always, facts that are not noted, handlers that do the wrong thing.

Which idea lives here: a fault is noticed only by a test in which the broken part would have said something else. So each
part can be watched as well as broken: for a guard a test counts if the guard said *no* in it, for a handler if it ran.

- A guard kind has up to three faces: the condition in the generated check, the compare in a `DictGuard` or `SequenceGuard`, and the
  explanation of a miss. Each is broken by itself, as a test of one says nothing about the others.
- What is asked in C is broken in C (native_faults.py).
- A fact that `ModuleGuards` does not note is asked by nobody.
- Each row of the tables of aliasing (reasons to skip a backend, passes, wrappers) and of specialization (sizes, strides, numbers,
  objects) answers always yes, or always no.
- A handler gets its two topmost operands swapped, or its result dropped: it becomes None, or nothing is done if there is none.

In:  the engine, imported. Out: `faults()`; `watch()`, which from then on adds what is used to `SEEN`.
"""

from __future__ import annotations

import contextlib
import functools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import native_faults

from dynexplore.engine.aliasing.eligibility import RULES
from dynexplore.engine.aliasing.passes import PASSES
from dynexplore.engine.aliasing.wrappers import WRAPPERS
from dynexplore.engine.bytecode import OPCODES
from dynexplore.engine.bytecode.opcodes import stack_change, stack_effect
from dynexplore.engine.provenance import guard_check, guard_codegen, guard_emitter, module_guards, torch_guards
from dynexplore.engine.provenance.guards import GUARD_KINDS, GuardKind
from dynexplore.engine.specialization.tables import NUMBER_ROWS, OBJECT_ROWS, SIZE_ROWS, STRIDE_ROWS
from dynexplore.engine.translate import dispatch
from dynexplore.engine.translate.call_wrappers import CALL_WRAPPERS
from dynexplore.engine.translate.translator import HANDLERS
from dynexplore.engine.variables.scalars.constant import ConstantVariable

SEEN: set[str] = set()
"""The parts that were used since somebody cleared it."""


class Fault:
    """One way to break the engine.

    `needs`: a test can notice it if it uses a part of each of these sets. `equivalent`: why nobody can notice it. `about`: the file
    of tests that are about it, which run first.
    """

    def __init__(
        self, name: str, plant: Callable[[], None], *needs: Iterable[str], equivalent: str = "", about: str = ""
    ) -> None:
        self.name, self.plant, self.equivalent, self.about = name, plant, equivalent, about
        self.needs = tuple(map(frozenset, needs))

    @property
    def is_of_guard(self) -> bool:
        """Whether a guard is broken."""
        return not any(part.startswith("opcode ") for part in frozenset().union(*self.needs))


def faults(library: Any) -> Iterator[Fault]:
    """All faults; `library` is what native_faults.py has built."""
    yield from condition_faults()
    yield from dictionary_faults()
    yield from explanation_faults()
    yield from noting_faults()
    yield from native_guard_faults(library)
    yield from table_faults()
    yield from handler_faults()


def watch() -> None:
    """From now on `SEEN` collects what is used; what was made before is not watched."""
    watch_conditions()
    watch_dictionaries()
    watch_explanations()
    watch_noting()
    watch_tables()
    watch_handlers()


def _noted(part: str) -> Callable[[Any], Any]:
    """A function that gives back what it is given, and notes the part if that is no."""

    def note(answer: Any) -> Any:
        if not answer:
            SEEN.add(part)
        return answer

    return note


# -- conditions of the generated check --------------------------------------------------------------------------------

HELD, ONE_OBJECT = "TENSOR_MATCH of tensors that the entry holds", "TENSOR_MATCH: none of the others is one that the entry holds"
MODES, FUNCTION_MODES, SUBCLASSES = "GLOBAL_STATE: modes", "GLOBAL_STATE: function modes", "GLOBAL_STATE: subclass answers"
CONDITIONS = (
    *(kind for kind in GUARD_KINDS if kind not in ("GLOBAL_STATE", "MODULE_STATE")),
    *(HELD, ONE_OBJECT, MODES, FUNCTION_MODES, SUBCLASSES),
)  # fmt: skip
ASKED_ELSEWHERE = dict.fromkeys(("NAME_ABSENT", "ATTRIBUTE_ABSENT"), "a name stands in a dictionary, so a DictGuard asks for it")
_writers: list[str] = []  # whose conditions are being written


def condition_faults() -> Iterator[Fault]:
    """Each condition of the generated check holds always."""
    for part in CONDITIONS:
        plant = lambda part=part: _break_condition(part)  # noqa: E731
        yield Fault(f"{part} holds always", plant, {f"condition {part}"}, equivalent=ASKED_ELSEWHERE.get(part, ""))


def watch_conditions() -> None:
    """Each condition notes when it is false."""
    notes = {part: _noted(f"condition {part}") for part in CONDITIONS}
    _rewrite_conditions(lambda emitter, part, text: f"{emitter.namer.name(notes[part])}({text})")


def _break_condition(broken: str) -> None:
    _rewrite_conditions(lambda emitter, part, text: "True" if part == broken else text)


def _rewrite_conditions(rewrite: Callable[[Any, str, str], str]) -> None:
    right = guard_emitter.Emitter.require

    def require(self: Any, condition: str) -> None:
        if condition not in ("True", "") and not _is_asked_in_c():
            condition = rewrite(self, _part_of(self, condition), condition)
        right(self, condition)

    guard_emitter.Emitter.require = require  # type: ignore[method-assign]
    _tell(guard_codegen, "_emit_guard", lambda emitter, guard: guard.kind)
    _tell(guard_codegen, "_emit_tensors", lambda *_: "TENSOR_MATCH")
    _tell(guard_codegen, "_shape_relations", lambda *_: "SHAPE_ENV")
    for grouped in (guard_codegen._DictFacts, guard_codegen._SequenceFacts):
        _tell(grouped, "emit", lambda *_: _ASKED_IN_C)


_ASKED_IN_C = "DictGuard or SequenceGuard"


def _is_asked_in_c() -> bool:
    return bool(_writers) and _writers[-1] == _ASKED_IN_C


def _tell(owner: Any, name: str, part: Callable[..., str]) -> None:
    """While this function runs it says what the conditions are about."""
    right = getattr(owner, name)

    def telling(*args: Any) -> Any:
        _writers.append(part(*args))
        try:
            return right(*args)
        finally:
            _writers.pop()

    setattr(owner, name, telling)


def _part_of(emitter: Any, condition: str) -> str:
    """Which part a condition belongs to: said by who writes it, or seen in what it calls."""
    if _writers:
        part = _writers[-1]
        if part == "TENSOR_MATCH":
            return ONE_OBJECT if " not in " in condition else HELD if "(*" in condition else part
        return part
    called = re.match(r"(c\d+)\(\)", condition)
    if called is None:
        return "STORAGE_OVERLAP"
    function = emitter.namer.namespace[called[1]]
    if isinstance(getattr(function, "__self__", None), module_guards.SubclassAnswers):
        return SUBCLASSES
    return MODES if condition.endswith("()") else FUNCTION_MODES


# -- compares in a DictGuard ------------------------------------------------------------------------------------------

DICTIONARIES = ("ID_MATCH", "FUNCTION_MATCH", "NN_MODULE", "EQUALS", "NAME_ABSENT", "ATTRIBUTE_ABSENT")


def dictionary_faults() -> Iterator[Fault]:
    """Guards of a kind that stand in one dictionary are left out of its `DictGuard`."""
    for kind in DICTIONARIES:
        plant = lambda kind=kind: _remake_dictionaries(lambda checks: _guard_of([c for k, c in checks if k != kind]))  # noqa: E731
        yield Fault(f"{kind} in a DictGuard holds always", plant, {f"dictionary {kind}"})


def watch_dictionaries() -> None:
    """Each compare in a `DictGuard` notes when it is false."""
    _remake_dictionaries(_WatchedGuard)


class _WatchedGuard:
    """A `DictGuard` that asks one by one who said no."""

    def __init__(self, checks: list[tuple[str, Any]]) -> None:
        self.whole = _guard_of([check for _, check in checks])
        self.single = [(f"dictionary {kind}", _guard_of([check])) for kind, check in checks]

    def __call__(self, dictionary: object) -> bool:
        holds = self.whole(dictionary)
        if not holds:
            SEEN.update(part for part, guard in self.single if not guard(dictionary))
        return holds


_RightGuard: Any = guard_codegen.DictGuard


def _guard_of(checks: list[Any]) -> Any:
    return _RightGuard(tuple(checks))


def _remake_dictionaries(make: Callable[[list[tuple[str, Any]]], Any]) -> None:
    """Make each `DictGuard` in another way, from pairs (kind of guard, compare)."""
    collect, emit = guard_codegen._facts_of_dictionaries, guard_codegen._DictFacts.emit
    kinds: dict[int, list[str]] = {}

    def collect_kinds(guards: Any) -> Any:
        groups = collect(guards)
        for group in groups.values():
            kinds[id(group)] = [guard.kind for guard in guards if groups.get(id(guard)) is group]
        return groups

    def emit_remade(self: Any, emitter: Any) -> None:
        pairs = list(zip(kinds.pop(id(self)), self.checks, strict=True))
        guard_codegen.DictGuard = lambda checks: make(pairs)  # type: ignore[assignment, misc]
        emit(self, emitter)

    guard_codegen._facts_of_dictionaries = collect_kinds
    guard_codegen._DictFacts.emit = emit_remade  # type: ignore[method-assign]


# -- explanations of a miss -------------------------------------------------------------------------------------------


def explanation_faults() -> Iterator[Fault]:
    """What explains a miss finds nothing wrong with guards of one kind."""
    for kind in GUARD_KINDS:
        plant = _EXPLAINED_ELSEWHERE.get(kind) or (lambda kind=kind: _never_the_reason(kind))
        yield Fault(f"{kind} is never the reason", plant, {f"reason {kind}"})


def watch_explanations() -> None:
    """What explains a miss notes which kinds of guards it found wrong."""
    check, walk = guard_check.GuardCheck, module_guards.StateWalk
    first, one, of_walk = check.first_failure, check.failure_of, walk.first_failure
    check.first_failure = lambda self, scope: _reason(first(self, scope))  # type: ignore[method-assign]
    check.failure_of = lambda self, guard, scope: _reason(one(self, guard, scope))  # type: ignore[method-assign]
    walk.first_failure = lambda self: _reason(of_walk(self), "MODULE_STATE")  # type: ignore[method-assign]


def _reason(failure: Any, kind: str = "") -> Any:
    if failure is not None:
        SEEN.add(f"reason {kind or failure.guard.kind}")
    return failure


def _never_the_reason(kind: str) -> None:
    row = GUARD_KINDS[kind]
    GUARD_KINDS[kind] = GuardKind(row.name, row.meaning, row.condition, lambda value, expected: True, row.describe)


def _no_tensor_differs() -> None:
    torch_guards.TensorMatch.mismatch = lambda self, value: None  # type: ignore[method-assign]


def _no_relation_fails() -> None:
    torch_guards.ShapeRelation.holds = lambda self, scope: True  # type: ignore[method-assign]


def _no_overlap() -> None:
    guard_check._overlap_failure = lambda guard, scope: None


def _no_mode_differs() -> None:
    right = guard_check.GuardCheck.first_failure

    def first_failure(self: Any, scope: Any) -> Any:
        kept, self.global_state, self.subclass_answers = (self.global_state, self.subclass_answers), None, None
        try:
            return right(self, scope)
        finally:
            self.global_state, self.subclass_answers = kept

    guard_check.GuardCheck.first_failure = first_failure  # type: ignore[method-assign]


def _no_state_differs() -> None:
    module_guards.StateWalk.first_failure = lambda self: None  # type: ignore[method-assign]


_EXPLAINED_ELSEWHERE = {
    "TENSOR_MATCH": _no_tensor_differs,
    "SHAPE_ENV": _no_relation_fails,
    "STORAGE_OVERLAP": _no_overlap,
    "GLOBAL_STATE": _no_mode_differs,
    "MODULE_STATE": _no_state_differs,
}

# -- facts about objects, classes and functions -----------------------------------------------------------------------


def _native(*sites: str) -> set[str]:
    return {f"native {site}" for site in sites}


NOTED = {
    # the method that notes a fact, and where the walk asks for it
    "guard_on_lookup": _native("class: is", "class: is_weak", "class: absent"),
    "guard_on_owner": _native("class: found_in"),
    "guard_on_bases": _native("class: mro"),
    "guard_on_function": _native(*(site for site in native_faults.NUMBERS if site.startswith("function: "))),
    "guard_on_value": _native("object: is", "object: is_weak"),
    "guard_on_process": _native("object: is", "object: is_weak", "object: absent"),
    "guard_on_absence": _native("object: absent"),
    "guard_on_emptiness": _native("object: empty"),
    "guard_on_item": _native("items: is", "items: is_weak"),
    "guard_on_keys": _native("items: how many", "items: any"),
}


def noting_faults() -> Iterator[Fault]:
    """Facts of one sort are not noted, so that nobody asks for them."""
    for name, sites in NOTED.items():
        plant = lambda name=name: setattr(module_guards.ModuleGuards, name, lambda self, *args, **kwargs: None)  # noqa: E731
        yield Fault(f"ModuleGuards.{name} notes nothing", plant, {f"noted {name}"}, sites)

    def no_answers() -> None:
        module_guards.SubclassAnswers.note = lambda *_: None  # type: ignore[method-assign]

    yield Fault("SubclassAnswers.note notes nothing", no_answers, {f"condition {SUBCLASSES}"})


def watch_noting() -> None:
    """Facts tell that they are noted."""
    for name in NOTED:
        right = getattr(module_guards.ModuleGuards, name)

        def note(self: Any, *args: Any, name: str = name, right: Any = right, **kwargs: Any) -> None:
            SEEN.add(f"noted {name}")
            right(self, *args, **kwargs)

        setattr(module_guards.ModuleGuards, name, note)


# -- what is asked in C -----------------------------------------------------------------------------------------------

_CLASS_KINDS = _native("class: is", "class: is_weak", "class: found_in", "class: absent", "class: mro")
_OBJECT_KINDS = _native("object: is", "object: is_weak", "object: equal", "object: absent")
VERSIONS = {
    # where a version stands for the answers, some answer must have been no
    "DictGuard: version of the dictionary": _native(*(f"DictGuard: {kind}" for kind in (*native_faults.KINDS, "absent"))),
    "items: version of the dictionary": _native(*(f"items: {kind}" for kind in native_faults.KINDS)),
    "object: version of its dictionary": _OBJECT_KINDS,
    "class: version": _CLASS_KINDS,
}


def native_guard_faults(library: Any) -> Iterator[Fault]:
    """Each question that is asked in C is answered yes."""
    for site in native_faults.NUMBERS:
        plant = lambda site=site: native_faults.break_site(library, site)  # noqa: E731
        needs = [VERSIONS[site]] if site in VERSIONS else []
        yield Fault(f"C, {site} holds always", plant, _native(site), *needs)


# -- the tables of engine/aliasing and engine/specialization ------------------------------------------------------------

def _by_reason(rows: Iterable[Any]) -> dict[str, Any]:
    """The rows of a table by their reason, and by their kind where two give the same; the last row has no predicate."""
    *asked, _ = rows
    reasons = [row.reason for row in asked]
    return {f"{row.reason}, {row.kind}" if reasons.count(row.reason) > 1 else row.reason: row for row in asked}


TABLES: dict[str, Mapping[str, Any]] = {
    "eligibility": RULES, "pass": PASSES, "wrapper": WRAPPERS, "call wrapper": CALL_WRAPPERS,
    "size": _by_reason(SIZE_ROWS), "stride": _by_reason(STRIDE_ROWS), "number": _by_reason(NUMBER_ROWS),
    "object": _by_reason(OBJECT_ROWS),
}  # fmt: skip
_OF_ALIASING = ("eligibility", "pass", "wrapper", "call wrapper")
PREDICATES = {
    "eligibility": "predicate", "pass": "wants", "wrapper": "wants", "call wrapper": "wants",
    **dict.fromkeys(("size", "stride", "number", "object"), "applies"),
}  # fmt: skip

NO_DIFFERENCE = {
    ("eligibility", "BE29", True): "it is asked in no other case",
    ("wrapper", "regenerate output aliases", True): "it is what the row says",
    ("wrapper", "cut history at no_grad views", True): "it is what the row says",
    ("call wrapper", "note program code", True): "it is what the row says",
    **{
        ("call wrapper", name, True): "it costs time and changes nothing"
        for name in ("rollback", "no capture inside wrapper subclasses", "disable __torch_function__", "restore modes")
    },
    ("pass", "inference mode to no_grad", True): "a graph without such blocks stays as it is",
    ("pass", "save mutated inputs", True): "it costs memory and changes nothing",
    ("pass", "keep raising operators", True): "a graph without such operators stays as it is",
    ("pass", "insert deferred runtime asserts", True): "a graph without deferred checks stays as it is",
    ("pass", "clone mutated inputs", True): "without inputs to clone the graph is copied and stays as it is",
    ("wrapper", "drop extra outputs", True): "without extra outputs all are kept",
    ("wrapper", "detach no_grad views", True): "without such views nothing is detached",
    ("wrapper", "mark inference tensors", True): "without such outputs nothing is marked",
    ("wrapper", "place warnings", True): "the warnings of a compiled graph name the user's line already",
    ("wrapper", "preserve version counters", True): "without hidden mutations no counter is preserved",
}
"""The faults that nobody could notice, with the reason."""


def table_faults() -> Iterator[Fault]:
    """Each predicate says always yes, and always no; a test can notice that if it said the other thing there."""
    for table, rows in TABLES.items():
        for name in rows:
            for answer in (True, False):
                equivalent = NO_DIFFERENCE.get((table, name, answer), "")
                plant = functools.partial(_always, table, name, answer)
                needs = {_answered(table, name, not answer)}
                about = "aliasing/test_lower.py" if table in _OF_ALIASING else "specialization/test_tables.py"
                yield Fault(f"{table} {name} is always {answer}", plant, needs, equivalent=equivalent, about=about)


def watch_tables() -> None:
    """Note what each predicate says."""
    for table, rows in TABLES.items():
        for name, row in rows.items():
            right: Callable[[Any], Any] = getattr(row, PREDICATES[table])

            def note(one: Any, table: str = table, name: str = name, right: Callable[[Any], Any] = right) -> bool:
                answer = bool(right(one))
                SEEN.add(_answered(table, name, answer))
                return answer

            object.__setattr__(row, PREDICATES[table], note)  # a row is frozen


def _always(table: str, name: str, answer: bool) -> None:
    object.__setattr__(TABLES[table][name], PREDICATES[table], lambda one: answer)


def _answered(table: str, name: str, answer: bool) -> str:
    return f"{table} {name} says {answer}"


# -- handlers ---------------------------------------------------------------------------------------------------------

EQUIVALENT = {
    "IS_OP: operands swapped": "`a is b` is `b is a`, and looking at identities has no effects that could change places",
    "NOP: result dropped": "to do nothing is what it does",
    "POP_TOP: result dropped": "to pop a value and do nothing else is what it does",
    "RETURN_GENERATOR: result dropped": "it pushes None, which the POP_TOP behind it drops",
}
ALWAYS_BREAKS = {"LOAD_BUILD_CLASS"}


def handler_faults() -> Iterator[Fault]:
    """Each handler with its operands swapped, and with its result dropped."""
    for op, handler in sorted(HANDLERS.items()):
        used = {f"opcode {op}"}
        operands = OPCODES[op].effect.partition("--")[0].split()
        if len(operands) > 1 or any("[" in word for word in operands):
            name = f"{op}: operands swapped"
            yield Fault(name, _planter(op, swapped(op, handler)), used, equivalent=EQUIVALENT.get(name, ""))
        name = f"{op}: result dropped"
        yield Fault(name, _planter(op, dropped(op, handler)), used, equivalent=EQUIVALENT.get(name, ""))


def watch_handlers() -> None:
    """Each handler notes that it runs."""
    for op, handler in HANDLERS.items():

        def run(frame: Any, step: Any, ctx: Any, part: str = f"opcode {op}", handler: Any = handler) -> None:
            SEEN.add(part)
            handler(frame, step, ctx)

        HANDLERS[op] = run


_planted = contextlib.ExitStack()  # for the life of the process


def _planter(op: str, wrong: Any) -> Callable[[], None]:
    return lambda: (_planted.enter_context(dispatch.override(op, wrong)), None)[1]


def swapped(op: str, right: Any) -> Any:
    """A handler that finds its two topmost operands in the wrong order (of a call: its last two arguments)."""

    def handler(frame: Any, step: Any, ctx: Any) -> None:
        wanted = stack_change(op, step.arg).popped - (2 if "callable_null_pair" in OPCODES[op].effect else 0)
        if wanted >= 2:
            frame.stack[-1], frame.stack[-2] = frame.stack[-2], frame.stack[-1]
        right(frame, step, ctx)

    return handler


def dropped(op: str, right: Any) -> Any:
    """A handler whose result is None, or that does nothing where there is no result."""
    has_result = bool(OPCODES[op].effect.partition("--")[2].split())

    def nothing(frame: Any, step: Any, ctx: Any) -> None:
        frame.popn(stack_change(op, step.arg).popped)

    def none_instead(frame: Any, step: Any, ctx: Any) -> None:
        before = len(frame.stack)
        if op not in ALWAYS_BREAKS:
            right(frame, step, ctx)
        else:
            frame.push(ConstantVariable(None))
        if len(frame.stack) == before + stack_effect(op, step.arg) and frame.stack:
            frame.stack[-1] = ConstantVariable(None)

    def gives_none(frame: Any, step: Any, ctx: Any) -> None:
        frame.stack[-1] = ConstantVariable(None)
        right(frame, step, ctx)

    return gives_none if op in ("RETURN_VALUE", "YIELD_VALUE") else none_instead if has_result else nothing
