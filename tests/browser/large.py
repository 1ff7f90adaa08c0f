"""A recording with as many nodes as a test wants, made by hand: no model is captured for it."""

from __future__ import annotations

from typing import Any

from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording


def node(name: str, target: str, **more: Any) -> ev.NodeAdded:
    """A node of the only frame."""
    return ev.NodeAdded(
        **{"frame": 1, "attempt": 1, "offset": 0, "graph": "g", "op": "call_function", **more}, name=name, target=target
    )


def compiled(graph: str, count: int) -> ev.SubgraphCompiled:
    """The nodes told so far are this graph."""
    return ev.SubgraphCompiled(frame=1, attempt=1, graph=graph, backend="eager", node_count=count, op_count=count)


def large(nodes: int = 0, modules: int = 0, named: tuple[tuple[str, str], ...] = ()) -> Recording:
    """A recording of a chain: `nodes` outside of modules, layers of three nodes each, and `named` pairs of module and name."""
    lines = "\n".join(["def f(x):", "    return x"])
    code = ev.CodeView(1, "f", "f.py", 1, lines, (ev.ListingRow(0, "RESUME", "0", 1, 1, 0, 4),))
    recording = Recording(title="large")
    recording.record(ev.FrameEntered(frame=recording.next_frame_id(), parent=None, code=code))
    recording.record(ev.AttemptStarted(frame=1, attempt=1))
    recording.record(ev.InstructionStepped(frame=1, attempt=1, offset=0, step=0, op="RESUME"))
    names = [("", f"n{at}") for at in range(nodes)]
    names += [(f"net.layers.{at // 3}.{'attention' if at % 3 else 'norm'}", f"m{at}") for at in range(3 * modules)]
    names += named
    for at, (module, name) in enumerate(names):
        inputs = tuple(other for _, other in names[max(0, at - 2) : at])
        recording.record(node(name, 'operator."add"', inputs=inputs, module=module))
    recording.record(compiled("g", len(names)))
    return recording
