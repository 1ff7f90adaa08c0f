"""The suite with the engine switched off: `pytest --engine-off` finds the tests that have no teeth.

Which idea lives here: a test of the engine says something about the engine, so it must fail when the engine does nothing.
Under this option `config.disable` is on for the whole run and the outcomes are turned around: a test that fails in its own
body is fine; one that passes is red, unless it carries the marker `plain`, with the reason why it needs no engine; one
that fails in a fixture is red too, because the fixture noticed and the test itself did not.

In: `--engine-off`, and `@pytest.mark.plain("why it needs no engine")` on a test, a parameter, or a module (`pytestmark`).
Out: a green run if the tests that pass are exactly the marked ones. Rooms above the engine's core are left out by folder.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from dynexplore.engine.config import config

TESTS = Path(__file__).parent

FOLDERS = ("engine", "opcodes", "programs", "properties", "recording", "second_opinion", "session", "tools")
"""The folders of tests/ whose tests speak of the engine. Views, widgets, lenses, docs and the house do not."""

PASSES = "passes with the engine off: make it look at what the engine did, or mark it `plain` with a reason"
IN_FIXTURE = "fails in a fixture with the engine off, and not by an assertion of its own"
SECONDS = 20
"""How long a test may wait for an engine that does nothing; then it has failed in its own body."""

PLAIN_FAILS = "is marked `plain`, but fails with the engine off"


def add_option(parser: pytest.Parser) -> None:
    """Add `--engine-off` to pytest."""
    parser.addoption("--engine-off", action="store_true", help="run with the engine off; tests that pass, unless `plain`, fail")


def switch_off(pytest_config: pytest.Config) -> None:
    """Under `--engine-off`: no engine in this process and its children, and outcomes turned around."""
    if pytest_config.getoption("--engine-off"):
        pytest_config.option.tbstyle = "no"  # most tests fail, and nobody reads why
        os.environ["DYNEXPLORE_DISABLE"] = "1"
        pytest_config.pluginmanager.register(_EngineOff(), "engine off")


def check_reasons(items: list[pytest.Item]) -> None:
    """Raise UsageError for a marker `plain` that gives no reason."""
    for item in items:
        for marker in item.iter_markers("plain"):
            if len(marker.args) != 1 or not isinstance(marker.args[0], str) or len(marker.args[0].split()) < 3:
                raise pytest.UsageError(f'{item.nodeid}: pytest.mark.plain("...") takes the reason why it needs no engine')


class _EngineOff:
    """The hooks of such a run."""

    def __init__(self) -> None:
        self._failed_itself: set[str] = set()

    @pytest.hookimpl
    def pytest_ignore_collect(self, collection_path: Path) -> bool | None:
        """Leave out all but the engine's folders."""
        if collection_path == TESTS or TESTS not in collection_path.parents:
            return None
        return True if collection_path.relative_to(TESTS).parts[0] not in FOLDERS else None

    @pytest.hookimpl(tryfirst=True)
    def pytest_sessionstart(self) -> None:
        """Off while tests are collected, too: some modules optimize functions when they are imported."""
        config.disable = True
        _look_no_further_than_the_first_counterexample()

    @pytest.hookimpl(tryfirst=True)
    def pytest_runtest_setup(self) -> None:
        """Off before the first fixture runs, whatever the test before left."""
        config.disable = True

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_call(self, item: pytest.Item) -> Iterator[None]:
        """Stop a test that waits for what never comes, and put grad mode back, which one that fails half-way may leave off."""
        if item.get_closest_marker("plain"):  # it waits for nothing that is not there, and a loaded machine is no failure
            return (yield)
        grad_mode = torch.is_grad_enabled()
        before = signal.signal(signal.SIGALRM, _waited_long_enough)
        signal.alarm(SECONDS)
        try:
            return (yield)
        finally:
            signal.alarm(0)
            signal.signal(signal.SIGALRM, before)
            torch.set_grad_enabled(grad_mode)

    @pytest.hookimpl(wrapper=True, tryfirst=True)
    def pytest_runtest_makereport(self, item: pytest.Item, call: pytest.CallInfo[Any]) -> Iterator[None]:
        """Turn the outcome around; see the head of this file."""
        report: pytest.TestReport = yield  # type: ignore[misc, assignment]
        if report.skipped:
            return report  # type: ignore[return-value]
        plain = next((marker.args[0] for marker in item.iter_markers("plain")), None)
        if report.when == "call":
            self._turn(report, plain)
        elif report.failed and item.nodeid not in self._failed_itself:
            report.longrepr = IN_FIXTURE if plain is None else PLAIN_FAILS
        elif report.failed:
            report.outcome, report.longrepr = "passed", None
        return report  # type: ignore[return-value]

    def _turn(self, report: pytest.TestReport, plain: str | None) -> None:
        if plain is not None:
            if report.failed:
                report.longrepr = f"{PLAIN_FAILS}: {report.longreprtext[-2000:]}"
        elif report.passed:
            report.outcome, report.longrepr = "failed", PASSES
        else:
            self._failed_itself.add(report.nodeid)
            report.outcome, report.longrepr = "passed", None


def _waited_long_enough(*_: object) -> None:
    pytest.fail(f"waited {SECONDS} seconds for the engine")


def _look_no_further_than_the_first_counterexample() -> None:
    # Hypothesis would make each failure as small as it can, and here every test is to fail
    from hypothesis import Phase, settings

    settings.register_profile("engine off", phases=[Phase.explicit, Phase.generate], report_multiple_bugs=False, database=None)
    settings.load_profile("engine off")
