"""List where captures of real models by torch.compile and dynexplore differ, by cause.

    python -m dynexplore bench engines [--quick] [--models bert unet] [--json OUT]

For each model, shows whether the graphs are the same, and the number of differences of each kind (dynexplore.compare_engines);
below the table, every cause with its count. --json contains the causes of each model.
"""

from __future__ import annotations

import argparse
import sys
from collections import Counter

import torch
from support.measuring import forget
from support.models import Model
from support.report import Row, main

import dynexplore

CAUSES: Counter[tuple[str, str]] = Counter()


def measure(model: Model, options: argparse.Namespace) -> Row:
    """Both captures of one model."""
    module, args, kwargs = model.make()
    forget()
    with torch.no_grad():
        captures = dynexplore.compare_engines(module, *args, **kwargs)
    CAUSES.update({(kind, cause): count for kind, causes in captures.causes.items() for cause, count in causes.items()})
    counts = {f"{kind}s": sum(causes.values()) for kind, causes in captures.causes.items()}
    return {"same graphs": str(captures.has_same_graphs), **counts}


def summary(rows: list[Row]) -> Row:
    """The causes as lines, and the sums."""
    for (kind, cause), count in sorted(CAUSES.items(), key=lambda item: (item[0][0], -item[1])):
        print(f"{count:6} {kind:9} {cause}")
    same = sum(row["same graphs"] == "True" for row in rows)
    sums = {name: sum(row[name] for row in rows) for name in rows[0] if name.endswith("s") and name != "same graphs"}
    return {"same graphs": f"{same}/{len(rows)}", **sums}


if __name__ == "__main__":
    sys.exit(main("Engines", measure, summary))
