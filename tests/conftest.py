"""What every test gets: Dynamo banned, seeds set, engine bugs raised, the engine's state fresh, its dump under `-s`.

In: nothing that a test has to ask for. Out: the fixtures `dump` and `seeds`, and the marks of pyproject.toml at work.
"""

from __future__ import annotations

import functools
import gc
import importlib
import logging
import signal
import sys
from collections.abc import Iterator

import pytest
from seeding import seed_everything

import dynamo_ban
import engine_off
import golden_files
from dynexplore.engine.config import config
from dynexplore.engine.gc_control import importing
from golden_files import golden

__all__ = ["golden"]  # a fixture: pytest finds it here

# A suite that was started in the background ignores Ctrl-C; the tests about it need Python's own handler.
signal.signal(signal.SIGINT, signal.default_int_handler)
dynamo_ban.install()
pytest.register_assert_rewrite("engine_checks", "programs.before_and_after")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--update-golden` and `--engine-off` to pytest."""
    golden_files.add_option(parser)
    engine_off.add_option(parser)


def pytest_configure(config: pytest.Config) -> None:
    """Switch the engine off where that is asked for."""
    engine_off.switch_off(config)


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Iterator[None]:
    """Import and collect without walking over what was collected so far, again and again: all of it lives until the run ends."""
    with importing():
        return (yield)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Look at the reasons of the marker `plain`."""
    engine_off.check_reasons(items)


@pytest.hookimpl(trylast=True)
def pytest_collection_finish() -> None:
    """Between two collections of garbage ten times as many objects may be made as usual: the engine's work makes many, and few are
    garbage.
    """
    gc.set_threshold(10 * gc.get_threshold()[0], *gc.get_threshold()[1:])
    if "hypothesis" in sys.modules:
        _run_hypothesis_once()
    _imports.freeze()


def _run_hypothesis_once() -> None:
    """Its first test asks the collector what refers to its random numbers, and warns if nothing does: frozen objects do not."""
    hypothesis = importlib.import_module("hypothesis")
    nothing = hypothesis.given(hypothesis.strategies.none())(lambda value: None)
    hypothesis.settings(max_examples=1, database=None)(nothing)()


@pytest.hookimpl(wrapper=True, trylast=True)
def pytest_runtest_call() -> Iterator[None]:
    """Leave torch's trace unheard: pytest listens to each logger that does not propagate (from 9.2 on), and a trace that is
    heard puts every event of a compilation into words, with its stack. A quarter of what a fuzzer costs went there.
    """
    trace = logging.getLogger("torch.__trace")
    for handler in [handler for handler in trace.handlers if type(handler).__module__ == "_pytest.logging"]:
        trace.removeHandler(handler)
    yield


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
    seed_everything()


@pytest.fixture(autouse=True)
def fresh_engine(request: pytest.FixtureRequest) -> Iterator[None]:
    """An engine that remembers nothing of earlier tests, and that raises its own bugs instead of hiding them."""
    may_fall_back = request.node.get_closest_marker("engine_errors_fall_back") is not None
    _forget()
    with config.patch(suppress_errors=may_fall_back):
        yield
    _forget()
    _imports.freeze()


class _Imports:
    """Modules and tests live until the run ends: no collection walks over them, also none that a test asks for."""

    MANY = 200
    """Modules: compilers bring more, which are half a million objects."""

    def __init__(self) -> None:
        self._frozen = 0

    def freeze(self) -> None:
        """Freeze what there is, if many modules came since that was last done."""
        if len(sys.modules) > self._frozen + self.MANY:
            self._frozen = len(sys.modules)
            gc.collect()
            gc.freeze()


_imports = _Imports()


class _RunsPlain(logging.Handler):
    """Collects what the engine logs where a frame is left to Python though it was to be captured."""

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        if "as plain Python" in (line := record.getMessage()):
            self.lines.append(line)


@pytest.fixture(autouse=True)
def no_frame_is_left_to_python(request: pytest.FixtureRequest) -> Iterator[None]:
    """A test that reaches a cache limit, or a bug that falls back, without asking for the log (`caplog`) fails: it would go on
    without the engine.
    """
    if "caplog" in request.fixturenames:
        yield
        return
    handler, logger = _RunsPlain(), logging.getLogger("dynexplore")
    logger.addHandler(handler)
    yield
    logger.removeHandler(handler)
    assert handler.lines == []


@pytest.fixture(autouse=True)
def dump(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Under `pytest -s` the engine prints what it does: graphs, original and modified bytecode, guards.

    It prints to the terminal itself: where a test compares what a program prints, the printout is no part of that. A
    test that looks at the output of this process (`capsys`, `capfd`) sees what it asks for, and no more.
    """
    looks_at_output = {"capsys", "capfd"} & set(request.fixturenames)
    if request.config.getoption("capture") != "no" or looks_at_output:
        yield
        return
    printout = importlib.import_module("dynexplore.tools.printout")
    monkeypatch.setattr(printout, "print", functools.partial(print, file=sys.stdout), raising=False)
    with config.patch(debug=True):
        yield


def pytest_sessionfinish(session: pytest.Session) -> None:
    """Hypothesis imports itself for its part of the summary; where no test drew anything, there is none."""
    plugins = session.config.pluginmanager
    if "hypothesis" not in sys.modules and plugins.has_plugin("hypothesispytest"):
        plugins.unregister(name="hypothesispytest")


def _forget() -> None:
    # a test that never brought the engine in has nothing to forget, and does not pay for importing torch
    if api := sys.modules.get("dynexplore.engine.runtime.api"):
        api.reset()
