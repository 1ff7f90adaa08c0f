"""Print the engine's costs on this Python version next to torch.compile's, to compare Python versions.

    python -m dynexplore bench pythons [--quick] [--json OUT]

- call: a warm call of a function with one operator, and of the same function without an engine
- layer: the cost in a warm call of each layer of a Sequential of 200 linear layers, whose graph returns its first result
- item: the same for each of 400 numbers in a list argument
- capture: the cost of capturing each of 100 operators in a straight line

Times are CPU time on one thread, with backend "eager", the minimum over the repeats, with the engines taking turns.
"""

from __future__ import annotations

import argparse
import functools
import json
import sys
from pathlib import Path
from typing import Any

import torch
from capture import capture
from guarded_items import first_result_only, program
from support.measuring import best, compilers, forget, quiet

ENGINES = ("dynexplore", "torch.compile")
LAYERS, ITEMS, OPERATORS = 200, 400, 100
Figures = dict[str, float]


def one(x: torch.Tensor) -> torch.Tensor:
    """A function of one operator."""
    return x + 1


def call(repeats: int) -> Figures:
    """Microseconds of a warm call of one operator."""
    return _warm(one, (torch.ones(4),), "eager", repeats, ("eager", *ENGINES))


def layer(repeats: int) -> Figures:
    """Microseconds of a warm call for each layer, but for the first."""
    figures = []
    for count in (1, LAYERS):
        module = torch.nn.Sequential(*[torch.nn.Linear(4, 4) for _ in range(count)])
        figures.append(_warm(module, (torch.ones(4),), first_result_only, repeats))
    return _for_each(*figures, LAYERS - 1)


def item(repeats: int) -> Figures:
    """Microseconds of a warm call for each number in a list, but for the first."""
    figures = []
    for count in (1, ITEMS):
        function, host = program("list, argument", "float", count)
        figures.append(_warm(function, (torch.ones(4), host), first_result_only, repeats))
    return _for_each(*figures, ITEMS - 1)


def captured(repeats: int) -> Figures:
    """Microseconds of a capture for each operator."""
    engines = {name: wrap for name, wrap in compilers("eager").items() if name in ENGINES}
    for wrap in engines.values():
        capture(wrap, 5)  # imports are not what is measured
    return {name: min(capture(wrap, OPERATORS) for _ in range(repeats)) / OPERATORS * 1e6 for name, wrap in engines.items()}


MEASURED = {"call": call, "layer": layer, "item": item, "capture": captured}


def _warm(function: Any, args: tuple[Any, ...], backend: Any, repeats: int, names: tuple[str, ...] = ENGINES) -> Figures:
    forget()
    wrapped = {name: wrap(function) for name, wrap in compilers(backend).items() if name in names}
    calls = {name: functools.partial(compiled, *args) for name, compiled in wrapped.items()}
    with torch.no_grad():
        for warm_up in calls.values():
            warm_up(), warm_up()
        return {name: seconds * 1e6 for name, seconds in best(calls, repeats, 0.02).items()}


def _for_each(few: Figures, many: Figures, more: int) -> Figures:
    return {name: (many[name] - few[name]) / more for name in many}


def main() -> int:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="few repeats")
    parser.add_argument("--json", type=Path, help="also write the figures to this file")
    options = parser.parse_args()
    quiet()
    torch._dynamo.config.cache_size_limit = 64
    rows = {name: measure(3 if options.quick else 9) for name, measure in MEASURED.items()}
    versions = f"Python {sys.version_info.major}.{sys.version_info.minor}, torch {torch.__version__}"
    print(f"{f'us, {versions}':<40}{'eager':>10}{'dynexplore':>14}{'torch.compile':>16}")
    for name, row in rows.items():
        plain = f"{row['eager']:.2f}" if "eager" in row else ""
        print(f"{name:<40}{plain:>10}{row['dynexplore']:>14.3f}{row['torch.compile']:>16.3f}")
    if options.json:
        options.json.write_text(json.dumps({"versions": versions, "us": rows}, indent=1), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
