"""The fifty graph breaks of torch.compile that people meet most often: a program for each, and the same program fixed.

A row is the text of a page in this folder (scripts/break_pages.py writes it). `title` is the one in torch's own registry. The
function `f` of `example` breaks there when torch.compile compiles it and it is called with a tensor of three ones, or with the
`args` of the program. `fixed` becomes one graph and returns and prints the same; if it defines `step`, that is what is compiled.
`models`: how many models of a public corpus break there (scripts/count_torch_breaks.py counts them). `files`: how many public
files in a code search contained the address of torch's page about it in November 2026; the search returns at most ten.
tests/docs/test_break_pages.py runs the programs.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class TorchBreak:
    """One kind of graph break of torch.compile."""

    id: str
    title: str
    why: str
    fix: str
    acceptable: str
    example: str
    fixed: str
    models: int = 0
    files: int = 0
    version: str = ""
    """The last version of torch that breaks there; "" means the one that the tests use."""

    @property
    def compiled(self) -> str:
        """The function of the fixed program that is compiled."""
        return "step" if "def step(" in self.fixed else "f"


ROWS: tuple[TorchBreak, ...] = (
    TorchBreak(
        "GB0170",
        "Data-dependent branching",
        "The condition is a tensor. Its value exists only when the graph runs, and Python needs it to choose a branch.",
        "Compute both branches and select with `torch.where`, use `torch.cond`, or move the `if` out of the compiled function.",
        "The branch often skips so much work that it outweighs the cost of the break, like an early exit from a loop.",
        example="""
def f(x):
    if x.sum() > 0:
        return x * 2
    return x
""",
        fixed="""
def f(x):
    return torch.where(x.sum() > 0, x * 2, x)
""",
        models=47,
        files=5,
    ),
    TorchBreak(
        "GB0033",
        "Data dependent operator",
        "The operator returns a Python value that depends on tensor data: `torch.equal`, `torch.allclose` and "
        "`Tensor.is_nonzero` return a bool.",
        "Use an operator that returns a tensor, such as `(a == b).all()`.",
        "The comparison is a check that you only run while debugging.",
        example="""
other = torch.ones(3)
def f(x):
    return x * 2 if torch.equal(x, other) else x
""",
        fixed="""
other = torch.ones(3)
def f(x):
    return torch.where((x == other).all(), x * 2, x)
""",
        models=30,
        files=2,
    ),
    TorchBreak(
        "GB0179",
        "copy.deepcopy()",
        "PyTorch 2.10 does not trace `copy.deepcopy`. Newer versions trace it for Python objects and break only on a "
        "tensor (GB4198).",
        "Upgrade PyTorch, or copy the object outside the compiled function.",
        "The copy is made once, during setup.",
        example="""
import copy
settings = {"scale": 2}
def f(x):
    return x * copy.deepcopy(settings)["scale"]
""",
        fixed="""
import copy
settings = {"scale": 2}
copied = copy.deepcopy(settings)
def f(x):
    return x * copied["scale"]
""",
        models=26,
        version="2.10",
    ),
    TorchBreak(
        "GB0036",
        "Dynamic shape operator",
        "The size of the result depends on tensor data: boolean masks, `nonzero`, `unique`, `masked_select`, `repeat_interleave`.",
        "Use `torch.where`, which keeps the size, or set `torch._dynamo.config.capture_dynamic_output_shape_ops = True`.",
        "The operator selects a few rows from many, so that the work after it becomes much smaller.",
        example="""
def f(x):
    return x[x > 0].sum() * 2
""",
        fixed="""
def f(x):
    return torch.where(x > 0, x, 0).sum() * 2
""",
        models=19,
        files=1,
    ),
    TorchBreak(
        "GB0007",
        "Attempted to call function marked as skipped",
        "The function is a C function, or it is in a module that Dynamo does not trace (`time`, `warnings`, `threading`, "
        "`torch.save`).",
        "Call it outside the compiled function.",
        "The call runs at the beginning or at the end of the function, where a break costs almost nothing.",
        example="""
import time
def f(x):
    started = time.perf_counter()
    return x * 2, started > 0
""",
        fixed="""
import time
def step(x):
    return x * 2
def f(x):
    started = time.perf_counter()
    return step(x), started > 0
