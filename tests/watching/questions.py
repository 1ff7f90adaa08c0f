"""Sixty questions from public threads, each retold as a small program, with the answer that a person should get.

Answers come from reading the threads and running the programs. A question is right if all three parts are: the cause, the line, and
a remedy that helps. `# <-` marks the line.

In: nothing. Out: `QUESTIONS`: name -> `Question`. Addresses are those of github.com: `pytorch/pytorch#147428`.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Question:
    """A thread, its program, and the answer.

    `cause`: words that a cost contains. `remedy`: the id of a change that can be pasted, or words of the advice. `mended`: for
    advice, replacements of the program's text that follow it ((old, new), ...): fewer graph breaks and recompiles are left. Without
    replacements the advice says that no action is needed, and further calls do not recompile.
    """

    thread: str
    source: str
    cause: tuple[str, ...]
    remedy: str
    mended: tuple[tuple[str, str], ...] = ()


HEAD = "import torch\n"


def calls(thread: str, text: str, cause: str | tuple[str, ...], remedy: str, *mended: tuple[str, str]) -> Question:
    causes = (cause,) if isinstance(cause, str) else cause
    return Question(thread, HEAD + text.lstrip("\n"), causes, remedy, mended)


RECOMPILES: dict[str, Question] = {
    "every number changes": calls("pytorch/pytorch#147428", """
@torch.compile(backend="eager", dynamic=False)
def mix(a, b, c, d, e):
    return a * b * c * d * e  # <-
mix(torch.rand(1, 2), 1, 2, 3, 4)
mix(torch.rand(10, 20), 5, 6, 7, 8)
""", ("`a` changed from 1 row to 10", "`b` changed from 1 to 5", "`c` changed from 2 to 6", "`d` changed from 3 to 7",
        "`e` changed from 4 to 8"),
        "the same in every call",
        ("torch.rand(10, 20), 5, 6, 7, 8", "torch.rand(1, 2), 1, 2, 3, 4")),
    "mode, layer and attribute": calls("pytorch/pytorch#153442", """
