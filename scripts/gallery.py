"""Make the live explorers of the site: for each program of the gallery, explorer of the tutorials and kind of graph break.

    python scripts/gallery.py [OUT] [--only NAME...]        (make docs; OUT is docs/_live/explorers)

Which idea lives here: an explorer on the site is what `save("x.html")` writes, made anew from a real program whenever the site is
built; nothing that the engine did is kept in the repository. The site shows each in a frame (docs/explorers.py).

In:  examples/NAME.py, those that leave in `shown` what is to be seen; notebooks/NN_*.ipynb, whose cells are run,
     those with an explorer in their saved output for what they show; the programs of scripts/break_pages.py.
Out: OUT/NAME.html, OUT/dx104.html, OUT/gb0170.html, and OUT/NN-1.html, OUT/NN-2.html ... in the order of the tutorial's cells;
     OUT/NAME.svg, the thumbnails of the gallery;
     OUT/viewer.html, the page on which saved recordings are dropped.

Each program runs in a process of its own, forked when torch is there, so that the numbers of graphs begin at 0 everywhere.
"""

from __future__ import annotations

import argparse
import contextlib
import gc
import io
import json
import multiprocessing
import os
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import torch
from break_pages import ROWS, explained
from IPython.core.interactiveshell import InteractiveShell

import dynexplore
from dynexplore.engine.graph_breaks import KINDS
from dynexplore.recording.recording import recording_of
from dynexplore.views.strip_picture import strip_picture
from dynexplore.widgets.html import viewer

ROOT = Path(__file__).resolve().parent.parent
OUT = ROOT / "docs" / "_live" / "explorers"
PROCESSES = 2
KINDS_OF_BREAKS = Path("breaks")
"""Stands for the programs of all kinds of graph breaks: they take milliseconds each, and share a process."""
THUMBNAIL = 300


def gallery() -> list[Path]:
    """The programs of the gallery: the examples that have something to show."""
    return [path for path in sorted((ROOT / "examples").glob("*.py")) if "print(shown)" in path.read_text(encoding="utf-8")]


def programs() -> list[Path]:
    """Every program: those of the gallery, and the tutorials; what takes longest comes first."""
    notebooks = [path for path in sorted((ROOT / "notebooks").glob("*.ipynb")) if explorer_cells(path)]
    return [*reversed(notebooks), KINDS_OF_BREAKS, *gallery()]


def name_of(program: Path) -> str:
    """What its pages are called: `split`, and the number of a tutorial.

    >>> name_of(Path("examples/split.py")), name_of(Path("notebooks/05_graph_breaks.ipynb"))
    ('split', '05')
    """
    return program.stem[:2] if program.suffix == ".ipynb" else program.stem


def explorer_cells(notebook: Path) -> list[int]:
    """The cells whose saved output is an explorer, by their place among all cells."""
    cells = json.loads(notebook.read_text(encoding="utf-8"))["cells"]
    return [place for place, cell in enumerate(cells) if any(map(is_explorer, cell.get("outputs", ())))]


def is_explorer(output: dict[str, Any]) -> bool:
    """Whether a saved output is the static view of a recording."""
    return "".join(output.get("data", {}).get("text/plain", "")).startswith("Explorer(")


# -- one program ---------------------------------------------------------------------------------------------------------


def run_program(path: Path) -> Iterator[Any]:
    """What a program of the gallery shows. Its file is known by its place in the repository: no folder of a machine is shown."""
    code = compile(path.read_text(encoding="utf-8"), str(path.relative_to(ROOT)), "exec")
    names: dict[str, Any] = {"__name__": path.stem}
    exec(code, names)
    yield names["shown"]


def run_notebook(path: Path) -> Iterator[Any]:
    """What the cells with an explorer show, one after the other."""
    wanted = explorer_cells(path)
    shell = InteractiveShell.instance()
    for place, cell in enumerate(json.loads(path.read_text(encoding="utf-8"))["cells"][: wanted[-1] + 1]):
        if cell["cell_type"] == "code":
            done = shell.run_cell("".join(cell["source"]), store_history=True)
            done.raise_error()
            if place in wanted:
                yield done.result


def run_breaks() -> Iterator[tuple[str, Any]]:
    """The programs of the registry of graph breaks, each with the name of its page."""
    for kind in KINDS.values():
        if kind.example:
            dynexplore.reset()
            yield kind.id.lower(), explained(kind.id, kind.example)
    for row in ROWS:
        torch.compiler.reset()
        yield row.id.lower(), explained(row.id, row.example, "torch.compile")


def shown_by(program: Path) -> Iterator[tuple[str, Any]]:
    """What a program shows, each with the name of its page."""
    if program == KINDS_OF_BREAKS:
        yield from run_breaks()
    elif program.suffix == ".ipynb":
        yield from ((f"{name_of(program)}-{number}", shown) for number, shown in enumerate(run_notebook(program), start=1))
    else:
        yield from ((name_of(program), shown) for shown in run_program(program))


def savable(shown: Any) -> Any:
    """What can be saved: an explanation, a watch, what a compiler made; of a replayed frame its recording."""
    return shown if hasattr(shown, "save") else shown.recording


def make(task: tuple[Path, Path]) -> str:
    """Run one program and write its pages; one line that says so, or what went wrong."""
    program, folder = task
    began = time.perf_counter()
    said = io.StringIO()
    sizes = []
    try:
        with contextlib.redirect_stdout(said):
            for name, shown in shown_by(program):
                page = folder / f"{name}.html"
                saved = savable(shown)
                saved.save(page)
                if program.suffix == ".py":
                    recording = recording_of(getattr(saved, "explanation", saved))
                    thumbnail = strip_picture(recording, width=THUMBNAIL, brief=True)
                    page.with_suffix(".svg").write_text(thumbnail, encoding="utf-8")
                sizes.append(page.stat().st_size)
    except Exception as error:  # one process of several: the others go on, and this one is told
        return f"{program.name} failed: {type(error).__name__}: {error}\n{said.getvalue()[-2000:]}"
    written = " ".join(f"{size // 1024} KB" for size in sizes) if len(sizes) < 20 else f"{len(sizes)} pages"
    return f"{name_of(program):14} {time.perf_counter() - began:5.1f} s  {written}"


def main() -> int:
    """Make all pages, or those that are named."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("out", nargs="?", type=Path, default=OUT)
    parser.add_argument("--only", nargs="+", default=())
    asked = parser.parse_args()
    chosen = [program for program in programs() if not asked.only or name_of(program) in asked.only]
    asked.out.mkdir(parents=True, exist_ok=True)
    if not asked.only:
        for old in (*asked.out.glob("*.html"), *asked.out.glob("*.svg")):
            old.unlink()
        (asked.out / "viewer.html").write_text(viewer(), encoding="utf-8")
    os.chdir(ROOT)
    torch.set_num_threads(1)
    dynexplore.config.log_level = "ERROR"  # breaks are what is shown
    gc.freeze()
    failed = 0
    with multiprocessing.get_context("fork").Pool(PROCESSES, maxtasksperchild=1) as pool:
        for line in pool.imap_unordered(make, [(program, asked.out.resolve()) for program in chosen]):
            failed += " failed: " in line.partition("\n")[0]
            print(line, flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main())