""",
        models=16,
        files=5,
    ),
    TorchBreak(
        "GB0055",
        "Failed to convert args/kwargs to proxy",
        "An argument of a torch function is an object that a graph cannot contain.",
        "Pass tensors and numbers. Here, seed the default generator outside the function instead of passing a generator.",
        "The call runs rarely.",
        example="""
generator = torch.Generator()
def f(x):
    return x + torch.ones(3).bernoulli_(1.0, generator=generator)
""",
        fixed="""
def f(x):
    return x + torch.ones(3).bernoulli_(1.0)
""",
        models=14,
        files=1,
    ),
    TorchBreak(
        "GB0124",
        "Unsupported Tensor.item() call with capture_scalar_outputs=False",
        "`Tensor.item()`, `int(t)` and `float(t)` read a number from a tensor. The number exists only when the graph runs.",
        "Keep the value in a tensor, or set `torch._dynamo.config.capture_scalar_outputs = True`.",
        "You read the number once per step, to log it, after all other work.",
        example="""
def f(x):
    return x * x.sum().item()
""",
        fixed="""
def f(x):
    return x * x.sum()
""",
        models=11,
        files=3,
    ),
    TorchBreak(
        "GB0206",
        "setattr() on Tensor.requires_grad",
        "Assigning `requires_grad` in the function creates a new leaf of the autograd graph, which the compiled "
        "backward would miss.",
        "Set `requires_grad` before you call the compiled function.",
        "The assignment runs during setup.",
        example="""
def f(x):
    y = x * 2
    y.requires_grad = True
    return y * 3
""",
        fixed="""
def step(x):
    return x * 3
def f(x):
    y = x * 2
    y.requires_grad = True
    return step(y)
""",
        models=11,
    ),
    TorchBreak(
        "GB0291",
        "logging.Logger method not supported for non-export cases",
        "A log record must be written on every call, not once during compilation.",
        "Log outside the compiled function, or add the method to `torch._dynamo.config.ignore_logger_methods` (it is "
        "then not called).",
        "The log call is at the beginning or the end of the function.",
        example="""
import logging
log = logging.getLogger("train")
def f(x):
    log.info("scaling")
    return x * 2
""",
        fixed="""
import logging
log = logging.getLogger("train")
def step(x):
    return x * 2
def f(x):
    log.info("scaling")
    return step(x)
""",
        models=9,
    ),
    TorchBreak(
        "GB0059",
        "Failed to trace builtin operator",
        "Dynamo has no rule for the builtin with these arguments. The most common case is `print`, which must print on every call.",
        "Move the call outside the compiled function. For prints, see also `torch._dynamo.config.reorderable_logging_functions`.",
        "You print while debugging; remove the call afterwards.",
        example="""
def f(x):
    x = x * 2
    print("scaled")
    return x + 1
""",
        fixed="""
def step(x):
    return x * 2 + 1
def f(x):
    y = step(x)
    print("scaled")
    return y
""",
        models=8,
        files=5,
    ),
    TorchBreak(
        "GB0156",
        "Unsupported method call",
        "The object is implemented in C, and Dynamo does not know what this method does. Examples: `ContextVar.get`, "
        "`Lock.acquire`, `Random.gauss`.",
        "Call the method outside the compiled function and pass its result.",
        "The call is at the beginning or the end of the function.",
        example="""
import contextvars
scale = contextvars.ContextVar("scale", default=2)
def f(x):
    return x * scale.get()
""",
        fixed="""
import contextvars
scale = contextvars.ContextVar("scale", default=2)
def step(x, by):
    return x * by
def f(x):
    return step(x, scale.get())
""",
        models=3,
        files=2,
    ),
    TorchBreak(
        "GB0208",
        "torch.* op returned non-Tensor",
        "The torch function returns a number or another object that a graph cannot hold.",
        "Call it outside the compiled function and pass the result.",
        "The value is read once, during setup.",
        example="""
def f(x):
    return x * torch.initial_seed()
""",
        fixed="""
def step(x, seed):
    return x * seed
def f(x):
    return step(x, torch.initial_seed())
""",
        models=3,
    ),
    TorchBreak(
        "GB0142",
        "Unsupported context manager",
        "Dynamo does not know what entering and leaving this object does: locks, files, most context managers written in C.",
        "Use the context manager around the call of the compiled function.",
        "The block contains almost no tensor operations.",
        example="""
