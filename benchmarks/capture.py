"""Time the capture of a straight line of N tensor operations, next to torch.compile with backend "eager".

    python benchmarks/capture.py [--json OUT] [--sizes 10,100,1000,5000]

Times are CPU time of the process on one thread, in microseconds per operator: the first call minus a warm call. The growth
exponent shows how the time grows with N (1 is linear).
"""

from __future__ import annotations

import argparse
import json
import logging
import math
import time
import warnings
from collections.abc import Callable
from typing import Any

import torch

import dynexplore


def straight_line(count: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """A function of `count` operations, written out one by one."""
    lines = "".join(f"    x = x {'+*'[index % 2]} 2\n" for index in range(count))
    namespace: dict[str, Any] = {}
    exec(f"def line(x):\n{lines}    return x\n", namespace)
    return namespace["line"]  # type: ignore[no-any-return]


def seconds(call: Callable[[], Any]) -> float:
    """CPU time of one call."""
    began = time.process_time()
    call()
    return time.process_time() - began


def capture(compile_it: Callable[[Any], Any], count: int) -> float:
    """Seconds of the first call less those of a warm one."""
    x = torch.ones(4)
    compiled = compile_it(straight_line(count))
    first = seconds(lambda: compiled(x))
    return first - seconds(lambda: compiled(x))


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", help="also write the figures to this file")
    parser.add_argument("--sizes", help="numbers of operators, with commas between them")
    parser.add_argument("--quick", action="store_true", help="small sizes only")
    options = parser.parse_args()
    options.sizes = options.sizes or ("10,100" if options.quick else "10,100,1000,5000")
    warnings.filterwarnings("ignore")
    logging.disable(logging.CRITICAL)
    torch.set_num_threads(1)
    engines = {"dynexplore": dynexplore.optimize("eager"), "torch.compile": lambda f: torch.compile(f, backend="eager")}
    for compile_it in engines.values():
        capture(compile_it, 5)  # imports are not what is measured
    sizes = [int(size) for size in options.sizes.split(",")]
    rows: dict[int, dict[str, float]] = {}
    print(f"{'N':>8}{'dynexplore us/op':>20}{'torch.compile us/op':>22}{'ratio':>8}")
    for size in sizes:
        repeats = range(3 if size < 2000 else 1)
        rows[size] = {name: min(capture(engine, size) for _ in repeats) for name, engine in engines.items()}
        ours, theirs = (rows[size][name] / size * 1e6 for name in engines)
        print(f"{size:>8}{ours:>20.1f}{theirs:>22.1f}{ours / theirs:>8.2f}")
    for name in engines:
        growth = math.log(rows[sizes[-1]][name] / rows[sizes[-2]][name]) / math.log(sizes[-1] / sizes[-2])
        print(f"{name}: growth exponent {growth:.2f} from N = {sizes[-2]} to {sizes[-1]}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
