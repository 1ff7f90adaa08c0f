"""What-if and live steps in a real JupyterLab with a real kernel: answers, and why there is none."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pytest
from playwright.sync_api import expect

from browser.lab import Lab, running_lab
from browser.pages import pane, tab

PROGRAM = """
import torch, dynexplore
dynexplore.config.log_level = "ERROR"
def program(x, n=3):
    y = x.sin() * n
    dynexplore.graph_break()
    return y + x
explanation = dynexplore.explain(program).calls(torch.ones(4), torch.ones(5))
explanation
"""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    """One server and one browser."""
    with running_lab(tmp_path_factory.mktemp("lab")) as running:
        yield running


def test_the_kernel_answers(lab: Lab) -> None:
    """Changing an input shows the outcome; an edited source runs; a live run is stepped; a restarted kernel is told."""
    with lab.opened([PROGRAM, "len(explanation.session.entries), explanation.session.call_count"]) as notebook:
        notebook.run_all()
        explorer = notebook.explorers.first
        said = pane(explorer, "what-if", " [role=status]")
        for size in range(6, 13):
            explorer.get_by_label("shape of x").fill(str(size))
            expect(said).to_contain_text("Would hit version")
            expect(pane(explorer, "what-if", " .dynx-detail")).to_contain_text(re.compile(r"answered in \d+ ms"))
        explorer.get_by_label("value of n").fill("7")
        expect(said).to_contain_text("requires n == 3, found 7")

        tab(explorer, "source")
        explorer.get_by_role("button", name="Edit the source").click()
        explorer.get_by_role("button", name="Run the edited source").click()
        expect(explorer.locator(".dynx-edit-said")).to_contain_text("Ran on copies of the inputs.")

        live = pane(explorer, "live")
        live.get_by_role("button", name="Run the call again").click()
        live.get_by_role("button", name="Run to the next graph break").click()
        expect(live.locator("[role=status]")).to_contain_text("graph break")

        notebook.restart_kernel()
        tab(explorer, "live")
        live.get_by_role("button", name="Run one step").click()
        expect(live.locator("[role=status]")).to_contain_text("The kernel does not respond", timeout=60_000)
