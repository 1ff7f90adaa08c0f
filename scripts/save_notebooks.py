"""Run the tutorials and save them with their outputs, so that a page that shows them without a kernel shows the truth.

    python scripts/save_notebooks.py [NOTEBOOK...]        (make notebooks)

In:  notebooks/*.ipynb, or those that are named.
Out: the same files, each cell run anew on this Python. What would be untrue elsewhere does not get in: names of files that
     the kernel gave to cells, widgets (which need their kernel; the static view of the same recording stays), times of
     execution. `pytest --nbval` then compares every output with what is saved here.
"""

from __future__ import annotations

import re
import sys
import tempfile
from pathlib import Path
from typing import Any

import nbformat
from nbclient import NotebookClient

NOTEBOOKS = Path(__file__).resolve().parent.parent / "notebooks"
METADATA = {
    "kernelspec": {"display_name": "Python 3", "language": "python", "name": "python3"},
    "language_info": {"name": "python"},
}
WIDGET = "application/vnd.jupyter.widget-view+json"
CELL_FILE = re.compile(re.escape(tempfile.gettempdir()) + r"/ipykernel_\d+/\d+\.py")


def save(path: Path) -> None:
    """Run one notebook and write it back."""
    notebook = nbformat.read(path, as_version=4)
    head_solutions(notebook)
    NotebookClient(notebook, timeout=300, coalesce_streams=True, resources={"metadata": {"path": str(path.parent)}}).execute()
    notebook.metadata = nbformat.from_dict(METADATA)
    for cell in notebook.cells:
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs = [nbformat.from_dict(clean(output)) for output in cell.outputs]
    nbformat.validate(notebook)
    path.write_text(nbformat.writes(notebook) + "\n", encoding="utf-8")


def head_solutions(notebook: Any) -> None:
    """Give each folded solution a first line that tells nothing: JupyterLab shows it."""
    solutions = [cell for cell in notebook.cells if "solution" in cell.metadata.get("tags", ())]
    for number, cell in enumerate(solutions, start=1):
        if not cell.source.startswith("# Solution "):
            cell.source = f"# Solution {number}\n{cell.source}"


def clean(value: Any) -> Any:
    """An output without widgets and without the names of cell files."""
    if isinstance(value, str):
        return CELL_FILE.sub("CELL", value)
    if isinstance(value, list):
        return [clean(item) for item in value]
    if isinstance(value, dict):
        return {name: clean(item) for name, item in value.items() if name != WIDGET}
    return value


if __name__ == "__main__":
    for each in [Path(name) for name in sys.argv[1:]] or sorted(NOTEBOOKS.glob("*.ipynb")):
        print(f"running {each.name}", flush=True)
        save(each)
