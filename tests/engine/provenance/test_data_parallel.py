"""What relies on no DistributedDataParallel being at work, and how that is guarded."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
import torch.distributed as dist
from recorded import recorded
from torch import nn
from torch.nn.parallel import DistributedDataParallel as DDP

import dynexplore
from dynexplore.engine import events as ev
from dynexplore.engine.provenance.data_parallel import active_ddp, active_ddp_source, relies_on_no_ddp


@pytest.fixture
def alone() -> Iterator[None]:
    """A group of one process."""
    dist.init_process_group("gloo", store=dist.HashStore(), rank=0, world_size=1)
    yield
    dist.destroy_process_group()


def guarded_places(module: nn.Module) -> list[str]:
    recording = recorded(module, (torch.ones(2, 3),))
    return [guard.source for guard in recording.of(ev.GuardInstalled)]


@pytest.mark.usefixtures("alone")
def test_a_whole_graph_is_guarded_where_processes_work_together() -> None:
    """The guard's source reads as the class attribute that torch keeps the active module in."""
    assert active_ddp_source().text() in guarded_places(nn.Linear(3, 3))
    assert active_ddp_source().text() == "DistributedDataParallel._active_ddp_module"


def test_a_single_process_reads_nothing_of_it() -> None:
    """Without a group of processes there is no such guard: one pointer more is compared in the walk."""
    places = guarded_places(nn.Linear(3, 3))
    assert places
    assert active_ddp_source().text() not in places


def test_ddp_is_noticed_where_it_was_not_possible_at_capture() -> None:
    """The miss names the class attribute, and is one of the process's state; outside of DDP the same entry hits."""
    x, explanation = torch.ones(2, 3), dynexplore.explain(nn.Linear(3, 3), torch.ones(2, 3))
    session = explanation.session
    assert session.predict(x).outcome == "hit"
    DDP._active_ddp_module = object()
    try:
        foretold = session.predict(x)
    finally:
        DDP._active_ddp_module = None
    assert foretold.outcome == "recompile"
    assert foretold.reason == "DistributedDataParallel._active_ddp_module GLOBAL_STATE: expected None, found a object"
    (entry,) = foretold.entries
    assert [guard.kind for guard in entry.guards if guard.verdict == "fail"] == ["GLOBAL_STATE"]
    assert session.predict(x).outcome == "hit"
    with torch.no_grad():
        frozen = dynexplore.explain(nn.Linear(3, 3), x).session.entries
    assert all(entry.state is None or "DistributedDataParallel" not in [row.label for row in entry.state.rows] for entry in frozen)


@pytest.mark.usefixtures("alone")
def test_what_is_not_trained_is_not_guarded() -> None:
    """Neither frozen parameters nor a graph without gradients send anything."""
    weight = nn.Parameter(torch.ones(3))
    assert relies_on_no_ddp([weight])
    assert not relies_on_no_ddp([torch.ones(3), nn.Parameter(torch.ones(3), requires_grad=False)])
    with torch.no_grad():
        assert not relies_on_no_ddp([weight])
        places = guarded_places(nn.Linear(3, 3))
    places += guarded_places(nn.Linear(3, 3).requires_grad_(False))
    assert places
    assert active_ddp_source().text() not in places


@pytest.mark.plain("asks DDP for its active module while nothing is captured")
@pytest.mark.usefixtures("alone")
def test_the_active_module_is_known_while_its_forward_runs() -> None:
    """Inside of DDP's forward it is the DDP module, outside None."""
    seen = []

    class Asking(nn.Linear):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            seen.append((active_ddp(), relies_on_no_ddp([self.weight])))
            return super().forward(x)

    ddp = DDP(Asking(3, 3))
    ddp(torch.ones(2, 3))
    assert seen == [(ddp, False)]
    assert active_ddp() is None
