"""The Chromium that the tests drive: where it is, and the flags that keep it quiet and off every host but this one."""

from __future__ import annotations

import shutil

import pytest

FLAGS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--disable-dev-shm-usage",
    "--host-resolver-rules=MAP * ~NOTFOUND,EXCLUDE 127.0.0.1",
]


def chromium() -> str:
    """The system's Chromium; the test fails with one sentence where there is none."""
    for name in ("chromium", "chromium-browser", "google-chrome"):
        if found := shutil.which(name):
            return found
    pytest.fail("no Chromium found, which tests/browser drives; on Debian: apt-get install chromium", pytrace=False)
