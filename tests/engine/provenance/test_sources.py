"""An object that a program takes out of what led to it, and changes: it is the object that changes, not what stands there then.

Real objects are changed at the end of a graph, one after the other. Where the frame first takes `inner` out of a list and then
stores an attribute, the way to `inner` is gone, or leads to another object, when its turn comes.
"""

from __future__ import annotations

import collections
import contextlib
import functools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from programs.before_and_after import X

import dynexplore
from engine_checks import assert_same_as_eager, graphs_compiled


class Inner:
    """What is taken out and changed."""

    def __init__(self, n: int = 0) -> None:
        self.n, self.gone = n, True


class Holder:
    """What leads to it."""

    def __init__(self, inner: Any) -> None:
        self.inner = inner


def out_of_an_attribute(x: torch.Tensor, holder: Any, inner: Any) -> Any:
    taken, holder.inner = holder.inner, None
    taken.n = 5
    return x + 1


def out_of_a_dict(x: torch.Tensor, holder: Any, inner: Any) -> Any:
    taken = holder["inner"]
    holder.clear()
    taken.n = 5
    return x + 1


def out_of_a_list(x: torch.Tensor, holder: Any, inner: Any) -> Any:
    taken = holder.pop()
    taken.n = x + 1
    return taken.n


def out_of_the_way(x: torch.Tensor, holder: Any, inner: Any) -> Any:
    taken = holder[0]
    holder.insert(0, Inner(3))
    taken.n = 5
    return x + 1


def deleted_from(x: torch.Tensor, holder: Any, inner: Any) -> Any:
    taken = holder.popleft()
    del taken.gone
    return x + 1


def swapped(x: torch.Tensor, holder: Any, inner: Any) -> Any:
    holder[0], holder[1] = holder[1], holder[0]
    holder[0].n = 5
    return x + 1


def before_a_break(x: torch.Tensor, holder: Any, inner: Any) -> Any:
    taken = holder.pop()
    taken.n = 5
    print(taken.n)
    taken.n += 1
    return x + taken.n, taken


PROGRAMS: list[tuple[Callable[..., Any], Callable[[Any], Any]]] = [
    (out_of_an_attribute, Holder),
    (out_of_a_dict, lambda inner: {"inner": inner}),
    (out_of_a_list, lambda inner: [inner]),
    (out_of_the_way, lambda inner: [inner]),
    (deleted_from, lambda inner: collections.deque([inner])),
    (swapped, lambda inner: [inner, Inner(3)]),
    (before_a_break, lambda inner: [Inner(3), inner]),
]


@pytest.mark.parametrize(("fn", "holding"), PROGRAMS, ids=[fn.__name__ for fn, _ in PROGRAMS])
def test_an_object_that_was_taken_out_is_changed(fn: Callable[..., Any], holding: Callable[[Any], Any]) -> None:
    """Whatever led to the object when the frame began."""
    inner = Inner()
    assert_same_as_eager(fn, X, holding(inner), inner)


def test_a_cell_whose_function_was_taken_out() -> None:
    """A cell is reached through the function that closes over it."""

    def counting() -> Callable[[], int]:
        n = 0

        def count() -> int:
            nonlocal n
            n += 1
            return n

        return count

    def f(x: torch.Tensor, holder: list[Callable[[], int]]) -> torch.Tensor:
        return x + holder.pop()()

    seen = []
    for called in (f, dynexplore.optimize("eager")(f)):
        first, second = counting(), counting()
        holder = [first, second]
        seen.append([float(called(X, holder)[0]), float(called(X, holder)[0]), first(), second(), len(holder)])
    assert seen[0] == seen[1] == [2, 2, 2, 2, 0]
    assert graphs_compiled() == 2


class Noting:
    """A context manager that is only pushed onto a stack."""

    seen: str | None = None

    def __exit__(self, kind: Any, value: Any, trace: Any) -> None:
        self.seen = kind and kind.__name__


def test_an_exit_function_that_was_taken_off_its_stack() -> None:
    """`ExitStack.__exit__` takes each function off before it calls it."""

    def f(x: torch.Tensor, noting: Noting) -> torch.Tensor:
        with contextlib.ExitStack() as stack:
            stack.push(noting)
            raise ValueError("a")
        return x

    assert_same_as_eager(f, X, Noting(), graphs=0)


def made_in_a_namespace() -> tuple[list[int], Any]:
    """A class whose attributes hold what its methods change, and how one gets there."""
    log: list[int] = []

    class Counted:
        """A descriptor with a state of its own."""

        def __init__(self) -> None:
            self.seen: list[int] = []

        def __get__(self, owner: Any, cls: Any = None) -> int:
            self.seen.append(len(log))
            return len(self.seen)

    class Held:
        counted = Counted()

        @functools.cached_property
        def once(self) -> int:
            log.append(1)
            return len(log)

    return log, Held


def test_a_cached_property_changes_what_it_closes_over() -> None:
    """The function of a cached property has a source: a list that it closes over is the program's."""
    log, cls = made_in_a_namespace()
    assert_same_as_eager(lambda x: x * cls().once, X, calls=3, graphs=range(1, 4), setup=log.clear, observe=lambda: list(log))


def test_a_descriptor_that_changes_itself() -> None:
    """A descriptor is read from the dictionary of its class: read through the class it would give what its `__get__` gives."""
    _, cls = made_in_a_namespace()
    descriptor = vars(cls)["counted"]
    held = cls()
    assert_same_as_eager(lambda x: x * held.counted, X, calls=3, graphs=range(1, 4), setup=lambda: descriptor.seen.clear(),
                         observe=lambda: list(descriptor.seen))


def test_a_default_of_a_named_tuple_that_changes() -> None:
    """A list that is the default of a named tuple's item is one list for all calls."""
    point = collections.namedtuple("point", "tensor seen", defaults=[[]])  # type: ignore[misc]

    def fn(x: torch.Tensor) -> torch.Tensor:
        made = point(x)
        made.seen.append(1)
        return made.tensor * len(made.seen)

    def default() -> Any:
        return point(0).seen

    assert_same_as_eager(fn, X, calls=3, graphs=range(1, 4), setup=lambda: default().clear(), observe=lambda: list(default()))
