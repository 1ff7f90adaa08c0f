"""Compile times: phases per function, as a table and as a trace for Chrome or Perfetto.

The idea: the engine times nested phases of each compilation (phases.py); this file aggregates the records.

In: the records of phases.py. Out: `CompileTimes`.

PyTorch's counterpart: `compile_times` in torch/_dynamo/utils.py.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass
from pathlib import Path

from dynexplore.engine.phases import PhaseRecord, times
from dynexplore.views import html_report

PHASES = ("read", "translate", "guards", "backend", "assemble", "other")


@dataclass(frozen=True, slots=True)
class CompileTimes:
    """The duration of compilation. `print` it for a table; `as_dict()` for numbers; `write_trace(path)` for a Chrome trace."""

    records: tuple[PhaseRecord, ...]

    def as_dict(self) -> dict[str, dict[str, float]]:
        """Function -> phase -> seconds, excluding nested phases; the slowest function first."""
        functions: dict[str, dict[str, float]] = {}
        for record in self.records:
            phases = functions.setdefault(record.function, dict.fromkeys(PHASES, 0.0))
            phases[record.phase] = phases.get(record.phase, 0.0) + record.own_seconds
        return dict(sorted(functions.items(), key=lambda item: -sum(item[1].values())))

    def _rows(self) -> list[tuple[str, ...]]:
        rows = [
            (function, *(f"{seconds * 1000:.1f}" for seconds in phases.values()), f"{sum(phases.values()) * 1000:.1f}")
            for function, phases in self.as_dict().items()
        ]
        return [("function", *PHASES, "total"), *rows]

    def __str__(self) -> str:
        rows = self._rows()
        wide = max(len(row[0]) for row in rows)
        lines = [f"{row[0]:<{wide}}" + "".join(f"{cell:>11}" for cell in row[1:]) for row in rows]
        return "\n".join(["Compile times in milliseconds", *lines])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        head, *rows = self._rows()
        how = html_report.line("write_trace(path) writes them as a trace for chrome://tracing or Perfetto")
        return html_report.report(html_report.rows(head, rows, "Compile times in milliseconds"), how)

    def write_trace(self, path: str | Path) -> Path:
        """Write the phases as a trace in Chrome's format, for chrome://tracing or Perfetto. Returns its path."""
        events = [
            {
                "name": record.phase,
                "cat": "dynexplore",
                "ph": "X",
                "ts": record.start * 1e6,
                "dur": record.seconds * 1e6,
                "pid": os.getpid(),
                "tid": record.thread,
                "args": {"function": record.function},
            }
            for record in self.records
        ]
        written = Path(path)
        written.write_text(json.dumps({"traceEvents": events, "displayTimeUnit": "ms"}), encoding="utf-8")
        return written


def compile_times() -> CompileTimes:
    """The duration of each compilation phase, per function, since the last `reset()`.

    >>> isinstance(compile_times().as_dict(), dict)
    True
    """
    return CompileTimes(tuple(times.records))
