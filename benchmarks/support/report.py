"""Options, progress, tables and JSON of the benchmarks, so that each of them is only its measure.

In: a description, columns, and a function that measures one model. Out: a table on the terminal, JSON where asked.
"""

from __future__ import annotations

import argparse
import importlib.util
import json
import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType
from typing import Any

import torch

from support.measuring import forget, quiet
from support.models import MODELS, Model, chosen

Row = dict[str, Any]


def main(
    title: str,
    measure: Callable[[Model, argparse.Namespace], Row],
    summary: Callable[[list[Row]], Row],
    among: Mapping[str, Sequence[Model]] = MappingProxyType({"cpu": MODELS}),
    ask: Callable[[argparse.ArgumentParser], object] = lambda parser: None,
) -> int:
    """Measure each model of those `among` for the device, writing the JSON as it grows; show the table. `ask` adds options."""
    options = _options(title, list(among), ask)
    if options.device == "cuda" and not torch.cuda.is_available():
        print("--device cuda needs a GPU that torch can use, and torch.cuda.is_available() is False here", file=sys.stderr)
        return 2
    if not rich_is_there():
        return 2
    from rich.progress import Progress

    try:
        models, sentences = chosen(options.models, options.quick, among[options.device])
    except ValueError as error:
        print(error, file=sys.stderr)
        return 2
    out, rows = console(), []
    for sentence in sentences:
        out.print(sentence, highlight=False)
    quiet()
    with Progress(console=out, transient=True) as progress:
        task = progress.add_task(title, total=len(models))
        for model in models:
            progress.update(task, description=f"{title}: {model.name}")
            rows.append({"model": model.name, **_measured(model, measure, options)})
            write(title, rows, options.json)  # a run that is stopped keeps what it has
            progress.advance(task)
    good = [row for row in rows if "failed" not in row]
    if good:
        rows.append({"model": "all", **summary(good)})
    out.print(table(title, rows))
    write(title, rows, options.json)
    return 0 if len(good) == len(models) else 1


def _options(title: str, devices: list[str], ask: Callable[[argparse.ArgumentParser], object]) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=title)
    parser.add_argument("--models", nargs="*", help="only these")
    parser.add_argument("--quick", action="store_true", help="a few models, few repeats")
    parser.add_argument("--repeats", type=int, default=0, help="how often each figure is taken (the smallest counts)")
    parser.add_argument("--device", choices=devices, default=devices[0], help="where the models run")
    parser.add_argument("--json", type=Path, help="write the rows here as well")
    ask(parser)
    options = parser.parse_args()
    options.repeats = options.repeats or (3 if options.quick else 7)
    return options


def _measured(model: Model, measure: Callable[[Model, argparse.Namespace], Row], options: argparse.Namespace) -> Row:
    forget()
    try:
        return measure(model, options)
    except Exception as error:  # one model must not end the run; its row says what happened
        return {"failed": f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"[:80]}


def write(title: str, rows: Sequence[Row], path: Path | None) -> None:
    """The rows as JSON, where a path is given."""
    if path is not None:
        path.write_text(json.dumps({"title": title, "torch": torch.__version__, "rows": rows}, indent=1), encoding="utf-8")


def show(title: str, rows: Sequence[Row], path: Path | None) -> None:
    """The rows as a table, and as JSON where a path is given."""
    console().print(table(title, rows))
    write(title, rows, path)


def with_repeats(parser: argparse.ArgumentParser, arguments: Sequence[str] | None, few: int, many: int) -> argparse.Namespace:
    """The options of a benchmark with rows of its own: --quick, with `few` repeats for `many`, and --json join the parser's."""
    parser.add_argument("--quick", action="store_true", help="few repeats")
    parser.add_argument("--json", type=Path, help="write the rows here as well")
    options = parser.parse_args(arguments)
    options.repeats = few if options.quick else many
    return options


def show_measured(title: str, measured: Callable[[], Sequence[Row]], path: Path | None) -> int:
    """Measure the rows and show them; the exit status. Nothing is measured where nothing could be shown."""
    if not rich_is_there():
        return 2
    quiet()
    show(title, measured(), path)
    return 0


def rich_is_there() -> bool:
    """Whether rich, which shows the tables, is installed; one sentence where it is not."""
    if importlib.util.find_spec("rich") is None:
        print("the benchmarks show their tables with rich, which is not installed: pip install -e '.[bench]'", file=sys.stderr)
        return False
    return True


def console() -> Any:
    """rich's console. A file has no width: there a table is as wide as its rows, not cut at the 80 columns that rich supposes."""
    from rich.console import Console

    out = Console()
    return out if out.is_terminal else Console(width=10_000)


def table(title: str, rows: Sequence[Row]) -> Any:
    """The rows as a table of rich's; a column for each name that occurs in one. A narrow terminal folds cells, and cuts none."""
    from rich.table import Table

    columns = list(dict.fromkeys(name for row in rows for name in row))
    found = Table(title=title)
    for name in columns:
        found.add_column(name, justify="left" if name in ("model", "failed") else "right", overflow="fold")
    for row in rows:
        if row.get("model") == "all":
            found.add_section()
        found.add_row(*(_cell(row.get(name, "")) for name in columns))
    return found


def _cell(value: Any) -> str:
    if isinstance(value, float):
        return f"{value:.3g}" if abs(value) < 1000 else f"{value:.0f}"
    return str(value)
