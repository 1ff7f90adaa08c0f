"""What a cache entry's guards notice: each property of a tensor that was relied on, and what is said about it."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import pytest
import torch

import dynexplore
from dynexplore.engine import events as ev
from dynexplore.engine.provenance.guard_codegen import compile_check
from dynexplore.engine.provenance.guards import GuardSet, Identity
from dynexplore.engine.provenance.sources import LocalSource, Scope
from dynexplore.engine.provenance.torch_guards import describe_tensor
from dynexplore.engine.runtime.optimized import wrap
from dynexplore.engine.runtime.stores import Options
from dynexplore.recording.recording import Recording
from dynexplore.session.session import watched_store
from engine_checks import CountingBackend, assert_same_as_eager
from sameness import differences


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
    """A tensor of a subclass is not taken for a plain one: it has a graph of its own, and the result has its class."""
    backend, _ = captured(plain(), plain().as_subclass(Subclass), plain())
    assert len(backend.graphs) == 2 and backend.runs == 3


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


# -- modes of the process ----------------------------------------------------------------------------------------------


def kinds_that_fail(fn: Callable[..., Any], calls: Iterable[tuple[Any, ...]]) -> set[str]:
    """Call a function with what is expected each time, captured twice in all: the kinds of guards that were the reason."""
    dynexplore.reset()
    recording = Recording()
    optimized = wrap(fn, watched_store("eager", Options(), recording).region)
    for expected, args in calls:
        assert not differences({"value": expected}, {"value": optimized(plain(), *args)})
    assert len(recording.of(ev.CacheEntryAdded)) == 2
    return {failed.kind for failed in recording.of(ev.GuardFailed)}


@contextlib.contextmanager
def default_dtype() -> Iterator[None]:
    torch.set_default_dtype(torch.float64)
    try:
        yield
    finally:
        torch.set_default_dtype(torch.float32)


@contextlib.contextmanager
def deterministic() -> Iterator[None]:
    torch.use_deterministic_algorithms(True)
    try:
        yield
    finally:
        torch.use_deterministic_algorithms(False)


def asks_for_modes(x: torch.Tensor) -> tuple[Any, ...]:
    modes = torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_autocast_enabled("cpu")
    return x * 2, modes, torch.get_default_dtype(), torch.are_deterministic_algorithms_enabled()


MODES: dict[str, Callable[[], Any]] = {
    "grad": torch.no_grad,
    "inference": torch.inference_mode,
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "default dtype": default_dtype,
    "deterministic algorithms": deterministic,
}


@pytest.mark.parametrize("name", MODES)
def test_each_mode_is_guarded(name: str) -> None:
    """What was captured without a mode is not used in it; out of it again it is."""

    def calls() -> Iterator[tuple[Any, tuple[Any, ...]]]:
        for mode in (contextlib.nullcontext, MODES[name], contextlib.nullcontext, MODES[name]):
            with mode():
                yield asks_for_modes(plain()), ()

    assert kinds_that_fail(asks_for_modes, calls()) == {"GLOBAL_STATE"}


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
    "ITERATOR_REMAINING": (2, iter([1, 2]), iter([1])),
    "ITERATOR_HAS_MORE": (1, iter([1, 2]), iter([1])),
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


# -- what programs notice ---------------------------------------------------------------------------------------------


class Named:
    """An object with some attributes."""

    def __init__(self, **attributes: Any) -> None:
        self.__dict__.update(attributes)


def multiplier(by: int) -> Callable[[Any], Any]:
    return lambda x: x * by


def adder(by: int) -> Callable[[Any], Any]:
    return lambda x: x + by


class Doubles(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 2


class Triples(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x * 3


def appends_and_measures(x: torch.Tensor, a: list[int], b: list[int]) -> Any:
    a.append(1)
    return x * len(b)


def assigns_and_reads(x: torch.Tensor, a: Any, b: Any) -> Any:
    a.n = 2
    return x * b.n


def with_own_dim(tensor: Any) -> torch.Tensor:
    tensor.dim = lambda: 7
    return tensor


ONE = [1]
DOUBLES, TRIPLES = Doubles(), Triples()

# kind -> a function of a tensor and more, what is handed in at the capture, what it must be captured again for
PROGRAMS: dict[str, tuple[Callable[..., Any], Callable[[], tuple[Any, ...]], Callable[[], tuple[Any, ...]]]] = {
    "TYPE_MATCH": (lambda x, k: (x * len(k), type(k).__name__), lambda: ([1, 2],), lambda: ((1, 2),)),
    "ID_MATCH": (lambda x, k: x * (3 if k is int else 5), lambda: (int,), lambda: (float,)),
    "FUNCTION_MATCH": (lambda x, k: k(x), lambda: (torch.sin,), lambda: (torch.cos,)),
    "NN_MODULE": (lambda x, k: k(x), lambda: (DOUBLES,), lambda: (TRIPLES,)),
    "CODE_MATCH": (lambda x, k: k(x), lambda: (multiplier(3),), lambda: (adder(3),)),
    "EQUALS": (lambda x, k: (x * 2, k + "!"), lambda: ("a",), lambda: ("b",)),
    "LIST_LENGTH": (lambda x, k: x * len(k), lambda: ([1],), lambda: ([1, 2],)),
    "DICT_KEYS": (lambda x, k: (x * 2, list(k)), lambda: ({"a": 1},), lambda: ({"b": 1},)),
    "SET_CONTENT": (lambda x, k: x * (3 if 2 in k else 5), lambda: ({1, 2},), lambda: ({1, 3},)),
    "ATTRIBUTE_ABSENT": (lambda x, k: x * getattr(k, "n", 5), lambda: (Named(),), lambda: (Named(n=3),)),
    "NO_INSTANCE_OVERRIDE": (lambda x, k: x * k.dim(), lambda: (torch.ones(2),), lambda: (with_own_dim(torch.ones(2)),)),
    "ALIAS": (appends_and_measures, lambda: (ONE[:],) * 2, lambda: (ONE[:], ONE[:])),
    "DISTINCT": (lambda x, a, b: x * (3 if a is b else 5), lambda: (Named(), Named()), lambda: (Named(),) * 2),
    "NO_ATTRIBUTE_ALIAS": (assigns_and_reads, lambda: (Named(n=1), Named(n=1)), lambda: (Named(n=1),) * 2),
    "ITERATOR_REMAINING": (lambda x, k: x * sum(list(k)), lambda: (iter([1, 2]),), lambda: (iter([1, 2, 3]),)),
    "ITERATOR_HAS_MORE": (lambda x, k: x * next(k, 5), lambda: (iter([1, 2, 3]),), lambda: (iter([]),)),
}


@pytest.mark.parametrize("kind", PROGRAMS)
def test_a_program_notices(kind: str) -> None:
    """Where a fact of this kind no longer holds the program is captured again; the report names the kind."""
    fn, first, other = PROGRAMS[kind]
    assert kind in kinds_that_fail(fn, ((fn(plain(), *make()), make()) for make in (first, other, first)))


class Three:
    n = 3


class Five:
    n = 5


THING: Any = Three


def reads_a_global(x: torch.Tensor) -> torch.Tensor:
    return x * THING.n if isinstance(THING, type) else THING(x)


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [("ID_MATCH", Three, Five), ("NN_MODULE", DOUBLES, TRIPLES), ("FUNCTION_MATCH", torch.sin, torch.cos), ("EQUALS", 3, 4)],
)
def test_another_object_in_a_global(kind: str, one: Any, other: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """What stands in the globals is asked in C, by one `DictGuard`."""
    fn = reads_a_number if kind == "EQUALS" else reads_a_global

    def calls() -> Iterator[tuple[Any, tuple[Any, ...]]]:
        for thing in (one, other, one):
            monkeypatch.setitem(globals(), "THING", thing)
            yield fn(plain()), ()

    assert kind in kinds_that_fail(fn, calls())


def reads_a_number(x: torch.Tensor) -> torch.Tensor:
    return x[:THING]


def reads_items(x: torch.Tensor, items: Any) -> Any:
    return x * items[0], items[1], items[2](x), len(items)


ITEMS = (2.0, "a", torch.sin, None)
CHANGED_ITEMS = {
    "a number": (3.0, *ITEMS[1:]), "a zero's sign": (-0.0, *ITEMS[1:]), "a number's class": (2, *ITEMS[1:]),
    "a string": (2.0, "b", *ITEMS[2:]), "a function": (2.0, "a", torch.cos, None),
    "one more": (*ITEMS, None), "one less": ITEMS[:3],
}  # fmt: skip


@pytest.mark.parametrize(
    ("kind", "items", "others"),
    [("NAME_PRESENT", [{"a": 1}, {"a": 1}], [{"a": 1}, {"b": 1}]), ("NAME_ABSENT", [{"b": 1}, {"b": 1}], [{"b": 1}, {"a": 1}])],
)
def test_a_key_of_an_item(kind: str, items: Any, others: Any) -> None:
    """A guard about what an item holds is none about the item."""

    def looks_into_items(x: torch.Tensor, items: Any) -> Any:
        return x * 2, "a" in items[0], "a" in items[1]

    calls = [(looks_into_items(plain(), each), (each,)) for each in (items, others, items)]
    assert kinds_that_fail(looks_into_items, calls) == {kind}


@pytest.mark.parametrize("cls", [list, tuple])
@pytest.mark.parametrize("what", CHANGED_ITEMS)
def test_an_item_that_changed(cls: Any, what: str) -> None:
    """What stands in one list or tuple is asked in C, by one `SequenceGuard`."""
    first, other = (0.0, *ITEMS[1:]) if what == "a zero's sign" else ITEMS, CHANGED_ITEMS[what]
    calls = [(reads_items(plain(), cls(items)), (cls(items),)) for items in (first, other, first, other)]
    assert kinds_that_fail(reads_items, calls) & {"EQUALS", "FUNCTION_MATCH", "ID_MATCH", "LIST_LENGTH", "NUMBER"}


def test_a_number_that_varies_stays_a_number() -> None:
    """What is computed with it outside of the graph is done for ints and floats, and not for what only knows the operator."""

    def adds(x: torch.Tensor, k: Any) -> Any:
        return x * 2, k + k

    report = assert_same_as_eager(adds, plain(), 1.5, then=[(plain(), 2.5), (plain(), "a"), (plain(), 3), (plain(), True)])
    assert len(report.graphs) == 4


class Many(torch.nn.Module):
    """More parameters than are handed to the check one by one."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = torch.nn.ParameterList(torch.full((2, 3), float(number)) for number in range(20))

    def forward(self, x: torch.Tensor, other: torch.Tensor) -> Any:
        for weight in self.weights:
            x = x + weight
        return x * other, self.weights[7].requires_grad


