"""Odd classes, arguments and numbers: what used to be an error of the engine, or of a compiler, and is none.

Theme: keyword arguments named like the engine's own parameters, special methods behind descriptors that raise, dicts that lie,
numbers that are too large, sizes of a view's base, numbers that the program draws."""

from __future__ import annotations

import functools
import inspect
import math
import os
import random
import time
import types
import typing
from collections import Counter, OrderedDict, defaultdict

import pytest
import torch

import dynexplore
from dynexplore.engine.errors import Unsupported
from engine_checks import assert_same_as_eager

X = torch.ones(2)
T = typing.TypeVar("T")


def said(function):
    try:
        return function()
    except Exception as error:
        return f"{type(error).__name__}: {error}"


class BadKey(str):
    """A key that is no plain string."""

    def __eq__(self, other):
        return str.__eq__(self, other)

    __hash__ = str.__hash__


class NoModule(type):
    """A metaclass that hides what every class has."""

    @property
    def __module__(cls):
        return 1 / 0


class Hidden(metaclass=NoModule):
    """Has no `__module__` to show."""


class Lies(dict):
    """A dict whose items are none."""

    def items(self):
        return [(1,)]


class Raising:
    """A descriptor that raises when it is looked at."""

    def __get__(self, instance, owner=None):
        raise ValueError("looked at")


class Descripted:
    """Each special method of a number and of a container stands behind it."""

    __ceil__ = __floor__ = __trunc__ = __round__ = __index__ = __float__ = __int__ = __abs__ = Raising()
    __len__ = __getitem__ = __reversed__ = __contains__ = keys = Raising()


LIES = types.MappingProxyType(Lies(a=1))
NAMES = ["self", "ctx", "cls", "args", "kwargs", "other", "key", "function", "row", "receiver", "iterable"]


def wraps_of_a_method_in_c():
    def outer(method):
        @functools.wraps(method)
        def inner(self):
            return method(self)

        return inner

    keys = outer(dict.keys)
    return list(keys({"a": 1})), keys.__name__, said(lambda: dict.keys.__module__)


PROGRAMS = {
    "keyword of ordered dict": lambda: [dict(OrderedDict(**{name: 1})) for name in NAMES],
    "keyword of update": lambda: [(lambda d: (d.update(**{name: 2, "b": 3}), dict(d)))(OrderedDict(b=1)) for name in NAMES],
    "keyword of dict": lambda: [dict(**{name: 1}) for name in NAMES],
    "keyword of counter": lambda: [dict(Counter(**{name: 1})) for name in NAMES],
    "keyword of defaultdict": lambda: [dict(defaultdict(list, **{name: 1})) for name in NAMES],
    "keyword of a function": lambda: [(lambda **kwargs: kwargs)(**{name: 1}) for name in NAMES],
    "keyword of partial": lambda: [functools.partial(dict, **{name: 1})(b=2) for name in NAMES],
    "update with both": lambda: said(lambda: OrderedDict().update(1, self=2)),
    "no arguments": lambda: [
        said(function) for function in (math.sqrt, math.trunc, math.ceil, math.floor, abs, round, len, range, divmod)
    ],
    "range too long": lambda: [said(lambda: len(range(10**30))), said(lambda: bool(range(10**30))), 10**29 in range(10**30)],
    "infinite": lambda: [said(lambda: function(float(text))) for function in (math.ceil, round, int) for text in ("nan", "inf")],
    "hidden module": lambda: [said(lambda: Hidden.__module__), Hidden.__name__, isinstance(Hidden(), Hidden)],
    "lying dict": lambda: [types.MappingProxyType(Lies(a=1))["a"], LIES["a"], len(LIES)],
    "odd key": lambda: said(lambda: min([1], **{BadKey("key"): None})),
    "wraps of a method in C": wraps_of_a_method_in_c,
    "descriptors that raise": lambda: [
        said(lambda: function(Descripted()))
        for function in (math.ceil, math.floor, math.trunc, round, int, float, abs, list, len, reversed, tuple, dict, hex)
    ],
    "spread of descriptors that raise": lambda: [
        said(lambda: [*Descripted()]),
        said(lambda: {**Descripted()}),
        said(lambda: max(*Descripted())),
    ],
    "signature": lambda: list(inspect.signature(said).parameters),
}


