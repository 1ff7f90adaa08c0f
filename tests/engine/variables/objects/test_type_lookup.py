"""What a lookup did not find is relied on like what it found: added later, it is seen; each with its number of compiles."""

from __future__ import annotations

import abc
import enum
import functools
import math
import types
import typing
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from programs.before_and_after import X, seen

import dynexplore
from engine_checks import CountingBackend, assert_same_as_eager


@pytest.fixture(autouse=True)
def put_back() -> Iterator[None]:
    """What a test adds to torch or to a module of Python goes again."""
    yield
    for owner, name in ((torch.Tensor, "extra"), (torch.nn.Module, "extra"), (math, "extra")):
        if "extra" in vars(owner):
            delattr(owner, name)


def test_an_attribute_added_to_an_object() -> None:
    """`hasattr` of an argument's attribute."""

    class K:
        pass

    k = K()
    seen(lambda x, k: x * (3 if hasattr(k, "extra") else 5), lambda: setattr(k, "extra", 1), k, before=5, after=3)


def test_an_attribute_added_to_a_class() -> None:
    """`getattr` with a default, of an instance whose class has no such name."""

    class K:
        pass

    seen(lambda x, k: x * getattr(k, "extra", 5), lambda: setattr(K, "extra", 7), K(), before=5, after=7)


def test_an_attribute_added_to_a_base() -> None:
    """A class that is asked itself, and its base."""

    class B:
        pass

    class K(B):
        pass

    seen(lambda x: x * getattr(K, "extra", 5), lambda: setattr(B, "extra", 7), before=5, after=7)


def test_a_property_over_an_attribute_of_the_object() -> None:
    """A data descriptor of the class wins over what stands in the object."""

    class K:
        def __init__(self) -> None:
            self.v = 2

    k = K()
    seen(lambda x: x * k.v, lambda: setattr(K, "v", property(lambda self: 9)), before=2, after=9)


def test_a_getattr_added_to_a_class() -> None:
    """`__getattr__` answers for what was missing."""

    class K:
        pass

    def fn(x: torch.Tensor, k: Any) -> torch.Tensor:
        try:
            return x * k.extra  # type: ignore[no-any-return]
        except AttributeError:
            return x * 5

    seen(fn, lambda: setattr(K, "__getattr__", lambda self, name: 7), K(), before=5, after=7)


def test_an_operator_added_to_a_class() -> None:
    """`__add__`, which was tried and not found."""

    class K:
        pass

    def fn(x: torch.Tensor, k: Any) -> torch.Tensor:
        try:
            return x * (k + 1)  # type: ignore[no-any-return]
        except TypeError:
            return x * 5

    seen(fn, lambda: setattr(K, "__add__", lambda self, other: 7), K(), before=5, after=7)


def test_a_bool_added_to_a_class() -> None:
    """`__bool__` and `__len__` decide about truth."""

    class K:
        pass

    k = K()
    seen(lambda x: x * (3 if k else 5), lambda: setattr(K, "__bool__", lambda self: False), before=3, after=5)


def test_another_base() -> None:
    """`__bases__` of a class, under an instance that only its method is asked of."""

    class A:
        def area(self) -> int:
            return 2

    class B:
        def area(self) -> int:
            return 7

    class K(A):
        pass

    seen(lambda x, k: x * k.area(), lambda: setattr(K, "__bases__", (B,)), K(), before=2, after=7)


def test_another_base_of_what_is_asked_for_its_bases() -> None:
    """`isinstance` relies on the bases and on no attribute."""

    class A:
        pass

    class B:
        pass

    class K(A):
        pass

    seen(lambda x, k: x * (3 if isinstance(k, A) else 5), lambda: setattr(K, "__bases__", (B,)), K(), before=3, after=5)


def test_a_number_that_changes_is_hidden_by_one_of_a_subclass() -> None:
    """Of a class attribute that is another one in each call only the class is relied on in which it stands."""

    class B:
        n = 0

    class K(B):
        pass

    backend = CountingBackend()
    compiled = dynexplore.optimize(backend)(lambda x: x * K.n)
    for B.n in (1, 2, 3, 4):
        assert compiled(X).tolist() == [B.n] * 3
    assert len(backend.graphs) == 2
    K.n = 7
    assert compiled(X).tolist() == [7] * 3


def test_another_class_of_a_closed_over_object() -> None:
    """`__class__` of an object that is guarded by its identity."""

    class A:
        w = 2

    class B:
        w = 7

    k = A()
    seen(lambda x: x * k.w, lambda: setattr(k, "__class__", B), before=2, after=7)


def test_a_class_registered_with_an_abc() -> None:
    """`ABC.register` changes no class: the token of the process does."""

    class Shape(abc.ABC):
        pass

    class K:
        pass

    seen(lambda x, k: x * (3 if isinstance(k, Shape) else 5), lambda: Shape.register(K), K(), before=5, after=3)


def test_another_class_registered_with_another_abc() -> None:
    """A token that differs is no miss: the answers are asked again, and stand."""

    class Shape(abc.ABC):
        pass

    class Other(abc.ABC):
        pass

    seen(lambda x, k: x * (3 if isinstance(k, Shape) else 5), lambda: Other.register(int), 1, before=5, after=5, graphs=1)


