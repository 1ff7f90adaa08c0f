"""`dynexplore hunt`: ten programs that break the graph, to be fixed, and the score.

The idea: the first call writes the exercise file, and each later call scores it (tools/break_hunt.py).

In: parsed arguments. Out: a file with the programs if it does not exist, else its score as text.

PyTorch's counterpart: none.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from dynexplore.cli.program import Mistake


def add_to(commands: Any) -> None:
    """Add `hunt` to the command line's parser."""
    command = commands.add_parser(
        "hunt",
        help="practice: fix ten programs that break the graph",
        usage="dynexplore hunt [FILE.py]",
        description="The first time, write ten functions that break the graph to FILE.py. Rewrite them, and run the command again: "
        "it compares the values with those of the originals and counts the graphs that are left.",
    )
    command.add_argument(
        "file", type=Path, nargs="?", default=Path("break_hunt.py"), metavar="FILE.py", help="default: break_hunt.py"
    )
    command.set_defaults(command=hunt, passes_on=False)


def hunt(arguments: argparse.Namespace) -> int:
    """Write the programs, or print their score."""
    from dynexplore.tools import break_hunt

    file: Path = arguments.file
    if file.suffix != ".py":
        raise Mistake(f"{file} is not a Python file")
    if not file.exists():
        break_hunt.write(file)
        print(f"Wrote {file}, with ten functions that break the graph. Rewrite them, then run dynexplore hunt {file} again.")
    print(break_hunt.score(file))
    return 0
