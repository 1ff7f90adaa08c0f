"""Time the first call of a second process, with Inductor's and AOTAutograd's caches on disk, next to torch.compile.

    python -m dynexplore bench warm_start [--quick] [--repeats N] [--cases NAME ...] [--json OUT]

The cases are inference, training, and a size that changes. One process of each engine fills its own cache folder; then fresh
processes take turns. The time runs from wrapping the model to the end of its first call (and backward). Whatever both engines
need before that (torch, torch._dynamo and the model) is already loaded. The table shows CPU time and wall time, and marks a row
whose processes compiled again.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile

CASES = {"inference": (False, None), "training": (True, None), "a size that varies": (False, True)}
"""Whether the backward runs, and what `dynamic` is."""

WRAPPED = {
    "dynexplore": "import dynexplore\nwrapped = dynexplore.optimize('inductor', dynamic={dynamic})(model)",
    "torch.compile": "wrapped = torch.compile(model, dynamic={dynamic})",
}
PROGRAM = """
import json, time, torch, torch._dynamo
from torch import nn
torch.manual_seed(0)
block = lambda: nn.Sequential(nn.Linear(64, 256), nn.GELU(), nn.Linear(256, 64), nn.LayerNorm(64))
model = nn.Sequential(*[block() for _ in range({blocks})])
x = torch.randn(8, 64)
clock, began = time.perf_counter(), time.process_time()
{wrapped}
with torch.set_grad_enabled({trains}):
    y = wrapped(x)
    if {trains}:
        y.sum().backward()
row = dict(cpu=time.process_time() - began, wall=time.perf_counter() - clock)
row["missed"] = torch._dynamo.utils.counters["inductor"]["fxgraph_cache_miss"]
print(json.dumps(row))
"""
Row = dict[str, float]


def first_call(engine: str, case: str, blocks: int, folder: str) -> Row:
    """One process: CPU and wall seconds of the first call, and how many graphs were not in the caches."""
    trains, dynamic = CASES[case]
    program = PROGRAM.format(wrapped=WRAPPED[engine].format(dynamic=dynamic), trains=trains, blocks=blocks)
    environment = {name: value for name, value in os.environ.items() if name != "PYTHONDONTWRITEBYTECODE"}
    environment |= {"OMP_NUM_THREADS": "1", "TORCHINDUCTOR_CACHE_DIR": os.path.join(folder, f"{engine}-{case}".replace(" ", "-"))}
    command = [sys.executable, "-W", "ignore", "-c", program]
    done = subprocess.run(command, env=environment, stdout=subprocess.PIPE, text=True, check=True)
    row: Row = json.loads(done.stdout.splitlines()[-1])
    return row


def measure(cases: list[str], repeats: int, blocks: int) -> dict[str, dict[str, list[Row]]]:
    """For each case and engine the rows of the processes that found the caches full."""
    rows: dict[str, dict[str, list[Row]]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for case in cases:
            rows[case] = {engine: [] for engine in WRAPPED}
            for engine in WRAPPED:
                first_call(engine, case, blocks, folder)
            for _ in range(repeats):
                for engine, own in rows[case].items():
                    own.append(first_call(engine, case, blocks, folder))
    return rows


def main() -> None:
    """Measure and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=0, help="how often each program runs with full caches")
    parser.add_argument("--quick", action="store_true", help="two repeats and one block instead of seven and four")
    parser.add_argument("--cases", nargs="+", choices=list(CASES), default=list(CASES), help="which of the three")
    parser.add_argument("--json", help="also write the figures to this file")
    options = parser.parse_args()
    rows = measure(options.cases, options.repeats or (2 if options.quick else 7), 1 if options.quick else 4)
    print(f"{'first call of a second process':<32}{'dynexplore':>12}{'torch.compile':>15}{'ratio':>8}{'wall':>8}")
    for case, engines in rows.items():
        cpu, wall = ([statistics.median(row[of] for row in engines[name]) for name in WRAPPED] for of in ("cpu", "wall"))
        missed = any(row["missed"] for own in engines.values() for row in own)
        print(
            f"{case:<32}{cpu[0]:>10.2f} s{cpu[1]:>13.2f} s{cpu[0] / cpu[1]:>8.2f}{wall[0] / wall[1]:>8.2f}"
            f"{'  compiled again: the caches missed' if missed else ''}"
        )
    if options.json:
        with open(options.json, "w") as file:
            json.dump(rows, file, indent=1)


if __name__ == "__main__":
    main()
