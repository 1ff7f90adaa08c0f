"""OrderedDicts with numbers as keys, which differ in each call: the keys are guarded where something depends on them.

Theme: a table of uses of such a dict x four calls with other numbers, another order and another length; and modules whose hooks are
registered anew for each call, which gives them other numbers.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from typing import Any

import pytest
import torch

import dynexplore
from engine_checks import CountingBackend, assert_same_as_eager

X = torch.ones(3)
RECOMPILES: dict[str, tuple[str, int]] = {  # the use, and how many recompiles it has for other numbers only
    "values": ("x = x * sum(d.values())", 0),
    "unpacked items": ("for k, v in (*d.items(),):\n    x = x * v", 0),
    "length": ("x = x * len(d)", 0),
    "truth": ("x = x * 2 if d else x", 0),
    "in an empty dict": ("x = x * sum(v for k, v in [*d.items()] if k not in EMPTY)", 0),
    "keys are returned": ("x = x * 2, [k for k, v in [*d.items()]]", 0),
    "list of items": ("x = x * 2, list(d.items())", 0),
    "loop": ("for k, v in d.items():\n    x = x * v", 2),
    "key in a graph": ("for k, v in (*d.items(),):\n    x = x * k", 0),
    "key decides": ("for k, v in (*d.items(),):\n    x = x * 3 if k == 5 else x + v", 1),
    "key in a dict": ("x = x * sum(v for k, v in [*d.items()] if k in {5: 1})", 2),
    "lookup": ("x = x * d.get(5, 7)", 2),
    "membership": ("x = x * 2 if 5 in d else x", 2),
    "keys": ("x = x * sum(d)", 2),
    "sorted": ("x = x * sorted(d)[0]", 2),
    "copy": ("x = x * 2, d.copy()", 2),
    "equality": ("x = x * 2 if d == {1: 2, 2: 3} else x", 2),
    "pop": ("x = x * d.popitem()[1]", 2),
    "store": ("d[77] = 3\n  x = x * len(d)", 2),
    "moved": ("d.move_to_end(next(iter(d)))\n  x = x * 2, list(d)", 2),
    "keys, then a change": ("t = [*d.items()]\n  d.popitem(last=False)\n  x = x * 2, t, list(d.items())", 2),
    "keys, then clear": ("t = [*d.items()]\n  d.clear()\n  x = x * 2, t, len(d)", 2),
}


def dicts(*all_keys: tuple[int, ...]) -> list[tuple[Any, Any]]:
    return [(X, OrderedDict((key, index + 2) for index, key in enumerate(keys))) for keys in all_keys]


def program_of(use: str) -> Callable[..., Any]:
    names: dict[str, Any] = {"EMPTY": OrderedDict()}
    exec(f"def f(x, d):\n  x = x + 1\n  {use}\n  return x\n", names)
    return names["f"]  # type: ignore[no-any-return]


@pytest.mark.parametrize("name", RECOMPILES)
def test_uses(name: str) -> None:
    """Other numbers recompile only what depends on them; another order and length are seen by all."""
    use, recompiles = RECOMPILES[name]
    first, *others = dicts((1, 2), (5, 9), (6, 7))
    assert_same_as_eager(program_of(use), *first, then=others, recompiles=recompiles, breaks=0)
    first, *others = dicts((1, 2), (2, 1), (5,), (3, 5, 4), (9, 5), ())
    if "pop" not in use:  # eager raises for an empty dict
        assert_same_as_eager(program_of(use), *first, then=others)


def doubles(module: Any, arguments: Any, result: Any) -> Any:
    return result * 2


def triples(module: Any, arguments: Any, result: Any) -> Any:
    return result * 3


def adds(module: Any, arguments: Any) -> Any:
    return (arguments[0] + 1,)


def with_keywords(module: Any, arguments: Any, kwargs: Any, result: Any) -> Any:
    return result - len(kwargs)


HOOKS: dict[str, tuple[Callable[[Any], Any], int]] = {  # and how many graphs five calls make
    "forward": (lambda module: module.register_forward_hook(doubles), 1),
    "pre": (lambda module: module.register_forward_pre_hook(adds), 1),
    "always called": (lambda module: module.register_forward_hook(doubles, always_call=True), 5),
    "with keywords": (lambda module: module.register_forward_hook(with_keywords, with_kwargs=True), 5),
}


@pytest.mark.parametrize("name", HOOKS)
def test_a_hook_registered_anew_is_no_recompile(name: str) -> None:
    """Five calls, before each of which the hook is registered and after which it is removed: another number in each."""
    register, graphs = HOOKS[name]
    module = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())
    counting = CountingBackend()
    optimized = dynexplore.optimize(counting)(module)
    for _ in range(5):
        handle = register(module[0])
        assert torch.equal(optimized(X), module(X))
        handle.remove()
    assert len(counting.graphs) == graphs


def test_another_hook_or_order_recompiles() -> None:
    """What the hooks are, and their order, is guarded."""
    module = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.ReLU())
    counting = CountingBackend()
    optimized = dynexplore.optimize(counting)(module)
    for hooks in ([doubles], [triples], [doubles, triples], [triples, doubles], [], [triples]):
        handles = [module[0].register_forward_hook(hook) for hook in hooks]
        assert torch.equal(optimized(X), module(X))
        for handle in handles:
            handle.remove()
    assert len(counting.graphs) == 5
