"""Time a numeric function that C code calls thousands of times, in plain Python, dynexplore and torch.compile.

    python -m dynexplore bench callbacks [--quick] [--functions list cell] [--count 3000]

In a compiled function, `qsort` sorts integers with a comparison written in Python (ctypes). Nothing in it is worth a graph, and
each engine runs it as plain Python in its own way. The comparisons differ in their side effects: none, or counting their calls.
Times are the CPU time of a warm call, the minimum over the repeats, with the engines taking turns.
"""

from __future__ import annotations

import argparse
import ctypes
import functools
import random
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from support.measuring import best, compilers, forget
from support.report import Row, show_measured, with_repeats

Comparison = Callable[[Any, Any], int]

CALLS = [0]
SEEN = {"calls": 0}
TOTAL = 0


def nothing(p: Any, q: Any) -> int:
    """Compares."""
    a, b = p[0], q[0]
    return (a > b) - (a < b)


def in_a_list(p: Any, q: Any) -> int:
    """Counts in an item of a list."""
    CALLS[0] += 1
    a, b = p[0], q[0]
    return (a > b) - (a < b)


def in_a_dict(p: Any, q: Any) -> int:
    """Counts in an item of a dict."""
    SEEN["calls"] += 1
    a, b = p[0], q[0]
    return (a > b) - (a < b)


def in_a_global(p: Any, q: Any) -> int:
    """Counts in a global variable."""
    global TOTAL
    TOTAL += 1
    a, b = p[0], q[0]
    return (a > b) - (a < b)


def counting_in_a_cell() -> Comparison:
    """A comparison that counts in a variable of the function around it."""
    calls = 0

    def in_a_cell(p: Any, q: Any) -> int:
        nonlocal calls
        calls += 1
        a, b = p[0], q[0]
        return (a > b) - (a < b)

    return in_a_cell


COMPARISONS: dict[str, Comparison] = {
    "nothing": nothing,
    "list": in_a_list,
    "dict": in_a_dict,
    "global": in_a_global,
    "cell": counting_in_a_cell(),
}


def sorts(comparison: Comparison, count: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """A function with work on a tensor before and after `qsort`, which has the same to do in each call."""
    pointer = ctypes.POINTER(ctypes.c_int)
    compares = ctypes.CFUNCTYPE(ctypes.c_int, pointer, pointer)(comparison)
    library = ctypes.CDLL(None)
    chosen = random.Random(0)
    numbers = [chosen.randrange(10**6) for _ in range(count)]
    array = (ctypes.c_int * count)()

    def program(x: torch.Tensor) -> torch.Tensor:
        y = x + 1
        array[:] = numbers
        library.qsort(array, count, 4, compares)
        return y * 2

    return program


def compared(count: int) -> int:
    """How often `qsort` calls a comparison for so many numbers."""
    before = CALLS[0]
    sorts(in_a_list, count)(torch.ones(3))
    return CALLS[0] - before


def measure(name: str, options: argparse.Namespace) -> Row:
    """What a call of this comparison costs above plain Python, in microseconds."""
    forget()
    program, x = sorts(COMPARISONS[name], options.count), torch.ones(3)
    calls = {engine: functools.partial(wrap(program), x) for engine, wrap in compilers("eager").items()}
    with torch.no_grad():
        for call in calls.values():
            call(), call(), call()
        seconds = best(calls, options.repeats, 0.02)
    times = {engine: 1e6 * taken / compared(options.count) for engine, taken in seconds.items()}
    above = {engine: times[engine] - times["eager"] for engine in ("dynexplore", "torch.compile")}
    return {"counts in": name, "plain us": times["eager"], **{f"{engine} above": value for engine, value in above.items()}}


def main() -> int:
    """Measure each comparison."""
    options = _options()
    return show_measured("Callbacks", lambda: [measure(name, options) for name in options.functions], options.json)


def _options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--functions", nargs="*", choices=COMPARISONS, default=list(COMPARISONS), help="only these")
    parser.add_argument("--count", type=int, default=3000, help="how many numbers are sorted")
    return with_repeats(parser, arguments, 5, 20)


if __name__ == "__main__":
    sys.exit(main())
