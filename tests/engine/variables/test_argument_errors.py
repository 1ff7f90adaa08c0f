"""Calls whose arguments do not bind, of every callable that has a row: what CPython raises is what the traced program raises."""

from __future__ import annotations

import collections
import contextlib
import dataclasses
import itertools
import types
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch

import dynexplore
from dynexplore.engine.variables import all_rows, rules
from dynexplore.engine.variables.argument_errors import argument_error
from engine_checks import assert_same_as_eager

assert all_rows  # imported for the rows that it declares

TARGETS = list({id(target): target for target in rules._KEEP}.values())
WRONG_ARGUMENTS: dict[str, tuple[tuple[Any, ...], dict[str, Any]]] = {
    "none": ((), {}),
    "too-many": (((),) * 12, {}),
    "unknown-keyword": ((), {"no_such_keyword": 1}),
    "one-and-unknown-keyword": (((),), {"no_such_keyword": 1}),
}
ACTS = frozenset({breakpoint, print, input, torch._C._log_api_usage_once})
"""What does something with any arguments, or with none: it is not called for this test."""
LEVELS = ("_enter_dual_level", "_exit_dual_level")
"""The same, of which older versions of torch have others: a level of dual tensors would stay open for all tests that follow."""


def _name(target: Any) -> str:
    return f"{getattr(target, '__module__', None) or type(target).__name__}.{getattr(target, '__qualname__', target)}"


def _outcome(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[str, str] | None:
    """The TypeError of a call; None where it is taken, or refused for another reason than its arguments' number or names."""
    grad, depth = torch.is_grad_enabled(), torch._C._functorch.get_dynamic_layer_stack_depth()
    try:
        with contextlib.redirect_stdout(None), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            function(*args, **kwargs)
    except TypeError as error:
        return "TypeError", str(error)
    except BaseException:
        return None
    finally:
        torch._C._set_grad_enabled(grad)
        torch._C._functorch.pop_dynamic_layer_stack_and_undo_to_depth(depth)
    return None


def _caught(function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any]) -> Callable[[torch.Tensor], Any]:
    def program(x: torch.Tensor) -> tuple[torch.Tensor, str]:
        message = ""
        try:
            function(*args, **kwargs)
        except TypeError as error:
            message = str(error)
        return x + 1, message

    return program


def _cases() -> Iterator[Any]:
    for target, (way, (args, kwargs)) in itertools.product(TARGETS, WRONG_ARGUMENTS.items()):
        if not any(target is one for one in ACTS) and getattr(target, "__name__", "") not in LEVELS:
            yield pytest.param(target, args, kwargs, id=f"{_name(target)}-{way}")


@pytest.mark.plain("looks for errors of the engine, which has none while it is off")
def test_wrong_arguments_of_every_rule() -> None:
    """None at all, twelve, or an unknown keyword: the program catches the TypeError of the real call, and the engine has no bug."""
    differing = []
    for case in _cases():
        target, args, kwargs = case.values
        expected = _outcome(target, args, kwargs)
        if expected is None:
            continue
        dynexplore.reset()
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                _, message = dynexplore.optimize("eager")(_caught(target, args, kwargs))(torch.ones(2))
        except Exception as error:
            message = repr(error)
        if message != expected[1]:
            differing.append(f"{case.id}: {expected[1]!r} expected, {message!r} found")
    assert not differing, "\n".join(differing)


RECEIVERS: dict[type[Any], Callable[[], Any]] = {
    type(make()): make
    for make in (
        lambda: [1], lambda: (1,), lambda: {1: 2}, lambda: {1}, lambda: frozenset({1}), lambda: range(2), lambda: slice(1),
        lambda: collections.deque([1]), lambda: collections.OrderedDict(a=1), lambda: collections.defaultdict(list),
        lambda: types.MappingProxyType({1: 2}), lambda: {1: 2}.keys(), lambda: {1: 2}.values(), lambda: {1: 2}.items(),
        lambda: torch.Size([1]), lambda: "a",
    )
}  # fmt: skip
METHODS = sorted(
    {
        (python_type, name)
        for python_type, name in rules.METHODS
        if python_type in RECEIVERS and hasattr(python_type, name)
        and any(_outcome(getattr(RECEIVERS[python_type](), name), args, kwargs) for args, kwargs in WRONG_ARGUMENTS.values())
    },
    key=lambda row: (row[0].__name__, row[1]),
)  # fmt: skip
"""Those that refuse any of the wrong arguments; `str.format` takes them all."""


