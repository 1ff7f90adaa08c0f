"""How a random program is run: eager against the engine, over several calls, in everything that can be noticed.

In:  the text of a program (drawn_programs.py), and which calls to make (`CALLS`, by name).
Out: nothing, or the AssertionError of `assert_same_as_eager`, with the text of the program above it.
"""

from __future__ import annotations

import linecache
import re
import sys
import types
import warnings
import zlib
from collections.abc import Callable, Sequence
from typing import Any

import torch
from properties.program_prelude import PRELUDE

from dynexplore.engine.config import config
from engine_checks import assert_same_as_eager

Arguments = tuple[Any, ...]
ANY = range(10_000)  # how many graphs a drawn program has is not known; that it was looked at is


def namespace_of(text: str) -> dict[str, Any]:
    """Run the prelude and a program as if they stood in a file of their own."""
    whole = PRELUDE.strip() + "\n\n\n" + text
    name = f"<random program {zlib.crc32(text.encode()):08x}>"
    linecache.cache[name] = (len(whole), None, whole.splitlines(True), name)
    module = types.ModuleType("random_program")
    sys.modules["random_program"] = module  # dataclasses look their module up
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", SyntaxWarning)  # of what is drawn on purpose: `[1][0.5]`
        exec(compile(whole, name, "exec"), module.__dict__)
    return module.__dict__


def first_arguments(names: dict[str, Any]) -> Arguments:
    """What the first call passes: two tensors, a number, a flag, a list that holds the first tensor, a dict that holds the list."""
    x, y = torch.tensor([0.5, -1.0, 2.0]), torch.tensor([1.0, 2.0, 3.0])
    items = [x, 1, torch.ones(3)]
    return x, y, 2, True, items, {"k": 1, "t": y, "a": items}, names["Box"](torch.ones(3), 2)


def _replaced(arguments: Arguments, **changes: Any) -> Arguments:
    order = ("x", "y", "n", "flag", "a", "d", "box")
    return tuple(changes.get(name, value) for name, value in zip(order, arguments, strict=True))


#: what another call passes, made from what the first passed
CALLS: dict[str, Callable[[dict[str, Any], Arguments], Arguments]] = {
    "the same": lambda names, old: old,
    "other values": lambda names, old: _replaced(old, x=-old[0].detach().clone(), y=-old[1].detach().clone()),
    "another number": lambda names, old: _replaced(old, n=3),
    "no flag": lambda names, old: _replaced(old, flag=False),
    "other sizes": lambda names, old: _replaced(old, x=torch.ones(4), y=torch.arange(4.0)),
    "matrices": lambda names, old: _replaced(old, x=torch.ones(2, 3), y=torch.arange(6.0).reshape(2, 3)),
    "doubles": lambda names, old: _replaced(old, x=torch.ones(3, dtype=torch.float64)),
    "one tensor twice": lambda names, old: _replaced(old, y=old[0]),
    "swapped": lambda names, old: _replaced(old, x=old[1], y=old[0]),
    "a view": lambda names, old: _replaced(old, y=old[0].view(3)) if not old[0].requires_grad and old[0].numel() == 3 else old,
    "needs grad": lambda names, old: _replaced(old, x=torch.tensor([1.0, -2.0, 0.5], requires_grad=True)),
    "other containers": lambda names, old: _replaced(old, a=[1, 2], d={1: old[0], "k": 2, None: [3]}),
    "another class": lambda names, old: _replaced(old, box=names["Loud"](old[0], 3)),
    "a float": lambda names, old: _replaced(old, n=1.5),
    "box holds it": lambda names, old: _replaced(old, box=names["Box"](old[0], 2)),
}


def assert_program_is_right(text: str, calls: Sequence[str] = ("the same", "other values", "another number")) -> None:
    """Assert that a program does under the engine what it does without, in each of these calls after the first."""
    names = namespace_of(text)
    first = first_arguments(names)
    more = [CALLS[call](names, first) for call in calls]
    kind = names["Box"].kind

    def setup() -> None:
        names.update(G=1, LOG=[], STATE={"count": 0})
        names["Box"].kind = kind

    def observe() -> Any:
        return names["G"], names["LOG"], names["STATE"], names["Box"].kind

    try:
        # a drawn loop compiles as often as it likes: the warning of the limit has tests of its own
        with config.patch(cache_size_limit=1000):
            assert_same_as_eager(names["program"], *first, then=more, graphs=ANY, setup=setup, observe=observe)
    except AssertionError as error:
        raise AssertionError(f"calls = {list(calls)!r}\n{text}\n{without_prelude(text, str(error))}") from None


def without_prelude(text: str, message: str) -> str:
    """`message` with line numbers that count from the first line of the program."""
    before = PRELUDE.strip().count("\n") + 3
    return re.sub(r"line (\d+)", lambda found: f"line {int(found[1]) - before}", message)
