"""`python -m dynexplore`: the command line without an installed script. See cli/__init__.py for the commands.

The idea: Python runs this file for `-m`; it only calls `cli.main`.

In: sys.argv. Out: the exit status of cli.main.

PyTorch's counterpart: none.
"""

from __future__ import annotations

import sys

from dynexplore.cli import main

if __name__ == "__main__":
    sys.exit(main())
