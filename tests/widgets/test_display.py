"""widgets/display.py: what a notebook shows for recordings and explanations, and that running a cell again lets it go."""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import weakref
from collections.abc import Callable
from typing import Any

import pytest
import torch
from ipywidgets.widgets.widget import Widget, _instances
from notebook_shell import Notebook

import dynexplore
from dynexplore.views import first_view
from dynexplore.widgets import display, explorer_texts
from dynexplore.widgets.explorer import Explorer
from sample_recordings import toy
from source_tree import ROOT

WIDGET = "application/vnd.jupyter.widget-view+json"
EXPLAIN = "import dynexplore\ndef f(x):\n    return x * 2 + 1\n"


def living(kind: type) -> int:
    """How many widgets of a class the kernel holds."""
    gc.collect()
    return sum(isinstance(widget, kind) for widget in _instances.values() if widget)


def bundle(shell: Any, shown: object) -> dict[str, Any]:
    """What IPython's display formatter makes of an object."""
    data: dict[str, Any] = shell.display_formatter.format(shown)[0]
    return data


@pytest.mark.parametrize("call", ["explain(f, a)", "explain(f)(a)", "explain(f, a).recording"])
def test_an_explanation_is_shown_as_the_explorer(notebook: Notebook, call: str) -> None:
    """`explain` in both forms shows the widget, the static page and one stable line, without %load_ext."""
    notebook.run("%unload_ext dynexplore")
    notebook.run(f"{EXPLAIN}e = dynexplore.{call}")
    data = bundle(notebook.shell, notebook["e"])
    assert set(data) == {"text/plain", "text/html", WIDGET}
    assert data["text/plain"].startswith("Explorer(f: ") and data["text/plain"].endswith("1 graph, 2 guards)")
    assert "operator.mul" in data["text/html"] and "<script" not in data["text/html"]


