"""The display of a recording or explanation in a notebook, and its lifetime.

The idea: a notebook shows the explorer (for a large recording the first view at once, the rest when the cell has ended), a terminal
its text, everything else the static page. A widget lives in the kernel until it is closed, because the page may be reloaded and
request it again. But a cell that runs again replaces its output, and a deleted cell has none; so widgets belong to the cell that
displayed them, and are closed together with its output, as are the names under which IPython keeps a result (`Out[3]`, `_3`, `_`).
In JupyterLab the static page is an output of its own before the explorer, and hidden while that lives: a notebook that is opened
again shows it in place of the widget that is no more.

marimo has no IPython shell: it asks an object for another one to display, and runs anywidgets. There a widget lives as long as the
object that it displays.

In: a Recording, or anything with a `recording`.
Out: `mimebundle(shown)`, which `_repr_mimebundle_` of both returns to IPython; `explorer(shown)`, which `_display_` returns to
     marimo.

PyTorch's counterpart: none.
"""

from __future__ import annotations

import importlib.util
import weakref
from typing import Any

from IPython import get_ipython
from IPython.core.interactiveshell import InteractiveShell
from IPython.display import HTML, display

from dynexplore.engine.display_hooks import Bundle
from dynexplore.recording.recording import recording_of
from dynexplore.views import notebook_output
from dynexplore.widgets.turns import TURN

if HAS_WIDGETS := importlib.util.find_spec("anywidget") is not None:
    from dynexplore.widgets.explorer import Explorer


def mimebundle(shown: Any) -> Bundle:
    """The explorer in a notebook, nothing if the repr suffices (a terminal), the static page if no widget can be created."""
    recording = recording_of(shown)
    shell = get_ipython()
    if not isinstance(shell, InteractiveShell):
        return notebook_output.mimebundle(recording)
    if "text/html" not in shell.display_formatter.active_types:
        return {}
    if not HAS_WIDGETS:
        return notebook_output.mimebundle(recording)
    explorer = Explorer(shown, later=_is_in_cell(shell))
    outputs_of(shell).add(shown, explorer)
    data, metadata = explorer._repr_mimebundle_()
    if "deletedCells" in _metadata(shell):  # JupyterLab shows the form that it likes best, or an error, but no other form
        display(notebook_output.separate_output(data.pop("text/html"), data["text/plain"]), raw=True)
    return (data, metadata) if metadata else data


def explorer(shown: Any) -> Any:
    """The explorer as a widget, with all data at once; the static page if no widget can be created."""
    if not HAS_WIDGETS:
        return HTML(notebook_output.mimebundle(recording_of(shown))["text/html"])
    widget = Explorer(shown)
    weakref.finalize(shown, widget.end)
    return widget


# -- the output of a cell ----------------------------------------------------------------------------------------------


class Outputs:
    """The outputs of each cell of a notebook: strong references to widgets, weak ones to the displayed objects."""

    def __init__(self, shell: InteractiveShell) -> None:
        self.shell = shell
        self.cells: dict[str, list[tuple[weakref.ref[Any], Explorer]]] = {}
        self.cell = _running_cell(shell)
        shell.events.register("pre_run_cell", self._begin)
        shell.events.register("post_run_cell", self._ended)

    def add(self, shown: Any, explorer: Explorer) -> None:
        self.cells.setdefault(self.cell, []).append((weakref.ref(shown), explorer))

    def _begin(self, info: Any) -> None:
        """Called when a cell begins to run: drop its previous output, and that of cells deleted since."""
        TURN.cell_begins()
        self.cell = _name_of_cell(info.cell_id, info.raw_cell)
        for cell in (self.cell, *_deleted_cells(self.shell)):
            for shown, explorer in self.cells.pop(cell, ()):
                explorer.end()
                _forget(self.shell, shown())

    def _ended(self, result: Any) -> None:
        """Called when a cell has ended: complete its explorers that only sent a first view, unless Ctrl-C interrupts."""
        shown = [explorer for _, explorer in self.cells.get(self.cell, ())]
        try:
            for explorer in shown:
                explorer.complete()
        except KeyboardInterrupt:
            for explorer in shown:
                explorer.leave_the_rest()
        finally:
            TURN.cell_ended()


_ATTRIBUTE = "_dynexplore_outputs"


def outputs_of(shell: InteractiveShell) -> Outputs:
    """The outputs of this notebook, which listen to its cells from now on."""
    if not hasattr(shell, _ATTRIBUTE):
        setattr(shell, _ATTRIBUTE, Outputs(shell))
    outputs: Outputs = getattr(shell, _ATTRIBUTE)
    return outputs


def _is_in_cell(shell: InteractiveShell) -> bool:
    """Whether a cell is running that will end: a widget callback in the kernel is not a cell."""
    get_parent = getattr(shell, "get_parent", None)  # a shell without a kernel has none, and runs only cells
    header = get_parent().get("header") if get_parent is not None else None
    return not isinstance(header, dict) or header.get("msg_type", "execute_request") == "execute_request"


def _name_of_cell(cell_id: str | None, text: str) -> str:
    # front ends identify their cells; otherwise a cell is identified by its text
    return cell_id or f"text:{text.strip()}"


def _running_cell(shell: InteractiveShell) -> str:
    """The cell that is running, if its start was not observed."""
    inputs = shell.history_manager.input_hist_raw
    return _name_of_cell(_metadata(shell).get("cellId"), inputs[-1] if inputs else "")


def _deleted_cells(shell: InteractiveShell) -> list[str]:
    deleted = _metadata(shell).get("deletedCells")
    return [cell for cell in deleted if isinstance(cell, str)] if isinstance(deleted, list) else []


def _metadata(shell: InteractiveShell) -> dict[str, Any]:
    """The front end's metadata about the cell that it asks to run."""
    get_parent = getattr(shell, "get_parent", None)  # a shell without a kernel has none
    metadata = get_parent().get("metadata") if get_parent is not None else None
    return metadata if isinstance(metadata, dict) else {}


def _forget(shell: InteractiveShell, shown: Any) -> None:
    """Drop IPython's references to a result that is not displayed any more; the user's own names are kept."""
    if shown is None:
        return
    results = shell.user_ns.get("_oh", {})
    for number in [number for number, result in results.items() if result is shown]:
        del results[number]
        for names in (shell.user_ns, shell.user_ns_hidden):
            names.pop(f"_{number}", None)
    for name in ("_", "__", "___"):
        if getattr(shell.displayhook, name, None) is shown:
            setattr(shell.displayhook, name, "")
        for names in (shell.user_ns, shell.user_ns_hidden):
            if names.get(name) is shown:
                names[name] = ""
