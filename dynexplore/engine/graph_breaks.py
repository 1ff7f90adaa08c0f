"""Graph breaks: the table of their kinds, the exception that carries one, and the displayed text.

The idea: *why* is data. A graph break is not an error: the translator does not trace something, so the graph ends there, Python
runs it, and a resume function continues. Each cause is one row of `KINDS` with a stable id, a title without run-time text, an
explanation, how to avoid it, and whether it is fundamental (no tracer of this sort could capture it) or not done yet. If only a
rule is missing, it is not done yet, and the fix says where the rule goes. A call site passes the id and the facts; message, docs
page and widget use the row. To add a kind: one row here, one test that triggers it, and `python -m dynexplore.engine.graph_breaks
> docs/graph-breaks.md`.

Ids by theme: DX1xx data-dependent, DX2xx calls, DX3xx Python, DX4xx torch, DX5xx limits of the engine.

In: `unsupported("DX201", function="math.gamma")` or `raise GraphBreak("DX201", function="math.gamma")`. Out: `GraphBreak`, its
`reason` (one line), `render()` (the message block), `event()` (the record), `docs_page()`. PyTorch's counterpart: `unimplemented`
in torch/_dynamo/exc.py, and torch/_dynamo/graph_break_registry.json.
"""

from __future__ import annotations

from typing import Any, NoReturn

from dynexplore.engine.events import GraphBroke, UserFrame, clip
from dynexplore.engine.records import record


@record()
class Kind:
    """One cause of graph breaks. `title` contains no run-time text; `why` and `fix` are plain sentences.

    `example` is a program that triggers it: its function `f` breaks there when it is compiled and called with a tensor of three
    ones, or with the `args` that the program defines, under the `options` of config that it defines. `fixed` is the same program
    after the fix: one graph, and the same values (tests/engine/test_graph_break_examples.py).
    """

    id: str
    title: str
    why: str
    fix: str
    fundamental: bool = False
    example: str = ""
    fixed: str = ""

    @property
    def status(self) -> str:
        """ "fundamental" or "not done yet"."""
        return "fundamental" if self.fundamental else "not done yet"


THEMES: dict[str, str] = {
    "DX1": "The value decides",
    "DX2": "Calls",
    "DX3": "Python",
    "DX4": "torch",
    "DX5": "Limits of the engine",
}
"""The theme of each id range."""


def _rule_goes(place: str) -> str:
    """The sentence for developers if only a row in a table of rules is missing."""
    return f'To have it traced, add a rule: {place} (CONTRIBUTING.md, "Adding a rule for a C function").'


