"""variables/contract/write_back.py: real objects become what their trackers became, in the order of the program."""

from __future__ import annotations

import types
from collections import deque
from typing import Any

import torch

import dynexplore
from engine_checks import CountingBackend, assert_same_as_eager


class Holder:
    """An object and a class with attributes to change."""

    total: Any = 0
    doomed = 1


def test_containers_are_emptied_and_filled_again() -> None:
    """A deque, a set and a list that only grows hold what they hold in eager, and each other where they do."""

    def fn(x: Any, queue: Any, members: Any, results: Any) -> Any:
        queue.append(x + 1)
        queue.popleft()
        members.discard(1)
        members.add(5)
        results.append(queue)
        return x * len(members)

    assert_same_as_eager(fn, torch.ones(2), deque([1, 2], maxlen=3), {1, 2}, [0], graphs=1, breaks=0)


def test_attributes_are_set_and_deleted() -> None:
    """Of an object, of a class and of a module; new values are built before anything is changed."""

    def fn(x: Any, holder: Any, module: Any) -> Any:
        old = holder.here
        holder.here = x + 1
        holder.there = old
        del holder.gone
        type(holder).total = x * 2
        del type(holder).doomed
        module.seen = holder
        del module.unseen
        return x - 1

    def changed(call: Any) -> Any:
        holder = type("Own", (Holder,), {"doomed": 2})()
        holder.here, holder.gone = 1, 2
        module = types.ModuleType("scratch")
        vars(module)["unseen"] = 1
        value = call(torch.ones(2), holder, module)
        names = sorted(name for name in vars(module) if not name.startswith("__"))
        return str((value, vars(holder), type(holder).total, type(holder).doomed, names)), vars(module)["seen"] is holder

    backend = CountingBackend()
    assert changed(dynexplore.optimize(backend)(fn)) == changed(fn)
    assert len(backend.graphs) == 1