@pytest.mark.parametrize("name", list(PROGRAMS))
def test_odd_arguments_are_no_error_of_the_engine(name):
    """The result is that of plain Python, twice, and no bug of the engine is reported."""
    program = PROGRAMS[name]

    def function(x):
        return x + 1, program()

    dynexplore.reset()
    compiled = dynexplore.optimize("eager")(function)
    expected = repr(function(X))
    with dynexplore.config.patch(cache_size_limit=64):  # one lambda is called for many functions
        assert [repr(compiled(X)) for _ in range(2)] == [expected] * 2
    assert dynexplore.counters["stats"]["graphs"] >= 1
    assert not dynexplore.counters["engine_error"]


VIEWS = {
    "slice": lambda n: torch.randn(n, 3, 4)[::1],
    "all": lambda n: torch.randn(n, 3, 4)[:],
    "detached": lambda n: torch.randn(n, 3, 4).detach(),
    "head": lambda n: torch.randn(n, 3)[:n],
    "permuted": lambda n: torch.randn(n, 16, 20).permute(0, 2, 1)[::1],
    "of a longer one": lambda n: torch.randn(n * 2, 20, 16)[:2],
    "columns": lambda n: torch.randn(2, 20 * n, 16)[:, :20],
    "corner": lambda n: torch.randn(n, 20 + n, 16 + n)[:, :20, :16],
    "flat": lambda n: torch.randn(n, 3, 4).view(n, 12),
    "row": lambda n: torch.randn(2, n, 4)[1],
}
WALKS = {
    "comprehension": lambda v: [part * 2 for part in v],
    "subscript": lambda v: [v[0] * 2],
    "unbind": lambda v: [v.unbind(0)[0] + 1],
    "sum": lambda v: [v.sum(-1), v * 2],
}


@pytest.mark.parametrize("walk", list(WALKS))
@pytest.mark.parametrize("view", list(VIEWS))
def test_views_whose_sizes_change(view, walk):
    """A view of a tensor is walked, subscripted and summed while its sizes change from call to call."""
    function = WALKS[walk]
    dynexplore.reset()
    compiled = dynexplore.optimize("eager")(function)
    for size in (2, 3, 4, 1, 2):
        value = VIEWS[view](size)
        for part, expected in zip(compiled(value), function(value), strict=True):
            assert torch.equal(part, expected)
    assert dynexplore.counters["stats"]["graphs"] >= 1
    assert not dynexplore.counters["engine_error"]


