"""The guard on DistributedDataParallel: whether a frame runs inside the forward of a DDP module, where its graph is split.

The idea: inside of DistributedDataParallel (DDP) a graph is split at the boundaries of its gradient buckets
(runtime/distributed.py); outside it stays whole. A split graph is right anywhere. A whole one is right in DDP as well, but
sends its gradients late: so a whole graph with parameters to train relies on not being there. Once processes have found each
other, a guard says so. Before, DDP is not possible, and yet the graph may be called inside of it later: so the same look is a
part of the walk in C (one pointer compare), no guard of its own, and nobody who trains in one process reads of it.

In:  torch's note of the active module. Out: the module, and what is relied on.

torch/_dynamo/output_graph.py reads the same note when it calls the backend, and does not guard it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import torch
import torch.distributed
from torch.nn.parallel import DistributedDataParallel

from dynexplore.engine.provenance.module_guards import ModuleGuards
from dynexplore.engine.provenance.sources import ObjectSource, Source

_NOTE = "_active_ddp_module"


def active_ddp() -> DistributedDataParallel | None:
    """The DDP module whose forward is running in this process; None outside of one."""
    active: DistributedDataParallel | None = None
    if torch.distributed.is_available():
        active = DistributedDataParallel._get_active_ddp_module()  # type: ignore[no-untyped-call]
    return active


def relies_on_no_ddp(inputs: Iterable[object]) -> bool:
    """Whether a graph with these inputs stays whole only because no DDP module is running."""
    if not torch.distributed.is_available() or active_ddp() is not None:
        return False
    trained = any(isinstance(value, torch.nn.Parameter) and value.requires_grad for value in inputs)
    return trained and torch.is_grad_enabled()


def guard_on_no_ddp(guard: Callable[[Source, str, object], None], facts: ModuleGuards) -> None:
    """Note that no DDP module is running: as a guard where there may be one already, else in the walk alone."""
    if torch.distributed.is_initialized():
        guard(place_of_active_ddp(), "EQUALS", None)
    else:
        facts.guard_on_process(DistributedDataParallel, "DistributedDataParallel", _NOTE)


def place_of_active_ddp() -> Source:
    """Where torch keeps the note: None outside of DDP."""
    return ObjectSource(DistributedDataParallel, "DistributedDataParallel").attribute(_NOTE, "getattr")
