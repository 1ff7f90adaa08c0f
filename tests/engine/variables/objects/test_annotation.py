"""Annotations made of objects that each call makes anew, and the methods of a generic alias, which are those of its origin."""

from __future__ import annotations

import collections
import pickle
import types
import typing
from typing import Any

import pytest
import torch

import dynexplore
from engine_checks import assert_same_as_eager, graphs_compiled

ANNOTATIONS = (
    "List[T]", "Tuple[int, T]", "Dict[str, T]", "Optional[T]", "Union[T, int]", "Callable[[T], int]", "list[T]", "list[T] | None",
    "dict[str, List[T]]", "Type[T]", "Annotated[T, 1]", "Callable[P, T]",
    "class of Generic[T]", "class of Protocol[T]", "class of List[T]",
)  # fmt: skip


@pytest.mark.parametrize("annotation", ANNOTATIONS)
def test_a_type_variable_of_this_call(annotation: str) -> None:
    """In each of three calls the annotation holds the TypeVar that this call made."""
    names: dict[str, Any] = dict(vars(typing))
    base = annotation.removeprefix("class of ")
    body = f"return x, T, {annotation}" if base == annotation else f"class C({base}): pass\n    return x, T, C"
    exec(f"def program(x):\n    x = x + 1\n    T = TypeVar('T')\n    P = ParamSpec('P')\n    {body}\n", names)
    compiled = dynexplore.optimize("eager")(names["program"])
    for _ in range(3):
        _, variable, result = compiled(torch.ones(2))
        assert variable in result.__parameters__
    assert graphs_compiled() > 0


def pickled(x: torch.Tensor) -> Any:
    global ITEM
    x = x + 1
    ITEM = typing.TypeVar("ITEM")  # type: ignore[misc]
    alias = typing.Tuple[int, ITEM]
    return x, pickle.loads(pickle.dumps(alias)) == alias


def test_a_global_type_variable_is_pickled_by_name() -> None:
    """What pickle finds under the name is what the annotation holds."""
    assert_same_as_eager(pickled, torch.ones(2), calls=3)


def origins(x: torch.Tensor, union: Any) -> Any:
    return x + 1, union.__origin__ is typing.Union, typing.Union[int, None].__origin__ is typing.Union, union.__origin__


def test_the_origin_of_a_union() -> None:
    """It is the very object, whether the union was passed or is made here."""
    assert_same_as_eager(origins, torch.ones(2), typing.Union[str, int], calls=2)


class Items(list[Any]):
    def add(self, item: Any) -> Items:
        self.append(item)
        return self

    @classmethod
    def kind(cls) -> Any:
        return cls

    @staticmethod
    def extended(items: list[Any]) -> list[Any]:
        items.append(3)
        return items


CALLS = (
    "list[int].append(a, 4)", "f = list[int].append; f(a, 4)", "getattr(list[int], 'extend')(a, [2, 3])", "List[int].append(a, 4)",
    "list[int].sort(a)", "r = list[int].__len__(a), list[int].__getitem__(a, 0), List[int].__parameters__, list[int].__args__",
    "dict[str, int].update(d, k=1)", "dict[str, int].__setitem__(d, 'k', 2)", "r = dict[str, int].get(d, 'a')",
    "r = dict[str, int].fromkeys([1])", "set[int].add(s, 1)",
    "deque[int].append(q, 1)", "r = Items[int].add(i, 1)", "r = Items[int].kind(), Items[int].extended([1])",
)  # fmt: skip


@pytest.mark.parametrize("call", CALLS)
def test_methods_of_a_generic_alias(call: str) -> None:
    """They change the object that is passed to them."""
    names: dict[str, Any] = {"List": typing.List, "deque": collections.deque, "Items": Items}
    start = "x, r, d, q, i, s = x + 1, 0, {'a': 0}, deque(), Items(), set()"
    exec(f"def program(x, a):\n    {start}\n    {call}\n    return x, r, a, d, q, i, s\n", names)
    assert_same_as_eager(names["program"], torch.ones(2), [5, 1], calls=2)


