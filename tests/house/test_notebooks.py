"""The tutorials as they are saved: run from top to bottom, with outputs that are true on every machine."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest

NOTEBOOKS = Path(__file__).resolve().parents[2] / "notebooks"
TUTORIALS = sorted(NOTEBOOKS.glob("*.ipynb"))

LONGEST = 110
"""A printed line of so many letters stands in a cell of JupyterLab and on a page of the docs without being cut."""

LONGER = {
    "graph break DX": "a record of the log is one line, for tools that read logs by lines",
    "call_function ": "a node of a graph is one row of a table",
    "for(int64_t": "C++ that Inductor wrote",
    "auto tmp": "C++ that Inductor wrote",
}
"""How the lines begin that may be longer, and why."""

A_MACHINES_PATH = re.compile(r"/(?:home|root|tmp|usr|opt|work|mnt|Users)/[\w.]+|[A-Z]:\\\\")


@pytest.fixture(params=TUTORIALS, ids=lambda path: path.name[:2])
def notebook(request: pytest.FixtureRequest) -> dict[str, Any]:
    """Each tutorial as data."""
    content: dict[str, Any] = json.loads(request.param.read_text(encoding="utf-8"))
    return content


def code_cells(notebook: dict[str, Any]) -> list[dict[str, Any]]:
    """The cells that are run."""
    return [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]


def source(cell: dict[str, Any]) -> str:
    """The text of a cell."""
    return "".join(cell["source"])


def test_tutorials_are_numbered() -> None:
    """Each has a number of its own in front, which says in which order they are read; the README names them all."""
    numbers = [re.match(r"(\d\d)_\w+\.ipynb", path.name) for path in TUTORIALS]
    assert all(numbers) and len({number[1] for number in numbers if number}) == len(TUTORIALS) >= 6
    readme = (NOTEBOOKS.parent / "README.md").read_text(encoding="utf-8")
    assert [path.name for path in TUTORIALS if path.name not in readme] == []


def test_it_was_run_from_top_to_bottom(notebook: dict[str, Any]) -> None:
    """Every cell was run once, in order, and none ended in an error."""
    cells = code_cells(notebook)
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert not [output for cell in cells for output in cell["outputs"] if output["output_type"] == "error"]


def test_outputs_are_true_elsewhere(notebook: dict[str, Any]) -> None:
    """No path of a machine is in the outputs, and no widget, which without its kernel would show nothing."""
    outputs = json.dumps([cell["outputs"] for cell in code_cells(notebook)])
    assert A_MACHINES_PATH.findall(outputs) == []
    assert "application/vnd.jupyter.widget" not in outputs


def test_printed_lines_fit(notebook: dict[str, Any]) -> None:
    """No line that a tutorial prints, and no text of a result, runs off the page: sentences are wrapped."""
    outputs = [output for cell in code_cells(notebook) for output in cell["outputs"]]
    printed = ["".join(output.get("text") or output.get("data", {}).get("text/plain", "")) for output in outputs]
    long = [line for text in printed for line in text.splitlines() if len(line) > LONGEST]
    assert [line for line in long if not line.strip().startswith(tuple(LONGER))] == []


def test_an_explorer_is_there_without_a_kernel(notebook: dict[str, Any]) -> None:
    """At least one output is the static view of a recording, with its one line of text."""
    shown = [output["data"] for cell in code_cells(notebook) for output in cell["outputs"] if "data" in output]
    static = [data for data in shown if "Explorer(" in "".join(data.get("text/plain", ""))]
    assert static
    assert all('class="dynx"' in "".join(data["text/html"]) for data in static)


def test_exercises_have_solutions_that_are_checked(notebook: dict[str, Any]) -> None:
    """Each exercise is open, each solution is folded away and checked; "right" is not printed below an open one."""
    cells = code_cells(notebook)
    asked = [cell for cell in cells if re.search(r'^check\("exercise', source(cell), re.M)]
    solved = [cell for cell in cells if "solution" in cell["metadata"].get("tags", ())]
    assert len(asked) == len(solved) >= 3 - sum("= predict(" in source(cell) for cell in cells)
    assert len(asked) >= 1
    for number, (exercise, solution) in enumerate(zip(asked, solved, strict=True), start=1):
        assert f"exercise {number}: put your answer" in json.dumps(exercise["outputs"])
        assert re.search(r"^solve\(", source(solution), re.M) and "right" not in json.dumps(solution["outputs"])
        assert solution["metadata"]["jupyter"]["source_hidden"]
        assert source(solution).startswith(f"# Solution {number}\n"), "the first line of a folded cell can be seen"


def test_only_the_front_door_is_used(notebook: dict[str, Any]) -> None:
    """Of dynexplore a tutorial imports the package and its widgets, as a user would; tutorial 12 also needs the hook."""
    cells = [cell for cell in code_cells(notebook) if "mini_dynamo" not in cell["metadata"].get("tags", ())]
    imported = set(re.findall(r"^(?:import|from) (dynexplore[\w.]*)", "\n".join(map(source, cells)), re.M))
    assert imported <= {"dynexplore", *(f"dynexplore.widgets{room}" for room in ("", ".exercises", ".predictions"))}


def test_predictions_are_judged_by_a_recording(notebook: dict[str, Any]) -> None:
    """Each question is asked in a cell of its own, before the cell that judges it; saved, nobody has answered it."""
    cells = code_cells(notebook)
    for place, cell in enumerate(cells):
        if asked := re.match(r"(\w+) = predict\(", source(cell)):
            judged = cells[place + 1]
            assert f"{asked[1]}.judge(" in source(judged), source(cell)
            assert "No prediction made. The answer is " in json.dumps(judged["outputs"])


def test_a_tutorial_is_short(notebook: dict[str, Any]) -> None:
    """At most 30 cells and 900 words, at most four lines a paragraph, and at least three predictions."""
    cells = notebook["cells"]
    prose = [source(cell) for cell in cells if cell["cell_type"] == "markdown"]
    assert len(cells) <= 30
    assert sum(len(text.split()) for text in prose) <= 900
    paragraphs = [part for text in prose for part in text.split("\n\n") if not part.startswith(("- ", "1. ", "|", "    "))]
    assert [part for part in paragraphs if part.count("\n") >= 4] == []
    assert sum("= predict(" in source(cell) for cell in cells) >= 3