class Foo(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.lin = torch.nn.Linear(4, 4)
        self.mode = "a"
    def forward(self, x):
        if self.mode == "a":  # <-
            return self.lin(x * 2)
        return self.lin(x / 2)
m = Foo()
g = torch.compile(m, backend="eager")
for mode in ("a", "b", "a"):
    m.mode = mode
    g(torch.ones(2, 4))
""", "`self.mode` changed from 'a' to 'b'", "No action needed if you use both values of `self.mode`"),
    "counter of a module": calls("pytorch/pytorch#128319", """
class M(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.counter = 0
    def forward(self, x):
        self.counter += 1  # <-
        return x * self.counter
g = torch.compile(M(), backend="eager")
for _ in range(4):
    g(torch.ones(3))
""", "`self.counter` changed from 0 to 1", "module-int"),
    "step of a module": calls("pytorch/pytorch#115711", """
class M(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.step = 0
    def forward(self, x):
        self.step += 1  # <-
        return x + 1
g = torch.compile(M(), backend="eager")
for n in (3, 3, 3, 3):
    g(torch.ones(n, 4))
""", "`self.step` changed from 0 to 1", "module-int"),
    "index of a layer": calls("pytorch/pytorch#128071", """
class Block(torch.nn.Module):
    def __init__(self, layer_idx):
        super().__init__()
        self.layer_idx = layer_idx
        self.forward = torch.compile(self.run, backend="eager")
    def run(self, x):
        return x * self.layer_idx  # <-
blocks = [Block(n) for n in range(2, 6)]
x = torch.ones(3)
for block in blocks:
    x = block.forward(x)
""", "`self.layer_idx` changed from 2 to 3", "module-int"),
    "size of a cache": calls("meta-pytorch/torchtune#1663", """
class Cache(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.size = 4
        self.register_buffer("k", torch.zeros(16))
    def forward(self, x):
        return x + self.k[: self.size].sum()  # <-
cache = Cache()
g = torch.compile(cache, backend="eager")
for _ in range(4):
    g(torch.ones(3))
    cache.size += 1
""", "`self.size` changed from 4 to 5", "module-int"),
    "learning rate": calls("pytorch/pytorch#107076", """
@torch.compile(backend="eager")
def step(p, lr):
    return p - lr * 2  # <-
for k in range(4):
    lr = 0.1 * 0.5**k
    step(torch.ones(3), lr)
""", "`lr` changed from 0.1 to 0.05", "float"),
    "learning rate of an optimizer": calls("pytorch/pytorch#120934", """
class Opt:
    def __init__(self):
        self.lr = 0.1
opt = Opt()
@torch.compile(backend="eager")
def step(p):
    return p - opt.lr * 2  # <-
for k in range(3):
    step(torch.ones(3))
    opt.lr *= 0.5
""", "`opt.lr` changed from 0.1 to 0.05", "No action needed: the new version accepts any value of `opt.lr`"),
    "inference mode": calls("pytorch/pytorch#123784", """
@torch.compile(backend="eager")
def fn(x):  # <-
    return x.sin().cos()
x = torch.rand(4, 4)
with torch.no_grad():
    fn(x)
fn(x)
fn(x)
""", ("global state", "grad mode"), "No action needed if you use both, as in training and evaluation"),
    "requires_grad under no_grad": calls("pytorch/pytorch#131975", """
@torch.compile(backend="eager")
def f(a, b):
    return (a + b).clip(0)  # <-
a, b = torch.randn(4, 4), torch.randn(4, 4)
with torch.no_grad():
    f(a, b)
    a.requires_grad_(True)
    f(a, b)
    f(a, b)
""", "`a` now requires gradients", "No action needed if you need it both with and without gradients"),
    "train and eval": calls("pytorch/pytorch#110803", """
class M(torch.nn.Module):
    def forward(self, x):
        return x * 2 if self.training else x  # <-
m = M()
g = torch.compile(m, backend="eager")
for k in range(4):
    m.train(k % 2 == 0)
    g(torch.ones(3))
""", "`self.training` changed from True to False", "No action needed if you run the model in both train() and eval() mode"),
    "last batch is smaller": calls("pytorch/pytorch#139474", """
@torch.compile(backend="eager")
def f(images):
    return images * 2  # <-
for n in (8, 8, 5):
    f(torch.ones(n, 3))
""", "`images` changed from 8 rows to 5", "No action needed: the new version accepts other sizes, too"),
    "dynamic is off": calls("pytorch/pytorch#105279", """
@torch.compile(backend="eager", dynamic=False)
def f(x):
    return x * 2  # <-
for n in (4, 5, 6, 7):
    x = torch.ones(n, 3)
    f(x)
""", "`x` changed from 4 rows to 5", "Mark the size as dynamic", ("dynamic=False", "dynamic=True")),
    "batch of one": calls("pytorch/pytorch#106067", """
@torch.compile(backend="eager")
def f(x):
    return x + 2  # <-
for n in (4, 1, 4, 1):
    f(torch.ones(n, 3))
""", "`x` changed from 4 rows to 1", "No action needed: sizes 0 and 1 each get their own compiled version"),
    "size that a branch needs": calls("pytorch/pytorch#174704", """
@torch.compile(backend="eager")
def f(x):
    if x.shape[0] == 5:  # <-
        return x * 2
    return x * 3
for n in (4, 6, 5, 7, 5):
    f(torch.ones(n, 3))
""", "`x` has size 5 in dimension 0, which the compiled version excludes", "sizes that the compiled version excludes"),
    "slice of an input": calls("pytorch/pytorch#129798", """
@torch.compile(backend="eager")
def f(x):
    return x * 2  # <-
f(torch.ones(4, 4))
f(torch.ones(4, 4).t())
""", "`x` changed from stride 4 to 1 in dimension 0", "Call `.contiguous()` on `x`", (".t()", ".t().contiguous()")),
    "stride of a batch of one": calls("pytorch/pytorch#160271", """
@torch.compile(backend="eager")
def f(guidance):
    return guidance * 2  # <-
f(torch.ones(1, 4)[:, -1:])
f(torch.ones(1, 5)[:, -1:])
""", "`guidance` changed from stride 4 to 5 in dimension 0", "clone(memory_format=torch.contiguous_format)",
        ("[:, -1:]", "[:, -1:].clone(memory_format=torch.contiguous_format)")),
    "rank changes": calls("pytorch/pytorch#121504", """
@torch.compile(backend="eager")
def f(x):
    return x * 2  # <-
for shape in ((4,), (4, 4), (4, 4, 4)):
    f(torch.ones(shape))
""", "`x` changed from 1 dimension to 2", "Pass inputs with the same properties every time",
        ("(4,), (4, 4), (4, 4, 4)", "(4, 4, 4), (4, 4, 4)")),
    "half and float": calls("pytorch/pytorch#105266", """
@torch.compile(backend="eager")
def f(x):
    return x * 2  # <-
for dtype in (torch.float32, torch.float64, torch.float32):
    f(torch.ones(3, dtype=dtype))
""", "`x` changed from float32 to float64", "No action needed if you use both"),
    "list of features": calls("pytorch/pytorch#148179", """
@torch.compile(backend="eager")
def f(xs):
    return torch.cat(xs)  # <-
for n in (2, 3, 4):
    f([torch.ones(3)] * n)
""", "`len(xs)` changed from 2 to 3", "Keep the length of `xs` the same in every call",
        ("for n in (2, 3, 4)", "for n in (4, 4, 4)")),
    "dict that grows": calls("pytorch/tensordict#1606", """
@torch.compile(backend="eager")
def f(x, d):
    return x * len(d)  # <-
d = {}
for k in range(3):
    f(torch.ones(3), d)
    d["k"] = k
""", "`d` is no longer empty", "No action needed if `d` is filled once"),
    "optional keyword arguments": calls("xdit-project/xDiT#781", """
@torch.compile(backend="eager")
def f(x, kwargs):
    return x * kwargs["a"] if kwargs.get("b") is None else x + kwargs["b"]  # <-
for k in (0, 1):
    f(torch.ones(2), {"a": 2, "b": 3} if k else {"a": 2})
""", "`kwargs` now has the key 'b'", "Use the same keys in `kwargs`", ('{"a": 2, "b": 3} if k else {"a": 2}', '{"a": 2}')),
    "mask or no mask": calls("pytorch/pytorch#167596", """
@torch.compile(backend="eager")
def f(x, mask=None):
    return x * 2 if mask is None else x * mask  # <-
for mask in (None, torch.ones(3), None):
    f(torch.ones(3), mask)
""", "`mask` changed from None to a tensor", "No action needed if `mask` is optional"),
    "targets only in training": calls("pytorch/pytorch#151122", """
@torch.compile(backend="eager")
def f(x, targets=None):
    return x * 2 if targets is None else x - targets  # <-
for targets in (torch.ones(3), None, torch.ones(3)):
    f(torch.ones(3), targets)
""", "`targets` changed from a tensor to None", "No action needed if `targets` is optional"),
    "name of a module": calls("pytorch/pytorch#171593", """
class M(torch.nn.Module):
    def __init__(self, key):
        super().__init__()
        self.key = key
    def forward(self, batch):
        return batch[self.key] * 2  # <-
batch = {"a": torch.ones(3), "b": torch.ones(3), "c": torch.ones(3)}
for key in "abc":
    torch.compile(M(key), backend="eager")(batch)
""", "`self.key` changed from 'a' to 'b'", "pass the same value every time", ('for key in "abc"', 'for key in "aaa"')),
    "function as an argument": calls("pytorch/pytorch#107866", """
@torch.compile(backend="eager")
def f(x, fn):
    return fn(x)  # <-
def scaled(n):
    space = {}
    exec(f"def made(x): return x * {n}", space)
    return space["made"]
for n in (1, 2, 3):
    f(torch.ones(3), scaled(n))
""", "`fn` is a different function", "compile these functions, not their caller",
        ("scaled(n))", "scale)"), ("for n in (1, 2, 3)", "scale = scaled(1)\nfor n in (1, 2, 3)")),
    "processor of attention": calls("pytorch/pytorch#163329", """
class Processor:
    def __init__(self, n):
        self.n = n
    def __call__(self, x):
        return x * self.n  # <-
class Attention(torch.nn.Module):
    def __init__(self, n):
        super().__init__()
        self.processor = Processor(n)
    def forward(self, x):
        return self.processor(x)
for n in (2, 3, 4):
    torch.compile(Attention(n), backend="eager")(torch.ones(3))
""", "`self.processor.n` changed from 2 to 3", "dynamic-number"),
    "hook that was added": calls("pytorch/pytorch#117758", """
torch._dynamo.config.skip_nnmodule_hook_guards = False
m = torch.nn.Linear(2, 2)
@torch.compile(backend="eager")
def f(x):
    return m(x)  # <-
for k in range(3):
    f(torch.ones(3, 2))
    m.register_forward_hook(lambda *args: None)
""", "_forward_hooks", "Register the hooks of `m` once",
        ("    m.register_forward_hook(lambda *args: None)\n", ""),
        ("m = torch.nn.Linear(2, 2)\n", "m = torch.nn.Linear(2, 2)\nm.register_forward_hook(lambda *args: None)\n")),
    "global variable": calls("pytorch/pytorch#127483", """
VARIABLE = 0
@torch.compile(backend="eager")
def f(x):
    return x[VARIABLE:]  # <-
for VARIABLE in (2, 3, 4):
    f(torch.ones(8))
""", "`VARIABLE` changed from 2 to 3", "Pass the same `VARIABLE` in every call", ("in (2, 3, 4)", "in (4, 4, 4)")),
    "sizes of parameters": calls("microsoft/dion#23", """
@torch.compile(backend="eager")
def post(x):
    return x * 2  # <-
for n in (2, 3, 4, 5):
    post(torch.nn.Parameter(torch.ones(n, 3)))
""", "`x` changed from 2 rows to 3", "parameter-argument"),
    "default dtype": calls("pytorch/pytorch#108624", """
@torch.compile(backend="eager")
def f(x):  # <-
    return x * 2
f(torch.ones(3))
torch.set_default_dtype(torch.float64)
x = torch.ones(3, dtype=torch.float32)
f(x)
torch.set_default_dtype(torch.float32)
""", ("global state", "dtype"), "Set the number of threads, the default dtype", ("torch.set_default_dtype(torch.float64)", "")),
    "autocast on and off": calls("pytorch/pytorch#186529", """
@torch.compile(backend="eager")
def f(x):  # <-
    return x @ x
for enabled in (False, True, False, True):
    with torch.autocast("cpu", enabled=enabled):
        f(torch.ones(2, 2))
""", ("global state", "autocast"), "No action needed if you use both"),
    "parameter and tensor": calls("pytorch/pytorch#187073", """
@torch.compile(backend="eager")
def describe(b):
    return b * 2  # <-
describe(torch.nn.Parameter(torch.ones(1)).data)
describe(torch.nn.Parameter(torch.ones(1), requires_grad=False))
""", "`b` changed from a tensor of another class to a Parameter", "Pass inputs with the same properties",
        ("torch.nn.Parameter(torch.ones(1), requires_grad=False)", "torch.nn.Parameter(torch.ones(1), requires_grad=False).data")),
    "enumeration": calls("pytorch/torchdynamo#211", """
import enum
class Mode(enum.Enum):
    UP = 1
    DOWN = 2
@torch.compile(backend="eager")
def f(x, mode):
    return x * mode.value  # <-
for mode in (Mode.UP, Mode.DOWN, Mode.UP):
    f(torch.ones(3), mode)
""", "`mode` is a different Mode", "No action needed for a few objects"),
    "number of steps in a loop": calls("pytorch/torchdynamo#330", """
@torch.compile(backend="eager")
def f(x, steps):
    for _ in range(steps):  # <-
        x = x + 1
    return x
for steps in (2, 3, 4, 5):
    f(torch.ones(3), steps)
""", "`steps` changed from 2 to 3", "pass the same value every time",
        ("in (2, 3, 4, 5)", "in (5, 5, 5, 5)")),
    "string of a mode": calls("pytorch/pytorch#127483", """
@torch.compile(backend="eager")
def f(x, reduction):
    return x.sum() if reduction == "sum" else x.mean()  # <-
for reduction in ("sum", "mean", "sum", "mean"):
    f(torch.ones(3), reduction)
""", "`reduction` changed from 'sum' to 'mean'", "No action needed if you use both values of `reduction`"),
}
"""Why did it recompile?"""


BREAKS: dict[str, Question] = {
    "item": calls("pytorch/pytorch#158642", """
@torch.compile(backend="eager")
def f(x):
    y = x * 2
    n = y.sum().item()  # <-
    return y * n
f(torch.ones(3))
""", "Tensor.item()", "scalar-outputs"),
    "item of a loss": calls("sgl-project/SpecForge#222", """
@torch.compile(backend="eager")
def accuracy(x, mask):
    hits = (x * mask).sum()
    return hits.item() / (mask.sum().item() + 1e-6) + x  # <-
accuracy(torch.ones(3), torch.ones(3))
""", "Tensor.item()", "scalar-outputs"),
    "tolist of tokens": calls("PrimeIntellect-ai/prime-rl#996", """
@torch.compile(backend="eager")
def experts(x, counts):
    x = x * 2
    parts = torch.split(x, counts.tolist())  # <-
    return parts[0] + 1
experts(torch.ones(4), torch.tensor([1, 3]))
""", "tolist", "scalar-outputs"),
    "mask": calls("pytorch/pytorch#114220", """
@torch.compile(backend="eager")
def f(t):
    t = t * 2
    return t[t > 0.5] + 1  # <-
f(torch.rand(3, 4))
""", "Dynamic shape operator", "dynamic-outputs"),
    "nonzero": calls("pytorch/pytorch#94414", """
@torch.compile(backend="eager")
def f(t):
    t = t * 2
    index = torch.nonzero(t)  # <-
    return index + 1
f(torch.rand(3, 4))
""", "Dynamic shape operator", "dynamic-outputs"),
    "unique": calls("pytorch/pytorch#99609", """
@torch.compile(backend="eager")
def f(t):
    t = t * 2
    values = torch.unique(t)  # <-
    return values + 1
f(torch.ones(3))
""", "Dynamic shape operator", "dynamic-outputs"),
    "if on a sum": calls("pytorch/torchdynamo#1883", """
@torch.compile(backend="eager")
def toy(a):
    x = a + 33
    if x.sum() < 0:  # <-
        x = x + 55
    return x * 2
toy(torch.randn(10))
""", "Data-dependent branching", "Use torch.where",
        ("    if x.sum() < 0:  # <-\n        x = x + 55", "    x = torch.where(x.sum() < 0, x + 55, x)")),
    "if on isinf": calls("pytorch/pytorch#180406", """
@torch.compile(backend="eager")
def cast(x):
    x = x * 2
    if x.isinf().any() or x.isnan().any():  # <-
        x = torch.clamp(x, -1, 1)
    return x + 1
cast(torch.ones(3))
""", "Data-dependent branching", "Use torch.where",
        ("    if x.isinf().any() or x.isnan().any():  # <-\n        x = torch.clamp(x, -1, 1)",
         "    x = torch.where(x.isinf().any() | x.isnan().any(), torch.clamp(x, -1, 1), x)")),
    "all in a condition": calls("pytorch/torchdynamo#1767", """
@torch.compile(backend="eager")
def f(x):
    x = x * 2
    if x.all():  # <-
        return x.cos()
    return x.sin()
f(torch.ones(3))
""", "Data-dependent branching", "Use torch.where",
        ("    if x.all():  # <-\n        return x.cos()\n    return x.sin()", "    return torch.where(x.all(), x.cos(), x.sin())")),
    "while on a tensor": calls("pytorch/torchdynamo#330", """
@torch.compile(backend="eager")
def f(x):
    x = x * 2
    while x.sum() < 10:  # <-
        x = x * 2
    return x + 1
f(torch.ones(3))
""", "`while` on a tensor value", "Run a fixed number of rounds",
        ("    while x.sum() < 10:  # <-\n        x = x * 2",
         "    for _ in range(2):\n        x = torch.where(x.sum() < 10, x * 2, x)")),
    "torch.equal": calls("pytorch/pytorch#145970", """
@torch.compile(backend="eager")
def f(a, x):
    x = x * 2
    if torch.equal(a, x):  # <-
        return x * x
    return x + 1
f(torch.ones(3), torch.ones(3))
""", ("Data dependent operator", "torch.equal"), "`(a == b).all()`, and choose with torch.where",
        ("    if torch.equal(a, x):  # <-\n        return x * x\n    return x + 1",
         "    return torch.where((a == x).all(), x * x, x + 1)")),
    "print": calls("pytorch/pytorch#93739", """
@torch.compile(backend="eager")
def f(x):
    y = x * 2
    print("between")  # <-
    return y + 1
f(torch.ones(3))
""", "print", "print"),
    "warnings.warn": calls("pytorch/pytorch#135688", """
import warnings
@torch.compile(backend="eager")
def f(x):
    y = x * 2
    warnings.warn("aaa")  # <-
    return y + 1
f(torch.ones(3))
""", "warnings.warn", "warn"),
    "logger": calls("tenstorrent/tt-torch#852", """
import logging
logger = logging.getLogger("model")
@torch.compile(backend="eager")
def f(x):
    y = x * 2
    logger.warning("Setting pad_token_id")  # <-
    return y + 1
f(torch.ones(3))
""", "logging.Logger", "logger"),
    "context variable": calls("pytorch/pytorch#186449", """
import contextvars
scale = contextvars.ContextVar("scale", default=2)
@torch.compile(backend="eager")
def f(x):
    y = x * 2
    return y * scale.get()  # <-
f(torch.ones(3))
""", "ContextVar.get", "Move the call to `ContextVar.get` out of",
        ("y = x * 2\n    return y * scale.get()  # <-", "y = x * 2\n    return y * n"),
        ('@torch.compile(backend="eager")', 'n = scale.get()\n@torch.compile(backend="eager")')),
    "time": calls("pytorch/torchdynamo#943", """
import time
@torch.compile(backend="eager")
def f(x):
    y = x * 2
    begin = time.perf_counter()  # <-
    return y + 1, begin
f(torch.ones(3))
""", "time.perf_counter", "Move the call to `time.perf_counter` out of",
        ("    begin = time.perf_counter()  # <-\n    return y + 1, begin", "    return y + 1")),
    "deepcopy": calls("pytorch/torchdynamo#943", """
import copy
@torch.compile(backend="eager")
def f(x, layers):
    y = x * 2
    other = copy.deepcopy(layers)  # <-
    return other(y)
f(torch.ones(2), torch.nn.Linear(2, 2))
""", "copy.deepcopy", "Move the call out of the compiled function", ("copy.deepcopy(layers)", "layers")),
    "backward": calls("pytorch/torchdynamo#943", """
@torch.compile(backend="eager")
def f(x, w):
    y = (x * w).sum()
    y.backward()  # <-
    return y + 1
f(torch.ones(2), torch.ones(2, requires_grad=True))
""", "backward", "Call `backward()` outside the compiled function", ("    y.backward()  # <-\n", "")),
    "shuffle": calls("pytorch/pytorch#197085", """
import random
@torch.compile(backend="eager")
def f(x):
    y = x * 2
    order = [1, 2, 3]
    random.shuffle(order)  # <-
    return y * order[0]
f(torch.ones(2))
""", "shuffle", "Move the call to `random.shuffle` out of", ("    random.shuffle(order)  # <-\n", "")),
    "file": calls("pytorch/pytorch#119186", """
@torch.compile(backend="eager")
def f(x):
    y = x * 2
    exists = open("/dev/null") is not None  # <-
    return y + exists
f(torch.ones(2))
""", "open", "Move the call to `open` out of", ('open("/dev/null") is not None', "True")),
    "numpy of a tensor": calls("pytorch/pytorch#119186", """
import numpy as np
@torch.compile(backend="eager")
def f(x):
    y = x * 2
    if np.count_nonzero(y.numpy()) == 1:  # <-
        return y - 1
    return y + 1
f(torch.ones(2))
""", "Data-dependent branching", "Use torch.where",
        ("    if np.count_nonzero(y.numpy()) == 1:  # <-\n        return y - 1\n    return y + 1",
         "    return torch.where((y != 0).sum() == 1, y - 1, y + 1)")),
    "break in a callee": calls("pytorch/pytorch#126722", """
def h(x):
    x = x + 1
    torch._dynamo.graph_break()  # <-
    return x + 1
def g(x):
    return h(x + 1) + 1
f = torch.compile(g, backend="eager")
f(torch.randn(3, 3))
""", "graph_break()", "Remove the `torch._dynamo.graph_break()` call", ("    torch._dynamo.graph_break()  # <-\n", "")),
    "disabled function": calls("pytorch/pytorch#142358", """
@torch.compiler.disable
def h(x):
    return x + 1
@torch.compile(backend="eager")
def f(x):
    y = x * 2
    return h(y) * 2  # <-
f(torch.randn(3))
""", "disable", "Remove the `torch.compiler.disable` call", ("@torch.compiler.disable\n", "")),
    "parsing text": calls("pytorch/pytorch#161765", """
import json
@torch.compile(backend="eager")
def f(x):
    y = x * 2
    n = len(json.dumps({"a": 1}))  # <-
    return y + n
f(torch.randn(3))
""", "json", "Move the call out of the compiled function", ('    n = len(json.dumps({"a": 1}))  # <-\n', ""),
        ('@torch.compile(backend="eager")', 'n = 8\n@torch.compile(backend="eager")')),
}
"""Why does the graph break?"""

QUESTIONS = RECOMPILES | BREAKS
