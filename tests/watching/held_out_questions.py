"""Questions from public threads that were held out: the key of each was written before any tool was run on its program.

In: nothing. Out: `HELD_OUT_RECOMPILES` and `HELD_OUT_BREAKS`: name -> `Question`; `ANSWERED_LATER`, those that the tools answered
only after a change. Addresses are those of github.com.
"""

from __future__ import annotations

from watching.questions import Question, calls

HELD_OUT_RECOMPILES: dict[str, Question] = {
    "adapters on frozen layers": calls("pytorch/pytorch#141039", """
class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.frozen, self.adapter = torch.nn.Linear(4, 4).requires_grad_(False), torch.nn.Linear(4, 4)
    def forward(self, x):  # <-
        return self.frozen(x) + self.adapter(x)
layers = torch.nn.ModuleList([Layer() for _ in range(3)])
x = torch.randn(2, 4)
for layer in layers:
    layer.compile(backend="eager")
    x = layer(x)
""", ("`x` now requires gradients",), "No action needed if you need it both with and without gradients"),
    "layers that are frozen in turn": calls("pytorch/pytorch#139476", """
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
    def forward(self, x):  # <-
        return self.second(self.first(x))
model = Net()
step = torch.compile(model, backend="eager")
for epoch in range(4):
    model.second.requires_grad_(epoch % 2 == 0)
    step(torch.randn(2, 4))
""", ("`self.second.weight`", "gradients"), "No action needed if you need it both"),
    "class with __torch_function__": calls("pytorch/pytorch#128964", """
class Ragged:
    def __init__(self, values):
        self.values = values
    def sin(self):
        return torch.sin(self)
    @classmethod
    def __torch_function__(cls, func, types, args=(), kwargs=None):
        return cls(func(args[0].values))  # <-
f = torch.compile(lambda x: x.sin(), backend="eager")
for rows in (10, 10, 11):
    f(Ragged(torch.randn(rows, 3)))
""", ("`x.values` changed from 10 rows to 11",), "No action needed: the new version accepts other sizes, too"),
    "sizes that were equal": calls("pytorch/pytorch#144068", """
@torch.compile(backend="eager", dynamic=True)
def norm(x, weight):
    return x * torch.rsqrt(x.pow(2).mean()) + weight.sum()  # <-
for sizes in ((5, 5), (8, 8), (8, 6), (9, 4)):
    norm(*map(torch.randn, sizes))
""", ("`weight.size()[0] == x.size()[0]` no longer holds",), "No action needed: the first version requires these sizes"),
}

HELD_OUT_BREAKS: dict[str, Question] = {
    "filters of warnings": calls("pytorch/pytorch#102339", """
import warnings
@torch.compile(backend="eager")
def f(x):
    x = x + 1
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # <-
        return x * 2
f(torch.ones(2))
""", ("does not trace warnings._",), "Move the call to `warnings.simplefilter` out of the compiled function",
        ('    with warnings.catch_warnings():\n        warnings.simplefilter("ignore")  # <-\n    ', ""),
        ("f(torch.ones(2))", 'with warnings.catch_warnings():\n    warnings.simplefilter("ignore")\n    f(torch.ones(2))')),
    "class in a function": calls("pytorch/pytorch#161562", """
@torch.compile(backend="eager")
def f(x):
    y = x + 10
    class Pair:  # <-
        def __init__(self, x): self.x = x
    return Pair(x).x - y
f(torch.ones(2))
""", ("__build_class__",), "Define the class outside the compiled function",
        ("    class Pair:  # <-\n        def __init__(self, x): self.x = x\n", ""),
        ("@torch.compile", "class Pair:\n    def __init__(self, x): self.x = x\n@torch.compile")),
    "print in a checkpoint": calls("pytorch/pytorch#139989", """
from torch.utils.checkpoint import checkpoint
def attends(x):
    print(end="")  # <-
    return x * 2
@torch.compile(backend="eager")
def f(x):
    return checkpoint(attends, x + 1, use_reentrant=False) + 1
f(torch.ones(2, requires_grad=True))
""", ("builtin operator", "print"), "Move the print outside the compiled function", ('    print(end="")  # <-\n', "")),
    "step of an optimizer by hand": calls("pytorch/pytorch#185382", """
def adam(param, grad, moment, step):
    step.add_(1)
    moment.mul_(0.9).add_(grad, alpha=0.1)
    correction = 1 - 0.9 ** step.item()  # <-
    param.add_(moment, alpha=-0.001 / correction)
@torch.compile(backend="eager")
def train(param, grad):
    moment, step = torch.zeros_like(param), torch.zeros(())
    for _ in range(3):
        adam(param, grad, moment, step)
    return param
train(torch.randn(4), torch.randn(4))
""", ("item()",), "scalar-outputs"),
}

ANSWERED_LATER = ("filters of warnings", "class in a function", "sizes that were equal")
