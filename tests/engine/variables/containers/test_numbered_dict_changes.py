"""An OrderedDict with numbers as keys is changed between the calls: all that a call returns, and the dict behind it, as in eager.

Theme: a table of uses (whole, with a break, with a break in a called function) x changes that keep the number of entries (another
key, the same key again, another order, a key of another type, an equal key that is another object) and changes that do not.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest
import torch

import dynexplore
from engine_checks import CountingBackend

X = torch.ones(3)
USES: dict[str, str] = {
    "values": "x = x * sum(d.values())",
    "keys are returned": "kept = [k for k, v in [*d.items()]]",
    "items are returned": "kept = list(d.items())",
    "view of keys": "kept = [*d.keys()], len(d.keys()), bool(d.keys())",
    "reversed": "kept = [*reversed(d.items())], [*reversed(d)]",
    "set": "kept = d.keys() & {1001, 7}, d.items() - {(1001, 2)}",
    "key in a graph": "for k, v in (*d.items(),):\n    x = x * k + v",
    "key decides": "for k, v in (*d.items(),):\n    x = x * 3 if k == 1001 else x + v",
    "key is text": "kept = ''.join([f'{k}{type(k).__name__}' for k, v in [*d.items()]])",
    "key in an empty dict": "kept = [k in EMPTY for k, v in [*d.items()]]",
    "key in a dict": "kept = [k in OTHER for k, v in [*d.items()]]",
    "identity": "kept = [k is l for (k, v), l in zip([*d.items()], d)]",
    "loop": "for k, v in d.items():\n    x = x * v\n  kept = k",
    "lookup": "kept = d.get(1001, 7), 1001 in d",
    "equality": "kept = d == OrderedDict({1001: 2, 1002: 3}), d.items() == {1001: 2, 1002: 3}.items()",
    "copy": "kept = d.copy()",
    "match": "match d:\n    case {1001: kept}:\n      pass\n    case _:\n      kept = None",
    "removed": "for k, v in (*d.items(),):\n    x = x * v\n    if v == 3:\n      del d[k]",
    "removed and entered": "kept = [*d.items()]\n  d[next(iter(d))] = d.pop(kept[-1][0])",
    "moved": "kept = [*d.items()]\n  d.move_to_end(kept[0][0])",
    "break, then keys": "kept = [*d.items()]\n  pause()\n  x = x * 2\n  kept = [k for k, v in kept], list(d)",
    "break, then values": "view = d.values()\n  pause()\n  x = x * 2\n  kept = [*view]",
    "break at each entry": "for k, v in (*d.items(),):\n    x = x * v\n    pause()\n    kept = k",
    "break in a callee": "for k, v in (*d.items(),):\n    x = called(x, v)\n    kept = k",
    "break in a callee that gets the key": "for k, v in (*d.items(),):\n    x = called(x, k)",
    "break in a callee that removes": "for k, v in [*d.items()][:2]:\n    x = removes(x, d, k)",
}


class Number(int):
    """A subclass of int, equal to its number."""


class Name:
    """A key with an `__eq__` of its own."""

    def __hash__(self) -> int:
        return 1001

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Name)


class Ordered(OrderedDict[Any, Any]):
    """A subclass that adds nothing."""


def first_key_becomes(key: Any) -> Callable[[Any], Any]:
    """The first entry gets another key, and stays the first."""

    def change(d: Any) -> Any:
        value = d.pop(1001)
        d[key] = value
        d.move_to_end(key, last=False)
        return d

    return change


def entered_again(d: Any) -> Any:
    d[1001] = d.pop(1001)
    return d


def moved(d: Any) -> Any:
    d.move_to_end(1001)
    return d


def replaced(d: Any) -> Any:
    del d[1001]
    d[1009] = 2
    return d


def with_value(d: Any) -> Any:
    d[1002] = 5
    return d


def longer(d: Any) -> Any:
    return d | {1003: 4}


def shorter(d: Any) -> Any:
    del d[1001]
    return d


CHANGES: dict[str, Callable[[Any], Any]] = {
    "another number": first_key_becomes(1007), "negative": first_key_becomes(-1), "large": first_key_becomes(2**70),
    "equal, another object": first_key_becomes(int("1001")), "bool": first_key_becomes(True), "float": first_key_becomes(1001.0),
    "text": first_key_becomes("1001"), "none": first_key_becomes(None), "tuple": first_key_becomes((1001,)),
    "subclass of int": first_key_becomes(Number(1001)), "own equality": first_key_becomes(Name()),
    "entered again": entered_again, "replaced at the end": replaced, "another value": with_value, "longer": longer,
    "shorter": shorter, "empty": lambda d: OrderedDict(), "many": lambda d: OrderedDict((1001 + i, i + 2) for i in range(18)),
    "a dict": dict, "a subclass": Ordered, "moved": moved, "a moved subclass": lambda d: moved(Ordered(d)),
}  # fmt: skip


def pause() -> Any:
    dynexplore.graph_break()


def called(x: Any, factor: Any) -> Any:
    x = x + 1
    pause()
    return x * (factor if isinstance(factor, (int, float)) else 2)


def removes(x: Any, d: Any, key: Any) -> Any:
    x = x + 1
    pause()
    d.pop(key)
    return x * 2


def program_of(use: str) -> Callable[..., Any]:
    names: dict[str, Any] = {
        "EMPTY": OrderedDict(), "OTHER": {1001: 1, 1007: 2}, "OrderedDict": OrderedDict, "pause": pause, "called": called,
        "removes": removes,
    }  # fmt: skip
    exec(f"def f(x, d):\n  x = x + 1\n  kept = None\n  {use}\n  return x, kept\n", names)
    return names["f"]  # type: ignore[no-any-return]


def seen_of(call: Callable[..., Any], d: Any) -> Any:
    """What a call returns or raises, with types, and the dict behind it."""
    try:
        x, kept = call(X, d)
    except Exception as error:
        return type(error), str(error), list(d.items())
    return x.tolist(), typed(kept), typed(d)


def typed(value: Any) -> Any:
    """A value as nested tuples that tell the types of all parts."""
    if isinstance(value, (list, tuple, OrderedDict, dict)):
        parts = value.items() if isinstance(value, dict) else value
        return type(value), *map(typed, parts)
    return type(value), "a name" if isinstance(value, Name) else sorted(map(str, value)) if isinstance(value, set) else str(value)


def calls_seen(call: Callable[..., Any]) -> list[Any]:
    """What is seen of calls with a dict after each of the changes, each followed by one with such a dict as before."""
    seen = []
    for name, change in {"": lambda d: d, **CHANGES}.items():
        d = OrderedDict({1001: 2, 1002: 3})
        seen += [(name, seen_of(call, change(d))), ("", seen_of(call, d))]
    return seen


@pytest.mark.parametrize("nested", [True, False], ids=["nested", "frames"])
@pytest.mark.parametrize("use", USES)
def test_a_change_between_calls(use: str, nested: bool) -> None:
    """Each change is seen where the use depends on it."""
    counting = CountingBackend()
    with dynexplore.config.patch(nested_graph_breaks=nested, recompile_limit=50):
        actual = calls_seen(dynexplore.optimize(counting)(program_of(USES[use])))
    for seen, expected in zip(actual, calls_seen(program_of(USES[use])), strict=True):
        assert seen == expected
    assert counting.graphs


def test_keys_that_nothing_depends_on_are_the_objects_in_the_dict() -> None:
    """A key that is only passed on is the very object, in later calls as well."""
    counting = CountingBackend()
    optimized = dynexplore.optimize(counting)(program_of(USES["keys are returned"]))
    for numbers in ((2**40, 2**41), (2**42, 2**43)):
        d = OrderedDict((number + 1, 2) for number in numbers)
        assert [id(key) for key in optimized(X, d)[1]] == [*map(id, d)]
    assert len(counting.graphs) == 1


@pytest.mark.parametrize("kind", [OrderedDict, Ordered])
def test_a_dict_changed_behind_its_back(kind: Any) -> None:
    """An OrderedDict from which a method of dict removed a key: as in eager, in the first call and in a later one."""
    program = program_of(USES["values"])
    counting = CountingBackend()
    optimized = dynexplore.optimize(counting)(program_of(USES["values"]))
    for is_first in (True, False):
        broken = kind({1001: 2, 1002: 3})
        if not is_first:
            assert seen_of(optimized, broken.copy()) == seen_of(program, broken.copy())
        dict.__delitem__(broken, 1001)
        dict.__setitem__(broken, 1009, 4)
        for call in (program, optimized):
            with pytest.raises(KeyError):
                call(X, broken)
    assert counting.graphs


def registered(module: Any, handles: list[Any]) -> bool:
    handles.append(module.register_forward_hook(lambda m, a, r: r + 1))
    return True


HOOKS: dict[str, Callable[[Any, list[Any]], Callable[..., Any]]] = {
    "doubles": lambda module, handles: lambda m, a, r: r * 2,
    "removes itself": lambda module, handles: lambda m, a, r: handles.pop(0).remove() or r * 2,
    "removes the last": lambda module, handles: lambda m, a, r: handles.pop().remove() or r * 2,
    "registers": lambda module, handles: lambda m, a, r: registered(module, handles) and r,
    "breaks": lambda module, handles: lambda m, a, r: pause() or r * 2,
}


@pytest.mark.parametrize("nested", [True, False], ids=["nested", "frames"])
@pytest.mark.parametrize("name", HOOKS)
def test_hooks_of_a_module(name: str, nested: bool) -> None:
    """Hooks that remove or register hooks in the call; each call begins with hooks registered anew, then in another order."""

    def results(wrap: Callable[[Any], Any]) -> list[Any]:
        torch.manual_seed(0)
        module: Any = torch.nn.Linear(3, 3)
        seen, call = list[Any](), None
        for _ in range(4):
            handles: list[Any] = []
            hooks = [HOOKS[name](module, handles), lambda m, a, r: r - 1]
            handles.extend(module.register_forward_hook(hook) for hook in (hooks if len(seen) % 4 else hooks[::-1]))
            call = call or wrap(module)
            seen += [call(X).tolist(), len(module._forward_hooks), call(X).tolist(), len(module._forward_hooks)]
            module._forward_hooks.clear()
            module.register_forward_hook(lambda m, a, r: r * 5)
            module.register_forward_hook(lambda m, a, r: r + 3, prepend=True)
            seen += [call(X).tolist()]
            module._forward_hooks.move_to_end(next(iter(module._forward_hooks)))
            seen += [call(X).tolist()]
            module._forward_hooks.clear()
        return seen

    counting = CountingBackend()
    with dynexplore.config.patch(nested_graph_breaks=nested, recompile_limit=50):
        assert results(dynexplore.optimize(counting)) == results(lambda module: module)
    assert counting.graphs
