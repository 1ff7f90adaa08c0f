"""Check model families of transformers in typical use: correctness and number of graphs, next to torch.compile.

    python -m dynexplore bench families [--quick] [--device cuda] [--models llama "t5, beam"] [--json OUT]

Each phase (forward, gradients, decoding with the model's own cache or a static cache, and generate with greedy search, sampling
or beam search) runs over three lengths with the forward compiled, with backend "eager". "right" is "ok" or the first difference
from plain PyTorch; "graphs" counts the backend's calls, "recompiles" those after the first of 64 steps; "cpu" is the CPU time
of the whole phase, with torch.compile's as 1.
"""

from __future__ import annotations

import argparse
import functools
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from support.families import FAMILIES, LENGTHS, PHASES, Family
from support.measuring import Counting, compilers, difference, forget
from support.models import Made, Model
from support.report import Row, main

TOLERANCE = 1e-5


@dataclass
class Run:
    """One phase under one compiler."""

    results: list[Any]
    graphs: int
    recompiles: int | None
    seconds: float


def run(family: Family, phase: str, wrap: Callable[[Any], Any], counted: Counting, device: str = "cpu") -> Run:
    """The phase on a fresh module whose forward is wrapped."""
    forget()
    module = family.make(device)
    module.forward = wrap(module.forward)
    marks: list[int] = []
    began = time.process_time()
    results = list(PHASES[phase](module, module, family.inputs_on(device), lambda: marks.append(counted.graphs)))
    spent = time.process_time() - began
    return Run(results, counted.graphs, counted.graphs - marks[-1] if marks else None, spent)


def measure(family: Family, phase: str, device: str = "cpu") -> Row:
    """One row: both compilers beside plain PyTorch."""
    expected = run(family, phase, lambda plain: plain, Counting(), device).results
    row: Row = {}
    spent: dict[str, float] = {}
    for name, column in (("dynexplore", ""), ("torch.compile", "torch.compile ")):
        counted = Counting()
        try:
            ran = run(family, phase, compilers(counted)[name], counted, device)
        except Exception as error:  # torch.compile's failures are part of the table; ours end the row
            if name == "dynexplore":
                raise
            row |= {f"{column}right": f"{type(error).__name__}: {str(error).splitlines()[0]}"[:80]}
            continue
        row |= {f"{column}right": difference(expected, ran.results, TOLERANCE) or "ok", f"{column}graphs": ran.graphs}
        if ran.recompiles is not None:
            row[f"{column}recompiles"] = ran.recompiles
        spent[name] = ran.seconds
    if "torch.compile" in spent:
        row["cpu"] = spent["dynexplore"] / spent["torch.compile"]
    return row


def summary(rows: list[Row]) -> Row:
    """How many are right, how many have no more graphs than torch.compile, and all graphs."""
    return {
        **{name: f"{sum(row[name] == 'ok' for row in rows)}/{len(rows)}" for name in ("right", "torch.compile right")},
        "graphs": sum(row["graphs"] for row in rows),
        "torch.compile graphs": sum(row.get("torch.compile graphs", 0) for row in rows),
        "more graphs": sum(row["graphs"] > row.get("torch.compile graphs", row["graphs"]) for row in rows),
        "recompiles": max((row.get("recompiles", 0) for row in rows), default=0),
    }


def _made(family: Family) -> Made:
    return family.make(), (), family.inputs(LENGTHS[0])


if __name__ == "__main__":
    ROWS = {f"{family.name}, {phase}": (family, phase) for family in FAMILIES for phase in family.phases}
    MODELS = [Model(name, "transformers", functools.partial(_made, family)) for name, (family, _) in ROWS.items()]

    def _measure(model: Model, options: argparse.Namespace) -> Row:
        return measure(*ROWS[model.name], options.device)

    sys.exit(main("Families", _measure, summary, {"cpu": MODELS, "cuda": MODELS}))