@typing.runtime_checkable
class HasExtra(typing.Protocol):
    """A protocol that asks for an attribute."""

    extra: int


def test_an_object_that_comes_to_fit_a_protocol() -> None:
    """`isinstance` of a runtime protocol looks at the object, too."""

    class K:
        pass

    k = K()
    seen(lambda x, k: x * (3 if isinstance(k, HasExtra) else 5), lambda: setattr(k, "extra", 1), k, before=5, after=3)


def test_a_global_that_is_defined_later() -> None:
    """A NameError that was caught."""
    space: dict[str, Any] = {}
    exec("def fn(x):\n    try:\n        return x * extra\n    except NameError:\n        return x * 5\n", space)
    seen(space["fn"], lambda: space.update(extra=7), before=5, after=7)


def test_a_global_over_a_builtin() -> None:
    """A builtin that the globals come to hide, in a function that is called."""
    space: dict[str, Any] = {}
    exec("def size(x):\n    return len((1, 2))\ndef fn(x):\n    return x * size(x)\n", space)
    seen(space["fn"], lambda: space.update(len=lambda items: 7), before=2, after=7)


def test_a_name_added_to_a_module_of_python() -> None:
    """Modules of libraries are relied on, too."""
    seen(lambda x: x * getattr(math, "extra", 5), lambda: setattr(math, "extra", 7), before=5, after=7)


def test_a_getattr_added_to_a_module() -> None:
    """A module's `__getattr__` answers for what was missing."""
    module = types.ModuleType("some_module")
    seen(lambda x: x * getattr(module, "extra", 5), lambda: setattr(module, "__getattr__", lambda name: 7), before=5, after=7)


def test_an_attribute_added_to_every_tensor() -> None:
    """`torch.Tensor` is a class like any other."""
    seen(lambda x: x * getattr(x, "extra", 5), lambda: setattr(torch.Tensor, "extra", 7), before=5, after=7)


def test_an_attribute_added_to_a_function() -> None:
    """A function that is a global."""

    def host() -> None:
        pass

    seen(lambda x: x * getattr(host, "extra", 5), lambda: setattr(host, "extra", 7), before=5, after=7)


def test_an_attribute_added_to_a_partial() -> None:
    """A partial has attributes of its own."""
    host = functools.partial(len)
    seen(lambda x: x * getattr(host, "extra", 5), lambda: setattr(host, "extra", 7), before=5, after=7)


def test_an_attribute_added_to_a_cached_function() -> None:
    """A function under `functools.lru_cache` has attributes of its own."""
    host = functools.lru_cache(lambda: 1)
    seen(lambda x: x * getattr(host, "extra", 5), lambda: setattr(host, "extra", 7), before=5, after=7)


def test_the_value_of_a_member() -> None:
    """`_value_` of a member of an enumeration can be assigned."""

    class K(enum.Enum):
        A = 2

    seen(lambda x: x * K.A.value, lambda: setattr(K.A, "_value_", 7), before=2, after=7)


def test_a_submodule_that_is_added() -> None:
    """What neither the module, nor its class, nor a registry has."""
    module = torch.nn.Module()
    seen(lambda x: x * (3 if hasattr(module, "extra") else 5), lambda: module.add_module("extra", torch.nn.ReLU()),
         before=5, after=3)


def test_a_class_that_keeps_a_count_is_compiled_twice() -> None:
    """`K.n += 1` makes another class of K in each call; it is asked by name, and its number becomes an input."""

    class K:
        n = 0

    def fn(x: torch.Tensor) -> torch.Tensor:
        K.n += 1
        return x * K.n

    backend = CountingBackend()
    compiled = dynexplore.optimize(backend)(fn)
    assert [compiled(X)[0].item() for _ in range(6)] == [1, 2, 3, 4, 5, 6]
    assert len(backend.graphs) == 2


def test_a_class_that_gets_a_cache_is_compiled_twice() -> None:
    """`if not hasattr(K, "cache")`: once without, and once with it."""

    class K:
        pass

    def fn(x: torch.Tensor) -> torch.Tensor:
        if not hasattr(K, "cache"):
            K.cache = 3  # type: ignore[attr-defined]
        return x * K.cache  # type: ignore[attr-defined,no-any-return]

    backend = CountingBackend()
    compiled = dynexplore.optimize(backend)(fn)
    assert [compiled(X)[0].item() for _ in range(6)] == [3] * 6
    assert len(backend.graphs) == 2


def test_a_version_that_differs_is_no_miss() -> None:
    """Another attribute, or a look at `__annotations__`, gives a class another version; the names that were asked for stand."""

    class K:
        def area(self) -> int:
            return 2

    def change() -> None:
        K.other = 1  # type: ignore[attr-defined]
        assert K.__annotations__ == {}

    seen(lambda x, k: x * k.area() * getattr(k, "scale", 1), change, K(), before=2, after=2, graphs=1)


