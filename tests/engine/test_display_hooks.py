"""engine/display_hooks.py: the engine shows and writes recordings without knowing who does it."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator

import pytest

from dynexplore.engine import display_hooks
from dynexplore.recording.recording import Recording
from source_tree import ROOT

pytestmark = pytest.mark.plain("a table of hooks")


class Echo:
    """Says what it was asked."""

    def mimebundle(self, shown: object) -> display_hooks.Bundle:
        return {"text/plain": f"showing {type(shown).__name__}"}

    def explorer(self, shown: object) -> str:
        return f"explorer of {type(shown).__name__}"

    def save(self, shown: object, path: object, *, redact: bool) -> str:
        return f"{path} {redact}"


@pytest.fixture
def nothing_connected() -> Iterator[None]:
    """Nobody shows or writes; afterwards whoever did before does again."""
    before = display_hooks.connected()
    display_hooks._connected.clear()
    yield
    display_hooks.connect(before)


@pytest.mark.usefixtures("nothing_connected")
def test_a_recording_asks_whoever_is_connected() -> None:
    """Showing and saving go to the connected hooks; without any there is one sentence."""
    with pytest.raises(RuntimeError, match="nothing is connected that could show or write a recording"):
        Recording()._repr_mimebundle_()
    display_hooks.connect(Echo())
    assert Recording()._repr_mimebundle_() == {"text/plain": "showing Recording"}
    assert Recording()._display_() == "explorer of Recording"
    assert Recording().save("x.html", redact=True) == "x.html True"


def test_connecting_costs_nothing() -> None:
    """The front door connects rooms that it has not brought in."""
    code = "import dynexplore, sys; assert not [m for m in sys.modules if m.startswith(('dynexplore.widgets', 'IPython', 'torch'))]"
    assert subprocess.run([sys.executable, "-c", code], cwd=ROOT).returncode == 0
