"""What one check of an entry's guards costs, measured: all of it, each guard, each value, and what remains with a guard filter.

The idea: the guard tree of a new entry is checked many times against the locals of the call that it was compiled for, which it
matches. To price a value, torch copies the tree without its source, and the copy is checked in the same way: the difference is
the price. To price a single guard (a leaf of torch's tree), it is called with the value of its source, and the cost of calling a
guard that only compares a pointer is subtracted. The value is looked up without running code of the program; a guard whose value is
not found so has no price of its own. Guards that compare several values (aliasing) keep state between calls, so that they have a
price only together with reading the values. To price a filter, torch builds the guards
again from the ones that the filter keeps. Nothing is modeled: torch checks unchanged modules by one tag on their dictionaries, so
that a sum over guards would be far from the truth.

The fastest of several rounds counts, and the cost of calling a check without guards is subtracted. A guard may call an `__eq__` of
the program: whatever it raises ends the price of that guard, and never reaches the program. It is opt-in
(`watch(guard_prices=True)`), because a filter costs as much as building the guards.

In: torch's `CheckFunctionManager` for an entry, its class's constructor, and the arguments of that.
Out: `measured(...)`: a function that returns `GuardsTimed` once the number of the entry is known.

PyTorch's counterpart: "Guard latency" in TORCH_LOGS=guards, of all guards, with a cold cache.
"""

from __future__ import annotations

import contextlib
import dataclasses
import functools
import itertools
import time
from collections.abc import Callable, Iterable, Iterator
from types import CodeType
from typing import Any, TypeVar

import torch

from dynexplore.engine import events as ev
from dynexplore.traces.torch_words import plain_source
from dynexplore.traces.values_in_scope import UNKNOWN, value_at
from dynexplore.watching import private_torch

T = TypeVar("T")

FILTERS = (
    "skip_guard_on_inbuilt_nn_modules_unsafe",
    "skip_guard_on_all_nn_modules_unsafe",
    "skip_guard_on_globals_unsafe",
    "keep_tensor_guards_unsafe",
    "skip_all_guards_unsafe",
)
"""The guard filters that torch.compiler documents, from the safest to the least safe one."""

ROUNDS = 5
SECONDS_OF_A_ROUND = 0.0005
SECONDS = 2.0
"""The time limit for one entry; values and filters that are not reached are left out."""

MOST_VALUES = 24

_HOOKS = "torch._functorch.aot_autograd.utils.top_saved_tensors_hooks"
"""How torch prints the guard on hooks for saved tensors, whose class is that of any guard that calls a Python function."""


def measured(manager: Any, code: CodeType, output: Any, build: Callable[..., None]) -> Callable[..., ev.Event]:
    """Measure the guards of an entry; `build` is the constructor of the manager's class, as torch has it.

    Raises RuntimeError if the check of all guards raises.
    """
    try:
        return _measured(manager, code, output, build)
    except Exception as error:  # a check may run code of the program, which may raise anything
        raise RuntimeError(f"the check of the guards raised {type(error).__name__}") from error


def _measured(manager: Any, code: CodeType, output: Any, build: Callable[..., None]) -> Callable[..., ev.Event]:
    root, values, until = manager.guard_manager.root, output.local_scope, time.perf_counter() + SECONDS
    empty = seconds_of(type(root)().check, values)
    whole = root.clone_manager(lambda _: True)
    seconds = max(seconds_of(whole.check, values) - empty, 0.0)
    guards = _single_guards(root)
    prices = _until_one_raises(_values(root, values, seconds + empty, until))
    filters = _until_one_raises(_filters(manager, code, output, build, empty, until))
    # the single guards are the last, as they are many: those that are not reached are counted
    checks = _until_one_raises(_checks(manager, guards, values, until))
    return functools.partial(
        ev.GuardsTimed, seconds=seconds, values=prices, checks=checks, unchecked=len(guards) - len(checks), filters=filters
    )


def _until_one_raises(prices: Iterable[T]) -> tuple[T, ...]:
    """The prices up to the first one that cannot be measured."""
    before: list[T] = []
    with contextlib.suppress(Exception):  # as in `measured`
        before.extend(prices)
    return tuple(before)


def seconds_of(check: Callable[[Any], object], value: Any, round_seconds: float = SECONDS_OF_A_ROUND) -> float:
    """The CPU time of one check, that of the fastest round."""
    runs, best = 1, float("inf")
    for _ in range(ROUNDS):
        counter = itertools.repeat(None, runs)
        began = time.thread_time()
        for _ in counter:
            check(value)
        best = min(best, (time.thread_time() - began) / runs)
        runs = max(int(round_seconds / max(best, 1e-8)), 1)
    return best


def _checks(manager: Any, guards: list[tuple[str, Any]], values: Any, until: float) -> Iterator[ev.CheckPrice]:
    """The price of each guard that can be called by itself. Those that are not reached in time are left out."""
    root, scope = manager.guard_manager.root, (values, private_torch.guard_scope(manager).get("G", {}))
    pointer = type(root)()
    pointer.add_not_none_guard(["a pointer"], None)
    empty = seconds_of(pointer.get_leaf_guards()[0], values)
    epilogue = {id(guard) for guard in _epilogue(root)}
    for source, guard in guards:
        if time.perf_counter() > until:
            return
        value = value_at(source, scope) if source else values
        if value is UNKNOWN or private_torch.compares_several_values(guard):
            continue
        with contextlib.suppress(Exception):  # as in `measured`
            if guard(value):
                seconds = max(seconds_of(guard, value, SECONDS_OF_A_ROUND / 5) - empty, 0.0)
                parts = guard.verbose_code_parts()
                relations = len(parts) if id(guard) in epilogue else 0
                shown = _shown(source) if source else ""
                yield ev.CheckPrice(_kind_of(guard, parts), shown, _printed(parts), seconds, relations)