PARTS = (
    "Union[V, str].__args__[0]", "(V | str).__args__[0]", "(int | V).__args__[1]", "List[V].__args__[0]", "list[V].__args__[0]",
    "Optional[list[V]].__args__[0].__args__[0]", "Dict[str, List[V]].__args__[1].__args__[0]", "Callable[[V], int].__args__[0]",
    "Annotated[int, V].__metadata__[0]", "type('C', (), {'v': V}).v", "(V, 1)[0]", "functools.partial(print, V).args[0]",
)  # fmt: skip


@pytest.mark.parametrize("part", PARTS)
@pytest.mark.parametrize("place", ["V = TypeVar('V')", "V = ParamSpec('V')", "V = NewType('V', int)", "V = given", "V = GLOBAL"])
def test_part_of_an_annotation_is_the_object_itself(part: str, place: str) -> None:
    """What an annotation was made of is that very object, wherever it came from, also where a class of C made it."""
    import functools

    names: dict[str, Any] = dict(vars(typing)) | {"functools": functools, "GLOBAL": typing.TypeVar("GLOBAL")}
    lines = f"{place}\n    whole = {part}\n    return x, whole is V, whole == V, {part} is whole, V in [whole]"
    exec(f"def program(x, given):\n    x = x + 1\n    {lines}\n", names)
    compiled = dynexplore.optimize("eager")(names["program"])
    for _ in range(3):
        try:
            expected = names["program"](torch.ones(2), typing.TypeVar("V"))[1:]
        except TypeError as error:
            with pytest.raises(type(error)):
                compiled(torch.ones(2), typing.TypeVar("V"))
        else:
            assert compiled(torch.ones(2), typing.TypeVar("V"))[1:] == expected
    assert graphs_compiled() > 0


def test_union_of_a_class_and_a_type_variable_of_this_call() -> None:
    """`V | str` after a graph break has the TypeVar of this call, on either side."""

    def program(x: torch.Tensor) -> Any:
        x = x + 1
        variable: Any = typing.TypeVar("V")  # type: ignore[misc]
        left, right = variable | str, str | variable
        return x, left.__args__[0] is variable, right.__args__[1] is variable, left == typing.Union[variable, str]

    compiled = dynexplore.optimize("eager")(program)
    for _ in range(3):
        assert compiled(torch.ones(2))[1:] == (True, True, True)
    assert graphs_compiled() > 0


class Parameter:
    """Something that stands for a type in an alias, and is substituted."""

    def __init__(self, name: str) -> None:
        self.name = name

    __typing_subst__ = None  # an instance has its own


@pytest.mark.parametrize("module", [__name__, "builtins", "types", "typing"])
@pytest.mark.parametrize("alias", ["types.GenericAlias(dict, (parameter, int))", "types.GenericAlias(list, (list[parameter],))"])
def test_an_argument_of_the_program_is_asked_in_the_call(alias: str, module: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `__typing_subst__` of an object is when the alias is subscripted decides, and it is called once in each call; also if
    its class claims to be of a module of Python."""
    monkeypatch.setattr(Parameter, "__module__", module)
    outcomes = []
    for optimized in (False, True):
        parameter, called = Parameter("p"), list[str]()
        parameter.__typing_subst__ = lambda argument, called=called: called.append("before") or argument  # type: ignore
        space: dict[str, Any] = {"types": types, "parameter": parameter, "called": called}
        exec(
            f"made = {alias}\n"
            "def program(x):\n"
            "    parameter.__typing_subst__ = lambda argument: called.append('in the call') or list\n"
            "    return x + 1, str(made[str]), list(called), len(made.__parameters__)",
            space,
        )
        function = dynexplore.optimize("eager")(space["program"]) if optimized else space["program"]
        outcomes.append([str(function(torch.ones(2))) for _ in range(2)])
    assert outcomes[0] == outcomes[1]
    assert graphs_compiled()
