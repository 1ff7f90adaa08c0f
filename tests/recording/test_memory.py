"""The answers that a recording gives about memory, from events written by hand."""

from __future__ import annotations

import dataclasses

import pytest

from dynexplore.engine import events as ev
from dynexplore.recording.memory import memory_of
from dynexplore.recording.recording import Recording

pytestmark = pytest.mark.plain("its events are written by hand")

MB = 1 << 20
CAPTURED = ev.MemoryPlanned(
    frame=1, graph="g", stage="captured", inputs=MB,
    nodes=(ev.NodeMemory("linear", "torch.nn.functional.linear", 3 * MB, 2 * MB, place="model.py:4"),),
)  # fmt: skip
FORWARD = ev.MemoryPlanned(
    frame=1, graph="g", stage="forward", inputs=MB,
    nodes=(
        ev.NodeMemory("mm", "torch._ops.aten.mm.default", 3 * MB, 2 * MB, 2 * MB, "1048576*s0 + 1048576", "model.py:4"),
        ev.NodeMemory("view", "torch._ops.aten.view.default", 3 * MB, 0, 2 * MB),
    ),
    saved=(ev.SavedStorage("view", 2 * MB), ev.SavedStorage("primals_1", MB, is_input=True)),
)  # fmt: skip
LAST = ev.NodeMemory("mm_1", "torch._ops.aten.mm.default", 5 * MB, 2 * MB, 2 * MB)
BACKWARD = ev.MemoryPlanned(frame=1, graph="g", stage="backward", inputs=MB, nodes=(LAST,))


def told(*events: ev.MemoryPlanned) -> Recording:
    recording = Recording()
    for event in events:
        recording.record(event)
    return recording


def test_halves_answer_for_a_graph_where_they_are_known() -> None:
    """Peak over forward and backward; what is kept with inputs and parameters, and besides."""
    memory = told(CAPTURED, FORWARD, BACKWARD).memory
    assert len(memory) == 1 and [stage.stage for stage in memory[0].stages] == ["forward", "backward"]
    assert (memory[0].saved_bytes, memory[0].extra_saved_bytes) == (3 * MB, 2 * MB)
    assert str(memory).splitlines() == [
        "g",
        "  peak 5 MiB at aten.mm, backward",
        "  inputs and parameters 1 MiB throughout",
        "  saved for backward 3 MiB, 2 MiB of them beyond inputs and parameters",
    ]


def test_a_peak_that_varies_has_its_expression() -> None:
    """Where backward never ran and was not seen, forward answers alone."""
    (graph,) = told(CAPTURED, FORWARD).memory
    assert next(graph.lines()) == "peak 3 MiB (1048576*s0 + 1048576) at aten.mm (model.py:4), forward"


def test_a_captured_graph_says_what_it_cannot_know() -> None:
    """Autograd decides what it keeps as it runs."""
    (graph,) = told(CAPTURED).memory
    assert not graph.knows_backward and list(graph.lines())[-1].startswith("saved for backward: decided by autograd")


@pytest.mark.parametrize("events", ((), (CAPTURED, FORWARD, BACKWARD)))
def test_it_goes_to_json_and_back(events: tuple[ev.MemoryPlanned, ...]) -> None:
    """A file tells the same, in a process without torch."""
    recording = told(*events)
    assert Recording.from_json(recording.to_json()).memory == recording.memory == memory_of(events)
    assert str(recording.memory) == ("no graph whose memory is known" if not events else str(memory_of(events)))


def test_a_half_that_ran_on_a_gpu_is_told_again() -> None:
    """What an operator takes only while it runs counts for the peak; a half that did not run says that it does not know."""
    (mm, view) = FORWARD.nodes
    ran = dataclasses.replace(FORWARD, nodes=(dataclasses.replace(mm, inside=4 * MB), view), measured=True)
    (graph,) = told(CAPTURED, FORWARD, BACKWARD, ran).memory
    assert graph.peak is not None and (graph.peak.bytes, graph.is_measured) == (7 * MB, False)
    assert list(graph.lines()) == [
        "peak 7 MiB (1048576*s0 + 1048576 + 4194304) at aten.mm (model.py:4), forward, 4 MiB of them only while it runs (measured)",
        "inputs and parameters 1 MiB throughout",
        "saved for backward 3 MiB, 2 MiB of them beyond inputs and parameters",
        "what operators take only while they run is not counted in backward, which did not run",
    ]
    (whole,) = told(FORWARD, BACKWARD, ran, dataclasses.replace(BACKWARD, measured=True)).memory
    assert whole.is_measured and len(list(whole.lines())) == 3
