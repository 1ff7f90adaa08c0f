"""Whether a DistributedDataParallel module is running its forward: asked when a graph is captured, and guarded.

The idea: inside of DistributedDataParallel (DDP) a graph is split at the boundaries of its gradient buckets
(runtime/distributed.py); outside it stays whole. A split graph is right anywhere. A whole one is right in DDP as well, but
sends its gradients late: so it relies on not being there. The guard costs a look at an attribute, and is only put where
DDP is possible at all: once processes have found each other, for graphs with parameters to train.

In:  torch's note of the active module. Out: the module, and the source that a guard looks at.

torch/_dynamo/output_graph.py reads the same note when it calls the backend, and does not guard it.
"""

from __future__ import annotations

from collections.abc import Iterable

import torch
import torch.distributed
from torch.nn.parallel import DistributedDataParallel

from dynexplore.engine.provenance.sources import ObjectSource, Source


def active_ddp() -> DistributedDataParallel | None:
    """The DDP module whose forward is running in this process; None outside of one."""
    active: DistributedDataParallel | None = None
    if torch.distributed.is_available():
        active = DistributedDataParallel._get_active_ddp_module()  # type: ignore[no-untyped-call]
    return active


def relies_on_no_ddp(inputs: Iterable[object]) -> bool:
    """Whether a graph with these inputs stays whole only because no DDP module is running."""
    if not torch.distributed.is_available() or not torch.distributed.is_initialized() or active_ddp() is not None:
        return False
    trained = any(isinstance(value, torch.nn.Parameter) and value.requires_grad for value in inputs)
    return trained and torch.is_grad_enabled()


def place_of_active_ddp() -> Source:
    """Where torch keeps the note: None outside of DDP."""
    return ObjectSource(DistributedDataParallel, "DistributedDataParallel").attribute("_active_ddp_module", "getattr")
