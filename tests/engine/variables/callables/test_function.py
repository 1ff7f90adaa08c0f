"""functools keeps names, docstrings, attributes and annotations of what is wrapped, and nothing that it is told not to."""

from __future__ import annotations

import collections
import contextlib
import datetime
import functools
import itertools
import types
from typing import Any

import pytest
import torch

from engine_checks import assert_same_as_eager


def documented(a: int = 1) -> str:
    """A docstring."""
    return str(a)


documented.foo = "bar"  # type: ignore[attr-defined]


def _shown(f: Any) -> Any:
    return (
        f.__name__,
        f.__qualname__,
        f.__doc__,
        f.__module__,
        f.__annotations__,
        getattr(f, "foo", None),
        hasattr(f, "__wrapped__"),
    )


def wraps_one_of_this_frame(x: Any) -> Any:
    def inner(a: int) -> str:
        """Whee!"""

    inner.foo = [1]

    @functools.wraps(inner)
    def outer() -> None: ...

    return x + 1, _shown(outer), outer.__wrapped__ is inner, outer.foo is inner.foo, outer.__annotations__ is inner.__annotations__


def wraps_a_global(x: Any) -> Any:
    @functools.wraps(documented)
    def outer() -> None: ...

    return x + 1, _shown(outer), outer.__wrapped__ is documented, outer.__annotations__ is documented.__annotations__


def wraps_a_partial(x: Any) -> Any:
    part = functools.partial(documented, 2)

    @functools.wraps(documented)
    def outer() -> Any:
        return part()

    return x + 1, _shown(outer), outer()


def manages_a_context(x: Any) -> Any:
    @contextlib.contextmanager
    def manager(spam: int) -> Any:
        """Whee!"""
        yield spam

    with manager(3) as n:
        return x + n, manager.__doc__, manager.__name__


ARGUMENTS = [
    "(), ()",
    "('__name__',)",
    "assigned=('__doc__', 'foo'), updated=()",
    "assigned=(), updated=('__dict__',)",
    "assigned=('missing', '__name__')",
    "updated=()",
]


@pytest.mark.parametrize(
    "fn", [wraps_one_of_this_frame, wraps_a_global, wraps_a_partial, manages_a_context], ids=lambda fn: fn.__name__
)
def test_a_wrapper_looks_like_what_it_wraps(fn: Any) -> None:
    """All that `WRAPPER_ASSIGNMENTS` and `WRAPPER_UPDATES` name."""
    assert_same_as_eager(fn, torch.ones(2), calls=2)


@pytest.mark.parametrize("arguments", ARGUMENTS)
@pytest.mark.parametrize("wrapped", ["inner", "documented"])
def test_what_a_wrapper_takes_is_what_it_is_told(wrapped: str, arguments: str) -> None:
    """`assigned` and `updated`, by place and by name."""
    namespace: dict[str, Any] = {"functools": functools, "documented": documented, "shown": _shown}
    text = (
        f"def f(x):\n    def inner():\n        'Whee!'\n    inner.foo = 1\n    def outer(): pass\n"
        f"    functools.update_wrapper(outer, {wrapped}, {arguments})\n"
        f"    @functools.wraps({wrapped}, {arguments})\n    def other(): pass\n    return x + 1, shown(outer), shown(other)\n"
    )
    exec(text, namespace)
    assert_same_as_eager(namespace["f"], torch.ones(2), calls=2)


def target(*args: Any, **kwargs: Any) -> Any:
    return args, kwargs


def nests_partials(x: Any) -> Any:
    p = functools.partial(functools.partial(target, 5), 6, bar=True)
    q = functools.partial(target, 5, 6, bar=True)
    return x + 1, p.func is q.func, p.args == q.args, p.keywords == q.keywords, p.__dict__ == q.__dict__, p.__dict__, p == q, p(1)


def test_a_partial_of_a_partial_is_one() -> None:
    """Its parts, and its own attributes, of which it has none."""
    assert_same_as_eager(nests_partials, torch.ones(2), calls=2)


