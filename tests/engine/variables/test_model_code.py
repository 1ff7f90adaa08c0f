"""What the code of real models does around its layers: copies of configurations, logging, annotations, operators of its own."""

from __future__ import annotations

import copy
import functools
import logging
import typing
from collections import OrderedDict
from typing import Any

import pytest
import torch
from programs.program_table import Programs

import dynexplore
from engine_checks import CountingBackend, assert_same_as_eager

PROGRAMS = Programs()
program = PROGRAMS.add
X = torch.arange(6.0).reshape(2, 3) / 10


class Config:
    """A configuration with plain and mutable attributes, a property, and a name that stands for another."""

    names = {"width": "size"}

    def __init__(self) -> None:
        self.size = 4
        self.factors = [1, 2]
        self.nested = {"a": [1]}
        self.itself = self

    def __getattribute__(self, name: str) -> Any:
        names = super().__getattribute__("names")
        return super().__getattribute__(names.get(name, name))

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(self.names.get(name, name), value)

    @property
    def twice(self) -> int:
        return self.size * 2


class Items(list):  # type: ignore[type-arg]
    """A list with an attribute."""


class Table(dict):  # type: ignore[type-arg]
    """A dict with an attribute."""


class WithState:
    """It says itself what is copied of it."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __getstate__(self) -> dict[str, int]:
        return {"half": self.size // 2}

    def __setstate__(self, state: dict[str, int]) -> None:
        self.size = state["half"] * 20


class Reduced:
    """It says by `__reduce__` how it is made again."""

    def __init__(self, size: int) -> None:
        self.size = size

    def __reduce__(self) -> Any:
        return Reduced, (self.size + 1,)


CONFIG = Config()
ITEMS, TABLE = Items([1, 2]), Table(a=1)
ITEMS.extra = TABLE.extra = 5  # type: ignore[attr-defined]
LIST, OPTIONAL, TUPLE, UNION = map(vars(typing).get, ("List", "Optional", "Tuple", "Union"))
LOG = logging.getLogger("dynexplore.tests.quiet")
LOG.setLevel(logging.ERROR)


@program(X, graphs=1, ops=2)
def a_copied_configuration(x):
    made = copy.copy(CONFIG)
    made.size = 7
    made.factors.append(3)
    return x * made.twice + CONFIG.width, made.width, made.factors is CONFIG.factors, CONFIG.factors.pop(), made.itself is CONFIG


@program(X, graphs=1, ops=2)
def a_deeply_copied_configuration(x):
    made = copy.deepcopy(CONFIG)
    made.factors.append(3)
    made.nested["a"].append(2)
    return x * len(made.factors) + len(CONFIG.factors), made.nested, CONFIG.nested, made.itself is made


@program(X, graphs=1, ops=1)
def a_copied_object_that_leaves_the_frame(x):
    made = copy.copy(CONFIG)
    made.size = 1
    return x + 1, type(made) is Config, made.factors is CONFIG.factors, sorted(made.__dict__)


@program(X, graphs=1, ops=1)
def a_copied_object_whose_original_changes_afterwards(x):
    made = copy.copy(CONFIG)
    CONFIG.size = 9
    sizes = made.size, CONFIG.size
    CONFIG.size = 4
    return x * sizes[0], sizes


@program(X, graphs=1, ops=1)
def copied_subclasses_of_containers(x):
    items, table = copy.copy(ITEMS), copy.copy(TABLE)
    items.append(3)
    table["b"] = 2
    return x + items.extra, list(items), list(ITEMS), dict(table), dict(TABLE), table.extra


@program(X, WithState(6), graphs=1, ops=1)
def a_copied_object_with_a_state_of_its_own(x, value):
    return x * copy.copy(value).size, copy.deepcopy(value).size


@program(X, Reduced(6), graphs=1, ops=1, breaks=["DX205"])
def a_copied_object_that_is_reduced(x, value):
    return x * 2, copy.copy(value).size


@program(X, graphs=1, ops=1)
def a_deep_copy_of_an_object_dictionary(x):
    found = copy.deepcopy({**CONFIG.__dict__, "itself": None})
    found["factors"].append(1)
    return x + len(found["factors"]), len(CONFIG.factors), sorted(copy.deepcopy(ITEMS.__dict__))


@program(X, graphs=1, ops=1)
def logging_that_nobody_hears(x):
    LOG.debug("shape %s", x.shape)
    LOG.info("mean %s", x)
    LOG.warning("but")
    if LOG.isEnabledFor(logging.INFO):
        x = x + 1
    return x * 2


@program(X, graphs=1, ops=1)
def unions_and_their_parts(x):
    wanted = int | str | None
    return x + len(wanted.__args__), isinstance(3, wanted), list[int].__args__, type(None) in wanted.__args__


@program(X, graphs=1, ops=1)
def annotations_of_the_typing_module(x):
    found = torch.jit.annotate(LIST[OPTIONAL[TUPLE[int, str]]], [])
    made = list[int]()
    made.append(len(LIST[int].__args__))
    found.append((1, "a"))
    return x + made[0], found, isinstance(3, UNION[int, str]), LIST[int].__origin__ is list


class Output(OrderedDict):  # type: ignore[type-arg]
    """An output whose attributes are its items."""

    def __getitem__(self, key: Any) -> Any:
        if isinstance(key, str):
            return dict(self.items())[key]
        return tuple(self[name] for name in self)[key]

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setitem__(name, value)
        super().__setattr__(name, value)

    def __setitem__(self, key: str, value: Any) -> None:
        super().__setitem__(key, value)
        super().__setattr__(key, value)


@program(X, graphs=1, ops=2)
def an_output_whose_items_are_attributes(x):
    made = Output(first=x + 1, second=x * 2)
    made.third = x
    return made, made.first, made["second"], made[0]


@program(X, graphs=1, ops=2)
def an_ordered_output_of_pairs(x):
    return Output([("a", x + 1)], b=x * 2)


@program(X, graphs=1, ops=3)
def builtin_types_as_dtypes(x):
    return x.to(float), torch.zeros(2, dtype=int), torch.tensor(1, dtype=bool), x.to(complex), torch.tensor([1], dtype=int)


class Memo:
    """A method under a cache."""

    @functools.lru_cache(None)
    def power(self, x: Any, exponent: int) -> Any:
        return x**exponent


MEMO = Memo()


@program(X, graphs=3, ops=[1, 1, 1], breaks=["DX201", "DX201"])
def a_cached_method(x):
    return MEMO.power(x, 2) + Memo.power(MEMO, x, 3)


@program(X, graphs=1, ops=5)
def a_mode_that_is_set_already(x):
    with torch.enable_grad():
        y = x * 2
        torch.set_grad_enabled(False)
        z = y + 1
    after = torch.is_grad_enabled()
    return y, z, after, (x * 3).requires_grad


@program(X.clone().requires_grad_(), graphs=1, ops=5)
def a_mode_is_restored_whatever_was_set_inside(x):
    with torch.enable_grad():
        torch.set_grad_enabled(False)
        y = x * 2
    z = x * 3
    with torch.no_grad():
        torch.set_grad_enabled(True)
        u = x * 4
    return y.requires_grad, z, u


@PROGRAMS.parameters()
def test_program(run):
    """The program does under the engine what it does without, in as many graphs as expected."""
    run()


def test_a_mode_that_is_set_already_has_no_node() -> None:
    """`no_grad` inside `no_grad` changes nothing, and the graph says nothing of it."""

    @torch.no_grad()
    def inner(x: torch.Tensor) -> torch.Tensor:
        return x + 1

    counting = CountingBackend()
    with torch.no_grad():
        dynexplore.optimize(counting)(lambda x: inner(x) * 2)(X)
    assert counting.ops == [2]


def test_an_item_that_nobody_uses_has_no_node() -> None:
    """As in PyTorch: `x[:, None]` whose result is dropped is no operator; one with an index tensor may raise, and stays."""
    index = torch.tensor([0])

    def drops(x: torch.Tensor) -> torch.Tensor:
        x[:, None]
        x[index]
        return x + 1

    assert dynexplore.explain(drops)(X).op_count == 2


def test_logging_is_heard_again_when_its_level_changes() -> None:
    """The levels are guarded: the logger's own, its parents', and the one below which all is off."""
    heard: list[str] = []

    class Listener(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            heard.append(record.getMessage())

    parent, log = logging.getLogger("dynexplore.tests.levels"), logging.getLogger("dynexplore.tests.levels.below")
    handler = Listener()
    log.addHandler(handler)
    parent.setLevel(logging.ERROR)
    counting = CountingBackend()

    def speaks(x: torch.Tensor) -> torch.Tensor:
        log.warning("spoken")
        return x + 1

    compiled = dynexplore.optimize(counting)(speaks)
    try:
        compiled(X)
        assert heard == [] and len(counting.graphs) == 1
        parent.setLevel(logging.INFO)
        compiled(X)
        assert heard == ["spoken"]
        logging.disable(logging.WARNING)
        compiled(X)
        assert heard == ["spoken"]
        logging.disable(logging.NOTSET)
        compiled(X)
        assert heard == ["spoken", "spoken"]
        log.setLevel(logging.CRITICAL)
        compiled(X)
        assert heard == ["spoken", "spoken"]
    finally:
        logging.disable(logging.NOTSET)
        log.removeHandler(handler)


@pytest.fixture
def twice() -> Any:
    """An operator of the program's own, and the library that it lives in."""
    library = torch.library.Library("dynexplore_tests", "FRAGMENT")
    library.define("twice(Tensor x) -> Tensor")
    library.impl("twice", lambda x: x * 2, "CPU")
    library.impl("twice", torch.empty_like, "Meta")
    yield torch.ops.dynexplore_tests.twice
    library._destroy()


