"""What one check of a new entry's guards costs, measured on the check itself: all of it, and the part of each source.

The idea: the generated check is straight-line code (guard_codegen.py), so the price of a guard is the time that the check takes
less without its statement, and without the statements that only compute its value. Guards that are checked by one call (those on
one dictionary, or all tensors) have one price. The walk over modules is called separately, and timed so. The fastest of several
rounds counts, and the cost of calling a check without guards is subtracted.

It is opt-in (`config.guard_prices`), because it checks guards many times. It needs the values of the frame that was translated.

In: a new entry, and the slots of its frame. Out: `guards_timed(...)`: the `GuardsTimed` event.

PyTorch's counterpart: "Guard latency" in TORCH_LOGS=guards, of all guards, with a cold cache.
"""

from __future__ import annotations

import ast
import functools
import time
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

from dynexplore.engine import events as ev
from dynexplore.engine.provenance.guard_check import GuardCheck
from dynexplore.engine.provenance.sources import GlobalsSource, PinnedSource, Source
from dynexplore.engine.runtime.cache import CompiledEntry, Slots, slot_values

ROUNDS = 5
SECONDS_OF_A_ROUND = 0.0003
SECONDS = 1.0
"""The time limit for one entry; sources that are not reached are left out."""

OF_PROCESS = "the process"
OF_MODULES = "modules"
MANY_TENSORS = "all tensors"
_MOST_NAMES = 3


def guards_timed(entry: CompiledEntry, state: Any, frame: int) -> ev.GuardsTimed:
    """Measure the guards of an entry against the call that it was compiled for."""
    if entry.types is not None:
        types = functools.partial(entry.types.holds, state.values, state.closure, state.globals)
        return ev.GuardsTimed(frame=frame, entry=entry.number, seconds=max(seconds_of(types) - seconds_of(_nothing), 0.0))
    arguments = _arguments(entry.guards, state)
    empty = seconds_of(functools.partial(_nothing, *arguments))
    of_walk = max(seconds_of(entry.state.walk.check) - seconds_of(_nothing), 0.0) if entry.state is not None else 0.0
    whole = max(seconds_of(functools.partial(entry.guards.check, *arguments)) - empty, 0.0)
    in_walk = sum(guard.kind == "MODULE_STATE" for guard in entry.guards.guards)
    prices = [ev.GuardPrice(OF_MODULES, in_walk, of_walk)] if of_walk and in_walk else []
    prices += _prices(entry.guards, arguments, whole + empty)
    return ev.GuardsTimed(frame=frame, entry=entry.number, seconds=whole + of_walk, values=tuple(prices))


def _nothing(*arguments: Any) -> bool:
    return True


def _arguments(check: GuardCheck, state: Slots) -> list[Any]:
    """What the frame hook passes to the check."""
    values = slot_values(state)  # type: ignore[arg-type]
    return [*(values.get(name) for name in check.slot_names), state.closure, state.globals]


def seconds_of(check: Callable[[], object]) -> float:
    """The CPU time of one check, that of the fastest round."""
    runs, best = 1, float("inf")
    for _ in range(ROUNDS):
        began = time.thread_time()
        for _ in range(runs):
            check()
        best = min(best, (time.thread_time() - began) / runs)
        runs = max(int(SECONDS_OF_A_ROUND / max(best, 1e-8)), 1)
    return best


def _prices(check: GuardCheck, arguments: list[Any], whole: float) -> Iterator[ev.GuardPrice]:
    """The price of each source, in the order in which they are checked."""
    until = time.perf_counter() + SECONDS
    for name, guards, without in checks_without(check):
        if time.perf_counter() > until:
            return
        yield ev.GuardPrice(name, guards, max(whole - seconds_of(functools.partial(without, *arguments)), 0.0))


def checks_without(check: GuardCheck) -> Iterator[tuple[str, int, Callable[..., bool]]]:
    """For each source: how it is displayed, the number of its guards, and the check without them."""
    function = ast.parse(check.code).body[0]
    assert isinstance(function, ast.FunctionDef)
    groups: dict[str, list[ast.stmt]] = {}
    for statement in function.body:
        if not isinstance(statement, ast.Assign | ast.Return):
            groups.setdefault(_source_of(statement, check), []).append(statement)
    counts = Counter(name_of(guard.source) for guard in check.guards if guard.kind not in ("MODULE_STATE", "TENSOR_MATCH"))
    for name, statements in groups.items():
        remaining = _needed([statement for statement in function.body if statement not in statements])
        tensors = len(check.tensors) if name == MANY_TENSORS else name.count(", ") + 1
        yield name, counts[name] or tensors, _compiled(function, remaining, check)


def _source_of(statement: ast.stmt, check: GuardCheck) -> str:
    """The sources that a statement checks, as displayed."""
    used = [check.sources[name] for name in _names_in(statement) if name in check.sources]
    if used:
        return names_of(Counter(map(name_of, used)))
    if any(isinstance(node, ast.Starred) for node in ast.walk(statement)):
        return MANY_TENSORS
    return OF_PROCESS


def name_of(source: Source) -> str:
    """A source as displayed with a price.

    >>> name_of(GlobalsSource())
    'globals'
    """
    if isinstance(source, GlobalsSource):
        return "globals"
    return name_of(source.origin) if isinstance(source, PinnedSource) else source.text()


def names_of(counts: Counter[str]) -> str:
    """Several sources as displayed.

    >>> names_of(Counter(["x", "y"])), names_of(Counter("abcd"))
    ('x, y', 'all tensors')
    """
    return ", ".join(counts) if len(counts) <= _MOST_NAMES else MANY_TENSORS


def _names_in(statement: ast.stmt) -> list[str]:
    loaded = (node.id for node in ast.walk(statement) if isinstance(node, ast.Name) and isinstance(node.ctx, ast.Load))
    return list(dict.fromkeys(loaded))


def _needed(statements: list[ast.stmt]) -> list[ast.stmt]:
    """The statements without assignments of variables that none of the others read."""
    needed: list[ast.stmt] = []
    read: set[str] = set()
    for statement in reversed(statements):
        target = statement.targets[0] if isinstance(statement, ast.Assign) else None
        if isinstance(target, ast.Name) and target.id not in read:
            continue
        needed.append(statement)
        read.update(_names_in(statement))
    return needed[::-1]


def _compiled(function: ast.FunctionDef, body: list[ast.stmt], check: GuardCheck) -> Callable[..., bool]:
    smaller = ast.FunctionDef(**{**dict(ast.iter_fields(function)), "body": body})
    module = ast.fix_missing_locations(ast.Module([smaller], []))
    namespace = dict(check.namespace)
    exec(compile(module, "<dynexplore guards>", "exec"), namespace)
    without: Callable[..., bool] = namespace[function.name]
    return without