class Named:
    one = functools.cached_property(lambda self: [1])


Named.two = Named.__dict__["one"]  # type: ignore[attr-defined]


class Unnamed:
    pass


Unnamed.one = functools.cached_property(lambda self: [1])  # type: ignore[attr-defined]


def reads_cached_properties(x: Any) -> Any:
    named = Named()
    first = named.two, named.one, named.__dict__
    try:
        unnamed = Unnamed().one  # type: ignore[attr-defined]
    except TypeError as error:
        unnamed = str(error)
    return x + 1, first, named.two is named.one, unnamed


def puts_a_descriptor_into_a_class(x: Any) -> Any:
    class_ = Unnamed
    class_.late = functools.cached_property(lambda self: 1)  # type: ignore[attr-defined]
    class_.own = property(lambda self: 2)  # type: ignore[attr-defined]
    try:
        late = class_().late  # type: ignore[attr-defined]
    except TypeError as error:
        late = str(error)
    return x + 1, late, class_().own  # type: ignore[attr-defined]


@pytest.mark.parametrize("fn", [reads_cached_properties, puts_a_descriptor_into_a_class], ids=lambda fn: fn.__name__)
def test_a_cached_property_is_kept_under_the_name_that_it_was_given(fn: Any) -> None:
    """Under its first name; without one it raises."""
    assert_same_as_eager(fn, torch.ones(2), calls=2)


def with_annotations(a: int) -> str: ...


def without_annotations(a): ...  # type: ignore[no-untyped-def]


class Callable_:
    __name__ = "callable"

    def __call__(self) -> None: ...


WRAPPED = {"annotated": with_annotations, "bare": without_annotations, "object": Callable_(), "len": len, "method": dict.keys}


@pytest.mark.parametrize("is_annotated", [True, False])
@pytest.mark.parametrize("wrapped", WRAPPED)
def test_a_wrapper_loses_the_annotations_that_the_wrapped_function_lacks(wrapped: str, is_annotated: bool) -> None:
    """An attribute that is empty is taken, too; one that is missing is not."""
    original = WRAPPED[wrapped]

    def program(x: Any) -> Any:
        if is_annotated:

            def outer(b: float) -> None: ...

        else:

            def outer(b): ...  # type: ignore[no-untyped-def,misc]

        functools.update_wrapper(outer, original)  # type: ignore[arg-type]
        shown = [str(part) for part in _shown(outer)]
        return x + 1, shown, outer.__wrapped__ is original, getattr(outer, "__type_params__", None)  # type: ignore[attr-defined]

    assert_same_as_eager(program, torch.ones(2), calls=2, graphs=range(1, 4))


OF_C = {
    f"{cls.__name__}.{name}": raw
    for cls in (dict, int, float, bytes, str, collections.OrderedDict, itertools.chain, datetime.date, list, set, object, type)
    for name, raw in vars(cls).items()
    if isinstance(raw, types.ClassMethodDescriptorType | classmethod | staticmethod) and (cls, name) != (datetime.date, "today")
}
RECEIVERS: list[Any] = [
    (), (None,), (3,), (int,), (bool,), (dict,), ({},), ("text",), (object,), (type,), (collections.Counter,), ([1],), (dict, "ab"),
    ({}, "ab"),
    (collections.Counter, "ab"), (int, b"a", "big"), (3, b"a", "big"), (object, 1), (3, 1),
]  # fmt: skip


@pytest.mark.parametrize("name", OF_C)
def test_a_class_method_of_c_binds_to_its_first_argument(name: str) -> None:
    """`vars(dict)["fromkeys"](cls, ...)`: for another first argument it raises what CPython raises."""
    raw: Any = OF_C[name]

    def program(x: Any, *args: Any) -> Any:
        y = x + 1
        try:
            result = raw(*args)
        except (TypeError, ValueError) as error:
            result = type(error), str(error)
        return y * 2, result

    for args in RECEIVERS:
        assert_same_as_eager(program, torch.ones(2), *args, calls=2, graphs=range(1, 4))
