"""What is captured does not depend on the backend: graphs, guards and breaks are equal, node by node."""

from __future__ import annotations

import linecache
import warnings
from typing import Any

import pytest
import torch
from recorded import recorded

import dynexplore
from dynexplore.engine import events as ev
from dynexplore.engine.aliasing.eligibility import RULES
from dynexplore.engine.errors import DynexploreError
from dynexplore.engine.graph_breaks import KINDS
from dynexplore.recording.recording import Recording
from engine_checks import CountingBackend

# Guards that a lowering installs: what a backend built on AOTAutograd relies on, and a graph that runs as captured does not.
OF_THE_LOWERING = ("begins_its_storage", "fills_its_storage")

NOT_ALIKE = {
    "DX107": "a backend may guard on a size itself",
    "DX219": "the program counts its runs",
    "DX312": "an import is captured the first time alone",
    "DX409": "nothing is captured",
    "DX411": "the program asks for the grad_fn of what the graph returned",
    "DX414": "a warning is shown the first time alone",
    "DX418": "what a library imports late is captured the first time alone",
    "DX503": "the program runs into a limit of the process",
    "DX505": "the program measures time",
}
"""The examples of which no two runs are alike, or not for this backend, with the reason."""

EXAMPLES = {row.id: row.example for row in (*RULES.values(), *KINDS.values()) if row.example and row.id not in NOT_ALIKE}


def program_of(name: str) -> tuple[Any, tuple[Any, ...]]:
    """The example of a row, run as a module anew: its function, and what it is called with."""
    text = EXAMPLES[name].strip() + "\n"
    file = f"<capture of {name}>"
    linecache.cache[file] = (len(text), None, text.splitlines(True), file)
    namespace: dict[str, Any] = {"__name__": "example", "torch": torch, "dynexplore": dynexplore}
    exec(compile(text, file, "exec"), namespace)
    return namespace["f"], namespace.get("args", (torch.ones(3),))


def captured(name: str, backend: Any) -> tuple[Any, ...]:
    """The nodes of each graph, the guards of each frame, and the kinds of the breaks, as the recording has them."""
    program, args = program_of(name)
    dynexplore.reset()
    recording = Recording(title=name)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            recorded(program, args, backend=backend, recording=recording)
        except Exception as error:  # examples may raise: eager does, too
            assert not isinstance(error, DynexploreError), error
    nodes = [
        [(node.op, node.name, node.target, node.args, node.kwargs, node.dtype, node.shape) for node in graph.nodes]
        for graph in recording.graphs
    ]
    guards = [
        (guard.source, guard.kind, guard.expected) for guard in recording.of(ev.GuardInstalled)
        if guard.kind != "STORAGE_OVERLAP" and not any(name in guard.source for name in OF_THE_LOWERING)
    ]  # fmt: skip
    return nodes, guards, [broke.kind for broke in recording.breaks]


@pytest.mark.parametrize("name", EXAMPLES)
def test_each_example_of_the_docs_is_captured_alike(name: str) -> None:
    """Under "eager", AOTAutograd and a backend of the program's own."""
    first = captured(name, "eager")
    assert first[1] or first[2]
    for backend in ("aot_eager", CountingBackend()):
        again = captured(name, backend)
        for expected, other in zip(first, again, strict=True):
            assert str(other) == str(expected), backend
