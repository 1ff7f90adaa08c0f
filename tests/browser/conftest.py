"""One browser per file of tests, and pages in it that nothing may go wrong in."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser, sync_playwright

from browser.pages import Opened
from browser.system_browser import FLAGS, chromium


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The system's Chromium, which can reach no host."""
    with sync_playwright() as playwright:
        started = playwright.chromium.launch(executable_path=chromium(), args=FLAGS)
        yield started
        started.close()


@pytest.fixture
def opened(browser: Browser, tmp_path: Path) -> Iterator[Opened]:
    """Opens a recording; at the end nothing may have gone wrong, and nothing may have been asked of any host."""
    made = Opened(browser, tmp_path)
    yield made
    for context in browser.contexts:
        context.close()
    assert made.errors == []
    assert made.requests == []
