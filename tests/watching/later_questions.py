"""Questions from public threads that were asked after the others, with the key written before any tool was run on them.

In: nothing. Out: `LATER_RECOMPILES` and `LATER_BREAKS`: name -> `Question`. Addresses are those of github.com.
"""

from __future__ import annotations

from watching.questions import Question, calls

LATER_RECOMPILES: dict[str, Question] = {
    "list of a class": calls("pytorch/pytorch#169253", """
class Model(torch.nn.Module):
    items = []
    def forward(self, x):
        Model.items.append(x)  # <-
        return x + 1
model = torch.compile(Model(), backend="eager")
for _ in range(4):
    model(torch.ones(2))
""", ("`Model.items` is no longer empty",), "Append to `Model.items` outside the compiled function",
        ("        Model.items.append(x)  # <-\n", ""),
        ("    model(torch.ones(2))", "    Model.items.append(torch.ones(2))\n    model(Model.items[-1])")),
    "length of the tokens": calls("pytorch/pytorch#132849", """
@torch.compile(backend="eager")
def attend(q, longest):
    return q * torch.arange(longest).float().mean()  # <-
for longest in range(32, 40):
    attend(torch.ones(4), longest)
""", ("`longest` changed from 32 to 33",), "No action needed: the new version accepts other values of `longest`"),
    "another device": calls("pytorch/pytorch#91777", """
@torch.compile(backend="eager")
def gemm(x, y):  # <-
    return x @ y
for device in ("cpu", "meta"):
    gemm(torch.ones(4, 4, device=device), torch.ones(4, 4, device=device))
""", ("moved from cpu to meta",), "No action needed if you use both devices"),
    "a module that moved": calls("pytorch/pytorch#163064", """
@torch.compile(backend="eager")
def run(model, x):  # <-
    return model(x)
model = torch.nn.Linear(4, 2)
run(model, torch.ones(1, 4))
model.to("meta")
run(model, torch.ones(1, 4, device="meta"))
""", ("moved from cpu to meta",), "No action needed if you use both devices"),
    "lengths in a dict": calls("kijai/ComfyUI-MochiWrapper#44", """
@torch.compile(backend="eager")
def attention(x, packed):
    return x * packed["max_seqlen"]  # <-
for length in (31868, 20000, 15000):
    attention(torch.ones(3), {"max_seqlen": length})
""", ("`packed['max_seqlen']` changed from 31868 to 20000",), "No action needed: the new version accepts any value"),
    "number of the step": calls("pytorch/pytorch#99091", """
@torch.compile(backend="eager")
def step(x, t):
    return x + 1 if t == 0 else x * 2 if t == 1 else x * t  # <-
for t in range(4):
    step(torch.ones(3), t)
""", ("`t` changed from 0 to 1",), "pass it as a tensor",
        ("x + 1 if t == 0 else x * 2 if t == 1 else x * t", "torch.where(t == 0, x + 1, torch.where(t == 1, x * 2, x * t))"),
        ("step(torch.ones(3), t)", "step(torch.ones(3), torch.tensor(t))")),
    "one token, frozen": calls("pytorch/pytorch#141589", """
@torch.compile(backend="eager")
def run(model, x):  # <-
    return model(x)
policy, reward = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4).requires_grad_(False)
for model, length in ((policy, 64), (policy, 1), (reward, 64)):
    run(model, torch.ones(length, 4))
""", ("`x` changed from 64 rows to 1",), "No action needed"),
    "batches of a subclass": calls("ProjectNeura/MIPCandy#189", """
class MetaTensor(torch.Tensor):
    pass
@torch.compile(backend="eager")
def loss(x):
    return (x * 2).sum()  # <-
for batch in (torch.ones(3).as_subclass(MetaTensor), torch.ones(3), torch.ones(3).as_subclass(MetaTensor)):
    loss(batch)
""", ("`x` changed from", "MetaTensor"), "No action needed for a few classes of `x`",
        ("loss(batch)", "loss(batch.as_subclass(torch.Tensor))")),
    "sizes of an optimizer": calls("HomebrewML/HeavyBall#16", """
@torch.compile(backend="eager", dynamic=False)
def update(p, g):
    return p - 0.1 * g  # <-
for n in range(2, 6):
    update(torch.ones(n, 3), torch.ones(n, 3))
""", ("changed from 2 rows to 3",), "Mark the sizes of", ("dynamic=False", "dynamic=True")),
}
"""Why does it recompile?"""

LATER_BREAKS: dict[str, Question] = {
    "layer drop": calls("pytorch/pytorch#95425", """
import random
layers = torch.nn.ModuleList(torch.nn.Linear(3, 3) for _ in range(2))
@torch.compile(backend="eager")
def forward(x, keep=None):
    y = layers[0](x)
    if random.uniform(0, 1) > 0.5:  # <-
        y = layers[1](y)
    return y
forward(torch.ones(3))
""", ("branch",), "Draw the number outside the compiled function", ("random.uniform(0, 1) > 0.5", "keep"),
        ("forward(torch.ones(3))", "forward(torch.ones(3), random.uniform(0, 1) > 0.5)")),
    "lock": calls("pytorch/pytorch#94795", """
import threading
lock = threading.RLock()
@torch.compile(backend="eager")
def train_step(x):
    y = x * 2
    lock.acquire()  # <-
    return y + 1
train_step(torch.ones(3))
""", ("RLock.acquire",), "Move the call to `RLock.acquire` out of the compiled function",
        ("    lock.acquire()  # <-\n", ""), ("train_step(torch.ones(3))", "lock.acquire()\ntrain_step(torch.ones(3))")),
    "width of a box": calls("pytorch/torchdynamo#1940", """
@torch.compile(backend="eager")
def area(box):
    scaled = box * 2
    width = int(scaled[2] - scaled[0])  # <-
    return scaled * width
area(torch.tensor([1, 2, 3, 4]))
""", ("scalar",), "scalar-outputs"),
}
"""Why does the graph break?"""
