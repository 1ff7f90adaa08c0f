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


def long_program(functions: int, rounds: int) -> Recording:
    """One call that compiles many functions, three attempts' worth of frames each, and then runs them again and again."""
    recording = Recording(title="rounds")
    recording.record(ev.CallBegan(frame=0, call=1))
    for number in range(functions):
        name = f"step_{number}"
        row = ev.ListingRow(0, "RESUME", "0", 1, 1, 0, 4)
        code = ev.CodeView(number + 1, name, "f.py", 1, f"def {name}(x):\n    return x + {number}", (row,))
        frame = recording.next_frame_id()
        recording.record(ev.FrameEntered(frame=frame, parent=None, code=code))
        for attempt in (1, 2):
            recording.record(ev.AttemptStarted(frame=frame, attempt=attempt))
            recording.record(ev.InstructionStepped(frame=frame, attempt=attempt, offset=0, step=0, op="RESUME"))
            if attempt == 1:
                recording.record(ev.AttemptRestarted(frame=frame, attempt=1, reason="a graph break is ahead"))
        if number % 3 == 0:
            graph = f"g{number}"
            recording.record(
                ev.NodeAdded(frame=frame, attempt=2, offset=0, graph=graph, op="call_function", name="add", target="add")
            )
            recording.record(
                ev.SubgraphCompiled(frame=frame, attempt=2, graph=graph, backend="eager", node_count=1, op_count=1, nodes=("add",))
            )
        recording.record(ev.CacheEntryAdded(frame=frame, entry=number + 1, code=number + 1, guard_count=1))
        recording.record(ev.FrameFinished(frame=frame, attempt=2, outcome="compiled"))
    for turn in range(functions * rounds):
        at = turn % functions
        recording.record(
            ev.CacheHit(frame=recording.next_frame_id(), entry=at + 1, code=at + 1, function=f"step_{at}", compiled_by=at + 1)
        )
    recording.record(ev.CallEnded(frame=0, call=1))
    return recording
