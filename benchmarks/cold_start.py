"""Time the first optimized call of fresh processes, next to torch.compile with backend "eager".

    python -m dynexplore bench cold_start [--quick] [--repeats N] [--limit SECONDS] [--json OUT]

Measures the CPU time of each stage of a program: `import torch`, `import torch._dynamo`, and the first call with everything that it
imports. Fake tensors import torch._dynamo (its configuration and symbolic shapes), so every capture pays for that. The result is
the cost of the first call beyond these two imports, as a share of `import torch` in the same process, which ran under the same
conditions. `explain` shows its explorer in IPython's shell, which is loaded before the clock starts, as in a kernel. The programs
take turns; the figures are the median and the minimum over the turns. Each turn is reported when it ends, and no turn starts after
the limit (two minutes by default).

Modules are loaded from cached bytecode, as in an installed package: a round that does not count writes the cache, even if
PYTHONDONTWRITEBYTECODE is set. `--from-source` does not write it, and compiles dynexplore's own files each time; it needs a
checkout without `__pycache__`.
"""

from __future__ import annotations

import argparse
import itertools
import json
import os
import statistics
import subprocess
import sys
import time
from collections.abc import Mapping

SHELL = """
from IPython.core.interactiveshell import InteractiveShell
shell = InteractiveShell.instance()
shell.display_formatter.active_types = ["text/plain", "text/html"]
"""
CALL = """
def f(x):
    return (x + 1).sin() * 2
wrapped(f)(torch.ones(3))
"""
SHOWN = """
def f(x):
    return (x + 1).sin() * 2
shown, _ = shell.display_formatter.format(dynexplore.explain(f, torch.ones(3)))
assert {"application/vnd.jupyter.widget-view+json", "text/html"} <= set(shown)
"""
DYNEXPLORE, NOTEBOOK, TORCH = "first call, dynexplore", "first explain, in a notebook", "first call, torch.compile"
PROGRAMS = {
    DYNEXPLORE: ("", f"import dynexplore\nwrapped = dynexplore.optimize('eager'){CALL}"),
    NOTEBOOK: (SHELL, f"import dynexplore{SHOWN}"),
    TORCH: ("", f"wrapped = torch.compile(backend='eager'){CALL}"),
}
"""What is timed last, and what stands before the clock starts."""

TIMED = """
from time import process_time
{before}
times = [process_time()]
import torch
times.append(process_time())
import torch._dynamo
times.append(process_time())
{program}
times.append(process_time())
print(*times)
"""
STAGES = ("import torch", "import torch._dynamo", "the rest")


def stages(name: str, environment: Mapping[str, str]) -> list[float]:
    """The CPU time of each stage of one program in a process of its own."""
    before, program = PROGRAMS[name]
    command = [sys.executable, "-W", "ignore", "-c", TIMED.format(before=before, program=program)]
    said = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout
    times = [float(number) for number in said.split()]
    return [end - begin for begin, end in itertools.pairwise(times)]


Turn = dict[str, list[float]]
"""Program -> the times of its stages."""


def measure(repeats: int, environment: Mapping[str, str], limit: float) -> list[Turn]:
    """The times of the programs in each turn; one before them fills the caches of bytecode and of the disk. At least one counts."""
    began = time.monotonic()
    turns: list[Turn] = []
    for turn in range(repeats + 1):
        took = {name: stages(name, environment) for name in PROGRAMS}
        if turn:
            turns.append(took)
        passed = time.monotonic() - began
        print(f"{f'turn {turn} of {repeats}' if turn else 'caches are filled'}: {passed:.0f} s", file=sys.stderr, flush=True)
        if turns and passed > limit:
            break
    return turns


def figures_of(turn: Turn) -> dict[str, float]:
    """Above torch and its _dynamo, as a share of importing torch; and over torch.compile's first call."""
    return {
        "above torch._dynamo / import torch": turn[DYNEXPLORE][2] / turn[DYNEXPLORE][0],
        "notebook: the same of first explain": turn[NOTEBOOK][2] / turn[NOTEBOOK][0],
        "dynexplore / torch.compile": sum(turn[DYNEXPLORE]) / sum(turn[TORCH]),
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=0, help="how often each program runs")
    parser.add_argument("--quick", action="store_true", help="three repeats instead of nine")
    parser.add_argument("--from-source", action="store_true", help="compile dynexplore's files in each process")
    parser.add_argument("--limit", type=float, default=120, help="no turn begins after so many seconds")
    parser.add_argument("--json", help="also write the figures to this file")
    options = parser.parse_args()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    if options.from_source:
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
    turns = measure(options.repeats or (3 if options.quick else 9), environment | {"OMP_NUM_THREADS": "1"}, options.limit)
    times = {f"{name}: {stage}": [turn[name][at] for turn in turns] for name in PROGRAMS for at, stage in enumerate(STAGES)}
    each = [figures_of(turn) for turn in turns]
    figures = {name: [one[name] for one in each] for name in each[0]}
    print(f"{f'seconds of CPU, {len(turns)} turns':<56}{'least':>10}{'median':>10}")
    for name, found in (times | figures).items():
        print(f"{name:<56}{min(found):>10.3f}{statistics.median(found):>10.3f}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"seconds": times, "figures": figures}, file, indent=1)


if __name__ == "__main__":
    main()
