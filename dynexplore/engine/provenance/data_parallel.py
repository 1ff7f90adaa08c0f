"""The guard on DistributedDataParallel: whether a frame runs inside the forward of a DDP module, where its graph is split.

The idea: inside DistributedDataParallel (DDP) a graph is split at the boundaries of the gradient buckets (runtime/distributed.py);
elsewhere it stays whole. A split graph is correct anywhere. A whole graph is also correct inside DDP, but delays the gradients. So
a whole graph with trainable parameters depends on not running inside DDP. Once the process group is initialized, a visible guard
says so. Before that, DDP is impossible, but the graph may later be called inside it; so the guard walk in C contains the same
check (one pointer comparison), which is not listed as a guard: single-process programs never see it.

In: torch's record of the active DDP module. Out: that module, and the guard. PyTorch's counterpart: torch/_dynamo/output_graph.py
reads the same record when it calls the backend, and does not guard it.
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
    """The DDP module whose forward is running in this process, or None."""
    active: DistributedDataParallel | None = None
    if torch.distributed.is_available():
        active = DistributedDataParallel._get_active_ddp_module()  # type: ignore[no-untyped-call]
    return active


def relies_on_no_ddp(inputs: Iterable[object]) -> bool:
    """Whether a graph with these inputs stays whole only because no DDP module is active."""
    if not torch.distributed.is_available() or active_ddp() is not None:
        return False
    trained = any(isinstance(value, torch.nn.Parameter) and value.requires_grad for value in inputs)
    return trained and torch.is_grad_enabled()


def guard_on_no_ddp(guard: Callable[[Source, str, object], None], facts: ModuleGuards) -> None:
    """Guard that no DDP module is active: a visible guard if a process group exists, else only a check in the guard walk."""
    if torch.distributed.is_initialized():
        guard(active_ddp_source(), "EQUALS", None)
    else:
        facts.guard_on_process(DistributedDataParallel, "DistributedDataParallel", _NOTE)


def active_ddp_source() -> Source:
    """The source of torch's record of the active DDP module: None outside DDP."""
    return ObjectSource(DistributedDataParallel, "DistributedDataParallel").attribute(_NOTE, "getattr")