def _kind_of(guard: Any, parts: list[str]) -> str:
    return "AUTOGRAD_SAVED_TENSORS_HOOKS" if parts and parts[0].startswith(_HOOKS) else type(guard).__name__


def _printed(parts: list[str]) -> str:
    """A guard as torch prints it, the first part only, without the line that needed it."""
    return plain_source(parts[0].partition("  #")[0].strip()) if parts else ""


def _single_guards(root: Any) -> list[tuple[str, Any]]:
    """Each guard once, with the source of the value that it checks: one on several values is at each of them in torch's tree."""
    guards: dict[int, tuple[str, Any]] = {}
    for source, guard in (*_leaves(root), *(("", guard) for guard in _epilogue(root))):
        guards.setdefault(id(guard), (source, guard))
    return list(guards.values())


def _leaves(root: Any) -> Iterator[tuple[str, Any]]:
    """Each single guard, with the source of the value that it checks."""
    pending = [("", root)]
    while pending:
        source, manager = pending.pop()
        yield from ((source, guard) for guard in manager.get_leaf_guards())
        pending += [(child.get_source(), child) for child in _children(manager)]


def _epilogue(root: Any) -> list[Any]:
    """The guards that torch checks after the tree: relations between sizes."""
    return list(getattr(root, "get_epilogue_lambda_guards", list)())


def _values(root: Any, values: Any, whole: float, until: float) -> Iterator[ev.GuardPrice]:
    """The price of each value that the guards begin at: an argument, a global name."""
    for source, guards in _beginnings(root)[:MOST_VALUES]:
        if time.perf_counter() > until:
            return
        without = root.clone_manager(lambda manager, source=source: manager.get_source() != source)
        yield ev.GuardPrice(_shown(source), guards, max(whole - seconds_of(without.check, values), 0.0))


def _shown(source: str) -> str:
    """A source as users write it.

    >>> _shown("L['x']"), _shown("G['__builtins_dict___0']"), _shown("")
    ('x', 'builtins', 'the process')
    """
    plain = plain_source(source)
    return "builtins" if plain.startswith("__builtins_dict") else plain or "the process"


def _beginnings(root: Any) -> list[tuple[str, int]]:
    """The sources that guards begin at, each with the number of guards below it, the largest first."""
    counts: dict[str, int] = {}
    for manager in root.get_child_managers():
        if manager.get_source() == "G":
            for child in _children(manager):
                counts[child.get_source()] = counts.get(child.get_source(), 0) + _guards_below(child)
        else:
            counts[manager.get_source()] = counts.get(manager.get_source(), 0) + _guards_below(manager)
    return sorted(counts.items(), key=lambda pair: -pair[1])


def _children(manager: Any) -> Iterator[Any]:
    yield from manager.get_child_managers()
    for pair in getattr(manager, "get_key_value_managers", dict)().values():
        yield from filter(None, pair)


def _guards_below(manager: Any) -> int:
    return len(manager.get_leaf_guards()) + sum(map(_guards_below, _children(manager)))


def _filters(
    manager: Any, code: CodeType, output: Any, build: Callable[..., None], empty: float, until: float
) -> Iterator[ev.FilterPrice]:
    for name in FILTERS:
        guard_filter = getattr(torch.compiler, name, None)
        if guard_filter is None:
            continue
        if time.perf_counter() > until:
            return
        with contextlib.suppress(Exception):  # as in `measured`; the other filters may be measured all the same
            yield _filter(name, guard_filter, manager, code, output, build, empty)


def _filter(
    name: str, guard_filter: Any, manager: Any, code: CodeType, output: Any, build: Callable[..., None], empty: float
) -> ev.FilterPrice:
    answers: list[bool] = []

    def counting_filter(entries: Any) -> list[bool]:
        answers[:] = guard_filter(entries)
        return answers

    rebuilt = object.__new__(type(manager))
    try:
        with _unchanged(output.guards):
            build(rebuilt, code, output, None, None, counting_filter)
        seconds = max(seconds_of(rebuilt.guard_manager.root.check, output.local_scope) - empty, 0.0)
    finally:
        vars(rebuilt).pop("guard_manager", None)  # weak references to guarded objects keep its owner
    return ev.FilterPrice(name, sum(answers), len(answers), seconds)


@contextlib.contextmanager
def _unchanged(guards: Iterable[Any]) -> Iterator[None]:
    """Restore guards after the block: building them again notes on each which checks it became, a second time."""
    before = [(guard, {field.name: _copied(getattr(guard, field.name)) for field in dataclasses.fields(guard)}) for guard in guards]
    try:
        yield
    finally:
        for guard, attributes in before:
            for name, value in attributes.items():
                setattr(guard, name, value)


def _copied(value: Any) -> Any:
    return list(value) if type(value) is list else value
