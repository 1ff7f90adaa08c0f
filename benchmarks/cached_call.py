"""Compare a cached call with eager, for dynexplore and torch.compile with backend "eager".

    python benchmarks/cached_call.py [--json OUT]

Times are CPU time of the process on one thread, in microseconds per call. Each is the minimum of several repeats, with the
three variants taking turns, because the machine may be shared.
"""

from __future__ import annotations

import argparse
import json
import logging
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch

import dynexplore


def one(a: torch.Tensor) -> torch.Tensor:
    """One operator."""
    return a + 1


def toy(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """The example of the README: a graph, a branch on a tensor, a resume function."""
    x = a / (torch.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b


def helper(x: int) -> int:
    """A Python call that is no tensor work."""
    return x


def calls(count: int) -> None:
    """Many plain calls."""
    for index in range(count):
        helper(index)


def microseconds(variants: dict[str, Callable[[], Any]], count: int, repeats: int = 9) -> dict[str, float]:
    """The smallest CPU time of each variant, the variants taking turns."""
    best = dict.fromkeys(variants, float("inf"))
    for _ in range(repeats):
        for name, call in variants.items():
            began = time.process_time()
            for _ in range(count):
                call()
            best[name] = min(best[name], (time.process_time() - began) / count * 1e6)
    return best


def measure(scale: float = 1.0) -> dict[str, dict[str, float]]:
    """All rows; `scale` makes the numbers of calls smaller."""
    a, b = torch.randn(10), -torch.ones(10)
    rows = {}
    for function, args, count in ((one, (a,), 20_000), (toy, (a, b), 8_000)):
        ours, theirs = dynexplore.optimize("eager")(function), torch.compile(function, backend="eager")
        ours(*args), theirs(*args)
        variants = {"eager": lambda f=function, v=args: f(*v), "dynexplore": lambda f=ours, v=args: f(*v),
                    "torch.compile": lambda f=theirs, v=args: f(*v)}
        rows[function.__name__] = microseconds(variants, int(count * scale))
    rows["plain call"] = plain_calls(int(200_000 * scale))
    return rows


def plain_calls(count: int) -> dict[str, float]:
    """A Python call without tensors, outside and inside of a region."""
    outside = microseconds({"eager": lambda: calls(count)}, 1)["eager"] / count
    with dynexplore.optimize("eager"):
        calls(10)
        inside = microseconds({"dynexplore": lambda: calls(count)}, 1)["dynexplore"] / count
    return {"eager": outside, "dynexplore": inside}


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", help="also write the figures to this file")
    parser.add_argument("--quick", action="store_true", help="fewer calls")
    options = parser.parse_args()
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    rows = measure(0.1 if options.quick else 1.0)
    print(f"{'us a call, over eager':<24}{'eager':>10}{'dynexplore':>14}{'torch.compile':>16}")
    for name, row in rows.items():
        over = [row[key] - row["eager"] if key in row else float("nan") for key in ("dynexplore", "torch.compile")]
        print(f"{name:<24}{row['eager']:>10.3f}{over[0]:>14.3f}{over[1]:>16.3f}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