def test_a_tensor_that_the_entry_holds_is_matched() -> None:
    """A parameter is the same object, but wants no gradient any more."""
    model, backend = Many(), CountingBackend()
    optimized = dynexplore.optimize(backend)(model)
    assert [optimized(plain(), plain())[1] for _ in range(2)] == [True, True]
    model.weights[7].requires_grad_(False)
    assert [optimized(plain(), plain())[1] for _ in range(2)] == [False, False]
    assert len(backend.graphs) == 2


def test_a_tensor_that_is_one_of_those_that_the_entry_holds() -> None:
    """No graph is handed one tensor twice: a backend may write to one of them."""
    model, handed = Many(), []

    def backend(graph: torch.fx.GraphModule, inputs: Any) -> Any:
        def run(*args: torch.Tensor) -> Any:
            handed.append((len(args), len({id(arg) for arg in args})))
            return graph.forward(*args)

        return run

    optimized = dynexplore.optimize(backend)(model)
    for other in (torch.nn.Parameter(plain()), model.weights[3], torch.nn.Parameter(plain())):
        assert not differences({"value": model(plain(), other)}, {"value": optimized(plain(), other)})
    assert handed == [(22, 22), (21, 21), (22, 22)]


def _put(table: dict[Any, Any], key: Any, value: Any) -> None:
    table[key] = value


