"""Fixtures of tests/widgets: a shell as a notebook's kernel has it."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from IPython.core.interactiveshell import InteractiveShell
from notebook_shell import Notebook


@pytest.fixture(scope="module")
def one_shell() -> Iterator[InteractiveShell]:
    """IPython as a notebook's kernel has it."""
    shell = InteractiveShell.instance(history_length=0)
    shell.history_manager.enabled = False
    yield shell
    InteractiveShell.clear_instance()


@pytest.fixture
def notebook(one_shell: InteractiveShell) -> Iterator[Notebook]:
    """An empty notebook with the extension loaded and tensors a and b."""
    one_shell.reset(new_session=False)
    made = Notebook(one_shell)
    made.run("%load_ext dynexplore")
    made.run("import torch\na = torch.ones(2)\nb = -torch.ones(2)")
    assert made.error is None
    yield made
    made.run("%unload_ext dynexplore")
