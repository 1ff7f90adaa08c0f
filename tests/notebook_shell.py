"""A notebook without a kernel process: IPython's shell, whose cells are run and whose output is kept."""

from __future__ import annotations

import builtins
import re
from typing import Any

from IPython.core.interactiveshell import InteractiveShell
from IPython.utils.capture import capture_output


class Notebook:
    """Runs cells and keeps what they showed."""

    def __init__(self, shell: InteractiveShell) -> None:
        vars(builtins).pop("_", None)  # of a doctest run before: IPython binds `_` only where nobody else does
        self.shell = shell
        self.stdout = self.stderr = ""
        self.shown: list[Any] = []
        self.error: BaseException | None = None

    def run(self, cell: str, cell_id: str | None = None) -> Any:
        """The cell's result; what was shown is kept. `cell_id` is the name that JupyterLab has for the cell."""
        with capture_output() as captured:
            done = self.shell.run_cell(cell, store_history=True, cell_id=cell_id)
        self.stdout, self.stderr = (re.sub(r"\x1b\[[0-9;]*m", "", text) for text in (captured.stdout, captured.stderr))
        self.shown = [output.data for output in captured.outputs]
        self.error = done.error_in_exec or done.error_before_exec
        return done.result

    def __getitem__(self, name: str) -> Any:
        return self.shell.user_ns[name]

    def __contains__(self, name: str) -> bool:
        return name in self.shell.user_ns
