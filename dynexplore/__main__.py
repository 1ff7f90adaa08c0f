"""`python -m dynexplore`: the command line without an installed script. See cli/__init__.py for the commands.

The idea: Python runs this file for `-m`; it only calls `cli.run_as_process`.

In: sys.argv. Out: the exit status of cli.run_as_process.

PyTorch's counterpart: none.
"""

from __future__ import annotations

import sys

from dynexplore.cli import run_as_process

if __name__ == "__main__":
    sys.exit(run_as_process())