NUMBERS = {
    "random alone": lambda x, k: x * random.random(),
    "uniform": lambda x, k: x + random.uniform(0, 1),
    "two draws": lambda x, k: (x * random.random()).sin() * random.random(),
    "in a constructor": lambda x, k: torch.full((2,), random.random()) + x,
    "exponent": lambda x, k: x ** random.random(),
    "gauss": lambda x, k: x - random.gauss(0, 1),
    "remainder": lambda x, k: x + float(k % 3),
    "negative remainder": lambda x, k: x + float(-k % 3),
    "half of a remainder": lambda x, k: x * ((k % 3) * 0.5),
    "quotient": lambda x, k: x * float(k // 3),
    "comparison": lambda x, k: x * float(k > 5),
}


@pytest.mark.parametrize("name", list(NUMBERS))
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_numbers_that_the_program_draws_or_computes(backend, name):
    """A number that another call has another value of is no failure of a compiler."""
    function = NUMBERS[name]

    def results(function):
        random.seed(0)
        return [function(X, k) for k in (5, 7, 9, 11, 5)]

    dynexplore.reset()
    for result, expected in zip(results(dynexplore.optimize(backend)(function)), results(function), strict=True):
        torch.testing.assert_close(result, expected)
    assert dynexplore.counters["frames"]["total"] >= 1
    if name != "exponent":  # a compiler takes no such float: Python does all of it
        assert dynexplore.counters["stats"]["graphs"] >= 1


def test_a_translation_has_a_budget_of_seconds():
    """Past `config.translation_seconds` the frame is plain Python, for the reason DX505; under nopython it is an error."""

    def function(x):
        for round in range(400):
            x = x + round
        return x

    dynexplore.reset()
    with dynexplore.config.patch(translation_seconds=1e-9):
        assert torch.equal(dynexplore.optimize("eager")(function)(X), function(X))
        assert dynexplore.counters["frames"]["skipped"] == 1
        with pytest.raises(Unsupported, match="DX505"):
            dynexplore.optimize("eager", nopython=True)(function)(X)
    dynexplore.reset()
    assert torch.equal(dynexplore.optimize("eager")(function)(X), function(X))
    assert dynexplore.counters["stats"]["graphs"] == 1


def wait(seconds: float) -> int:
    time.sleep(seconds)
    return 1


def compute(seconds: float) -> int:
    began = time.thread_time()
    while time.thread_time() - began < seconds:
        pass
    return 1


@pytest.mark.parametrize(("spend", "graphs"), [(wait, 1), (compute, 0)], ids=["waits", "computes"])
def test_the_budget_counts_cpu_time(spend, graphs):
    """On a machine with other work to do, the same is captured."""
    constant = torch._dynamo.assume_constant_result(spend)

    def function(x):
        total = constant(0.3)
        for round in range(400):
            total += round
        return x + total

    dynexplore.reset()
    with dynexplore.config.patch(translation_seconds=8.0):  # 0.2 without a tensor operation
        assert torch.equal(dynexplore.optimize("eager")(function)(X), function(X))
    assert dynexplore.counters["frames"]["total"] >= 1
    assert dynexplore.counters["stats"]["graphs"] == graphs


def test_resume_functions_share_the_budget():
    """A function that breaks again and again without a tensor operation is left to Python after a time; its callees are not."""

    def function(x):
        names = []
        for place in range(3):
            names.append(str(place) + os.path.basename(os.getcwd()))
            names.append(os.path.basename(os.getcwd()))
        return names, callee(x)

    def callee(x):
        return x + 1

    dynexplore.reset()
    compiled = dynexplore.optimize("eager")(function)
    with dynexplore.config.patch(translation_seconds=1e-9):
        for _ in range(2):
            names, value = compiled(X)
            assert (names, value.tolist()) == (function(X)[0], [2.0, 2.0])
    assert dynexplore.counters["frames"]["skipped"] >= 1
    assert dynexplore.counters["stats"]["graphs"] == 1


# -- modules without a name -------------------------------------------------------------------------------------------


class NamedText(str):
    """A module's name that is no plain string."""


MODULE_NAMES = {"absent": None, "None": None, "number": 7, "text": "plain", "own text": NamedText("own")}


@pytest.mark.parametrize("kind", MODULE_NAMES)
def test_a_module_of_any_name_is_read_and_written(kind):
    """`__name__` is an entry of the module's dictionary, and may be missing or anything."""
    module = types.ModuleType.__new__(types.ModuleType)
    if kind != "absent":
        module.__name__ = MODULE_NAMES[kind]
    module.scale = 3.0

    def program(x):
        texts = [said(lambda: module.missing), hasattr(module, "missing"), getattr(module, "missing", 4)]
        module.factor = 2.0
        y = x * module.factor * module.scale
        del module.factor
        return y, [*texts, said(lambda: module.factor), hasattr(module, "__name__")]

    assert_same_as_eager(program, X, calls=2)


def test_a_module_class_that_watches_its_writes_is_asked():
    """A subclass of the type of modules may have `__setattr__` and `__delattr__`."""
    log = []

    class Watching(types.ModuleType):
        def __setattr__(self, name, value):
            log.append(("set", name, value))
            super().__setattr__(name, value)

        def __delattr__(self, name):
            log.append(("delete", name))
            super().__delattr__(name)

    module = Watching("watching")

    def program(x):
        module.factor = 2.0
        y = x * module.factor
        del module.factor
        return y

    assert_same_as_eager(program, X, calls=2, observe=lambda: list(log), setup=log.clear)


HOOK_CALLS: list[tuple[object, ...]] = []


def _hook(*args):
    HOOK_CALLS.append(tuple(arg if isinstance(arg, str | float) else type(arg).__name__ for arg in args))


class CallableHook:
    """An object in a class: it is called without the instance."""

    def __call__(self, *args):
        _hook("object", *args)


class GivesHook:
    """A descriptor of the program."""

    def __get__(self, instance, owner=None):
        return functools.partial(_hook, "descriptor")


ATTRIBUTE_HOOKS = {
    "function": lambda self, *args: _hook(*args),
    "disabled": dynexplore.disable(lambda self, *args: _hook("disabled", *args)),
    "skipped by torch's name": torch.compiler.disable(lambda self, *args: _hook("torch's", *args)),
    "object": CallableHook(),
    "descriptor": GivesHook(),
    "static": staticmethod(_hook),
    "class method": classmethod(_hook),
    "partialmethod": functools.partialmethod(_hook, "first"),
    "partial": functools.partial(_hook, "partial"),
    "cached": functools.lru_cache(lambda self, *args: _hook("cached", *args)),
    "builtin": HOOK_CALLS.append,
    "none": None,
}
"""What a class may have as `__setattr__` or `__delattr__`."""


@pytest.mark.parametrize("existed", [True, False], ids=["argument", "made in the frame"])
@pytest.mark.parametrize("hook", ATTRIBUTE_HOOKS)
@pytest.mark.parametrize("name", ["__setattr__", "__delattr__", "both"])
def test_whatever_the_class_has_as_attribute_hook_is_called(name, hook, existed):
    """A `__setattr__` or `__delattr__` need not be a function: it is bound and called all the same, in each call."""
    names = ("__setattr__", "__delattr__") if name == "both" else (name,)
    cls = type("Hooked", (), {"wanted": 2.0, **dict.fromkeys(names, ATTRIBUTE_HOOKS[hook])})
    instance = cls()

    def program(x):
        owner = instance if existed else cls()
        texts = [said(lambda: setattr(owner, "scale", 3.0)), said(lambda: delattr(owner, "scale"))]
        try:
            owner.scale = 4.0
        except TypeError:
            texts.append("refused")
        return x * getattr(owner, "scale", owner.wanted), texts

    assert_same_as_eager(program, X, calls=2, observe=lambda: list(HOOK_CALLS), setup=HOOK_CALLS.clear)


KEPT: list[object] = []


class Keeps:
    """A class whose methods are bound methods of a list."""

    put = __call__ = __getitem__ = __getattr__ = __delattr__ = KEPT.append  # type: ignore[assignment]
    __contains__ = KEPT.count  # type: ignore[assignment]
    __len__ = KEPT.__len__


@pytest.mark.parametrize("existed", [True, False], ids=["argument", "made in the frame"])
@pytest.mark.parametrize("use", {
    "method": lambda owner: owner.put(1),
    "call": lambda owner: owner(2),
    "item": lambda owner: owner[3],
    "missing attribute": lambda owner: owner.missing,
    "delete": lambda owner: delattr(owner, "gone"),
    "contains": lambda owner: 1 in owner,
    "length": len,
    "of the class": lambda owner: type(owner).put(4),
}.values())  # fmt: skip
def test_a_method_of_another_object_in_a_class_changes_that_object(use, existed):
    """`put = queue.append` in a class body: what it does to the queue is done, in each call."""
    instance = Keeps()

    def program(x):
        owner = instance if existed else Keeps()
        return x + 1, use(owner)

    assert_same_as_eager(program, X, calls=2, observe=lambda: list(KEPT), setup=KEPT.clear)


CLASS_METHODS_OF_C = {
    "dict.fromkeys": dict.fromkeys,
    "int.from_bytes": int.from_bytes,
    "object.__new__": object.__new__,
    "object.__init_subclass__": object.__init_subclass__,
    "type.__prepare__": type.__prepare__,
    "dict.__class_getitem__": dict.__class_getitem__,  # type: ignore[attr-defined]
}
SPECIAL_USES = {
    "__bool__": bool,
    "__ne__": lambda owner: owner != 1,
    "__eq__": lambda owner: owner == 1,
    "__lt__": lambda owner: owner < 1,
    "__contains__": lambda owner: 1 in owner,
    "__add__": lambda owner: owner + (1, 2),
    "__radd__": lambda owner: (1, 2) + owner,
    "__len__": len,
    "__getitem__": lambda owner: owner["key"],
    "__call__": lambda owner: owner("key"),
    "__iter__": list,
    "__neg__": lambda owner: -owner,
    "__hash__": hash,
}


@pytest.mark.parametrize("name", SPECIAL_USES)
@pytest.mark.parametrize("function", CLASS_METHODS_OF_C)
def test_a_class_method_of_c_is_no_special_method_of_c(function, name):
    """`__bool__ = dict.fromkeys` in a class: it is called, without the instance, also if that raises."""
    owner = type("Odd", (), {name: CLASS_METHODS_OF_C[function]})()
    use = SPECIAL_USES[name]

    def program(x):
        y = x + 1
        try:
            return y, str(use(owner))
        except (TypeError, ValueError) as error:
            return y, str(error)

    assert_same_as_eager(program, X, calls=2)


# -- who makes an instance --------------------------------------------------------------------------------------------


def make_anything(*args):
    return "made", len(args), args[1:]


class Made:
    """An object that is called to make an instance."""

    def __call__(self, *args):
        return make_anything(*args)


NEWS = {
    "a function": make_anything,
    "a staticmethod": staticmethod(make_anything),
    "a classmethod": classmethod(make_anything),
    "an object": Made(),
    "a partial": functools.partial(make_anything, "first"),
    "a builtin": max,
    "one that makes another class": lambda cls, *args: object.__new__(Another),
    "one that makes a subclass": lambda cls, *args: cls.__base__.__new__(cls.below),
}


class Another:
    """An unrelated class."""


@pytest.mark.parametrize("base", [object, list, dict, set, tuple, int, str, ValueError], ids=lambda base: base.__name__)
@pytest.mark.parametrize("kind", NEWS)
def test_new_of_any_kind_is_called(base, kind):
    """`type.__call__` calls whatever `__new__` is; `__init__` runs if the result is an instance of the class."""
    inits = []
    cls = type("Cls", (base,), {"__new__": NEWS[kind], "__init__": lambda self, *args: inits.append(type(self).__name__)})
    below = type("Below", (cls,), {})

    def program(x):
        values = [said(lambda: cls(1, 2)), said(lambda: cls())]
        return x + 1, [value if isinstance(value, (str, tuple)) else type(value).__name__ for value in values]

    cls.below = below
    assert_same_as_eager(program, X, calls=2, observe=lambda: list(inits), setup=inits.clear)


# -- what a class says it is ------------------------------------------------------------------------------------------


class ReadsClass:
    """Says which class it is by a descriptor that only has a getter."""

    def __get__(self, instance, owner):
        return str


SAYS = {
    "a class": {"__class__": str},
    "a property": {"__class__": property(lambda self: str)},
    "a getter": {"__class__": ReadsClass()},
    "a function": {"__getattribute__": lambda self, name: str if name == "__class__" else object.__getattribute__(self, name)},
    "no class": {"__class__": 7},
    "nothing": {},
}
SAYING = []


@pytest.mark.parametrize("kind", SAYS)
def test_isinstance_believes_what_an_object_says(kind):
    """`isinstance` asks the type, then `__class__`; C code asks the type alone."""
    SAYING.append(type("Says", (), SAYS[kind])())

    def program(x):
        value = SAYING[-1]
        answers = [isinstance(value, cls) for cls in (str, int, type(value), (int, str), object)]
        texts = [said(lambda: str.split(value)), said(lambda: str.__add__(value, "abc")), said(lambda: list.sort(value))]
        return x + 1, answers, texts

    assert_same_as_eager(program, X, calls=2)


class Sized2(typing.Protocol[T]):
    """A protocol that no check accepts."""

    def size(self) -> int: ...


@typing.runtime_checkable
class Checked(typing.Protocol[T]):
    """A protocol that checks accept."""

    def size(self) -> int: ...


class Fits:
    def size(self) -> int:
        return 1


class Extends(Sized2[int]):
    def size(self) -> int:
        return 2


PROTOCOLS = {
    "unchecked": Sized2,
    "checked": Checked,
    "with arguments": Sized2[int],
    "checked with arguments": Checked[int],
    "a list of": list[int],
    "typing.List": typing.List[int],
    "typing.Protocol": typing.Protocol,
    "typing.Generic": typing.Generic,
    "no class": 7,
}


@pytest.mark.parametrize("kind", PROTOCOLS)
def test_checks_against_protocols_and_aliases(kind):
    """`isinstance` and `issubclass` of values and classes that fit, extend, are none; and the call of it."""
    protocol = PROTOCOLS[kind]

    def program(x):
        said_of_values = [said(lambda: isinstance(value, protocol)) for value in (Fits(), Extends(), 3, [1])]
        said_of_classes = [said(lambda: issubclass(cls, protocol)) for cls in (Fits, Extends, int, list, list[int], Sized2[int], 7)]
        made = said(lambda: protocol())
        return x + 1, said_of_values, said_of_classes, made if isinstance(made, str) else type(made).__name__

    assert_same_as_eager(program, X, calls=2)


# -- a class that is being made ---------------------------------------------------------------------------------------

LOOKS = {
    "__mro__": lambda cls: cls.__mro__,
    "__bases__": lambda cls: cls.__bases__,
    "__name__": lambda cls: cls.__name__,
    "a name": lambda cls: said(lambda: cls.missing),
    "isinstance": lambda cls: isinstance(cls, type),
    "issubclass": lambda cls: said(lambda: issubclass(cls, object)),
    "super": lambda cls: said(lambda: type(super(cls, cls).__init__).__name__),
    "a write": lambda cls: setattr(cls, "flag", 1),
    "repr": lambda cls: repr(cls).split(".")[-1],
}


@pytest.mark.parametrize("kind", LOOKS)
def test_a_class_without_an_mro_is_looked_at(kind):
    """While the `mro` of a metaclass runs, the class has none: nothing is found in it."""
    look, seen = LOOKS[kind], []

    class Meta(type):
        def mro(cls):
            seen.append(look(cls) if cls.__mro__ is None else None)
            return super().mro()

    def program(x):
        y = x + 1
        made = Meta("Made", (Fits,), {})
        return y * made().size(), [base.__name__ for base in made.__mro__]

    assert_same_as_eager(program, X, calls=2, observe=lambda: [str(item) for item in seen], setup=seen.clear)


READS = {
    "__bases__": lambda cls: cls.__bases__,
    "__mro__": lambda cls: cls.__mro__,
    "__base__": lambda cls: cls.__base__,
    "__class__": lambda cls: cls.__class__,
    "__dict__": lambda cls: type(cls.__dict__),
    "__name__": lambda cls: cls.__name__,
    "__qualname__": lambda cls: cls.__qualname__,
    "__module__": lambda cls: cls.__module__,
    "__doc__": lambda cls: cls.__doc__,
    "its own": lambda cls: cls.own,
    "a name": lambda cls: said(lambda: cls.missing),
    "an instance": lambda cls: cls().own,
    "isinstance": lambda cls: said(lambda: isinstance(3, cls)),
    "issubclass": lambda cls: said(lambda: issubclass(bool, cls)),
    "a match": lambda cls: matched(cls),
    "a text": lambda cls: said(lambda: f"{cls:>3}"),
}


def matched(cls):
    match 3:
        case cls():
            return True
    return False


class Computes(type):
    """Computes what every class has."""

    __bases__ = property(lambda cls: 1)
    __mro__ = property(lambda cls: 2)
    __base__ = property(lambda cls: 3)
    __name__ = property(lambda cls: "four")
    __class__ = property(lambda cls: 5)
    __dict__ = property(lambda cls: 6)
    __flags__ = property(lambda cls: 7)


class Answers(type):
    """Answers each question itself."""

    def __getattribute__(cls, name):
        return ("asked", name)


class Plain(type):
    """Has plain values under the names of every class."""

    __bases__ = 1
    __base__ = 2
    __doc__ = "three"


OF_METACLASSES = {meta.__name__: meta("Made", (), {"own": 3, "__doc__": "text"}) for meta in (Computes, Answers, Plain)}


@pytest.mark.parametrize("kind", READS)
@pytest.mark.parametrize("meta", OF_METACLASSES)
def test_a_metaclass_that_defines_what_every_class_has(meta, kind):
    """What it computes is what the program reads; the engine itself reads the class as CPython does."""
    cls, read = OF_METACLASSES[meta], READS[kind]
    assert_same_as_eager(lambda x: (x + 1, said(lambda: read(cls))), X, calls=2, graphs=range(1, 4))


def test_the_bases_are_read_while_an_mro_is_made():
    """`cls.__bases__` is new already when `mro` runs, and the MRO is not: the frame of `mro` is compiled for each."""
    seen = []

    class Meta(type):
        def mro(cls):
            seen.append(tuple(base.__name__ for base in cls.__bases__))
            return super().mro()

    class A(metaclass=Meta):
        pass

    class B(A):
        pass

    class D(A):
        pass

    class C(A):
        pass

    def program(x):
        y = x + 1
        for bases in ((B,), (D,), (A,), (B,)):
            C.__bases__ = bases
        return y * 2, [base.__name__ for base in C.__mro__]

    assert_same_as_eager(program, X, calls=2, graphs=range(1, 4), observe=lambda: list(seen), setup=seen.clear)
