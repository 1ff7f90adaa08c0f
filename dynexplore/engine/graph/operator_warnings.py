"""Warnings that operators issue: once, at the user's line, although an operator runs on fake tensors first and then for real.

The idea: PyTorch attributes a warning to the frame that calls the operator (`stacklevel`). That is the graph builder while the
operator runs on fake tensors, and generated code in the compiled graph. So the warnings of an operator are recorded instead of
shown when it runs on fake tensors, and kept in `meta["warnings"]` of its node with the place that eager would name. A compiled
graph whose nodes have any issues them before each call, under the filters and in the registry of the user's module, so the
program's filters decide as in eager. If a filter makes a warning an error, the operator raises on fake tensors, and the graph
breaks there.

A graph that runs as captured issues its warnings itself: those of its first run are shown at the user's line, and their entries in
the registry of the generated code keep later runs quiet.

In: `recorded()` around an operator that runs on fake tensors. Out: `node.meta["warnings"]`; `issue_warnings` wraps a compiled
graph; `without_node_warnings` wraps its compilation. PyTorch's counterpart: none; it shows both warnings,
at its own lines.
"""

from __future__ import annotations

import contextlib
import sys
import warnings
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

import torch
import torch.fx

from dynexplore.engine.graph import warning_registry
from dynexplore.engine.records import record

Compiled = Callable[..., Any]

_ENGINE = str(Path(__file__).parents[1])
_TORCH = str(Path(torch.__file__).parent)
_ONLY_ON_FAKE_TENSORS = tuple(
    str(Path(_TORCH, name))
    for name in ("_decomp", "_dispatch", "_meta_registrations", "_ops", "_prims", "_refs", "_subclasses", "utils")
)  # also _prims_common
_RUNNERS = (str(Path(_TORCH, "fx")), "<eval_with_key>")
"""Where code that runs the nodes of a graph is."""


@record()
class OperatorWarning:
    """One warning, and the place that eager names."""

    message: Warning
    filename: str
    lineno: int
    module: str | None

    @property
    def is_of_cpp(self) -> bool:
        """Whether torch's C++ code issues it, which does so once per process, or shows it itself in the compiled graph."""
        return "(Triggered internally at" in str(self.message)

    def issue(self) -> None:
        """Issue it under the filters of the program, which show it, ignore it or raise it."""
        module = sys.modules.get(self.module or "")
        registry = None if module is None else vars(module).setdefault("__warningregistry__", {})
        warnings.warn_explicit(self.message, type(self.message), self.filename, self.lineno, self.module, registry)


@contextlib.contextmanager
def recorded() -> Iterator[list[warnings.WarningMessage]]:
    """Record the warnings of the block instead of showing them; those that the program's filters make errors are raised."""
    with warnings.catch_warnings(record=True) as shown:
        filters: list[Any] = warnings.filters  # type: ignore[assignment]
        filters[:] = [entry if entry[0] == "error" else ("always", *entry[1:]) for entry in filters]
        warnings.simplefilter("always", append=True)
        always = torch.is_warn_always_enabled()
        if any(entry[0] == "error" for entry in filters):
            torch.set_warn_always(True)  # the real operator is still to raise what torch warns of once per process
        try:
            yield shown
        finally:
            torch.set_warn_always(always)


def at_call(shown: Iterable[warnings.WarningMessage], filename: str, lineno: int, module: str | None) -> list[OperatorWarning]:
    """The recorded warnings of an operator that the program calls on this line."""
    issued = []
    for warning in shown:
        is_inside = warning.filename.startswith(_ONLY_ON_FAKE_TENSORS)
        if warning.filename.startswith(_ENGINE) or (is_inside and issubclass(warning.category, UserWarning)):
            issued.append(OperatorWarning(_warning(warning), filename, lineno, module))
        elif not is_inside:
            issued.append(_where_shown(warning))
    return issued


def warnings_of(nodes: Iterable[torch.fx.Node]) -> list[OperatorWarning]:
    """The warnings of these nodes, in order."""
    return [warning for node in nodes for warning in node.meta.get("warnings", ())]


@contextlib.contextmanager
def without_node_warnings() -> Iterator[None]:
    """While a backend traces a graph whose nodes have warnings, hide those; the others are shown afterwards."""
    with recorded() as shown:
        yield
    for warning in shown:
        if not warning.filename.startswith(_RUNNERS):
            _where_shown(warning).issue()


def issue_warnings(function: Compiled, nodes: Iterable[torch.fx.Node]) -> Compiled:
    """The callable of a backend, issuing the warnings of the graph's nodes in each call."""
    issued = warnings_of(nodes)

    def run(*inputs: Any) -> Any:
        for warning in tuple(issued):  # first, while no input is mutated: if it raises, the original code runs
            warning.issue()
            if warning.is_of_cpp:
                issued.remove(warning)
        return function(*inputs)

    return run


def place_warnings(function: Compiled, module: torch.fx.GraphModule) -> Compiled:
    """A graph that runs as captured, showing the warnings of its first run at the user's lines."""
    is_first = True

    def run(*inputs: Any) -> Any:
        nonlocal is_first
        if not is_first:
            return function(*inputs)
        with warning_registry.preserved(), recorded() as shown:
            result = function(*inputs)
        is_first = False
        _show_first(shown, module)
        return result

    return run


def _show_first(shown: Iterable[warnings.WarningMessage], module: torch.fx.GraphModule) -> None:
    """Show the warnings of a graph's first run, and then those that only the run on fake tensors issued."""
    issued = []
    for warning in shown:
        node = _node_at(module, warning)
        if node is None:
            if not warning.filename.startswith(_RUNNERS):
                issued.append(_where_shown(warning))
        else:
            filename, lineno = node.meta["line"]
            issued.append(OperatorWarning(_warning(warning), filename, lineno, _module_of(filename)))
            namespace = getattr(type(module).forward, "__globals__", {})
            warning_registry.mark_as_shown(namespace.setdefault("__warningregistry__", {}), _warning(warning), warning.lineno)
    locations = {(type(warning.message), warning.filename, warning.lineno) for warning in issued}
    expected = warnings_of(module.graph.nodes)
    missing = [warning for warning in expected if (type(warning.message), warning.filename, warning.lineno) not in locations]
    for operator_warning in (*issued, *missing):
        operator_warning.issue()


def _node_at(module: torch.fx.GraphModule, shown: warnings.WarningMessage) -> torch.fx.Node | None:
    """The node that the generated code runs on the line of a warning."""
    forward = type(module).forward
    if shown.filename != forward.__code__.co_filename:
        return None
    nodes, locations = list(module.graph.nodes), getattr(module, "_lineno_map", None) or {}
    at = locations.get(shown.lineno - getattr(module, "_prologue_start", 0))
    return nodes[at] if at is not None and at < len(nodes) and "line" in nodes[at].meta else None


def _where_shown(shown: warnings.WarningMessage) -> OperatorWarning:
    return OperatorWarning(_warning(shown), shown.filename, shown.lineno, _module_of(shown.filename))


def _warning(shown: warnings.WarningMessage) -> Warning:
    return shown.message if isinstance(shown.message, Warning) else shown.category(shown.message)


def _module_of(filename: str) -> str | None:
    """The name of the imported module with this file."""
    return next((name for name, module in list(sys.modules.items()) if getattr(module, "__file__", None) == filename), None)
