"""Time warm calls with a break inside called functions: nested, frame by frame, and under torch.compile.

    python -m dynexplore bench nested_breaks [--quick] [--json OUT]

A function breaks a number of calls deep; depth 0 never breaks. Graphs return the results of their first run, so that only the
engines' own work is timed. Times are CPU microseconds of a warm call, the minimum over the repeats, with the engines taking
turns. "chain" is dynexplore's default, and "frames" has `nested_graph_breaks=False`; torch.compile runs with its own option of
that name, which is off by default.
"""

from __future__ import annotations

import argparse
import functools
import math
import sys
from collections.abc import Callable, Sequence
from typing import Any

import torch
from support.measuring import best, forget
from support.report import Row, show_measured, with_repeats

import dynexplore


class Replaying:
    """A backend whose graphs return what they returned first; it counts them."""

    def __init__(self) -> None:
        self.graphs = 0

    def __call__(self, graph: torch.fx.GraphModule, example_inputs: Any) -> Callable[..., Any]:
        """The results of the first call, for each call."""
        self.graphs += 1
        results: list[Any] = []

        def run(*inputs: Any) -> Any:
            if not results:
                results.append(graph.forward(*inputs))
            return results[0]

        return run


def straight(x: torch.Tensor) -> torch.Tensor:
    """No break."""
    return (x + 1) * 2


def leaf(x: torch.Tensor) -> torch.Tensor:
    """Breaks between two operators, under either engine."""
    x = x + 1
    torch._dynamo.graph_break()
    return x * 2


def one_deep(x: torch.Tensor) -> torch.Tensor:
    """The break is one call deep."""
    return leaf(x * 3) + x


def two_deep(x: torch.Tensor) -> torch.Tensor:
    """The break is two calls deep."""
    return one_deep(x * 3) + x


def three_deep(x: torch.Tensor) -> torch.Tensor:
    """The break is three calls deep."""
    return two_deep(x * 3) + x


PROGRAMS = (straight, one_deep, two_deep, three_deep)
ENGINES: dict[str, tuple[Any, Callable[[Any, Any], Any]]] = {
    "chain": (lambda: dynexplore.config.patch(nested_graph_breaks=True), lambda f, backend: dynexplore.optimize(backend)(f)),
    "frames": (lambda: dynexplore.config.patch(nested_graph_breaks=False), lambda f, backend: dynexplore.optimize(backend)(f)),
    "torch.compile": (
        lambda: torch._dynamo.config.patch(nested_graph_breaks=True), lambda f, backend: torch.compile(f, backend=backend),
    ),
}  # fmt: skip
"""The option under which each captures, and how it wraps a function."""


def measure(depth: int, repeats: int) -> Row:
    """What a warm call costs under each engine, and how many graphs it runs; each repeat captures anew, one engine at a time."""
    row: Row = {"calls deep": depth}
    for _ in range(repeats):
        for engine in ENGINES:
            seconds, graphs = warm_call(engine, PROGRAMS[depth])
            row[f"{engine} us"] = min(1e6 * seconds, row.get(f"{engine} us", math.inf))
            row[f"{engine} graphs"] = graphs
    row["chain / frames"] = row["chain us"] / row["frames us"]
    return row


def warm_call(engine: str, program: Callable[[torch.Tensor], torch.Tensor]) -> tuple[float, int]:
    """The seconds of a warm call, and the number of graphs."""
    forget()
    setting, wrap = ENGINES[engine]
    backend, x = Replaying(), torch.ones(3)
    with setting():
        compiled = wrap(program, backend)
        for _ in range(3):
            assert torch.equal(compiled(x), program(x)), engine
    call = functools.partial(compiled, x)
    return best({engine: call}, 2, 0.01)[engine], backend.graphs


def main() -> int:
    """Measure each depth."""
    options = _options()
    return show_measured("Nested breaks", lambda: [measure(depth, options.repeats) for depth in range(len(PROGRAMS))], options.json)


def _options(arguments: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    return with_repeats(parser, arguments, 1, 7)


if __name__ == "__main__":
    sys.exit(main())
