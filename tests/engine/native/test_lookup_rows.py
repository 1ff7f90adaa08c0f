"""Class rows and function rows of a GuardWalk: where lookups end, found or not, and what functions are made of."""

from __future__ import annotations

import gc
import weakref
from typing import Any

import pytest

from dynexplore.engine.native import UNBOUND, GuardWalk, type_version

pytestmark = pytest.mark.plain("the C extension by itself: no frame is hooked")


def walk_of(cls: type[Any], *lookups: tuple[str, Any, str, Any], tag: int | None = None, by_name: bool = False) -> Any:
    """A walk of one class row."""
    return GuardWalk((), [(cls, type_version(cls) if tag is None else tag, by_name, lookups)])  # type: ignore[list-item]


def test_an_absent_name() -> None:
    """A name that comes up in the class or in a base is a failure; gone again, it passes."""

    class B:
        pass

    class K(B):
        pass

    walk = walk_of(K, ("extra", None, "absent", None))
    assert walk.check()
    B.extra = 1  # type: ignore[attr-defined]
    assert not walk.check()
    assert walk.first_failure() == (0, "extra", "absent", 1)
    del B.extra  # type: ignore[attr-defined]
    assert walk.check()


def test_a_name_that_was_found() -> None:
    """By identity, held weakly or strongly, or by the class that has it."""

    class K:
        n = 1

        def area(self) -> int:
            return 1

    area = vars(K)["area"]
    walk = walk_of(K, ("area", None, "is_weak", area), ("n", None, "found_in", K))
    K.n = 2
    assert walk.check()
    K.area = lambda self: 2  # type: ignore[method-assign]
    assert walk.first_failure()[:3] == (0, "area", "is_weak")
    K.area = area  # type: ignore[method-assign]
    assert walk.check()
    del K.n
    assert walk.first_failure() == (0, "n", "found_in", UNBOUND)


def test_behind_a_class() -> None:
    """`super()`: the lookup begins behind a class of the MRO."""

    class A:
        n = 1

    class B(A):
        n = 2

    class K(B):
        pass

    walk = walk_of(K, ("n", B, "is", 1))
    assert walk.check()
    B.n = 3
    assert walk.check()
    A.n = 3
    assert not walk.check()


def test_the_bases() -> None:
    """An MRO that is another one is a failure."""

    class A:
        pass

    class B:
        pass

    class K(A):
        pass

    walk = walk_of(K, ("__mro__", None, "mro", tuple(map(weakref.ref, K.__mro__))))
    assert walk.check()
    K.__bases__ = (B,)
    assert not walk.check()


def test_a_version_that_differs_is_renewed() -> None:
    """Another name of the class gives it another version: the names are asked, and from then on the new version stands for them."""

    class K:
        pass

    walk = walk_of(K, ("extra", None, "absent", None))
    for number in range(50):
        setattr(K, f"other{number}", 1)
        assert walk.check()


def test_a_class_without_versions() -> None:
    """On 3.13 a class that changes over and over has no version any more; then the names decide."""

    class K:
        pass

    walk = walk_of(K, ("extra", None, "absent", None))
    for number in range(3000):
        K.n = number  # type: ignore[attr-defined]
        assert K().n == number  # type: ignore[attr-defined]
        assert walk.check()
    K.extra = 1  # type: ignore[attr-defined]
    assert not walk.check()


def test_by_name_always() -> None:
    """A class that the frame itself writes to is asked by name."""

    class K:
        pass

    walk = walk_of(K, ("extra", None, "absent", None), by_name=True)
    assert walk.check()
    K.extra = 1  # type: ignore[attr-defined]
    assert not walk.check()


def test_nothing_is_kept_alive() -> None:
    """A class that died fails, and was not held."""

    class K:
        pass

    walk = walk_of(K, ("extra", None, "absent", None))
    reference = weakref.ref(K)
    del K
    gc.collect()
    assert reference() is None
    assert walk.first_failure() == (0, "", "alive", None)


def test_what_a_function_is_made_of() -> None:
    """Its code, its defaults, its keyword-only defaults, also changed in place."""

    def function(a: int = 1, *, b: int = 2) -> None:
        pass

    code = function.__code__
    walk = GuardWalk((), (), [(function, code, (("0", "is", 1),), (("b", "is", 2),))])
    assert walk.check()
    for name, value in (("__code__", (lambda a=1, *, b=2: None).__code__), ("__defaults__", (3,)), ("__kwdefaults__", {"b": 3})):
        before = getattr(function, name)
        setattr(function, name, value)
        assert walk.first_failure()[:2] == (0, name)
        setattr(function, name, before)
        assert walk.check()
    function.__kwdefaults__["b"] = 4
    assert not walk.check()


def test_the_defaults_of_a_function_are_not_kept() -> None:
    """Defaults that are held weakly, and how many there are; a function that died fails."""

    class Thing:
        pass

    first, second = Thing(), Thing()

    def function(a: Any = first, *, b: Any = second) -> None:
        pass

    walk = GuardWalk((), (), [(function, function.__code__, (("0", "is_weak", first),), (("b", "is_weak", second),))])
    others: dict[str, list[Any]] = {
        "__defaults__": [(Thing(),), (first, first), None],
        "__kwdefaults__": [{"b": Thing()}, {"b": second, "c": second}, None],
    }
    for name, values in others.items():
        before = getattr(function, name)
        for value in values:
            setattr(function, name, value)
            assert walk.first_failure()[:2] == (0, name)
        setattr(function, name, before)
        assert walk.check()
    del function
    gc.collect()
    assert walk.first_failure() == (0, "", "alive", None)


@pytest.mark.parametrize("row", [3, (int,), (3, 1, False, ()), (int, 1, False, (("n", None, "unknown", None),))])
def test_malformed_rows(row: Any) -> None:
    """What is no class row is refused."""
    with pytest.raises((TypeError, ValueError)):
        GuardWalk((), [row])
