"""engine/gc_control.py: what is imported is not walked over, and the program's own use of the collector stays as it is."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from typing import Any

import pytest

from dynexplore.engine.gc_control import gc_disabled, gc_enabled, importing

pytestmark = pytest.mark.plain("no frame is translated")


@pytest.fixture(autouse=True)
def as_it_was() -> Iterator[None]:
    """The collector works, and nothing is frozen, what pytest collected (conftest.py) neither until the test is over."""
    gc.unfreeze()
    yield
    gc.enable()
    gc.freeze()


def _made() -> list[list[Any]]:
    return [[] for _ in range(10_000)]


def _is_old(values: list[list[Any]]) -> bool:
    old = {id(value) for value in gc.get_objects(generation=2)}
    return all(id(value) in old for value in values)


def test_what_an_import_makes_is_old_at_once() -> None:
    """Nothing is collected inside, and no later collection of young objects meets what was made there."""
    collections: list[int] = []
    gc.collect()
    gc.callbacks.append(lambda phase, info: collections.append(info["generation"]))
    try:
        with importing():
            before = len(collections)
            values = _made()
            inside = len(collections) - before
    finally:
        gc.callbacks.pop()
    assert not inside
    assert _is_old(values)


def test_a_garbage_cycle_made_there_is_collected_in_the_end() -> None:
    """Old is not frozen: a full collection finds it."""
    class Cycle:
        gone = 0

        def __del__(self) -> None:
            Cycle.gone += 1

    with importing():
        cycle: Any = Cycle()
        cycle.itself = cycle
        del cycle
    gc.collect()
    assert Cycle.gone == 1


def test_what_the_program_froze_stays_frozen() -> None:
    """A server that freezes before it forks: nothing thaws."""
    gc.freeze()
    frozen = gc.get_freeze_count()
    with importing():
        _made()
    assert gc.get_freeze_count() >= frozen - 100  # some die


def test_a_collector_that_is_switched_off_stays_off() -> None:
    """Then nothing is moved either."""
    gc.disable()
    with importing():
        values = _made()
    assert not gc.isenabled()
    assert not _is_old(values)


def test_blocks_in_each_other() -> None:
    """At rest, at work within, imports within that: each block leaves the collector as it found it."""
    seen = []
    with gc_disabled():
        seen.append(gc.isenabled())
        with gc_enabled():
            seen.append(gc.isenabled())
            with importing():
                seen.append(gc.isenabled())
            seen.append(gc.isenabled())
        seen.append(gc.isenabled())
    assert [*seen, gc.isenabled()] == [False, True, False, True, False, True]


def test_a_failing_import_leaves_the_collector_at_work() -> None:
    """The error comes through."""
    with pytest.raises(ImportError), importing():
        raise ImportError
    assert gc.isenabled()