import threading
lock = threading.Lock()
def f(x):
    with lock:
        return x * 2
""",
        fixed="""
import threading
lock = threading.Lock()
def step(x):
    return x * 2
def f(x):
    with lock:
        return step(x)
""",
        models=2,
        files=2,
    ),
    TorchBreak(
        "GB7000",
        "graph break in loop",
        "The break is inside a `for` or `while` loop. Dynamo cannot resume there, so it skips the whole function: no graph at all.",
        "Fix the break inside the loop, or compile the loop's body instead.",
        "The loop runs a compiled function in each iteration and does nothing else.",
        example="""
def f(x):
    for i in range(3):
        x = torch.sin(x)
        print("step", i)
    return x
""",
        fixed="""
def step(x):
    return torch.sin(x)
def f(x):
    for i in range(3):
        x = step(x)
        print("step", i)
    return x
""",
        models=2,
        files=1,
    ),
    TorchBreak(
        "GB0119",
        "Uninitialized nn.Module",
        "The module's `__init__` did not call `super().__init__()`, so it has no parameters, buffers or hooks.",
        "Call `super().__init__()` first.",
        "Never: such a module fails as soon as it is assigned a parameter.",
        example="""
class Layer(torch.nn.Module):
    def __init__(self):
        pass
    def forward(self, x):
        return x * 2
layer = Layer()
def f(x):
    return layer.forward(x)
""",
        fixed="""
class Layer(torch.nn.Module):
    def __init__(self):
        super().__init__()
    def forward(self, x):
        return x * 2
layer = Layer()
def f(x):
    return layer.forward(x)
""",
        models=1,
        files=2,
    ),
    TorchBreak(
        "GB0264",
        "Attempted to use `torch.nn.Parameter()` constructor with Dynamo",
        "A parameter is a leaf of the autograd graph, and a graph cannot create one.",
        "Create parameters in `__init__`, outside the compiled function.",
        "The function runs once, to build a model.",
        example="""
def f(x):
    weight = torch.nn.Parameter(torch.ones(3))
    return x * weight
""",
        fixed="""
weight = torch.nn.Parameter(torch.ones(3))
def f(x):
    return x * weight
""",
        models=1,
        files=1,
    ),
    TorchBreak(
        "GB0125",
        "Unsupported Tensor.requires_grad_() call",
        "`requires_grad_()` on an input changes the autograd state of a tensor that was created outside the graph.",
        "Call `requires_grad_()` before the compiled function.",
        "The call runs during setup.",
        example="""
def f(x):
    x.requires_grad_()
    return x * 2
""",
        fixed="""
def step(x):
    return x * 2
def f(x):
    x.requires_grad_()
    return step(x)
""",
        models=1,
    ),
    TorchBreak(
        "GB0025",
        "Call to `torch._dynamo.graph_break()`",
        "The program, or a library that it uses, requests a break here.",
        "Remove the call.",
        "You put it there to isolate a problem, or the library needs it (optimizers do).",
        example="""
def f(x):
    x = x + 1
    torch._dynamo.graph_break()
    return x * 2
""",
        fixed="""
def f(x):
    x = x + 1
    return x * 2
""",
        files=10,
    ),
    TorchBreak(
        "GB0008",
        "Attempted to inline function marked as skipped",
        "The function is in a file that Dynamo does not trace, such as parts of torch itself.",
        "Call it outside the compiled function.",
        "The function does little tensor work, like `Optimizer.zero_grad`.",
        example="""
optimizer = torch.optim.SGD([torch.ones(3)])
def f(x):
    optimizer.zero_grad()
    return x * 2
""",
        fixed="""
optimizer = torch.optim.SGD([torch.ones(3)])
def step(x):
    return x * 2
def f(x):
    optimizer.zero_grad()
    return step(x)
""",
        files=4,
    ),
    TorchBreak(
        "GB0123",
        "Unsupported Tensor.backward() call",
        "The forward graph ends at `backward()`, because AOTAutograd derives the backward graph from a finished forward graph.",
        "Compile the model and the loss, and call `backward()` outside.",
        "Always fine in a training step: the forward and the backward are still one graph each.",
        example="""
