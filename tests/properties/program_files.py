"""Programs in files: the text of one with the calls to make, many in one file, and drawing them anew.

A program is written as its calls (`# then: other values`, a line each, after any other comment), two empty lines, and
`def program(...)`. Many stand in one file between lines of `# ----`. To draw the ones of `programs_drawn_once.txt` anew:

    PYTHONPATH=tests python -m properties.program_files 160 > tests/properties/programs_drawn_once.txt
"""

from __future__ import annotations

import sys

from hypothesis import HealthCheck, Phase, given, seed, settings
from hypothesis import strategies as st
from properties.drawn_programs import programs
from properties.random_programs import CALLS

#: which calls follow a program's first one
CALL_LISTS = st.lists(st.sampled_from(list(CALLS)), min_size=1, max_size=3)
#: a program may take its time, however it was drawn
RELAXED = settings(deadline=None, suppress_health_check=list(HealthCheck), database=None, print_blob=False)

BETWEEN = "\n# " + "-" * 70 + "\n"


def programs_of(text: str) -> list[str]:
    """The programs of a file that holds many."""
    return text.strip("\n").split(BETWEEN)


def read_program(text: str) -> tuple[str, list[str]]:
    """A program and the names of the calls that follow the first."""
    head, _, program = text.strip("\n").partition("\n\n\n")
    return program + "\n", [line.removeprefix("# then: ") for line in head.splitlines() if line.startswith("# then: ")]


def drawn(count: int) -> list[str]:
    """This many different programs, each as text with its calls."""
    found: dict[str, None] = {}

    @seed(count)
    @settings(RELAXED, max_examples=2 * count, phases=(Phase.generate,))
    @given(programs(), CALL_LISTS)
    def keep(program: str, calls: list[str]) -> None:
        head = "\n".join(f"# then: {call}" for call in calls)
        found.setdefault(f"{head}\n\n\n{program.rstrip()}\n")

    keep()
    return list(found)[:count]


if __name__ == "__main__":
    print(BETWEEN.join(drawn(int(sys.argv[1]))), end="")
