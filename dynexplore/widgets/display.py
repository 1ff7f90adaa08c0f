"""What a notebook shows for a recording or an explanation, and when it is let go again.

Which idea lives here: in a notebook it is the explorer (of a large recording the first view at once, the rest when the cell has
ended), in a terminal its text, elsewhere the static page. A widget lives in the kernel until it is closed: the page may be
loaded anew and ask for it. But a cell that runs again shows something new, and so does one that was deleted; so widgets belong
to the cell that showed them and end with what it showed, and so do the names under which IPython keeps a result (`Out[3]`, `_3`,
`_`).

In:  a Recording, or anything with a `recording`.
Out: `mimebundle(shown)`, which `_repr_mimebundle_` of both gives to IPython.

PyTorch has no counterpart.
"""

from __future__ import annotations

import importlib.util
import weakref
from typing import Any

from IPython import get_ipython
from IPython.core.interactiveshell import InteractiveShell

from dynexplore.engine.display_hooks import Bundle
from dynexplore.recording.recording import recording_of
from dynexplore.views import html_text
from dynexplore.widgets.turns import TURN

if HAS_WIDGETS := importlib.util.find_spec("anywidget") is not None:
    from dynexplore.widgets.explorer import Explorer


def mimebundle(shown: Any) -> Bundle:
    """The explorer in a notebook, nothing where the repr does (a terminal), the static page where no widget can be made."""
    recording = recording_of(shown)
    shell = get_ipython()
    if not isinstance(shell, InteractiveShell):
        return html_text.mimebundle(recording)
    if "text/html" not in shell.display_formatter.active_types:
        return {}
    if not HAS_WIDGETS:
        return html_text.mimebundle(recording)
    explorer = Explorer(shown, later=_is_in_cell(shell))
    outputs_of(shell).add(shown, explorer)
    data, metadata = explorer._repr_mimebundle_()
    return (data, metadata) if metadata else data


# -- what a cell showed ------------------------------------------------------------------------------------------------


class Outputs:
    """What each cell of a notebook shows: the widgets, and weakly the objects."""

    def __init__(self, shell: InteractiveShell) -> None:
        self.shell = shell
        self.cells: dict[str, list[tuple[weakref.ref[Any], Explorer]]] = {}
        self.cell = _running_cell(shell)
        shell.events.register("pre_run_cell", self._begin)
        shell.events.register("post_run_cell", self._ended)

    def add(self, shown: Any, explorer: Explorer) -> None:
        self.cells.setdefault(self.cell, []).append((weakref.ref(shown), explorer))

    def _begin(self, info: Any) -> None:
        """A cell begins to run: what it showed before goes, and what cells showed that are deleted by now."""
        TURN.cell_begins()
        self.cell = _name_of_cell(info.cell_id, info.raw_cell)
        for cell in (self.cell, *_deleted_cells(self.shell)):
            for shown, explorer in self.cells.pop(cell, ()):
                explorer.end()
                _forget(self.shell, shown())

    def _ended(self, result: Any) -> None:
        """A cell has ended: its explorers, of which the first view may have been sent, get all there is, or Ctrl-C ends that."""
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
    """Whether a cell runs, which will end: what a widget has called in the kernel is none."""
    get_parent = getattr(shell, "get_parent", None)  # a shell without a kernel has none, and runs nothing but cells
    header = get_parent().get("header") if get_parent is not None else None
    return not isinstance(header, dict) or header.get("msg_type", "execute_request") == "execute_request"


def _name_of_cell(cell_id: str | None, text: str) -> str:
    # front ends name their cells; where one does not, it is known by its text
    return cell_id or f"text:{text.strip()}"


def _running_cell(shell: InteractiveShell) -> str:
    """The cell that runs now, when nobody has listened to its beginning."""
    inputs = shell.history_manager.input_hist_raw
    return _name_of_cell(_metadata(shell).get("cellId"), inputs[-1] if inputs else "")


def _deleted_cells(shell: InteractiveShell) -> list[str]:
    deleted = _metadata(shell).get("deletedCells")
    return [cell for cell in deleted if isinstance(cell, str)] if isinstance(deleted, list) else []


def _metadata(shell: InteractiveShell) -> dict[str, Any]:
    """What the front end says about the cell that it asks to run."""
    get_parent = getattr(shell, "get_parent", None)  # a shell without a kernel has none
    metadata = get_parent().get("metadata") if get_parent is not None else None
    return metadata if isinstance(metadata, dict) else {}


def _forget(shell: InteractiveShell, shown: Any) -> None:
    """Drop what IPython keeps of a result that is shown no longer; the user's own names stay."""
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