def test_operators_of_the_program_are_nodes(twice: Any) -> None:
    """An operator registered with torch.library is one node, however it is reached."""
    for call in (lambda x: torch.ops.dynexplore_tests.twice(x) + 1, lambda x: twice(x) + 1, lambda x: twice.default(x) + 1):
        assert_same_as_eager(call, X, graphs=1, breaks=0)


def test_a_copied_ordered_output() -> None:
    """An OrderedDict copies itself by a protocol of its own: the graph breaks, the copy is right."""

    class Output(OrderedDict):  # type: ignore[type-arg]
        pass

    def copies(x: torch.Tensor) -> Any:
        return list(copy.copy(Output(a=x + 1)).items())

    assert_same_as_eager(copies, X)


class _Cached(property):
    """A property of another name."""


def test_a_kind_of_property_is_a_property() -> None:
    """A class that extends property, and keeps its `__get__`, binds as one."""

    class Shape:
        def __init__(self, size: int) -> None:
            self.size = size

        @_Cached
        def area(self) -> int:
            return self.size**2

    assert_same_as_eager(lambda x, shape: x * shape.area, X, Shape(3), graphs=1, breaks=0)


def test_a_changing_number_is_no_other_number() -> None:
    """A symbolic int stands for one place and not for the int object that happened to stand there: small ints are shared."""

    class Counter(torch.nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.calls = 0

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            self.calls += 1
            for i in range(5):
                if i == 2:
                    x = x + 1
            return x * self.calls

    counting = CountingBackend()
    module = Counter()
    compiled = dynexplore.optimize(counting)(module)
    for call in range(1, 6):
        assert torch.equal(compiled(X), (X + 1) * call)
    assert module.calls == 5
    assert counting.ops == [2, 2]  # the first number, and any number


def test_the_class_of_any_value() -> None:
    """`value.__class__` is known whatever the value is: a function, a list, a module."""

    def classes(x: torch.Tensor, module: torch.nn.Module) -> Any:
        names = [value.__class__.__name__ for value in (classes, [1], 3, module, len, x)]
        return x + len(names), names

    assert_same_as_eager(classes, X, torch.nn.ReLU(), graphs=1, breaks=0)


def a_frame_that_raises_only_when_compiled(x, mask):
    if mask is None and not torch.compiler.is_compiling():
        mask = torch.ones(3)
    return inner_that_needs(x + 1, mask)


def inner_that_needs(x, mask):
    return x * 2 + mask[None, :]


def test_a_frame_that_raises_because_it_is_compiled_runs_plainly() -> None:
    """`is_compiling()` sends some programs a way on which they raise: that frame is left to Python, its callees are captured."""
    counting = CountingBackend()
    compiled = dynexplore.optimize(counting)(a_frame_that_raises_only_when_compiled)
    assert torch.equal(compiled(X, None), a_frame_that_raises_only_when_compiled(X, None))
    assert counting.ops == [3]


def test_a_tensor_of_unknown_length_is_unpacked_by_python() -> None:
    """How many items there are is known only when the graph runs: the graph breaks, and nothing of ours fails."""

    def walks(x: torch.Tensor) -> Any:
        return [row + 1 for row in torch.nonzero(x > 0.1)]

    with dynexplore.config.patch(capture_dynamic_output_shape_ops=True, raise_engine_errors=True):
        assert_same_as_eager(walks, X)
    assert_same_as_eager(walks, X)


@pytest.mark.parametrize(("chance", "looks"), [(0.0, 0), (0.5, 3)])
def test_an_attention_that_leaves_nothing_out_draws_no_number(monkeypatch: pytest.MonkeyPatch, chance: float, looks: int) -> None:
    """The state of the generator is not read in each call of a model that is not trained."""
    states: list[int] = []
    monkeypatch.setattr(torch, "get_rng_state", lambda real=torch.get_rng_state: states.append(1) or real())
    q = torch.rand(1, 2, 5, 8)
    compiled = dynexplore.optimize("eager")(lambda q: torch.nn.functional.scaled_dot_product_attention(q, q, q, dropout_p=chance))
    compiled(q)
    states.clear()
    for _ in range(3):
        compiled(q)
    assert len(states) == looks
    assert dynexplore.counters["stats"]["graphs"] == 1