_ROWS: tuple[Kind, ...] = (
    # -- DX1xx: data-dependent -----------------------------------------------------------------------------------
    Kind(
        "DX101",
        "a tensor read out as a Python number",
        "`Tensor.item()`, `int()`, `float()` and similar calls need data that exists only when the graph runs.",
        "Keep the value a tensor (0-d tensors work in arithmetic), read it after the compiled function, or "
        "set `config.capture_scalar_outputs = True` to carry it as a symbol.",
        example="""
def f(x):
    return x * x.sum().item()
""",
        fixed="""
def f(x):
    return x * x.sum()
""",
        fundamental=True,
    ),
    Kind(
        "DX102",
        "a tensor read out as a Python list",
        "`Tensor.tolist()` needs data that exists only when the graph runs.",
        "Index or stack tensors instead, or call `tolist` after the compiled function.",
        example="""
def f(x):
    return x + len(x.tolist())
""",
        fixed="""
def f(x):
    return x + x.shape[0]
""",
        fundamental=True,
    ),
    Kind(
        "DX103",
        "a tensor turned into text",
        "`repr`, `str`, `format` or an f-string of a tensor prints data that exists only when the graph runs.",
        "Print shape or dtype instead, or print after the compiled function.",
        example="""
def f(x):
    return x + 1, f"{x}"
""",
        fundamental=True,
    ),
    Kind(
        "DX104",
        "`if` on a tensor value",
        "The branch depends on data that exists only when the graph runs.",
        "Use torch.where, or move the `if` out of the compiled function.",
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
        fundamental=True,
    ),
    Kind(
        "DX105",
        "the truth of a tensor as a value",
        "`bool(t)`, `not t`, `all(...)` or `any(...)` over tensors needs data that exists only when the graph runs.",
        "Use torch.logical_not, torch.all or torch.any and keep the result a tensor.",
        example="""
def f(x):
    return x + (not x.any())
""",
        fixed="""
def f(x):
    return x + torch.logical_not(x.any())
""",
        fundamental=True,
    ),
    Kind(
        "DX106",
        "an assertion on a tensor value",
        "Whether the assertion holds depends on data that exists only when the graph runs.",
        "Use an `assert` statement, which becomes a check in the graph, or check before the compiled function.",
        example="""
def f(x):
    torch._assert(x.sum() > 0, "the sum must be positive")
    return x * 2
""",
        fixed="""
def f(x):
    assert x.sum() > 0, "the sum must be positive"
    return x * 2
""",
        fundamental=True,
    ),
    Kind(
        "DX107",
        "the shape of the result depends on data",
        "Operators like nonzero, unique and boolean masks have an output size that is known only when they run.",
        "Use torch.where with three arguments or masked arithmetic, or set `config.capture_dynamic_output_shape_ops = True`.",
        example="""
def f(x):
    return x[x > 0] * 2
""",
        fundamental=True,
    ),
    Kind(
        "DX108",
        "a Python object indexed by a tensor value",
        "Which item is meant depends on data that exists only when the graph runs.",
        "Stack the items into one tensor and index that (index_select, gather).",
        example="""
names = ["zero", "one"]
def f(x):
    return x * 2, names[x.long().min()]
""",
        fundamental=True,
    ),
    Kind(
        "DX109",
        "a loop whose length is a tensor value",
        "How often the loop runs (`range(t)`, `while t > 0`) depends on data that exists only when the graph runs.",
        "Loop over a shape or a Python number, or write the loop as one tensor operation.",
        example="""
def f(x):
    for _ in range(x.long().min()):
        x = x + 1
    return x
""",
        fixed="""
def f(x):
    return x + x.long().min().clamp(min=0)
""",
        fundamental=True,
    ),
    Kind(
        "DX110",
        "a comparison of symbolic sizes that cannot be decided",
        "The size comes from data (an unbacked symbol), and the program branches on it.",
        "Give a hint with torch._check, or leave `capture_scalar_outputs` off for this function.",
        fundamental=True,
    ),
    Kind(
        "DX111",
        "a tensor hashed or compared by value in a container",
        "`t in list_of_tensors`, `list.index(t)`, `list.remove(t)` compare element values, which exist only when the graph runs.",
        "Compare with `is`, or keep an index beside the tensor.",
        example="""
def f(x):
    return x * 2, x.sum() in [x.mean(), x.max()]
""",
        fundamental=True,
    ),
    Kind(
        "DX112",
        "the address of a tensor read out",
        "`data_ptr()` and `untyped_storage()` give memory that exists only when the graph runs.",
        "Move the code that needs the address out of the compiled function.",
        example="""
def f(x):
    return x * 2, x.data_ptr() == 0
""",
        fundamental=True,
    ),
    # -- DX2xx: calls ----------------------------------------------------------------------------------------------
    Kind(
        "DX201",
        "call of a C function that is not traced",
        "The function has no Python bytecode to trace, and the engine has no rule for it.",
        "Move the call out of the compiled function, or mark it with `allow_in_graph` if it maps tensors to tensors. "
        + _rule_goes("`runs_on_constants` in scalars/number_rules.py if it acts on nothing but its arguments, else `@builtin`"),
        example="""
import zlib
def f(x):
    return x * zlib.crc32(b"a")
""",
    ),
    Kind(
        "DX202",
        "call of a function marked as not to be traced",
        "The function, its module or its caller was marked with `disable`, `skip` or `disallow_in_graph` (or torch's own mark).",
        "Call it outside of the compiled function; if the mark is your own, and the function can be traced, remove the mark.",
        example="""
@dynexplore.disable
def helper(x):
    return x + 1
def f(x):
    return helper(x) * 2
""",
        fixed="""
def helper(x):
    return x + 1
def f(x):
    return helper(x) * 2
""",
        fundamental=True,
    ),
    Kind(
        "DX203",
        "call of a function in a file that is not traced",
        "Files of the standard library and of some packages are not traced, because they do no tensor work.",
        "Move the call out of the compiled function.",
        example="""
import textwrap
def f(x):
    return x * len(textwrap.dedent("  a"))
""",
    ),
    Kind(
        "DX204",
        "call of a builtin that is not traced",
        "The engine has no rule for this builtin.",
        "Write it with operations that are traced, or move it out of the compiled function. "
        + _rule_goes("`@builtin` in builtin_rules.py"),
        example="""
def f(x):
    return x * 2, len(dir(x)) > 0
""",
    ),
    Kind(
        "DX205",
        "call of a builtin with an argument it has no rule for",
        "The engine has a rule for this builtin, but not for these types of arguments.",
        "Convert the arguments first, or move the call out of the compiled function. "
        + _rule_goes("the function below `@builtin` or `@rule` answers for these arguments, too"),
        example="""
def f(x):
    parts = [x, x * 2]
    return parts, id(parts) > 0
""",
    ),
    Kind(
        "DX206",
        "printing or logging",
        "Output must appear when the function runs, once for each call, and not while it is compiled.",
        "Print or log before or after the compiled function, or not at all.",
        example="""
def f(x):
    x = x + 1
    print("woo")
    return x * 2
""",
        fixed="""
def f(x):
    x = x + 1
    return x * 2
""",
        fundamental=True,
    ),
    Kind(
        "DX207",
        "a numpy call",
        "This call draws random numbers, depends on data that exist only when the graph runs, or is one for which torch's operators"
        " are not known to give what numpy gives.",
        "Use the torch function of the same name, or convert outside of the compiled function.",
        example="""
import numpy as np

def f(x):
    return x * np.random.rand()
""",
    ),
    Kind(
        "DX208",
        "an explicit graph_break()",
        "The program asks for a graph break here.",
        "Remove the call of `graph_break()`, or, where a library makes it, call the library outside.",
        example="""
def f(x):
    x = x + 1
    dynexplore.graph_break()
    return x * 2
""",
        fixed="""
def f(x):
    x = x + 1
    return x * 2
""",
        fundamental=True,
    ),
    Kind(
        "DX209",
        "making an instance of a class that is not traced",
        "The class has a metaclass, a `__new__` or an `__init__` that the engine does not look into.",
        "Make the object outside of the compiled function, or give the class a plain Python `__init__`.",
        example="""
from array import array
def f(x):
    numbers = array("d", [2.0])
    return x * numbers[0]
""",
    ),
    Kind(
        "DX210",
        "a generator used in a way that is not traced",
        "A generator is followed through its body; its frame, and throwing into one that delegates with `yield from`, are not.",
        "Iterate over the generator, or use a list.",
    ),
    Kind(
        "DX211",
        "call of a coroutine or async generator",
        "Asynchronous code is run by an event loop, which the engine does not see.",
        "Compile the synchronous functions that it calls.",
        example="""
async def later():
    return 1
def f(x):
    later().close()
    return x * 2
""",
        fundamental=True,
    ),
    Kind(
        "DX212",
        "call of an object of unknown type",
        "The engine does not know what calling this object does.",
        "Call a plain function or method instead.",
        example="""
import ctypes
absolute = ctypes.pythonapi.PyNumber_Absolute
absolute.argtypes = [ctypes.py_object]
absolute.restype = ctypes.py_object
def f(x):
    return absolute(x) + 1
""",
    ),
    Kind(
        "DX213",
        "call of a method that is not traced",
        "The engine has no rule for this method of this type.",
        "Write it with methods that are traced, or move it out of the compiled function. "
        + _rule_goes("`@builtin_method` in the file of the type's tracker"),
        example="""
def f(x):
    return x * len(slice(1, 3).__reduce__())
""",
    ),
    Kind(
        "DX215",
        "reading or writing files, time or the system",
        "Input, output and the clock belong to the outside world: they must happen when the function runs.",
        "Do it before or after the compiled function.",
        example="""
def f(x):
    with open("/dev/null") as file:
        return x * 2, file.read()
""",
        fundamental=True,
    ),
    Kind(
        "DX217",
        "looking at frames or running text as code",
        "`eval`, `exec`, `sys._getframe` and `inspect` see the frame that really runs.",
        "Move the call out of the compiled function.",
        example="""
def f(x):
    return x * eval("1 + 1")
""",
        fixed="""
def f(x):
    return x * (1 + 1)
""",
        fundamental=True,
    ),
    Kind(
        "DX218",
        "a call whose arguments do not fit the function",
        "Binding the arguments raises in Python, or the engine's rule does not take all of them yet. Python makes the call.",
        "Pass the arguments that the function takes. " + _rule_goes("the signature below `@builtin` or `@builtin_method`"),
        example="""
def f(x):
    numbers = (n for n in (1, 2))
    try:
        numbers.send(1, 2)
    except TypeError:
        x = x + 1
    return x
""",
    ),
    Kind(
        "DX219",
        "Python's random numbers",
        "The number is drawn when the function runs. Used as an input of the graph it needs no break; a branch on it, or a "
        "generator other than that of the module `random`, does.",
        "Draw the number before the compiled function and pass it, or use torch's random numbers.",
        example="""
import random
def f(x):
    if random.random() < 0.5:
        return x * 2
    return x * 3
""",
        fundamental=True,
    ),
    # -- DX3xx: Python ---------------------------------------------------------------------------------------------
    Kind(
        "DX301",
        "an instruction that is not traced",
        "The engine has no handler for this bytecode instruction.",
        "Write the line in another way, or move it out of the compiled function.",
        example="""
def f(x):
    try:
        x = x + 1
        raise ExceptionGroup("two", [ValueError()])
    except* ValueError:
        x = x * 2
    return x
""",
    ),
    Kind(
        "DX302",
        "a value of a type that is not traced",
        "The engine has no tracker for values of this type.",
        "Pass the tensors and numbers that are needed instead of the object.",
        example="""
import array
numbers = array.array("i", [1, 2])
def f(x):
    return x * len(numbers)
""",
    ),
    Kind(
        "DX303",
        "an attribute that is not traced",
        "Reading or writing this attribute runs code that the engine does not look into (a descriptor, `__getattr__`, a C type).",
        "Read the attribute before the compiled function and pass the value.",
        example="""
import datetime
day = datetime.date(2024, 2, 1)
def f(x):
    return x * day.month
""",
    ),
    Kind(
        "DX304",
        "an operator that is not traced for these types",
        "The engine has no rule for this operator with these types of operands.",
        "Convert the operands first.",
        example="""
import datetime
day = datetime.date(2024, 2, 1)
def f(x):
    day - day
    return x * 2
""",
    ),
    Kind(
        "DX305",
        "a comparison that is not traced for these types",
        "The engine has no rule for this comparison with these types of operands.",
        "Compare plain numbers, strings or tensors.",
        example="""
import datetime
day = datetime.date(2024, 2, 1)
def f(x):
    return x * 2 if day < datetime.date.max else x
""",
    ),
    Kind(
        "DX306",
        "an index or slice that is not traced",
        "The engine has no rule for getting, setting or deleting this item.",
        "Use plain numbers, slices and strings as keys.",
        example="""
import array
numbers = array.array("i", [1, 2])
def f(x):
    return x * numbers[1]
""",
    ),
    Kind(
        "DX307",
        "iteration over a type that is not traced",
        "The engine does not know which items this object gives.",
        "Turn it into a list or tuple before the compiled function.",
        example="""
import array
numbers = array.array("i", [1, 2])
def f(x):
    for number in numbers:
        x = x * number
    return x
""",
    ),
    Kind(
        "DX308",
        "a context manager that is not traced",
        "The engine does not know what entering and leaving this object does.",
        "Enter it outside of the compiled function.",
        example="""
import threading
lock = threading.Lock()
def f(x):
    with lock:
        return x * 2
""",
    ),
    Kind(
        "DX310",
        "an exception that is not traced",
        "The engine does not follow this way of raising, or this type of exception.",
        "Raise a plain exception class with constant arguments.",
        example="""
def f(x):
    x = x + 1
    raise ValueError("no")
""",
    ),
    Kind(
        "DX311",
        "a graph break inside an `except` or `finally` handler",
        "The exception being handled is not on the stack, so it cannot be passed to a resume function; the break "
        "moves back to the instruction that raised.",
        "Move the code that breaks out of the handler.",
        example="""
def f(x):
    try:
        x = x + 1
        raise ValueError("no")
    except ValueError:
        print("woo")
    return x * 2
""",
        fundamental=True,
    ),
    Kind(
        "DX312",
        "an import that is not traced",
        "The imported module is not loaded yet, and loading it runs code.",
        "Import it at the top of the file.",
        example="""
def f(x):
    import tabnanny
    return x * 2, tabnanny.__name__
""",
    ),
    Kind(
        "DX313",
        "`super()` in a form that is not traced",
        "The engine cannot see which class and instance this `super` is about.",
        "Use `super()` without arguments in a method of a plain class.",
        example="""
class Base:
    pass
def f(x):
    return x * 2, super(Base).__self__ is None
""",
    ),
    Kind(
        "DX314",
        "a mutation of an object that is not tracked",
        "The change could not be replayed after the graph ran.",
        "Return the new value instead of changing the object, or change it outside of the compiled function.",
        example="""
def f(x):
    y = x + 1
    def later():
        return y
    del y
    return x * 2
""",
    ),
    Kind(
        "DX315",
        "a class defined inside the compiled function",
        "Each call makes another class: one that leaves the frame, or whose making runs code of the program, is made by Python.",
        "Define the class at the top of the file.",
        example="""
def f(x):
    class Pair:
        pass
    return x * 2, Pair
""",
    ),
    Kind(
        "DX317",
        "a pattern match that is not traced",
        "The pattern is no class, or what its class says of `__match_args__` is computed.",
        "Use `if` and isinstance.",
        example="""
class Named(type):
    @property
    def __match_args__(cls):
        return ("size",)
class Box(metaclass=Named):
    size = 1
def f(x):
    match Box():
        case Box(1):
            x = x + 1
    return x * 2
""",
    ),
    Kind(
        "DX318",
        "a value that cannot be reconstructed",
        "After a break the modified code must reconstruct this value, and no bytecode that the engine can write does.",
        "Make the value after the break, or keep it out of the locals that are alive there.",
        example="""
def numbers():
    yield 1
    yield 2
def f(x):
    ones = numbers()
    x = x * next(ones)
    print("woo")
    return x * next(ones)
""",
    ),
    Kind(
        "DX319",
        "a deletion that is not traced",
        "Deleting this attribute or item runs code that the engine does not look into.",
        "Delete it outside of the compiled function.",
        example="""
import array
numbers = array.array("i", [1, 2, 3, 4])
def f(x):
    del numbers[0]
    return x * 2
""",
    ),
    Kind(
        "DX320",
        "a key that is not traced in a dict or set",
        "The engine knows the hash and equality only of constants, tensors by identity, modules, functions and classes.",
        "Use strings or numbers as keys.",
        example="""
from datetime import date
day = date(2020, 2, 29)
def f(x):
    return x * {day: 2}[day]
""",
    ),
    # -- DX4xx: torch ----------------------------------------------------------------------------------------------
    Kind(
        "DX321",
        "an object whose end the program hears of",
        "It must be a real object, freed when its last reference goes: then its `__del__` runs, and weak references end.",
        "Make the object outside of the compiled function.",
        example="""
class Resource:
    def __del__(self):
        self.closed = True
def make():
    return Resource()
def f(x):
    resource = make()
    return x * 2
""",
        fundamental=True,
    ),
    Kind(
        "DX401",
        "an operator that fails on fake tensors",
        "While capturing, operators run on tensors without data, to learn shape and dtype; this one raised.",
        "If it also raises in eager, fix the call. If not, register a fake implementation (torch.library.register_fake).",
        example="""
def f(x):
    try:
        return x.reshape(99)
    except RuntimeError:
        return x * 2
""",
    ),
    Kind(
        "DX402",
        "a tensor subclass that is not traced",
        "Of a subclass the engine traces what its `__torch_function__` says; this one changes what tensors do in other ways.",
        "Pass plain tensors, or add the class to `config.traceable_tensor_subclasses`.",
        example="""
class Marked(torch.Tensor):
    def dim(self):
        return -1
marked = torch.ones(3).as_subclass(Marked)
def f(x):
    return x * 2 + marked
""",
    ),
    Kind(
        "DX404",
        "hooks on a tensor or module that are not traced",
        "The hook is Python code that autograd calls later.",
        "Register it outside of the compiled function.",
        example="""
def f(x):
    y = x * 2
    if y.requires_grad:
        y.register_hook(print)
    return y
args = (torch.ones(3, requires_grad=True),)
""",
    ),
    Kind(
        "DX405",
        "an autograd.Function in a form that is not traced",
        "Its code runs while it is compiled: one that prints, may change something outside, or is not written in Python is not "
        "traced.",
        "Move visible effects (prints, writes to globals) out of forward and backward.",
        example="""
class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        print("forward")
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2

def f(x):
    return Double.apply(x)

args = (torch.ones(3, requires_grad=True),)
""",
    ),
    Kind(
        "DX406",
        "backward or torch.autograd.grad inside the compiled function",
        "Autograd runs on the graph of operations that have really run.",
        "Compile the forward and the loss, and call backward outside.",
        example="""
def f(x):
    loss = (x * 2).sum()
    loss.backward()
    return loss
args = (torch.ones(3, requires_grad=True),)
""",
        fundamental=True,
    ),
    Kind(
        "DX407",
        "requires_grad changed inside the compiled function",
        "Whether gradients flow decides how the graph is compiled.",
        "Set requires_grad before the compiled function.",
        example="""
def f(x):
    return x.detach().requires_grad_() * 2
""",
    ),
    Kind(
        "DX408",
        "a tensor whose storage is replaced",
        "`set_`, `resize_`, an input as `out=` of another size, and assigning `.data` of another shape, or to a tensor made in the "
        "function, give a tensor other memory without an operator that the graph could record; `t_` and its like, on inputs whose "
        "sizes vary, change what these are read of.",
        "Use copy_, give `out=` the size of the result, or assign outside of the compiled function.",
        example="""
def f(x):
    y = x + 1
    y.data = x * 3
    return y
""",
    ),
    Kind(
        "DX409",
        "a tensor of a layout that is not traced",
        "Sparse, quantized, nested and mkldnn tensors have no plain sizes and strides to guard.",
        "Convert to a dense tensor before the compiled function.",
        example="""
def f(x):
    return x.to_dense() * 2
args = (torch.ones(3).to_sparse(),)
""",
    ),
    Kind(
        "DX411",
        "a tensor attribute that is not traced",
        "The engine has no rule for this attribute of a tensor.",
        "Read the attribute before the compiled function and pass the value. "
        + _rule_goes("`@attribute` in torch_/tensor/tensor.py"),
        example="""
def f(x):
    y = x * 2
    return y, y.grad_fn is None
args = (torch.ones(3, requires_grad=True),)
""",
    ),
    Kind(
        "DX412",
        "an operator whose result is not a tensor",
        "Only tensors, sizes and numbers derived from sizes can be values of the graph.",
        "Call it outside of the compiled function.",
        example="""
generator = torch.Generator().manual_seed(0)
def f(x):
    return x + torch.rand(3, generator=generator).shape[0]
""",
    ),
    Kind(
        "DX414",
        "a module that is not traced",
        "This kind of nn.Module (a ScriptModule, a lazy module, a module with `__getattr__` of its own) is not traced.",
        "Call it outside of the compiled function, or mark it with `allow_in_graph`.",
        example="""
scripted = torch.jit.trace(torch.nn.ReLU(), torch.ones(3))

def f(x):
    return scripted(x) + 1
""",
    ),
    Kind(
        "DX416",
        "a deep-copied, pickled or loaded tensor",
        "`torch.save`, `torch.load` and Python's protocols need the tensor's data. `copy.deepcopy` is traced of modules and of "
        "tensors without a history that lie in memory of their own.",
        "Use clone(), or do it outside of the compiled function.",
        example="""
def f(x):
    return x.__deepcopy__({}) * 2
""",
        fixed="""
def f(x):
    return x.clone() * 2
""",
        fundamental=True,
    ),
    Kind(
        "DX417",
        "a numpy array made from a tensor",
        "Only a tensor on the CPU that needs no gradient, of a dtype that numpy has, is an array on the same memory.",
        "Call `x.detach().cpu().numpy()`, stay in torch, or convert outside of the compiled function.",
        example="""
def f(x):
    return torch.from_numpy(x.numpy(force=True)) * 2
""",
    ),
    Kind(
        "DX418",
        "a DistributedDataParallel module prepares its all-reduce",
        "Its forward communicates with the other processes (buffers are broadcast, gradient hooks prepared) and runs as plain "
        "Python; the module inside is captured on its own, split at the boundaries of its gradient buckets.",
        "Nothing needs to change. For one graph without a break, pass the DistributedDataParallel module itself to `optimize`.",
        example="""
class Stub(torch.nn.parallel.DistributedDataParallel):
    def __init__(self, module):
        torch.nn.Module.__init__(self)
        self.module = module
        self._use_python_reducer = True  # only a stand-in: it talks to no other process
        self._delay_all_reduce_all_params = False

replica = Stub(torch.nn.ReLU())

def f(x):
    return replica(x) + 1
""",
        fundamental=True,
    ),
    Kind(
        "DX419",
        "a `__torch_function__` in a way that is not traced",
        "A mode, or the class of a tensor, is asked about each call of torch, and its answers are traced; here it is used"
        " in another way.",
        "Leave the mode before this line, or call the function with plain tensors.",
        example="""
class Passes(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))

def f(x):
    y = x * 2
    with Passes(), torch.set_grad_enabled(False):
        return y + 1
""",
    ),
    Kind(
        "DX421",
        "a higher-order operator in a way that is not traced",
        "The functions given to `torch.utils.checkpoint.checkpoint`, `torch.cond`, `while_loop`, `map` or `scan` become bodies in "
        "the graph, which may run often, or not at all: they may not change what was there before, and not every option is traced.",
        "Let the function return what it computes and change nothing else; for `checkpoint` say `use_reentrant=False`; "
        "the branches of `cond` return new tensors alike in number, shape and dtype, the step of a loop such as it was given.",
        example="""
seen = []

def body(x):
    seen.append(1)
    return x.sin()

def f(x):
    return torch.utils.checkpoint.checkpoint(body, x, use_reentrant=False) + 1

args = (torch.ones(3, requires_grad=True),)
""",
    ),
    # -- DX5xx: limits of the engine -------------------------------------------------------------------------------
    Kind(
        "DX501",
        "calls nested too deeply",
        "The callee would be inlined deeper than the limit, most often because it is recursive.",
        "Compile the inner function, or turn the recursion into a loop.",
        example="""
options = {"inline_depth_limit": 2}

def power(x, n):
    return x if n == 0 else x * power(x, n - 1)

def f(x):
    return power(x, 4)
""",
    ),
    Kind(
        "DX502",
        "too many instructions in one graph",
        "The loop or the program is so long that capturing it as one graph would take too long.",
        "Move the loop out of the compiled function.",
        example="""
options = {"instruction_limit": 100}

def f(x):
    for i in range(20):
        x = x + i
    return x
""",
    ),
    Kind(
        "DX505",
        "a capture that takes too long",
        "A translation has so many seconds of CPU time (`config.translation_seconds`), a fortieth of them without a tensor "
        "operation; past them the frame runs as plain Python.",
        "Move what takes long out of the compiled function, or give it more time with the option.",
        example="""
options = {"translation_seconds": 1e-9}

def f(x):
    for i in range(300):
        x = x + i
    return x
""",
    ),
)