def _calls_method(make: Callable[[], Any], name: str, args: Any, kwargs: Any) -> Callable[[torch.Tensor], Any]:
    def program(x: torch.Tensor) -> tuple[torch.Tensor, str]:
        receiver = make()
        try:
            getattr(receiver, name)(*args, **kwargs)
        except TypeError as error:
            return x + 1, str(error)
        return x + 2, ""

    return program


@pytest.mark.parametrize(("python_type", "name"), METHODS, ids=[f"{cls.__name__}.{name}" for cls, name in METHODS])
def test_wrong_arguments_of_every_method(python_type: type[Any], name: str) -> None:
    """A method of a builtin type raises in the traced program what it raises in Python, without a graph break."""
    make = RECEIVERS[python_type]
    for args, kwargs in WRONG_ARGUMENTS.values():
        if _outcome(getattr(make(), name), args, kwargs) is not None:
            assert_same_as_eager(_calls_method(make, name, args, kwargs), torch.ones(2), graphs=1, breaks=0)


class TakesOnlyNames:
    """A class whose `__init__` takes no positional argument."""

    def __init__(self, *, size: int) -> None:
        self.size = size


@pytest.mark.plain("asks no engine, but what Python says")
@pytest.mark.parametrize(
    ("target", "count", "names"),
    [
        (torch.set_grad_enabled, 0, ()), (torch.set_grad_enabled, 2, ()), (torch.no_grad, 3, ()), (TakesOnlyNames, 1, ()),
        (TakesOnlyNames, 0, ("size", "other")), (_outcome, 1, ("args",)), (_outcome, 0, ("args",)), (_outcome, 3, ("args",)),
        (types.MethodType(_outcome, 1), 3, ()), (torch.is_tensor, 0, ("obj", "more")),
    ],
)  # fmt: skip
def test_python_words_the_error(target: Any, count: int, names: tuple[str, ...]) -> None:
    """What is said of a call is the message of the real call."""
    with pytest.raises(TypeError) as expected:
        target(*[None] * count, **dict.fromkeys(names))
    error = argument_error(target, count, names)
    assert error is not None
    assert str(error) == str(expected.value)


@pytest.mark.plain("asks no engine, but what Python says")
def test_arguments_that_bind_have_no_error() -> None:
    """A call that Python would begin is not refused, nor one that only a wrapper's inside would."""
    for target, count, names in ((torch.no_grad, 0, ()), (TakesOnlyNames, 0, ("size",)), (_outcome, 1, ("args", "kwargs"))):
        assert argument_error(target, count, names) is None
    assert argument_error(len, 0, ()) is None


def _named() -> Callable[..., Any]:
    def inner(first: Any) -> Any:
        return first

    inner.__qualname__, inner.__name__ = "Given.name", "name"
    return inner


NAMED = _named()


def test_a_refusal_names_the_function_as_it_is_called_now() -> None:
    """The message begins with `__qualname__`, which may be written (dataclasses do), not with the name that the code has."""

    @dataclasses.dataclass
    class Row:
        first: int

    def message_of(function: Callable[..., Any], *args: Any) -> str:
        try:
            function(*args)
        except TypeError as error:
            return str(error)
        return "taken"

    def program(x: torch.Tensor, text: str) -> Any:
        named = _named()
        words = [message_of(named), message_of(NAMED, 1, 2), message_of(Row), message_of(Row, 1, 2)]
        named.__qualname__ = text
        return x + 1, [*words, message_of(named), named.__qualname__]

    assert_same_as_eager(program, torch.ones(2), "ab", then=[(torch.ones(2), "cd")])
