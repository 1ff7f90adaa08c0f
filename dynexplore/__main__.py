"""`python -m dynexplore`: the command line without an installed script. See cli/__init__.py for what it does.

In: sys.argv. Out: the exit status of cli.main.
"""

from __future__ import annotations

import sys

from dynexplore.cli import main

if __name__ == "__main__":
    sys.exit(main())
