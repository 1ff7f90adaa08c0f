"""What the first optimized call of a process costs, beside torch.compile with backend "eager", each in fresh processes.

    python -m dynexplore bench cold_start [--quick] [--repeats N] [--json OUT]

CPU time from the first line of the program to its last, the programs taking turns; the least and the median of the repeats.
Fake tensors import torch._dynamo (its configuration and symbolic shapes), so that much is paid by any capture: the figure
is what the first call costs above `import torch, torch._dynamo`, as a share of `import torch`. The programs named "notebook"
run where IPython's shell is loaded, as it is in a kernel, before the clock starts; `explain` shows its explorer there.

Modules are loaded from cached bytecode, as an installed package has it: a round that is not counted writes it, even where
PYTHONDONTWRITEBYTECODE is set. `--from-source` leaves it set and compiles dynexplore's own files each time; it needs a checkout in
which no `__pycache__` lies.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
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
PROGRAMS = {
    "import torch": "import torch",
    "import torch, torch._dynamo": "import torch, torch._dynamo",
    "... and a fake tensor mode": "import torch, torch._dynamo\n"
    "from torch._subclasses.fake_tensor import FakeTensorMode\n"
    "from torch.fx.experimental.symbolic_shapes import ShapeEnv\n"
    "FakeTensorMode(shape_env=ShapeEnv())",
    "first call, dynexplore": f"import torch, dynexplore\nwrapped = dynexplore.optimize('eager'){CALL}",
    "first call, torch.compile": f"import torch\nwrapped = torch.compile(backend='eager'){CALL}",
    "notebook: import torch": "import torch",
    "notebook: import torch, torch._dynamo": "import torch, torch._dynamo",
    "notebook: first explain": f"import torch, dynexplore{SHOWN}",
}
TIMED = "import time\n{before}\nbegan = time.process_time()\n{program}\nprint(time.process_time() - began)"


def seconds(name: str, environment: Mapping[str, str]) -> float:
    """The CPU time of one program in a process of its own, without the start of Python itself, and of IPython's shell."""
    before = SHELL if name.startswith("notebook") else ""
    command = [sys.executable, "-W", "ignore", "-c", TIMED.format(before=before, program=PROGRAMS[name])]
    return float(subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True).stdout)


def measure(repeats: int, environment: Mapping[str, str]) -> dict[str, list[float]]:
    """The times of each program; one round before them fills the caches of bytecode and of the disk."""
    found: dict[str, list[float]] = {name: [] for name in PROGRAMS}
    for turn in range(repeats + 1):
        for name in PROGRAMS:
            took = seconds(name, environment)
            if turn:
                found[name].append(took)
    return found


def ratios(row: Mapping[str, float]) -> dict[str, float]:
    """The figures: above torch and its _dynamo, as a share of importing torch; and over torch.compile's first call."""

    def above(place: str, ours: str) -> float:
        return (row[ours] - row[f"{place}import torch, torch._dynamo"]) / row[f"{place}import torch"]

    return {
        "above torch._dynamo / import torch": above("", "first call, dynexplore"),
        "notebook: the same of first explain": above("notebook: ", "notebook: first explain"),
        "dynexplore / torch.compile": row["first call, dynexplore"] / row["first call, torch.compile"],
    }


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=0, help="how often each program runs")
    parser.add_argument("--quick", action="store_true", help="three repeats instead of nine")
    parser.add_argument("--from-source", action="store_true", help="compile dynexplore's files in each process")
    parser.add_argument("--json", help="also write the figures to this file")
    options = parser.parse_args()
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    if options.from_source:
        environment["PYTHONDONTWRITEBYTECODE"] = "1"
    times = measure(options.repeats or (3 if options.quick else 9), environment | {"OMP_NUM_THREADS": "1"})
    rows = {of.__name__: {name: of(found) for name, found in times.items()} for of in (min, statistics.median)}
    print(f"{'seconds of CPU':<40}{'least':>10}{'median':>10}")
    for name in PROGRAMS:
        print(f"{name:<40}{rows['min'][name]:>10.3f}{rows['median'][name]:>10.3f}")
    figures = {of: ratios(row) for of, row in rows.items()}
    for name in figures["min"]:
        print(f"{name:<40}{figures['min'][name]:>10.3f}{figures['median'][name]:>10.3f}")
    if options.json:
        with open(options.json, "w") as file:
            json.dump({"seconds": times, "figures": figures}, file, indent=1)


if __name__ == "__main__":
    main()
