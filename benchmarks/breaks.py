"""Time warm calls of programs with graph breaks, next to torch.compile.

    python -m dynexplore bench breaks [--quick] [--programs item "in a Sequential"] [--json OUT]

Each program breaks in a different way; the backend is "eager", without gradients. Times are the CPU time of a warm call, the
minimum over the repeats, with the engines taking turns. "ratio" is dynexplore's time over torch.compile's, and "above" is the
same after subtracting plain Python's time. torch.compile runs a frame as plain Python if it breaks in a loop: there it has no
graph, so its column is nearly that of plain Python.
"""

from __future__ import annotations

import argparse
import functools
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from support.measuring import Counting, best, compilers, forget
from support.report import Row, show_measured, with_repeats
from torch import nn


class Nowhere:
    """A file for what is printed: what a terminal does with it is no cost of a break."""

    def write(self, text: str) -> int:
        """Nothing is kept."""
        return len(text)


NOWHERE = Nowhere()


def print_between(x: torch.Tensor) -> torch.Tensor:
    """One print between two graphs."""
    y = torch.sin(x) + 1
    print("between", file=NOWHERE)
    return y * 2


def print_in_a_loop(x: torch.Tensor) -> torch.Tensor:
    """A print in each round."""
    for number in range(4):
        x = torch.sin(x) + number
        print(number, file=NOWHERE)
    return x


def item(x: torch.Tensor) -> torch.Tensor:
    """A number is read out, and computed with."""
    y = x * 2
    return y + y.sum().item()


def if_on_data(x: torch.Tensor) -> torch.Tensor:
    """Data decides the branch."""
    y = x * 2
    y = y + 1 if y.sum() > 0 else y - 1
    return y * 2


def _with_a_break(x: torch.Tensor) -> torch.Tensor:
    y = x.cos()
    print("in a helper", file=NOWHERE)
    return y + 1


def _calls_it(x: torch.Tensor) -> torch.Tensor:
    return _with_a_break(x * 2) + 1


def in_a_nested_helper(x: torch.Tensor) -> torch.Tensor:
    """The helper of a helper breaks."""
    return torch.sin(_calls_it(x)) * 2


def a_helper_in_a_loop(x: torch.Tensor) -> torch.Tensor:
    """The helper breaks in each round, the loop does not."""
    for _ in range(4):
        x = _with_a_break(x)
    return x


def a_list_that_grows(x: torch.Tensor) -> torch.Tensor:
    """Values are kept across a break, in a list and a dict."""
    kept, named = [x], {"first": x}
    print("kept", file=NOWHERE)
    kept.append(kept[0] * 2)
    named["second"] = kept[-1] + 1
    print("more", file=NOWHERE)
    return torch.stack([*kept, *named.values()]).sum(0)


class Breaking(nn.Module):
    """A layer that prints."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """Two graphs."""
        y = torch.relu(x)
        print("layer", file=NOWHERE)
        return y + 1


PROGRAMS: dict[str, Callable[[], Callable[..., Any]]] = {
    "print": lambda: print_between,
    "print in a loop": lambda: print_in_a_loop,
    "item": lambda: item,
    "if on data": lambda: if_on_data,
    "in a nested helper": lambda: in_a_nested_helper,
    "a helper in a loop": lambda: a_helper_in_a_loop,
    "a list that grows": lambda: a_list_that_grows,
    "in a Sequential": lambda: nn.Sequential(nn.Linear(8, 8), Breaking(), nn.Linear(8, 8), Breaking()),
    "in 12 layers": lambda: nn.Sequential(*(nn.Sequential(nn.Linear(8, 8), Breaking()) for _ in range(12))),
}


def measure(name: str, options: argparse.Namespace) -> Row:
    """What a warm call of this program costs under each engine, in microseconds, and how many graphs it is."""
    forget()
    program, x = PROGRAMS[name](), torch.ones(4, 8)
    counted = {engine: Counting() for engine in ("eager", "torch.compile", "dynexplore")}
    calls = {engine: functools.partial(compilers(counts)[engine](program), x) for engine, counts in counted.items()}
    with torch.no_grad():
        expected = calls["eager"]()
        for call in calls.values():
            assert all(torch.equal(call(), expected) for _ in range(3)), name
        seconds = best(calls, options.repeats, 0.02)
    plain, theirs, ours = (1e6 * seconds[engine] for engine in ("eager", "torch.compile", "dynexplore"))
    return {
        "program": name, "plain us": plain, "dynexplore us": ours, "torch.compile us": theirs, "ratio": ours / theirs,
        "above": (ours - plain) / (theirs - plain), "graphs": counted["dynexplore"].graphs,
        "torch.compile graphs": counted["torch.compile"].graphs,
    }  # fmt: skip


def main() -> int:
    """Measure each program."""
    options = _options()
    return show_measured("Breaks", lambda: [measure(name, options) for name in options.programs], options.json)


def _options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", nargs="*", choices=PROGRAMS, default=list(PROGRAMS), help="only these")
    return with_repeats(parser, arguments, 5, 20)


if __name__ == "__main__":
    sys.exit(main())
