"""A job of several processes in which the last one does otherwise: run by torchrun, watched, logged by TORCH_TRACE."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

JOB = '''
import sys
import torch
import torch.distributed as dist
from torch.distributed import _functional_collectives as collectives

dist.init_process_group("gloo")
rank, last = dist.get_rank(), dist.get_world_size() - 1
IS_TORCH = sys.argv[1] == "torch"


def compiled(fn, **options):
    return torch.compile(fn, **{"backend": "eager", **options}) if IS_TORCH else fn


def step(x):
    return torch.relu(x) * 2


def loss(x, is_other):
    y = x.sum()
    if is_other:
        y = torch.tanh(y)
    return y


def exchange(x, is_other):
    if is_other:
        return collectives.all_reduce(collectives.broadcast(x, 0, dist.group.WORLD), "sum", dist.group.WORLD)
    return collectives.broadcast(collectives.all_reduce(x, "sum", dist.group.WORLD), 0, dist.group.WORLD)


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(600, 600), torch.nn.Linear(600, 600)

    def forward(self, x):
        return self.second(torch.relu(self.first(x)))


fast_step, fast_loss = compiled(step, dynamic=False), compiled(loss)
for size in (4, 4, 6 if rank == last else 4):
    fast_step(torch.ones(size, 2))
    dist.all_reduce(torch.ones(3))
fast_loss(torch.ones(2), rank == last)
if IS_TORCH:  # a graph that is not run: the processes would wait for each other for ever
    compiled(exchange, backend=lambda graph, inputs: lambda *values: (values[0],))(torch.ones(2), rank == last)
net = torch.nn.parallel.DistributedDataParallel(Net(), bucket_cap_mb=1)
compiled(net)(torch.ones(2, 600)).sum().backward()
dist.barrier()
dist.destroy_process_group()
if "--fail" in sys.argv and rank == last:
    raise SystemExit("the last rank gives up")
'''


LATE = """
import os, time
import torch
torch.compile(lambda x: x + 1, backend="eager")(torch.ones(2))
if os.environ["RANK"] == "0":
    open("rank_0_compiled", "w").close()
else:
    while not os.path.exists("rank_0_compiled"):
        time.sleep(0.05)
    raise SystemExit("rank 1 gives up")
time.sleep(200)
"""
"""Rank 1 fails once rank 0 has compiled, which would go on for long: however long either takes to start."""


def torchrun(home: Path, *words: str, processes: int = 2, watched: bool = True) -> subprocess.CompletedProcess[str]:
    """Run the job, watched into home/ranks, logged into home/trace; `words` go to `dynexplore watch`."""
    (home / "job.py").write_text(JOB, encoding="utf-8")
    root = str(Path(__file__).parents[2])
    environment = {
        **os.environ,
        "PYTHONPATH": os.pathsep.join([root, os.environ.get("PYTHONPATH", "")]),
        "OMP_NUM_THREADS": "1",
        "CUDA_VISIBLE_DEVICES": "",
        "TORCH_TRACE": str(home / "trace"),
    }
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", "--nproc-per-node", str(processes)]
    command += ["-m", "dynexplore", "watch", "--ranks", str(home / "ranks"), *words] if watched else []
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False, timeout=300, cwd=home)