args = (torch.ones(3, requires_grad=True),)
def f(x):
    loss = (x * 2).sum()
    loss.backward()
    return loss.detach()
""",
        fixed="""
args = (torch.ones(3, requires_grad=True),)
def step(x):
    return (x * 2).sum()
def f(x):
    loss = step(x)
    loss.backward()
    return loss.detach()
""",
        files=4,
    ),
    TorchBreak(
        "GB0147",
        "Unsupported function call",
        "Dynamo has no rule for calling this object, often a class that is implemented in C.",
        "Call it outside the compiled function.",
        "The result does not depend on tensors and is needed once.",
        example="""
from types import SimpleNamespace
def f(x):
    settings = SimpleNamespace(scale=2)
    return x * settings.scale
""",
        fixed="""
from types import SimpleNamespace
settings = SimpleNamespace(scale=2)
def f(x):
    return x * settings.scale
""",
        files=3,
    ),
    TorchBreak(
        "GB0098",
        "Skip calling `torch.compiler.disable()`d function",
        "The function is decorated with `torch.compiler.disable`, so it and everything it calls run as plain Python.",
        "Remove the decorator, or call the function before or after the compiled part.",
        "Somebody disabled the function because compiling it gives wrong results or fails.",
        example="""
@torch.compiler.disable
def scale(x):
    return x * 2
def f(x):
    return scale(x) + 1
""",
        fixed="""
def scale(x):
    return x * 2
def f(x):
    return scale(x) + 1
""",
        files=3,
    ),
    TorchBreak(
        "GB0082",
        "Missing bytecode handler",
        "Dynamo does not implement an instruction of this function, so it skips the whole function. Here, `del` of a "
        "variable that a closure uses.",
        "Rewrite the statement, or compile a function without it.",
        "The function does little tensor work.",
        example="""
def f(x):
    y = x + 1
    def later():
        return y
    z = later() * 2
    del y
    return z
""",
        fixed="""
def f(x):
    y = x + 1
    def later():
        return y
    return later() * 2
""",
        files=2,
    ),
    TorchBreak(
        "GB0088",
        "Observed exception",
        "Tracing the line raises an exception that nothing in the function catches, here because the format `.2f` needs "
        "the tensor's data.",
        "Format the value outside the compiled function.",
        "The text is only needed once per epoch.",
        example="""
def f(x):
    text = f"{x.mean():.2f}"
    return x * 2, len(text)
""",
        fixed="""
def step(x):
    return x * 2
def f(x):
    text = f"{x.mean():.2f}"
    return step(x), len(text)
""",
        files=2,
    ),
    TorchBreak(
        "GB0092",
        "Reconstruction failure",
        "After the break, Python needs a value that Dynamo cannot reconstruct, such as a method of a builtin object.",
        "Do not keep the object across a break or return it: create it outside the compiled function.",
        "The object is returned once, during setup.",
        example="""
def f(x):
    return x * len(slice(1, 3).__reduce__())
""",
        fixed="""
length = len(slice(1, 3).__reduce__())
def f(x):
    return x * length
""",
        files=2,
    ),
    TorchBreak(
        "GB0066",
        "Graph break under GenericContextWrappingVariable",
        "A break inside a `with` block must leave the block and enter it again, which is possible only for context "
        "managers that Dynamo knows.",
        "Enter the context manager around the call of the compiled function, or move the break out of the block.",
        "The block contains almost no tensor operations.",
        example="""
import contextlib
def f(x):
    with contextlib.ExitStack() as stack:
        stack.enter_context(torch.no_grad())
        return x * 2
""",
        fixed="""
def f(x):
    with torch.no_grad():
        return x * 2
""",
        files=2,
    ),
    TorchBreak(
        "GB0207",
        "sort with non-constant keys",
        "`sorted` compares tensors, and the order depends on their data.",
        "Use `torch.sort`, which returns tensors.",
        "You sort a handful of numbers once per epoch.",
        example="""
def f(x):
    low, high = sorted([x.sum(), x.mean()])
    return x * low + high
""",
        fixed="""
def f(x):
    low, high = torch.stack([x.sum(), x.mean()]).sort().values
    return x * low + high