KEY_CHANGES: dict[str, Callable[[dict[Any, Any]], object]] = {
    "value": lambda table: _put(table, 1, 7.0),
    "added": lambda table: _put(table, 9, 2.0),
    "removed": lambda table: table.pop(2),
    "moved to the end": lambda table: _put(table, 1, table.pop(1)),
    "of another type": lambda table: (table.clear(), table.update({True: 3.0, 2: 5.0, "s": 4.0, 2.5: 6.0, None: 1.0})),
    "all others": lambda table: (table.clear(), table.update(a=1.0)),
    "a tensor": lambda table: _put(table, 2, torch.full((3,), 9.0)),
}


@pytest.mark.parametrize("place", ["argument", "global", "attributes"])
@pytest.mark.parametrize("change", KEY_CHANGES)
def test_keys_of_a_dict_are_compared_in_c(change: str, place: str) -> None:
    """A key that came, went, moved or is of another type is noticed; as long as none did nothing is captured again."""

    class Holder:
        pass

    holder = Holder()
    table: Any = vars(holder) if place == "attributes" else {}
    names = {"a1": 3.0, "b2": 5.0} if place == "attributes" else {1: 3.0, 2: 5.0, "s": 4.0, 2.5: 6.0, None: 1.0}
    table.update(names)

    def walk(x: torch.Tensor, given: dict[Any, Any]) -> Any:
        for key in given:
            x = x * 2 + given[key]
        return x, [(type(key), key) for key in given], given.get(2)

    def walk_global(x: torch.Tensor, _: object) -> Any:
        return walk(x, table)

    fn = walk_global if place == "global" else walk
    backend = CountingBackend()
    optimized, x = dynexplore.optimize(backend)(fn), torch.ones(3)
    for _ in range(2):
        assert not differences({"value": fn(x, table)}, {"value": optimized(x, table)})
    graphs = len(backend.graphs)
    assert graphs == 1
    KEY_CHANGES[change](table) if place != "attributes" else _put(table, "c3", 1.0)
    for _ in range(3):
        assert not differences({"value": fn(x, table)}, {"value": optimized(x, table)})
    graphs = len(backend.graphs)
    assert not differences({"value": fn(x, table)}, {"value": optimized(x, table)})
    assert graphs == len(backend.graphs)
