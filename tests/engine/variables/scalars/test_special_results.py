"""What a special method returns is looked at as C looks at it: what cannot be used raises CPython's own TypeError."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch

from dynexplore.engine.config import config
from engine_checks import assert_same_as_eager


class SubFloat(float):
    pass


class SubText(str):
    pass


class SubInt(int):
    pass


RESULTS: list[Any] = [
    *(None, 0, 3, -1, True, "s", 1.5, [1], 10**30, (1,), NotImplemented),
    *(SubFloat(2.5), SubText("a"), SubInt(3)),  # the result as it is, or a warning
]
USES: dict[str, list[Callable[[Any], Any]]] = {
    "__bool__": [bool, lambda o: not o, lambda o: 3 if o else 4, lambda o: [1 for _ in [1] if o]],
    "__len__": [len, bool, lambda o: 3 if o else 4],
    "__iter__": [list, lambda o: [i for i in o], lambda o: 3 in o, lambda o: [*o]],
    "__index__": [range, lambda o: [1] * o, lambda o: "ab" * o, lambda o: [1, 2, 3][:o], int],
    "__float__": [float],
    "__int__": [int],
    "__str__": [str, lambda o: f"{o}", lambda o: "%s" % o],
    "__repr__": [repr, str, lambda o: f"{o!r}"],
    "__format__": [lambda o: f"{o:>3}"],
    "__hash__": [hash, lambda o: {o: 1}],
}


def of(method: str, result: Any) -> Any:
    """An object whose special method returns this."""
    return type("Odd", (), {method: lambda self, *given: result})()


@pytest.mark.parametrize(("method", "number"), [(method, number) for method in USES for number in range(len(USES[method]))])
def test_a_special_method_that_returns_what_c_cannot_use(method: str, number: int) -> None:
    """The builtin, operator or statement raises as in eager, where eager does, and is caught there."""
    use = USES[method][number]
    objects = [of(method, result) for result in RESULTS if method != "__index__" or result != 10**30]

    def program(x: torch.Tensor, index: int) -> tuple[torch.Tensor, Any]:
        try:
            found = use(objects[index])
        except Exception as error:
            return x * 2, (type(error).__name__, str(error))
        return x * 2, None if isinstance(found, dict) else found

    x = torch.ones(2)
    with config.patch(cache_size_limit=100):
        assert_same_as_eager(program, x, 0, then=[(x, index) for index in range(1, len(objects))], graphs=range(1, 40))


def test_what_next_raises_says_what_it_said() -> None:
    """`next(obj)` hands on the StopIteration of `__next__`, with its value."""

    class Ended:
        def __next__(self) -> None:
            raise StopIteration("why")

    def program(x: torch.Tensor, ended: Ended) -> tuple[torch.Tensor, str, int]:
        try:
            next(ended)
        except StopIteration as error:
            return x * 2, error.value, next(ended, 5)
        return x, "", 0

    assert_same_as_eager(program, torch.ones(2), Ended())


class Plain:
    """Knows no operator."""


class Counted:
    """Stands for 2 where an index is wanted."""

    def __index__(self) -> int:
        return 2


class Walked:
    """Can be walked."""

    def __iter__(self) -> Any:
        return iter([1, 2])


@pytest.mark.parametrize("operation", [
    lambda a, o: a + o, lambda a, o: a * o, lambda a, o: o * a, lambda a, o: a % o, lambda a, o: a - o, lambda a, o: a < o,
])
@pytest.mark.parametrize("operand", [Plain(), Counted(), Walked()])
def test_operators_between_sequences_and_objects_say_what_c_says(operation: Callable[[Any, Any], Any], operand: Any) -> None:
    """`[1] + obj`, `"ab" * obj`, `b"a" % obj`: an `__index__` repeats, and the TypeError is the one of the C type."""

    def program(x: torch.Tensor, left: Any) -> tuple[torch.Tensor, Any]:
        try:
            return x * 2, operation(left, operand)
        except TypeError as error:
            return x * 2, str(error)

    x = torch.ones(2)
    assert_same_as_eager(program, x, [1], then=[(x, (1,)), (x, "ab"), (x, b"ab"), (x, {1: 2}), (x, 3)], graphs=range(1, 8))


def test_a_list_is_extended_in_place_by_whatever_can_be_walked() -> None:
    """`items += obj` asks the object for its iterator."""

    def program(x: torch.Tensor, items: list[int]) -> tuple[torch.Tensor, list[int]]:
        items += Walked()  # type: ignore[arg-type]
        return x * len(items), items

    assert_same_as_eager(program, torch.ones(2), [0])