""",
        files=2,
    ),
    TorchBreak(
        "GB0222",
        "Attempted to wrap a set with tensors",
        "The order of a set of tensors depends on their memory addresses, so a graph cannot rely on it.",
        "Use a list or a dict.",
        "The set is only tested for membership, outside the compiled function.",
        example="""
terms = {torch.ones(3)}
def f(x):
    for term in terms:
        x = x + term
    return x
""",
        fixed="""
terms = [torch.ones(3)]
def f(x):
    for term in terms:
        x = x + term
    return x
""",
        files=2,
    ),
    TorchBreak(
        "GB0067",
        "HOP: Unsafe side effect",
        "A function passed to `checkpoint`, `cond` or another higher-order operator changes an object outside. It may "
        "run twice, or not at all.",
        "Return the result instead of changing an outer object.",
        "The operator runs rarely, so that running it outside a graph costs little.",
        example="""
args = (torch.ones(3, requires_grad=True),)
calls = []
def block(x):
    calls.append(1)
    return x.sin()
def f(x):
    return torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False) + 1
""",
        fixed="""
args = (torch.ones(3, requires_grad=True),)
def block(x):
    return x.sin()
def f(x):
    return torch.utils.checkpoint.checkpoint(block, x, use_reentrant=False) + 1
""",
        files=1,
    ),
    TorchBreak(
        "GB0006",
        "Attempted to call a super() attribute that is not a function or method",
        "`super().name(...)` calls an attribute of the base class that is not a plain function, for example a module or "
        "a C descriptor.",
        "Define a method in the base class.",
        "The call happens once, in `__init__`.",
        example="""
class Base:
    activation = torch.nn.ReLU()
class Layer(Base):
    def run(self, x):
        return super().activation(x)
layer = Layer()
def f(x):
    return layer.run(x) * 2
""",
        fixed="""
class Base:
    activation = torch.nn.ReLU()
class Layer(Base):
    def run(self, x):
        return self.activation(x)
layer = Layer()
def f(x):
    return layer.run(x) * 2
""",
        files=1,
    ),
    TorchBreak(
        "GB4880",
        "missing_mp_subscript",
        "The object is indexed by C code that Dynamo does not know. Examples: arrays, memory views, match objects.",
        "Convert the object to a list, a dict or a tensor outside the compiled function.",
        "The lookup is at the beginning of the function.",
        example="""
import array
scales = array.array("i", [1, 2])
def f(x):
    return x * scales[1]
""",
        fixed="""
scales = [1, 2]
def f(x):
    return x * scales[1]
""",
    ),
    TorchBreak(
        "GB0013",
        "Attempted to represent unregistered RemovableHandle",
        "A hook is registered and removed within the function, so its handle has no counterpart outside.",
        "Register the hook before you call the compiled function, or change the value directly.",
        "The hook is a debugging aid.",
        example="""
layer = torch.nn.ReLU()
def f(x):
    handle = layer.register_forward_hook(lambda module, args, out: out * 2)
    y = layer(x)
    handle.remove()
    return y
""",
        fixed="""
layer = torch.nn.ReLU()
def f(x):
    return layer(x) * 2
""",
    ),
    TorchBreak(
        "GB0015",
        "Attempted to wrap sparse Tensor",
        "Dynamo does not trace sparse tensors, so the whole function runs as plain Python.",
        "Convert the tensor to a dense one before the call.",
        "The sparse operator is most of the work.",
        example="""
args = (torch.ones(3).to_sparse(),)
def f(x):
    return x.to_dense() * 2
""",
        fixed="""
args = (torch.ones(3).to_sparse(),)
def step(x):
    return x * 2
def f(x):
    return step(x.to_dense())
""",
    ),
    TorchBreak(
        "GB0056",
        "Failed to mutate tensor data attribute",
        "Assigning `.data` replaces the storage of a tensor without an operator that the graph could record.",
        "Use `copy_` under `torch.no_grad()`, or create a new tensor.",
        "The assignment initializes weights, once.",
        example="""
def f(x):
    y = x * 2
    y.data = x[:2]
    return y + 1
""",
        fixed="""
def f(x):
    y = x[:2].clone()
    return y + 1
