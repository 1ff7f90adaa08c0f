"""A warning that is shown once a place is shown once, however often something is compiled between its calls."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import dynexplore
from dynexplore.engine.graph import warning_registry
from dynexplore.engine.native import filters_version


@pytest.fixture
def shown() -> Iterator[list[warnings.WarningMessage]]:
    """The warnings that are shown under the default filter."""
    with warnings.catch_warnings(record=True) as messages:
        warnings.simplefilter("default")
        yield messages


def warned() -> None:
    warnings.warn("once a place", stacklevel=1)


def doubled(x: Any) -> Any:
    return (x * 2).sin()


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_what_was_shown_is_not_forgotten_by_a_compilation(backend: str, shown: list[warnings.WarningMessage]) -> None:
    """Torch ignores warnings for a moment in each compilation; the program's are shown once all the same."""
    dynexplore.reset()
    dynexplore.counters.clear()
    optimized = dynexplore.optimize(backend)(doubled)
    for size in (2, 3, 4):
        warned()
        optimized(torch.ones(size, requires_grad=True))
        optimized(torch.ones(size, size, requires_grad=True))
        warned()
    assert dynexplore.counters["frames"]["ok"] >= 3
    assert [str(one.message) for one in shown] == ["once a place"]


@pytest.mark.plain("asks what stands around a translation, without one")
def test_what_other_threads_do_meanwhile_is_kept() -> None:
    """Blocks that overlap end together; the filters that a program changed meanwhile are changed."""
    with warnings.catch_warnings():
        before = filters_version()
        entered, leave = threading.Event(), threading.Event()

        def other() -> None:
            with warning_registry.preserved():
                entered.set()
                leave.wait()

        thread = threading.Thread(target=other)
        with warning_registry.preserved():
            thread.start()
            entered.wait()
            meanwhile = filters_version()
            assert meanwhile < 0 < before
        assert filters_version() == meanwhile
        leave.set()
        thread.join()
        assert filters_version() == before
        with warning_registry.preserved():
            warnings.simplefilter("error")
        assert filters_version() == before + 1


@pytest.mark.plain("asks what stands around a translation, without one")
def test_what_torch_remembers_is_remembered_from_one_translation_to_the_next() -> None:
    """The numbers of translations go on: as long as no filter changes, what was shown in one is not shown in the next."""
    registry: dict[object, object] = {}
    with warnings.catch_warnings(record=True) as messages:
        warnings.simplefilter("default")
        for changes in (0, 0, 1, 0):
            with warning_registry.preserved():
                for _ in range(changes):
                    warnings.simplefilter("default")
                warnings.warn_explicit("of torch", UserWarning, "torch.py", 1, registry=registry)
    assert len(messages) == 2
