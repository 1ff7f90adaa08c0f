"""What every test gets: Dynamo banned, seeds set, engine bugs raised, the engine's state fresh, its dump under `-s`.

In: nothing that a test has to ask for. Out: the fixtures `dump` and `seeds`, and the marks of pyproject.toml at work.
The fixtures touch the engine only where it is importable, so that the house tests run in a tree that does not build.
"""

from __future__ import annotations

import contextlib
import importlib
import random
import sys
from collections.abc import Iterator
from typing import Any

import pytest

import dynamo_ban
from golden_files import golden, pytest_addoption

__all__ = ["golden", "pytest_addoption"]  # a fixture and a hook: pytest finds them here

dynamo_ban.install()
pytest.register_assert_rewrite("engine_checks")


@pytest.fixture(autouse=True)
def dynamo_stays_banned(request: pytest.FixtureRequest) -> Iterator[None]:
    """Lift the ban on PyTorch's own Dynamo for tests with the marker `lenses`, and for no others."""
    if request.node.get_closest_marker("lenses"):
        with dynamo_ban.lifted():
            yield
    else:
        yield


@pytest.fixture(autouse=True)
def seeds() -> None:
    """The same random numbers for each test, whichever tests ran before it."""
    random.seed(0)
    if torch := sys.modules.get("torch"):
        torch.manual_seed(0)
    if numpy := sys.modules.get("numpy"):
        numpy.random.seed(0)


@pytest.fixture(autouse=True)
def fresh_engine(request: pytest.FixtureRequest) -> Iterator[None]:
    """An engine that remembers nothing of earlier tests, and that raises its own bugs instead of hiding them."""
    if "dynexplore.engine.runtime.api" not in sys.modules:
        yield
        return
    api = sys.modules["dynexplore.engine.runtime.api"]
    api.reset()
    if request.node.get_closest_marker("engine_errors_fall_back"):
        yield
    else:
        with _patched_config(suppress_errors=False):
            yield
    api.reset()


@pytest.fixture(autouse=True)
def dump(request: pytest.FixtureRequest) -> Iterator[None]:
    """Under `pytest -s` the engine prints what it does: graphs, original and modified bytecode, guards."""
    if request.config.getoption("capture") == "no" and "dynexplore.engine.runtime.api" in sys.modules:
        with _patched_config(debug=True):
            yield
    else:
        yield


def _patched_config(**options: Any) -> contextlib.AbstractContextManager[Any]:
    patched: contextlib.AbstractContextManager[Any] = importlib.import_module("dynexplore.engine.config").config.patch(
        **options
    )
    return patched