""",
    ),
    TorchBreak(
        "GB0104",
        "Tensor with grad_fn()",
        "`grad_fn` is a node of the autograd graph, which does not exist during compilation.",
        "Read `requires_grad` or `is_leaf` instead.",
        "You inspect the autograd graph while debugging.",
        example="""
args = (torch.ones(3, requires_grad=True),)
def f(x):
    y = x * 2
    return y, y.grad_fn is None
""",
        fixed="""
args = (torch.ones(3, requires_grad=True),)
def f(x):
    y = x * 2
    return y, not y.requires_grad
""",
    ),
    TorchBreak(
        "GB0109",
        "Tensor.tolist() with non-integer tensor",
        "`tolist()` reads all values of the tensor, which exist only when the graph runs.",
        "Index the tensor, or call `tolist()` after the compiled function.",
        "You call it once per step, to log values, after all other work.",
        example="""
def f(x):
    return x * x.tolist()[0]
""",
        fixed="""
def f(x):
    return x * x[0]
""",
    ),
    TorchBreak(
        "GB0808",
        "vectorcall_maybe on C method descriptor",
        "An operator calls a special method that a C type defines, here the subtraction of dates.",
        "Compute the value outside the compiled function.",
        "The value does not change between calls.",
        example="""
from datetime import date
start = date(2024, 2, 1)
def f(x):
    return x * (start - date.min).days
""",
        fixed="""
from datetime import date
start = date(2024, 2, 1)
days = (start - date.min).days
def f(x):
    return x * days
""",
    ),
    TorchBreak(
        "GB0811",
        "missing tp_iter",
        "Dynamo does not know which items this object yields.",
        "Convert it to a list outside the compiled function.",
        "The loop does not contain tensor operations.",
        example="""
import array
scales = array.array("i", [1, 2])
def f(x):
    for scale in scales:
        x = x * scale
    return x
""",
        fixed="""
scales = [1, 2]
def f(x):
    for scale in scales:
        x = x * scale
    return x
""",
    ),
    TorchBreak(
        "GB4198",
        "Attempted to copy.deepcopy a tensor",
        "A deep copy of a tensor copies its data, its storage and its autograd state. No operator does the same.",
        "Use `clone()`, or `detach().clone()`.",
        "You copy a model once, for example for an average of its weights.",
        example="""
import copy
def f(x):
    return copy.deepcopy(x) * 2
""",
        fixed="""
def f(x):
    return x.clone() * 2
""",
    ),
    TorchBreak(
        "GB4501",
        "Reconstruction of FakeIdVariable",
        "The function returns or keeps the `id` of an object that exists only during compilation.",
        "Call `id` outside the compiled function, or compare objects with `is`.",
        "The value is only printed while debugging.",
        example="""
def f(x):
    parts = [x * 2]
    key = id(parts)
    return parts[0], key > 0
""",
        fixed="""
def f(x):
    parts = [x * 2]
    return parts[0], parts is not None
""",
    ),
    TorchBreak(
        "GB5976",
        "Data pointer comparison",
        "`data_ptr()` is a memory address, which exists only when the graph runs.",
        "Compare tensors with `is`, or compare the addresses outside the compiled function.",
        "The comparison is an assertion that you only need while debugging.",
        example="""
def f(x):
    y = x * 2
    return y, x.data_ptr() == y.data_ptr()
""",
        fixed="""
def f(x):
    y = x * 2
    return y, x is y
""",
    ),
    TorchBreak(
        "GB7786",
        "missing_mp_ass_subscript",
        "An item is assigned or deleted by C code that Dynamo does not know.",
        "Use a list or a dict, whose mutations Dynamo tracks.",
        "The assignment is at the end of the function.",
        example="""
import array
seen = array.array("i", [1, 2])
def f(x):
    seen[0] = 5
    return x * 2
""",
        fixed="""
seen = [1, 2]
def f(x):
    seen[0] = 5
    return x * 2
""",
    ),
    TorchBreak(
        "GB8977",
        "Invalid call to __build_class__",
        "Each call would create a new class.",
        "Define the class at the top of the file.",
        "The function builds classes once, during setup.",
        example="""
def f(x):
    class Options:
        scale = 2
    return x * Options.scale
""",
        fixed="""
class Options:
    scale = 2
def f(x):
    return x * Options.scale
