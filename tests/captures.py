"""What a program is captured as under several backends, for the tests which say that it is always the same.

In:  a program: a function that is given `optimize`, makes its own function and arguments, and calls `optimize(function)(...)`.
Out: `differences_by_backend`: lines that say what differs between the recordings, none where nothing does.
"""

from __future__ import annotations

import contextlib
import functools
import io
import warnings
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple
from unittest import mock

from torch.utils.hooks import RemovableHandle

import dynexplore
from dynexplore.engine import events as ev
from dynexplore.engine.errors import DynexploreError
from dynexplore.engine.runtime import optimized
from dynexplore.engine.runtime.stores import Options
from dynexplore.engine.translate import codegen
from dynexplore.recording.recording import Recording
from dynexplore.session.session import watched_store
from engine_checks import CountingBackend

Program = Callable[[Callable[[Any], Any]], object]

OF_THE_LOWERING = ("begins_its_storage", "fills_its_storage")
"""Guards that a lowering installs: what AOTAutograd relies on, and what a graph that runs as captured does not."""


class Capture(NamedTuple):
    """The nodes of each graph, the guards of each frame, and the kinds of the breaks, in the order of the recording.

    What a captured graph relies on of sizes and numbers is read before it is lowered: a backend may guard on more of them.
    """

    nodes: list[str]
    guards: list[str]
    breaks: list[str]


def capture(program: Program, backend: Any) -> Capture:
    """What a program is captured as. Programs may raise, and print, as they do in eager."""
    dynexplore.reset()
    recording = Recording(title="capture")
    relations: list[str] = []

    def lower(graph: Any, name: str, compiler: Any, fake_mode: Any, *rest: Any) -> Any:
        relations.extend(_relations(fake_mode.shape_env))
        return LOWER(graph, name, compiler, fake_mode, *rest)

    region = watched_store(backend, Options(), recording).region
    with (
        warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()), mock.patch.object(codegen, "lower", lower),
        mock.patch.object(RemovableHandle, "next_id", RemovableHandle.next_id),  # a count of the whole process
    ):  # fmt: skip
        warnings.simplefilter("ignore")
        try:
            program(functools.partial(optimized.wrap, region=region))
        except Exception as error:
            assert not isinstance(error, DynexploreError), error
    nodes = [
        f"graph {place}: {node.op} {node.name} = {node.target} {node.args} {node.kwargs} {node.dtype} {node.shape}"
        for place, graph in enumerate(recording.graphs) for node in graph.nodes
    ]  # fmt: skip
    guards = [
        f"{guard.kind} {guard.source} {guard.expected}" for guard in recording.of(ev.GuardInstalled)
        if guard.kind not in ("STORAGE_OVERLAP", "SHAPE_ENV") and not any(name in guard.source for name in OF_THE_LOWERING)
    ]  # fmt: skip
    return Capture(nodes, guards + relations, [broke.kind for broke in recording.breaks])


LOWER = codegen.lower


def _relations(env: Any) -> list[str]:
    """What a capture relies on of its symbols."""
    if env is None:
        return []
    return [*(str(guard.expr) for guard in env.guards), *(f"{symbol} in {env.var_to_range[symbol]}" for symbol in env.var_to_range)]


def differences_by_backend(program: Program) -> list[str]:
    """What is captured otherwise under AOTAutograd, or under a backend of the program's own, than under "eager"."""
    eager = capture(program, "eager")
    assert eager.guards or eager.breaks
    return [
        f"{name}: {line}"
        for name, backend in (("aot_eager", "aot_eager"), ("a counting backend", CountingBackend()))
        for expected, found in zip(eager, capture(program, backend), strict=True)
        for line in _differences(expected, found)
    ]


def _differences(expected: list[str], found: list[str]) -> Iterator[str]:
    yield from (f"- {line}" for line in expected if line not in found)
    yield from (f"+ {line}" for line in found if line not in expected)
    if sorted(expected) == sorted(found) and expected != found:
        yield "the order"
