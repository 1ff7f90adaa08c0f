"""What still breaks the graph, and how often: counts the kinds over random programs, and prints docs/what-breaks.md.

    PYTHONPATH=tests:. python tests/properties/count_breaks.py 300 > docs/what-breaks.md

In:  how many programs are drawn (drawn_programs.py), always the same ones.
Out: a page with one row per kind that occurred, the most frequent first, and the kinds that did not occur.
"""

from __future__ import annotations

import collections
import contextlib
import io
import logging
import re
import sys
import warnings

from hypothesis import HealthCheck, Phase, given, seed, settings
from properties.drawn_programs import programs
from properties.random_programs import first_arguments, namespace_of

import dynexplore
from dynexplore.engine.graph_breaks import KINDS


def kinds_of_program(text: str) -> dict[str, int]:
    """Run a program once under the engine; how often each kind of break was met."""
    dynexplore.reset()
    names = namespace_of(text)
    # whatever the program raises is its own affair: the tests compare it
    with contextlib.redirect_stdout(io.StringIO()), contextlib.suppress(Exception), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        dynexplore.optimize("eager")(names["program"])(*first_arguments(names))
    found: collections.Counter[str] = collections.Counter()
    for reason, count in dynexplore.graph_breaks().items():
        for kind in KINDS.values():
            if re.fullmatch(re.escape(kind.title) + r"( \(.*\))?", reason):
                found[kind.id] += count
    return found


def counts(wanted: int) -> tuple[collections.Counter[str], collections.Counter[str], int]:
    """Breaks by kind, programs by kind, and how many programs ran."""
    breaks: collections.Counter[str] = collections.Counter()
    met_in: collections.Counter[str] = collections.Counter()
    ran = 0

    @seed(0)
    @settings(max_examples=wanted, deadline=None, database=None, phases=(Phase.generate,), suppress_health_check=list(HealthCheck))
    @given(programs())
    def run(text: str) -> None:
        nonlocal ran
        ran += 1
        found = kinds_of_program(text)
        breaks.update(found)
        met_in.update(found.keys())

    run()
    return breaks, met_in, ran


def page(wanted: int) -> str:
    """The text of docs/what-breaks.md."""
    breaks, met_in, ran = counts(wanted)
    lines = [
        "# What still breaks the graph",
        "",
        f"<!-- Generated: PYTHONPATH=tests:. python tests/properties/count_breaks.py {wanted} > docs/what-breaks.md -->",
        "",
        f"Which causes break graphs most often? `tests/properties/count_breaks.py {wanted}`, whose output is this page, called",
        f"each of {ran} random programs once: those that tests/properties draws, which print, branch on tensors, raise and leave",
        "`with` blocks far more often than models do. *Fundamental* means that no tracer of this kind could capture it; the others",
        "are not supported yet. Why each kind breaks, and how to fix it: [graph-breaks.md](graph-breaks.md).",
        "",
        "| kind | what | breaks | in programs | fundamental |",
        "|---|---|---:|---:|---|",
    ]
    for name, count in breaks.most_common():
        kind = KINDS[name]
        link = f"[{name}](graph-breaks.md#{name.lower()})"
        lines.append(f"| {link} | {kind.title} | {count} | {met_in[name]} | {'yes' if kind.fundamental else 'no'} |")
    others = ", ".join(name for name in KINDS if name not in breaks)
    return "\n".join([*lines, "", f"Not met in these programs: {others}."]) + "\n"


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)
    print(page(int(sys.argv[1])), end="")
