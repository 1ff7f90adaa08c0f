"""Programs as text, with the calls to make: those that a seed draws, and those of files.

A program is written as its calls (`# then: other values`, a line each, after any other comment), two empty lines, and
`def program(...)`. `drawn_once(seed)` is always the same one; a program that failed is printed in this form, to be kept:

    PYTHONPATH=tests python -m properties.program_files SEED > tests/properties/programs_that_failed/NAME.py
"""

from __future__ import annotations

import random
import sys

from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from properties.drawn_programs import program_of
from properties.random_programs import CALLS

#: which calls follow a program's first one
CALL_LISTS = st.lists(st.sampled_from(list(CALLS)), min_size=1, max_size=3)
#: a program may take its time, however it was drawn
RELAXED = settings(deadline=None, suppress_health_check=list(HealthCheck), database=None, print_blob=False)


def drawn_once(seed: int) -> tuple[str, list[str]]:
    """The program of a seed, and the names of the calls that follow the first."""
    draw = random.Random(seed)
    return program_of(draw), draw.choices(list(CALLS), k=1 + draw.randrange(3))


def read_program(text: str) -> tuple[str, list[str]]:
    """A program of a file and the names of the calls that follow the first."""
    head, _, program = text.strip("\n").partition("\n\n\n")
    return program + "\n", [line.removeprefix("# then: ") for line in head.splitlines() if line.startswith("# then: ")]


if __name__ == "__main__":
    drawn, calls = drawn_once(int(sys.argv[1]))
    print("\n".join(f"# then: {call}" for call in calls), "", drawn, sep="\n\n", end="")