KINDS: dict[str, Kind] = {kind.id: kind for kind in _ROWS}
"""Every kind of graph break by id."""


class SkipFrame(Exception):
    """Skip this frame; holds the reason."""


class GraphBreak(Exception):
    """The translator does not trace something: the graph ends before the current instruction.

    `kind` is the row of the table, `facts` the run-time facts by name (text, each shortened to one line). `user_stack` is set by
    the translator, outermost frame first. An id that is not in the table is a bug in the engine: KeyError.

    >>> GraphBreak("DX104", op="lt").reason
    '`if` on a tensor value (op: lt)'
    """

    def __init__(self, kind: str, /, **facts: object) -> None:
        if kind not in KINDS:
            raise KeyError(f"no graph-break kind {kind!r}; the kinds are rows of engine/graph_breaks.py")
        self.kind: Kind = KINDS[kind]
        self.facts: dict[str, str] = {name: one_line(value) for name, value in facts.items()}
        self.user_stack: tuple[UserFrame, ...] = ()
        super().__init__(self.reason)

    @property
    def reason(self) -> str:
        """One line for counters, logs and explain: the kind's title and the facts."""
        facts = ", ".join(f"{name}: {text}" for name, text in self.facts.items())
        return f"{self.kind.title} ({facts})" if facts else self.kind.title

    def event(self, **where: Any) -> GraphBroke:
        """The record of this break: `event(frame=1, attempt=2, offset=30, stack=...)`; see GraphBroke."""
        return GraphBroke(
            kind=self.kind.id,
            title=self.kind.title,
            reason=self.reason,
            why=self.kind.why,
            fix=self.kind.fix,
            fundamental=self.kind.fundamental,
            facts=tuple(self.facts.items()),
            user_stack=self.user_stack,
            **where,
        )

    def render(self, then: str = "") -> str:
        """The displayed message block; `then` describes how the engine continued."""
        return self.event(frame=0).report(then)