""",
    ),
    TorchBreak(
        "GB8985",
        "requires_grad_() intermediate leaked as output",
        "The function creates a leaf with `requires_grad_()` and returns a value that depends on it, so autograd outside "
        "would need that leaf.",
        "Create the leaf before the compiled function.",
        "The call runs during setup.",
        example="""
def f(x):
    leaf = x.detach().requires_grad_()
    return leaf * 2
""",
        fixed="""
def step(leaf):
    return leaf * 2
def f(x):
    leaf = x.detach().requires_grad_()
    return step(leaf)
""",
    ),
    TorchBreak(
        "GB0014",
        "Attempted to wrap RNN, GRU, or LSTM",
        "By default Dynamo leaves `nn.RNN`, `nn.GRU` and `nn.LSTM` to their own kernels; `torch._dynamo.config.allow_rnn "
        "= True` traces them.",
        "Leave the layer outside and compile what comes before and after it.",
        "Usually: these layers have fused kernels, and tracing unrolls them over time.",
        example="""
torch.manual_seed(0)
lstm = torch.nn.LSTM(3, 3)
def f(x):
    y, _ = lstm(x[None])
    return torch.relu(y) * 2
""",
        fixed="""
torch.manual_seed(0)
lstm = torch.nn.LSTM(3, 3)
def step(y):
    return torch.relu(y) * 2
def f(x):
    y, _ = lstm(x[None])
    return step(y)
""",
    ),
    TorchBreak(
        "GB0069",
        "Import failure",
        "The function imports a module that is not installed, and catches the error.",
        "Import optional modules at the top of the file.",
        "Never: the fix costs one line.",
        example="""
def f(x):
    try:
        import no_such_module
    except ImportError:
        x = x + 1
    return x * 2
""",
        fixed="""
try:
    import no_such_module
except ImportError:
    no_such_module = None
def f(x):
    if no_such_module is None:
        x = x + 1
    return x * 2
""",
    ),
    TorchBreak(
        "GB0099",
        "Skip inlining `torch.compiler.disable()`d function",
        "The function is disabled with `recursive=False`: it runs as plain Python, and what it calls may be compiled.",
        "Remove the decorator, or call the function before or after the compiled part.",
        "The function itself does not do tensor work.",
        example="""
@torch.compiler.disable(recursive=False)
def scale(x):
    return x * 2
def f(x):
    return scale(x) + 1
""",
        fixed="""
def scale(x):
    return x * 2
def f(x):
    return scale(x) + 1
""",
    ),
    TorchBreak(
        "GB0225",
        "Attempted to use tensor creation function with requires_grad=True",
        "The new tensor would be a leaf of the autograd graph, and a graph cannot create one.",
        "Create the tensor outside the compiled function.",
        "The function runs once, during setup.",
        example="""
def f(x):
    weight = torch.ones(3, requires_grad=True)
    return x * weight
""",
        fixed="""
weight = torch.ones(3, requires_grad=True)
def f(x):
    return x * weight
""",
    ),
    TorchBreak(
        "GB0246",
        "Attempted to use `torch.nn.functional.one_hot` with data-dependent output shape",
        "Without `num_classes`, the number of columns is the largest value plus one, so it depends on data.",
        "Pass `num_classes`.",
        "Never: the fix costs one argument.",
        example="""
def f(x):
    return torch.nn.functional.one_hot(x.long()) * 2
""",
        fixed="""
def f(x):
    return torch.nn.functional.one_hot(x.long(), num_classes=2) * 2
""",
    ),
    TorchBreak(
        "GB9186",
        "using `torch.autograd.grad` with `torch._dynamo.config.trace_autograd_ops=False`",
        "By default Dynamo does not trace through autograd: the gradient needs operations that have actually run.",
        "Use `torch.func.grad` on a function, which is traced.",
        "The forward is one graph, and the gradient is computed once after it.",
        example="""
args = (torch.ones(3, requires_grad=True),)
def f(x):
    loss = (x ** 3).sum()
    return torch.autograd.grad(loss, x)[0] * 2
""",
        fixed="""
args = (torch.ones(3),)
def loss(x):
    return (x ** 3).sum()
def f(x):
    return torch.func.grad(loss)(x) * 2
""",
    ),
)
"""The most frequent first."""
