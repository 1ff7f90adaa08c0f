"""Ten more questions from public threads, with the key written before any tool was run on them.

Each has a program, the command that a user would run, and the answer that the output should contain: the cause, the line (marked
`# <-`), and what helps. `cause` and `remedy` are words of the output.

In: nothing. Out: `MORE`: name -> `Asked`. Addresses are those of github.com.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Asked:
    """A thread, its program, the command, and the answer in a person's words."""

    thread: str
    command: str
    source: str
    cause: str
    remedy: str


MORE: dict[str, Asked] = {
    "plateau": Asked("pytorch/pytorch#163093", "watch", """
import torch
model = torch.nn.Linear(1, 1)
opt = torch.optim.Adam(model.parameters(), lr=torch.tensor(0.1))
scheduler = torch.optim.lr_scheduler.ReduceLROnPlateau(opt, factor=0.5, patience=0, min_lr=0.001)
model(torch.ones(1, 1)).sum().backward()
@torch.compile(backend="eager")
def step():
    opt.step()  # <-
for metric in (1.0, 1.0, 1.0, 1.0):
    step()
    scheduler.step(metric)
""", "the learning rate was a tensor and is a float now, then another float",
        "keep the learning rate a tensor: another scheduler, or write into the tensor"),
    "one cycle": Asked("pytorch/pytorch#133898", "watch", """
import torch
param = torch.rand(2, 3, requires_grad=True)
param.grad = torch.rand_like(param)
lr = torch.tensor(0.001)
opt = torch.optim.AdamW([param], lr=lr)
scheduler = torch.optim.lr_scheduler.OneCycleLR(opt, max_lr=0.01, total_steps=20)
@torch.compile(backend="eager")
def step():
    opt.step()  # <-
for _ in range(4):
    step()
    scheduler.step()
""", "betas[0] of the optimizer's parameter group is another float in each step",
        "cycle_momentum=False, or no action once the number is an input of the graph"),
    "two backends": Asked("pytorch/pytorch#154707", "watch", """
import torch
def f(x):
    return x * 2  # <-
torch.compile(f, backend="eager")(torch.ones(3))
torch.compile(f, backend="aot_eager")(torch.ones(3))
""", "the same function was compiled with another backend",
        "no action if both are used; otherwise compile it once"),
    "buffers of DDP": Asked("pytorch/pytorch#141827", "watch", """
import torch
import torch.distributed as dist
from torch.testing._internal.distributed.fake_pg import FakeStore
dist.init_process_group("fake", store=FakeStore(), rank=0, world_size=2)
model = torch.nn.parallel.DistributedDataParallel(torch.nn.BatchNorm1d(4))
@torch.compile(backend="eager")
def f(x):
    return model(x)  # <-
with torch.no_grad():
    f(torch.ones(2, 4))
dist.destroy_process_group()
""", "DistributedDataParallel broadcasts the module's buffers (_broadcast_coalesced, or _sync_buffers), which is not traced",
        "broadcast_buffers=False, or compile the module before it is wrapped"),
    "seed in forward": Asked("pytorch/pytorch#101154", "watch", """
import sys
import torch
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.linear = torch.nn.Linear(5, 5)
        self.dropout = torch.nn.Dropout()
    def forward(self, x):
        y = self.linear(x)
        self.attention_seed = int(torch.seed() % sys.maxsize)  # <-
        torch.manual_seed(self.attention_seed)
        return self.dropout(y)
torch.compile(Model(), backend="eager")(torch.rand(5, 5))
""", "torch.seed is not traced", "draw the seed outside the compiled function"),
    "marked and static": Asked("pytorch/pytorch#145587", "watch", """
import torch
@torch.compile(backend="eager")
def f(a, b):
    return a + b  # <-
a, b = torch.ones(4, 10), torch.ones(4, 10)
torch._dynamo.mark_dynamic(a, 0)
f(a, b)
""", "the marked size of `a` must equal the static size 4 of `b`", "mark dimension 0 of `b`, too"),
    "long loop": Asked("pytorch/pytorch#111441", "watch", """
import torch
@torch.compile(backend="eager")
def f(x):
    for _ in range(400):  # <-
        x = x + x.sin() * 0.1
    return x
f(torch.ones(3))
""", "the loop is unrolled: 1,200 operators, which takes the compile time", "compile the body of the loop, and call it in a loop"),
    "dispatch mode": Asked("pytorch/pytorch#144787", "watch", """
import torch
from torch.utils._python_dispatch import TorchDispatchMode
class Mode(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))
    @classmethod
    def is_infra_mode(cls):
        return True
@torch.compile(backend="eager")
def f(x, y):
    return x @ y  # <-
x = torch.ones(10)
f(x, x)
for _ in range(3):
    with Mode():
        f(x, x)
""", "a TorchDispatchMode is active, or was not when it was compiled", "use the same modes in every call"),
    "device context": Asked("pytorch/pytorch#139183", "watch", """
import torch
@torch.compile(backend="eager")
def split(x):
    return x.split(4, 0)  # <-
split(torch.randn(12))
with torch.device("cpu"):
    split(torch.randn(12))
split(torch.randn(12))
""", "the default device, or the stack of torch function modes, is another one now",
        "no action if both are used; otherwise set the default device once"),
    "strides": Asked("pytorch/pytorch#183771", "diagnose", """
import torch
import torch.nn.functional as F
def f(x):
    return F.interpolate(x, size=(5, 6, 7), mode="nearest")  # <-
x = torch.randn(2, 5, 2, 3, 2).permute(0, 4, 1, 2, 3)
print(torch.compile(f)(x).stride(), f(x).stride())
""", "the values are equal, and the strides of the result differ from plain Python's; the backend (Inductor) chose them",
        "call .contiguous() on the result, or do not rely on its strides"),
}