def unsupported(kind: str, /, **facts: object) -> NoReturn:
    """Raise a GraphBreak of this kind: `unsupported("DX303", attribute="T.x")`."""
    raise GraphBreak(kind, **facts)


def one_line(value: object, limit: int = 160) -> str:
    """Return `value` as short text on one line; if its `__str__` raises, a text that says so."""
    try:
        text = str(value)
    except Exception as error:
        text = f"<{type(value).__name__}: its str raised {type(error).__name__}>"
    return clip(" ".join(text.split()), limit)


def docs_page() -> str:
    """The text of docs/graph-breaks.md, generated from the table."""
    lines = [
        "# Graph breaks",
        "",
        "<!-- Generated: python -m dynexplore.engine.graph_breaks > docs/graph-breaks.md -->",
        "",
        "Why did the graph end here, and what helps? Where the engine does not trace something, the graph ends,",
        "Python does it, and the next graph begins after it. Each cause has an id, which reports name.",
        "*Fundamental* means that no capture of this sort could go on; the others are not done yet.",
    ]
    for prefix, theme in THEMES.items():
        lines += ["", f"## {theme}"]
        for kind in KINDS.values():
            if kind.id.startswith(prefix):
                lines += ["", f'<a id="{kind.id.lower()}"></a>', f"### {kind.id}: {kind.title}", ""]
                lines += [f"*{kind.status}*", "", f"**Why.** {kind.why}", "", f"**Fix.** {kind.fix}"]
                if kind.example:
                    lines += ["", "```python", kind.example.strip(), "```"]
                if kind.fixed:
                    lines += ["", "Fixed: 1 graph, same values.", "", "```python", kind.fixed.strip(), "```"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(docs_page(), end="")