def test_the_guard_says_what_is_missing() -> None:
    """People read which name a class does not have."""

    class K:
        pass

    k = K()
    explained = dynexplore.explain(lambda x, k: x * getattr(k, "cache", 5), X, k)
    assert [guard.expected for guard in explained.guards if "cache" in guard.expected][-1:] == ["`K` has no attribute `cache`"]


@pytest.mark.parametrize("base", [int, float, object])
@pytest.mark.parametrize("question", ["in", "list"])
def test_items_by_number_of_a_number(base: Any, question: str) -> None:
    """A class that holds a number, and no container: `__getitem__`, added later, makes `in` and iteration possible."""
    cls = type("N", (base,), {})
    value = cls()

    def f(x: torch.Tensor, value: Any) -> Any:
        try:
            return x * 3, 1 in value if question == "in" else list(value)
        except TypeError as error:
            return x * 5, str(error)

    backend = CountingBackend()
    compiled = dynexplore.optimize(backend)(f)
    for number in range(4):
        if number % 2:
            cls.__getitem__ = lambda self, index: [5, 1][index]  # type: ignore[attr-defined]
        elif number:
            del cls.__getitem__
        (x, answer), (y, expected) = compiled(X, value), f(X, value)
        assert (x.tolist(), answer) == (y.tolist(), expected)
    assert len(backend.graphs) in (2, 3)


@pytest.mark.parametrize("added", ["__set__", "__delete__"])
def test_a_descriptor_that_comes_to_win_over_an_attribute_of_the_object(added: str) -> None:
    """What stands in the class is the same: its own class says that it stores, too."""

    class D:
        def __get__(self, k: object, cls: type) -> int:
            return 7

    class K:
        extra = D()

    k = K()
    vars(k)["extra"] = 5
    seen(lambda x: x * k.extra, lambda: setattr(D, added, lambda self, *_: None), before=5, after=7)


def test_a_value_in_a_class_that_becomes_a_descriptor() -> None:
    """Its class gets a `__get__`, or it gets another class."""

    class V:
        pass

    class D(V):
        def __get__(self, k: object, cls: type) -> int:
            return 7

    class K:
        extra = V()

    k, value = K(), vars(K)["extra"]

    def program(x: torch.Tensor) -> torch.Tensor:
        return x * (5 if isinstance(k.extra, V) else k.extra)

    seen(program, lambda: setattr(value, "__class__", D), before=5, after=7)
    value.__class__ = V
    seen(program, lambda: setattr(V, "__get__", D.__get__), before=5, after=7)


def test_a_name_for_which_a_module_answered() -> None:
    """A module whose `__getattr__` gave a name has it later itself, and does not have it again."""
    module = types.ModuleType("answering")
    module.__getattr__ = lambda name: 3  # type: ignore[method-assign]
    seen(lambda x: x * module.q, lambda: setattr(module, "q", 8), before=3, after=8)
    seen(lambda x: x * module.q, lambda: delattr(module, "q"), before=8, after=3)


def _extended(how: str) -> None:
    class Size(enum.Enum):
        SMALL = 1
        LARGE = 2

    def by_name(x: torch.Tensor) -> torch.Tensor:
        try:
            return x * Size["MEDIUM"].value
        except KeyError:
            return x * 5

    def by_value(x: torch.Tensor) -> torch.Tensor:
        try:
            return x * Size(3).value
        except ValueError:
            return x * 5

    def extend() -> None:
        Size._member_map_["MEDIUM"] = Size.LARGE
        Size._value2member_map_[3] = Size.LARGE

    program = {"name": by_name, "value": by_value, "length": lambda x: x * (len(list(Size)) + 3)}[how]
    change = extend if how != "length" else lambda: (Size._member_names_.append("MEDIUM"), extend())
    seen(program, change, before=5, after=6 if how == "length" else 2)


@pytest.mark.parametrize("how", ["name", "value", "length"])
def test_a_member_added_to_an_enumeration(how: str) -> None:
    """An enumeration that a program extends (its own dictionaries, as libraries do) has the new member."""
    _extended(how)


def test_a_composite_flag_that_is_made_compiles_nothing_again() -> None:
    """`Flag(3)` notes the member that it made in the class, and the entry stands."""

    class Access(enum.Flag):
        READ = 1
        WRITE = 2
        RUN = 4

    backend = CountingBackend()
    compiled = dynexplore.optimize(backend)(lambda x: x * Access(3).value)
    for _ in range(3):
        assert compiled(X).tolist() == [3] * 3
        Access(len(Access._value2member_map_))
    assert len(backend.graphs) == 1


class OfAny(typing.Any):
    """A class with `Any` as its base."""


def test_nothing_is_checked_against_any() -> None:
    """`isinstance` refuses `Any`, also inside a tuple, and takes classes that extend it."""

    def program(x: Any) -> Any:
        texts = []
        for classes in (typing.Any, (int, typing.Any), (str, int, typing.Any), OfAny):
            for value in (x, "text", OfAny()):
                try:
                    texts.append(isinstance(value, classes))  # type: ignore[arg-type]
                except TypeError as error:
                    texts.append(str(error))
        return x + 1, texts

    assert_same_as_eager(program, torch.ones(2), graphs=1, breaks=0)