def test_all_of_a_large_recording_follows_when_the_cell_has_ended(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cell shows the first view; at its end, and not a cell later, the explorer has the whole. Outside of cells all is sent."""
    monkeypatch.setattr(first_view, "LARGE", 10)
    notebook.run(EXPLAIN)
    notebook.run(
        "from IPython.display import display\nfrom dynexplore.widgets.explorer import Explorer\n"
        "from ipywidgets.widgets.widget import _instances\n"
        "def first_views():\n"
        "    return sum('isFirstView' in one.data for one in _instances.values() if isinstance(one, Explorer))\n"
        "display(dynexplore.explain(f, a))\nduring = first_views()"
    )
    assert notebook["during"] == 1 and notebook["first_views"]() == 0
    monkeypatch.setattr(notebook.shell, "get_parent", lambda: {"header": {"msg_type": "comm_msg"}}, raising=False)
    notebook.run("e = dynexplore.explain(f, a)")
    bundle(notebook.shell, notebook["e"])
    assert notebook["first_views"]() == 0


def test_ctrl_c_while_the_rest_is_made_leaves_the_first_view(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    """The cell's own work is done: every explorer of the cell says what is missing, and the next cell runs."""
    monkeypatch.setattr(first_view, "LARGE", 10)
    whole = explorer_texts.spelled

    def interrupted(data: dict[str, Any], pieces_of: dict[str, list[str]]) -> str:
        if "isFirstView" not in data:
            raise KeyboardInterrupt
        return whole(data, pieces_of)

    monkeypatch.setattr(explorer_texts, "spelled", interrupted)
    notebook.run(f"{EXPLAIN}from IPython.display import display\ndisplay(dynexplore.explain(f, a), dynexplore.explain(f, a))")
    shown = [one for one in _instances.values() if isinstance(one, Explorer) and "isFirstView" in one.data]
    assert [one.interrupted for one in shown] == [True, True]
    notebook.run("after = 1")
    assert notebook["after"] == 1


def test_a_terminal_shows_text(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    """In IPython's terminal an explanation is its report, and no widget is made."""
    notebook.run(f"{EXPLAIN}e = dynexplore.explain(f, a)")
    monkeypatch.setattr(notebook.shell.display_formatter, "active_types", ["text/plain"])
    before = living(Explorer)
    assert bundle(notebook.shell, notebook["e"]) == {"text/plain": str(notebook["e"])}
    assert "1 graph" in str(notebook["e"])
    assert living(Explorer) == before


def test_without_a_shell_the_static_page_is_shown() -> None:
    """In a process without IPython's shell the bundle has no widget."""
    code = (
        "import dynexplore.widgets.display as d; from dynexplore import Recording;"
        "print(sorted(Recording(title='r')._repr_mimebundle_()))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.stdout == "['text/html', 'text/plain']\n", done.stderr


def test_without_anywidget_the_static_page_is_shown(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where anywidget is not installed recordings are shown as the static page."""
    monkeypatch.setattr(display, "HAS_WIDGETS", False)
    assert set(bundle(notebook.shell, toy())) == {"text/plain", "text/html"}


def test_marimo_gets_the_explorer_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """marimo has no shell of IPython: `_display_` of an explanation is a widget with all data, which ends with what it shows."""
    explanation = dynexplore.explain(lambda x: x * 2, torch.ones(2))
    shown = explanation._display_()
    assert isinstance(shown, Explorer) and json.loads(shown.data)["frames"] and "isFirstView" not in json.loads(shown.data)
    assert isinstance(explanation.recording._display_(), Explorer)
    monkeypatch.setattr(display, "HAS_WIDGETS", False)
    assert "1 graph" in explanation._display_().data
    recording = toy()
    ended = []
    monkeypatch.setattr(display, "HAS_WIDGETS", True)
    monkeypatch.setattr(Explorer, "end", lambda self: ended.append(self))
    last = recording._display_()
    del recording
    gc.collect()
    assert ended == [last]


def test_display_loads_without_anywidget() -> None:
    """The module can be imported where anywidget is not installed."""
    code = (
        "import importlib.util as u; find = u.find_spec; u.find_spec = lambda n, *a: None if n == 'anywidget' else find(n, *a);"
        "import dynexplore.widgets.display as m, sys; assert not m.HAS_WIDGETS and 'anywidget' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0, done.stderr


# -- letting go --------------------------------------------------------------------------------------------------------


def watched(notebook: Notebook, cell: str, find: Callable[[], object], cell_id: str | None) -> list[weakref.ref[Any]]:
    """Run a cell; what it made and the widgets that it shows, held weakly."""
    before = set(_instances.values())
    notebook.run(cell, cell_id)
    assert notebook.error is None
    widgets = [widget for widget in _instances.values() if widget not in before]
    assert sum(isinstance(widget, Explorer) for widget in widgets) == 1
    return [weakref.ref(found) for found in (find(), *widgets) if found is not None]


@pytest.mark.parametrize("cell_id", ["cell-1", None])
@pytest.mark.parametrize(
    ("cell", "name"),
    [
        ("%%dynamo\nx = a + b", ""),
        ("%%dynamo -o rec\nx = a + b", "rec"),
        (f"{EXPLAIN}dynexplore.explain(f, a)", "_"),
        (f"{EXPLAIN}display(dynexplore.explain(f, a))", ""),
        ("rec = dynexplore.explain(f, a).recording\nrec", "rec"),
    ],
)
def test_running_again_frees_what_was_shown_before(notebook: Notebook, cell: str, name: str, cell_id: str | None) -> None:
    """Nothing is left of recording, JSON and widgets of the run before, also where the result was the explanation."""
    notebook.run(EXPLAIN)
    before = watched(notebook, cell, lambda: notebook[name] if name else None, cell_id)
    count = living(Widget)
    for _ in range(3):
        watched(notebook, cell, lambda: None, cell_id)
    assert living(Widget) == count
    assert [ref() for ref in before] == [None] * len(before)


def test_a_cell_that_shows_nothing_any_more_frees_too(notebook: Notebook) -> None:
    """The text of a cell was changed: its widget goes, those of other cells stay."""
    other = watched(notebook, "%%dynamo\ny = a * b", lambda: None, "cell-2")
    before = watched(notebook, "%%dynamo\nx = a + b", lambda: None, "cell-1")
    notebook.run("x = 1", "cell-1")
    gc.collect()
    assert [ref() for ref in before] == [None] * len(before)
    assert all(ref() is not None for ref in other)


def test_deleted_cells_are_freed(notebook: Notebook, monkeypatch: pytest.MonkeyPatch) -> None:
    """JupyterLab says with the next cell which ones were deleted."""
    before = watched(notebook, "%%dynamo\nx = a + b", lambda: None, "cell-1")
    said = {"metadata": {"cellId": "cell-3", "deletedCells": ["cell-1"]}}
    monkeypatch.setattr(notebook.shell, "get_parent", lambda: said, raising=False)
    notebook.run("1", "cell-3")
    gc.collect()
    assert [ref() for ref in before] == [None] * len(before)


def test_the_users_own_names_stay(notebook: Notebook) -> None:
    """A recording that a name of the user holds is there after the cell ran again, and can be shown again."""
    notebook.run(EXPLAIN)
    notebook.run("first = dynexplore.explain(f, a)\nfirst", "cell-1")
    notebook.run("kept = first", "cell-2")
    notebook.run("first = dynexplore.explain(f, a)\nfirst", "cell-1")
    assert notebook["kept"].recording.graphs
    notebook.run("kept", "cell-2")
    assert "Explorer(f: " in notebook.stdout


def test_a_widget_keeps_no_recording_alive(notebook: Notebook) -> None:
    """What a cell shows is data of its own: the recording goes when nobody else wants it."""
    recording = toy()
    bundle(notebook.shell, recording)
    gone = weakref.ref(recording)
    del recording
    gc.collect()
    assert gone() is None
