"""Graph breaks: the table of their kinds, the exception that carries one, and the displayed text.

The idea: *why* is data. A graph break is not an error: the translator cannot trace something, so the graph ends there, Python
runs it, and a resume function continues. Each cause is one row of `KINDS` with a stable id, a title without run-time text, an
explanation, how to avoid it, and whether it is fundamental (no tracer of this kind could capture it) or not supported yet. If
only a rule is missing, it is not supported yet, and the fix says where the rule goes. A call site passes the id and the facts;
message, docs page and widget use the row. To add a kind: one row here, one test that triggers it, a sentence in
docs/breaks/acceptable.py, then run `python -m dynexplore.engine.graph_breaks > docs/graph-breaks.md` and
`python scripts/break_pages.py`.

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
    after the fix: one graph, and the same values and output (tests/engine/test_graph_break_examples.py). If it defines a function
    `step`, that is what is compiled there, and `f`, which calls it, is plain Python. `differences`: the ids of known differences
    from plain Python (docs/differences.md) that a program which breaks there may meet.
    """

    id: str
    title: str
    why: str
    fix: str
    fundamental: bool = False
    example: str = ""
    fixed: str = ""
    differences: tuple[str, ...] = ()

    @property
    def status(self) -> str:
        """ "fundamental" or "not supported yet"."""
        return "fundamental" if self.fundamental else "not supported yet"

    @property
    def compiled(self) -> str:
        """The function of the fixed program that is compiled."""
        return "step" if "\ndef step(" in self.fixed else "f"

    @property
    def result_of_fix(self) -> str:
        """The sentence above the fixed program."""
        return result_of_fix(self.compiled)


def result_of_fix(compiled: str) -> str:
    """The sentence above a fixed program, of which the function with this name is compiled."""
    moved = "Compile `step` instead of `f`. " if compiled == "step" else ""
    return f"{moved}The fixed program needs one graph and returns the same values:"


THEMES: dict[str, str] = {
    "DX1": "Data-dependent code",
    "DX2": "Calls",
    "DX3": "Python",
    "DX4": "PyTorch",
    "DX5": "Limits of the engine",
}
"""The theme of each id range."""


_ROWS: tuple[Kind, ...] = (
    # -- DX1xx: data-dependent -----------------------------------------------------------------------------------
    Kind(
        "DX101",
        "converting a tensor to a Python number",
        "`Tensor.item()`, `int()`, `float()` and similar calls need data that exists only when the graph runs.",
        "Keep the value in a tensor (a 0-d tensor works in arithmetic), convert it outside the compiled function, or set "
        "`dynexplore.config.capture_scalar_outputs = True`.",
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
        "converting a tensor to a Python list",
        "`Tensor.tolist()` needs data that exists only when the graph runs.",
        "Index or stack tensors instead, or call `tolist` outside the compiled function.",
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
        "formatting a tensor as text",
        "`repr`, `str`, `format` and f-strings need the tensor's data, which exists only when the graph runs.",
        "Format the shape or dtype instead, or format the tensor outside the compiled function.",
        example="""
def f(x):
    return x + 1, f"{x}"
""",
        fixed="""
def step(x):
    return x + 1
def f(x):
    return step(x), f"{x}"
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
        "a tensor used as a Python bool",
        "`bool(t)`, `not t`, and `all(...)` or `any(...)` over tensors need data that exists only when the graph runs.",
        "Use torch.logical_not, torch.all or torch.any, which return tensors, or compute the value outside the compiled function.",
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
        "Use an `assert` statement, which becomes a check in the graph, or check outside the compiled function.",
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
        "a data-dependent output shape",
        "The output size of operators such as nonzero, unique and indexing with a boolean mask is known only when they run.",
        "Use torch.where with three arguments or masked arithmetic, or set "
        "`dynexplore.config.capture_dynamic_output_shape_ops = True`.",
        example="""
def f(x):
    return x[x > 0] * 2
""",
        fixed="""
options = {"capture_dynamic_output_shape_ops": True}
def f(x):
    return x[x > 0] * 2
""",
        fundamental=True,
    ),
    Kind(
        "DX108",
        "indexing a Python object with a tensor",
        "Which item is selected depends on data that exists only when the graph runs.",
        "Stack the items into one tensor and index that (index_select, gather).",
        example="""
names = ["zero", "one"]
def f(x):
    return x * 2, names[x.long().min()]
""",
        fixed="""
names = ["zero", "one"]
def step(x):
    return x * 2, x.long().min()
def f(x):
    y, i = step(x)
    return y, names[i]
""",
        fundamental=True,
    ),
    Kind(
        "DX109",
        "a loop with a data-dependent length",
        "The number of iterations (`range(t)`, `while t > 0`) depends on data that exists only when the graph runs.",
        "Use a size or a Python number as the loop bound, or replace the loop with a tensor operation.",
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
        "a data-dependent number or size that Python needs",
        "The number depends on tensor data (it is an unbacked symbol), so a loop bound, a comparison or an f-string that needs "
        "its value cannot be captured.",
        "Use a tensor operation that does not need the number, or declare its value, as in `torch._check(size == 3)`.",
        example="""
options = {"capture_scalar_outputs": True}
def f(x):
    for _ in range(x.long().sum().item()):
        x = x + 1
    return x
""",
        fixed="""
options = {"capture_scalar_outputs": True}
def f(x):
    return x + x.long().sum().clamp(min=0)
""",
        fundamental=True,
    ),
    Kind(
        "DX111",
        "comparing the tensors in a container by value",
        "`t in tensors`, `tensors.index(t)` and `tensors.remove(t)` compare element values, which exist only when the graph runs.",
        "Compare with `is`, or store an index with each tensor.",
        example="""
def f(x):
    return x * 2, x.sum() in [x.mean(), x.max()]
""",
        fixed="""
def step(x):
    return x * 2, (x.sum() == x.mean()) | (x.sum() == x.max())
def f(x):
    y, found = step(x)
    return y, bool(found)
""",
        fundamental=True,
    ),
    Kind(
        "DX112",
        "reading the memory address of a tensor",
        "`data_ptr()` and `untyped_storage()` return memory that exists only when the graph runs.",
        "Move the code that needs the address out of the compiled function.",
        example="""
def f(x):
    return x * 2, x.data_ptr() == 0
""",
        fixed="""
def step(x):
    return x * 2
def f(x):
    return step(x), x.data_ptr() == 0
""",
        fundamental=True,
    ),
    # -- DX2xx: calls ----------------------------------------------------------------------------------------------
    Kind(
        "DX201",
        "a call to an unsupported C function",
        "The function has no Python bytecode to trace, and the engine has no rule for it.",
        "Move the call out of the compiled function, or mark it with `allow_in_graph` if it maps tensors to tensors.",
        example="""
import zlib
def f(x):
    return x * zlib.crc32(b"a")
""",
        fixed="""
import zlib
checksum = zlib.crc32(b"a")
def f(x):
    return x * checksum
""",
    ),
    Kind(
        "DX202",
        "a call to a function marked as not traceable",
        "The function, its module or its caller is marked with `disable`, `skip` or `disallow_in_graph` (or torch's counterparts).",
        "Call it outside the compiled function. If you added the mark and the function can be traced, remove the mark.",
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
        "a call to a function in a skipped file",
        "Files of the standard library and of some packages are skipped, because they do no tensor work.",
        "Move the call out of the compiled function.",
        example="""
import textwrap
def f(x):
    return x * len(textwrap.dedent("  a"))
""",
        fixed="""
import textwrap
width = len(textwrap.dedent("  a"))
def f(x):
    return x * width
""",
    ),
    Kind(
        "DX204",
        "a call to an unsupported builtin",
        "The engine has no rule for this builtin.",
        "Rewrite it with supported operations, or move it out of the compiled function.",
        example="""
def f(x):
    return x * 2, len(dir(x)) > 0
""",
        fixed="""
def step(x):
    return x * 2
def f(x):
    return step(x), len(dir(x)) > 0
""",
    ),
    Kind(
        "DX205",
        "a builtin called with unsupported arguments",
        "The engine supports this builtin, but not with arguments of these types.",
        "Convert the arguments first, or move the call out of the compiled function.",
        example="""
def f(x):
    parts = [x, x * 2]
    return parts, id(parts) > 0
""",
        fixed="""
def step(x):
    return [x, x * 2]
def f(x):
    parts = step(x)
    return parts, id(parts) > 0
""",
    ),
    Kind(
        "DX206",
        "printing or logging",
        "Output must appear each time the function runs, not while it is compiled.",
        "Move the print outside the compiled function, or remove it.",
        example="""
def f(x):
    x = x + 1
    print("woo")
    return x * 2
""",
        fixed="""
def step(x):
    return (x + 1) * 2
def f(x):
    y = step(x)
    print("woo")
    return y
""",
        fundamental=True,
    ),
    Kind(
        "DX207",
        "an unsupported numpy call",
        "This call draws random numbers, needs data that exists only when the graph runs, or has no torch operator known to "
        "return the same result.",
        "Use the torch function that does the same, or call numpy outside the compiled function.",
        example="""
import numpy as np

def f(x):
    return x * np.random.rand()
""",
        fixed="""
import numpy as np

def step(x, scale):
    return x * scale
def f(x):
    return step(x, np.random.rand())
""",
        differences=("DIFF35",),
    ),
    Kind(
        "DX208",
        "an explicit graph_break()",
        "The program requests a graph break here.",
        "Remove the call to `graph_break()`. If a library makes it, call the library outside the compiled function.",
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
        "creating an instance of an unsupported class",
        "The class has a metaclass, a `__new__` or an `__init__` that the engine does not trace.",
        "Create the object outside the compiled function, or give the class a plain Python `__init__`.",
        example="""
from array import array
def f(x):
    numbers = array("d", [2.0])
    return x * numbers[0]
""",
        fixed="""
from array import array
factor = array("d", [2.0])[0]
def f(x):
    return x * factor
""",
    ),
    Kind(
        "DX210",
        "an unsupported use of a generator",
        "The engine traces the body of a generator. It does not support access to its frame, or throwing into one that "
        "delegates with `yield from`.",
        "Iterate over the generator, or use a list. Inspect a generator outside the compiled function.",
        example="""
def numbers():
    yield 1
def f(x):
    ones = numbers()
    return x * 2, ones.gi_frame is None
""",
        fixed="""
def numbers():
    yield 1
def step(x):
    return x * 2
def f(x):
    ones = numbers()
    return step(x), ones.gi_frame is None
""",
        differences=("DIFF05",),
    ),
    Kind(
        "DX211",
        "a call to a coroutine or async generator",
        "Asynchronous code runs in an event loop, which the engine does not trace.",
        "Compile the synchronous functions that it calls.",
        example="""
async def later():
    return 1
def f(x):
    later().close()
    return x * 2
""",
        fixed="""
async def later():
    return 1
def step(x):
    return x * 2
def f(x):
    later().close()
    return step(x)
""",
        fundamental=True,
    ),
    Kind(
        "DX212",
        "a call to an object of unknown type",
        "The engine does not know what calling an object of this type does.",
        "Call a plain function or method instead.",
        example="""
import ctypes
absolute = ctypes.pythonapi.PyNumber_Absolute
absolute.argtypes = [ctypes.py_object]
absolute.restype = ctypes.py_object
def f(x):
    return absolute(x) + 1
""",
        fixed="""
def f(x):
    return abs(x) + 1
""",
    ),
    Kind(
        "DX213",
        "a call to an unsupported method",
        "The engine has no rule for this method of this type.",
        "Rewrite it with supported methods, or move it out of the compiled function.",
        example="""
def f(x):
    return x * len(slice(1, 3).__reduce__())
""",
        fixed="""
size = len(slice(1, 3).__reduce__())
def f(x):
    return x * size
""",
    ),
    Kind(
        "DX215",
        "access to files, the clock or the system",
        "Input, output and the clock must be accessed when the function runs, not while it is compiled.",
        "Do it outside the compiled function.",
        example="""
def f(x):
    with open("/dev/null") as file:
        return x * 2, file.read()
""",
        fixed="""
def step(x):
    return x * 2
def f(x):
    with open("/dev/null") as file:
        return step(x), file.read()
""",
        fundamental=True,
    ),
    Kind(
        "DX217",
        "frame inspection, `eval` or `exec`",
        "`eval`, `exec`, `sys._getframe` and `inspect` depend on the frame that actually runs.",
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
        differences=("DIFF01",),
    ),
    Kind(
        "DX218",
        "a call whose arguments do not match the signature",
        "Binding the arguments raises in Python, or the engine's rule does not support all of them yet. Python makes the call.",
        "Pass the arguments that the function accepts.",
        example="""
def f(x):
    numbers = (n for n in (1, 2))
    try:
        numbers.send(1, 2)
    except TypeError:
        x = x + 1
    return x
""",
        fixed="""
def f(x):
    numbers = (n for n in (1, 2))
    numbers.send(None)
    return x + 1
""",
    ),
    Kind(
        "DX219",
        "a random number from Python's `random`",
        "The number is drawn when the function runs. As a graph input it needs no break; a branch on it does, and so does a "
        "generator other than that of the module `random`.",
        "Draw the number outside the compiled function and pass it, or use torch's random numbers.",
        example="""
import random
def f(x):
    if random.random() < 0.5:
        return x * 2
    return x * 3
""",
        fixed="""
import random
def step(x, heads):
    return x * 2 if heads else x * 3
def f(x):
    return step(x, random.random() < 0.5)
""",
        fundamental=True,
    ),
    # -- DX3xx: Python ---------------------------------------------------------------------------------------------
    Kind(
        "DX301",
        "an unsupported bytecode instruction",
        "The engine has no handler for this bytecode instruction.",
        "Rewrite the line, or move it out of the compiled function.",
        example="""
def f(x):
    try:
        x = x + 1
        raise ExceptionGroup("two", [ValueError()])
    except* ValueError:
        x = x * 2
    return x
""",
        fixed="""
def f(x):
    try:
        x = x + 1
        raise ValueError()
    except ValueError:
        x = x * 2
    return x
""",
    ),
    Kind(
        "DX302",
        "a value of an unsupported type",
        "The engine has no variable tracker for values of this type.",
        "Pass the tensors and numbers that the function needs instead of the object.",
        example="""
import array
numbers = array.array("i", [1, 2])
def f(x):
    return x * len(numbers)
""",
        fixed="""
numbers = [1, 2]
def f(x):
    return x * len(numbers)
""",
    ),
    Kind(
        "DX303",
        "an unsupported attribute",
        "Reading or writing this attribute runs code that the engine does not trace (a descriptor, `__getattr__`, a C type).",
        "Read the attribute outside the compiled function and pass the value.",
        example="""
import datetime
day = datetime.date(2024, 2, 1)
def f(x):
    return x * day.month
""",
        fixed="""
import datetime
month = datetime.date(2024, 2, 1).month
def f(x):
    return x * month
""",
    ),
    Kind(
        "DX304",
        "an operator with unsupported operand types",
        "The engine has no rule for this operator with these types of operands.",
        "Convert the operands first.",
        example="""
import datetime
day = datetime.date(2024, 2, 1)
def f(x):
    day - day
    return x * 2
""",
        fixed="""
import datetime
day = datetime.date(2024, 2, 1)
difference = day - day
def f(x):
    return x * 2
""",
    ),
    Kind(
        "DX305",
        "a comparison of unsupported types",
        "The engine has no rule for this comparison with these types of operands.",
        "Compare plain numbers, strings or tensors.",
        example="""
import datetime
day = datetime.date(2024, 2, 1)
def f(x):
    return x * 2 if day < datetime.date.max else x
""",
        fixed="""
import datetime
is_past = datetime.date(2024, 2, 1) < datetime.date.max
def f(x):
    return x * 2 if is_past else x
""",
    ),
    Kind(
        "DX306",
        "an unsupported index or slice",
        "The engine has no rule for reading, writing or deleting this item.",
        "Use plain numbers, slices and strings as keys.",
        example="""
import array
numbers = array.array("i", [1, 2])
def f(x):
    return x * numbers[1]
""",
        fixed="""
numbers = [1, 2]
def f(x):
    return x * numbers[1]
""",
    ),
    Kind(
        "DX307",
        "iteration over an unsupported type",
        "The engine does not know which items this object yields.",
        "Convert it to a list or tuple outside the compiled function.",
        example="""
import array
numbers = array.array("i", [1, 2])
def f(x):
    for number in numbers:
        x = x * number
    return x
""",
        fixed="""
numbers = [1, 2]
def f(x):
    for number in numbers:
        x = x * number
    return x
""",
    ),
    Kind(
        "DX308",
        "an unsupported context manager",
        "The engine does not know what entering and exiting this object does.",
        "Enter it outside the compiled function.",
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
    ),
    Kind(
        "DX310",
        "an unsupported exception",
        "An exception leaves the compiled function, or the engine does not support this way of raising it or this class of "
        "exception.",
        "Raise the exception outside the compiled function. Inside, catch what you raise, and use a plain exception class with "
        "constant arguments.",
        example="""
def f(x):
    x = x + 1
    raise ValueError("no")
""",
        fixed="""
def step(x):
    return x + 1
def f(x):
    step(x)
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
        fixed="""
def step(x):
    failed = False
    try:
        x = x + 1
        raise ValueError("no")
    except ValueError:
        failed = True
    return x * 2, failed
def f(x):
    y, failed = step(x)
    if failed:
        print("woo")
    return y
""",
        fundamental=True,
    ),
    Kind(
        "DX312",
        "importing a module that is not loaded yet",
        "Loading a module runs its code.",
        "Import it at the top of the file.",
        example="""
def f(x):
    import tabnanny
    return x * 2, tabnanny.__name__
""",
        fixed="""
import tabnanny
def f(x):
    return x * 2, tabnanny.__name__
""",
    ),
    Kind(
        "DX313",
        "`super()` in an unsupported form",
        "The engine cannot determine the class and the instance that this `super` refers to.",
        "Use `super()` without arguments in a method of a plain class.",
        example="""
class Base:
    pass
def f(x):
    return x * 2, super(Base).__self__ is None
""",
        fixed="""
class Base:
    pass
is_unbound = super(Base).__self__ is None
def f(x):
    return x * 2, is_unbound
""",
    ),
    Kind(
        "DX314",
        "mutating an untracked object",
        "The engine cannot replay this change after the graph has run.",
        "Return the new value instead of mutating the object, or mutate it outside the compiled function.",
        example="""
def f(x):
    y = x + 1
    def later():
        return y
    del y
    return x * 2
""",
        fixed="""
def f(x):
    y = x + 1
    def later():
        return y
    return x * 2
""",
    ),
    Kind(
        "DX315",
        "a class defined inside the compiled function",
        "Each call creates a new class. If the class leaves the function, or creating it runs other code of the program, Python "
        "must create it.",
        "Define the class at the top of the file.",
        example="""
def f(x):
    class Pair:
        pass
    return x * 2, Pair
""",
        fixed="""
class Pair:
    pass
def f(x):
    return x * 2, Pair
""",
    ),
    Kind(
        "DX317",
        "an unsupported pattern match",
        "The pattern does not name a class, or the class computes its `__match_args__`.",
        "Use `if` and `isinstance`.",
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
        fixed="""
class Box:
    size = 1
def f(x):
    box = Box()
    if isinstance(box, Box) and box.size == 1:
        x = x + 1
    return x * 2
""",
    ),
    Kind(
        "DX318",
        "a value that cannot be reconstructed",
        "After a break, the modified bytecode must reconstruct this value, and the engine cannot generate bytecode that does so.",
        "Create the value after the break, or do not keep it in a local variable across the break.",
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
        fixed="""
def numbers():
    yield 1
    yield 2
def step(x):
    ones = numbers()
    x = x * next(ones)
    return x * next(ones)
def f(x):
    y = step(x)
    print("woo")
    return y
""",
    ),
    Kind(
        "DX319",
        "an unsupported deletion",
        "Deleting this attribute or item runs code that the engine does not trace.",
        "Delete it outside the compiled function.",
        example="""
import array
numbers = array.array("i", [1, 2, 3, 4])
def f(x):
    del numbers[0]
    return x * 2
""",
        fixed="""
numbers = [1, 2, 3, 4]
def f(x):
    del numbers[0]
    return x * 2
""",
    ),
    Kind(
        "DX320",
        "an unsupported key in a dict or set",
        "The engine can hash and compare only constants, tensors (by identity), modules, functions and classes.",
        "Use strings or numbers as keys.",
        example="""
from datetime import date
day = date(2020, 2, 29)
def f(x):
    return x * {day: 2}[day]
""",
        fixed="""
from datetime import date
day = date(2020, 2, 29).isoformat()
def f(x):
    return x * {day: 2}[day]
""",
        differences=("DIFF16",),
    ),
    # -- DX4xx: torch ----------------------------------------------------------------------------------------------
    Kind(
        "DX321",
        "an object whose finalization is observable",
        "When the last reference to it is gone, its `__del__` runs or a weak reference to it expires, so Python must create and "
        "free it.",
        "Create the object outside the compiled function.",
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
        fixed="""
class Resource:
    def __del__(self):
        self.closed = True
resource = Resource()
def f(x):
    return x * 2
""",
        fundamental=True,
        differences=("DIFF05", "DIFF06"),
    ),
    Kind(
        "DX401",
        "an operator that fails on fake tensors",
        "During the capture, operators run on tensors without data to determine shapes and dtypes; this one raised.",
        "If it also raises in eager, fix the call. If not, register a fake implementation (torch.library.register_fake).",
        example="""
def f(x):
    try:
        return x.reshape(99)
    except RuntimeError:
        return x * 2
""",
        fixed="""
def f(x):
    return x.reshape(99) if x.numel() == 99 else x * 2
""",
        differences=("DIFF39",),
    ),
    Kind(
        "DX402",
        "an unsupported tensor subclass",
        "The engine traces the `__torch_function__` of a subclass. This one changes the behavior of tensors in other ways.",
        "Pass plain tensors, or add the class to `dynexplore.config.traceable_tensor_subclasses`.",
        example="""
class Marked(torch.Tensor):
    def dim(self):
        return -1
marked = torch.ones(3).as_subclass(Marked)
def f(x):
    return x * 2 + marked
""",
        fixed="""
marked = torch.ones(3)
def f(x):
    return x * 2 + marked
""",
    ),
    Kind(
        "DX404",
        "an unsupported hook on a tensor or module",
        "A hook is Python code that autograd calls later.",
        "Register it outside the compiled function.",
        example="""
def f(x):
    y = x * 2
    if y.requires_grad:
        y.register_hook(print)
    return y
args = (torch.ones(3, requires_grad=True),)
""",
        fixed="""
def step(x):
    return x * 2
def f(x):
    y = step(x)
    if y.requires_grad:
        y.register_hook(print)
    return y
args = (torch.ones(3, requires_grad=True),)
""",
        differences=("DIFF19", "DIFF22"),
    ),
    Kind(
        "DX405",
        "an unsupported autograd.Function",
        "Its code runs during the capture, so it must be written in Python, and must not print or have other side effects.",
        "Move side effects (prints, writes to globals) out of forward and backward.",
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
        fixed="""
class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, grad):
        return grad * 2

def step(x):
    return Double.apply(x)
def f(x):
    print("forward")
    return step(x)

args = (torch.ones(3, requires_grad=True),)
""",
        differences=("DIFF25",),
    ),
    Kind(
        "DX406",
        "backward or torch.autograd.grad inside the compiled function",
        "Backward needs the autograd graph of operations that have actually run.",
        "Compile the forward and the loss, and call backward outside the compiled function.",
        example="""
def f(x):
    loss = (x * 2).sum()
    loss.backward()
    return loss
args = (torch.ones(3, requires_grad=True),)
""",
        fixed="""
def step(x):
    return (x * 2).sum()
def f(x):
    loss = step(x)
    loss.backward()
    return loss
args = (torch.ones(3, requires_grad=True),)
""",
        fundamental=True,
        differences=("DIFF19", "DIFF20"),
    ),
    Kind(
        "DX407",
        "changing requires_grad inside the compiled function",
        "Whether a tensor requires grad determines how the graph is compiled.",
        "Set requires_grad outside the compiled function.",
        example="""
def f(x):
    return x.detach().requires_grad_() * 2
""",
        fixed="""
def step(x):
    return x * 2
def f(x):
    return step(x.detach().requires_grad_())
""",
    ),
    Kind(
        "DX408",
        "replacing the storage of a tensor",
        "`set_`, `resize_`, an input as `out=` with another size, and assigning `.data` with another shape, or to a tensor "
        "created in the function, give a tensor new storage without an operator that the graph could record. In-place "
        "transposes such as `t_` are not supported on inputs with symbolic sizes.",
        "Use copy_, pass an `out=` tensor of the result's size, or do it outside the compiled function.",
        example="""
def f(x):
    y = x + 1
    y.data = x * 3
    return y
""",
        fixed="""
def f(x):
    y = x + 1
    y.copy_(x * 3)
    return y
""",
    ),
    Kind(
        "DX409",
        "a tensor of an unsupported layout",
        "Sparse, quantized, nested and mkldnn tensors have no plain sizes and strides to guard on, and a fake tensor does not "
        "know how many entries a sparse tensor has.",
        "Convert it to a dense tensor outside the compiled function.",
        example="""
def f(x):
    return x.to_dense() * 2
args = (torch.ones(3).to_sparse(),)
""",
        fixed="""
def step(x):
    return x * 2
def f(x):
    return step(x.to_dense())
args = (torch.ones(3).to_sparse(),)
""",
    ),
    Kind(
        "DX411",
        "an unsupported tensor attribute",
        "The engine has no rule for this attribute of a tensor.",
        "Read the attribute outside the compiled function and pass the value.",
        example="""
def f(x):
    y = x * 2
    return y, y.grad_fn is None
args = (torch.ones(3, requires_grad=True),)
""",
        fixed="""
def step(x):
    return x * 2
def f(x):
    y = step(x)
    return y, y.grad_fn is None
args = (torch.ones(3, requires_grad=True),)
""",
        differences=("DIFF19", "DIFF29"),
    ),
    Kind(
        "DX412",
        "an operator whose argument or result cannot be part of a graph",
        "A graph can contain only tensors, sizes and numbers derived from sizes.",
        "Call it outside the compiled function.",
        example="""
generator = torch.Generator().manual_seed(0)
def f(x):
    return x + torch.rand(3, generator=generator).shape[0]
""",
        fixed="""
generator = torch.Generator().manual_seed(0)
size = torch.rand(3, generator=generator).shape[0]
def f(x):
    return x + size
""",
    ),
    Kind(
        "DX414",
        "an unsupported module",
        "This kind of nn.Module (a ScriptModule, a lazy module, a module that defines `__getattr__`) is not supported.",
        "Call it outside the compiled function, or mark it with `allow_in_graph`.",
        example="""
scripted = torch.jit.trace(torch.nn.ReLU(), torch.ones(3))

def f(x):
    return scripted(x) + 1
""",
        fixed="""
relu = torch.nn.ReLU()

def f(x):
    return relu(x) + 1
""",
    ),
    Kind(
        "DX416",
        "copying, pickling or loading a tensor",
        "`torch.save`, `torch.load`, and the copy and pickle protocols need the tensor's data. `copy.deepcopy` is supported for "
        "modules, and for tensors without autograd history that do not share storage.",
        "Use clone(), or do it outside the compiled function.",
        example="""
def f(x):
    return x.__deepcopy__({}) * 2
""",
        fixed="""
def f(x):
    return x.clone() * 2
""",
        fundamental=True,
        differences=("DIFF30",),
    ),
    Kind(
        "DX417",
        "converting a tensor to a numpy array",
        "Only a CPU tensor that does not require grad, with a dtype that numpy has, can share its memory with an array.",
        "Call `x.detach().cpu().numpy()`, stay in torch, or convert outside the compiled function.",
        example="""
def f(x):
    return torch.from_numpy(x.numpy(force=True)) * 2
""",
        fixed="""
def f(x):
    return x.detach() * 2
""",
        differences=("DIFF32",),
    ),
    Kind(
        "DX418",
        "calling a DistributedDataParallel module",
        "It communicates with other processes (it broadcasts buffers and prepares gradient hooks) and runs as plain Python. The "
        "module inside is captured separately, split at the boundaries of its gradient buckets.",
        "No action needed. For a single graph, pass the DistributedDataParallel module itself to `optimize`.",
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
        "an unsupported use of `__torch_function__`",
        "The engine traces the `__torch_function__` of a mode or a tensor subclass, but does not support this use of it.",
        "Exit the mode before this line, or call the function with plain tensors.",
        example="""
class Passes(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))

def f(x):
    y = x * 2
    with Passes(), torch.set_grad_enabled(False):
        return y + 1
""",
        fixed="""
class Passes(torch.overrides.TorchFunctionMode):
    def __torch_function__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))

def f(x):
    with Passes():
        y = x * 2
    with torch.set_grad_enabled(False):
        return y + 1
""",
    ),
    Kind(
        "DX421",
        "an unsupported use of a higher-order operator",
        "The functions passed to `torch.utils.checkpoint.checkpoint`, `torch.cond`, `while_loop`, `map` or `scan` become "
        "subgraphs, which may run many times or not at all. They must not have side effects, and not every option is supported.",
        "Return the results from the function, and avoid side effects. For `checkpoint`, pass `use_reentrant=False`. The "
        "branches of `cond` must return new tensors with the same shapes and dtypes, the body of a loop tensors with those of "
        "its inputs.",
        example="""
seen = []

def body(x):
    seen.append(1)
    return x.sin()

def f(x):
    return torch.utils.checkpoint.checkpoint(body, x, use_reentrant=False) + 1

args = (torch.ones(3, requires_grad=True),)
""",
        fixed="""
seen = []

def body(x):
    return x.sin()

def step(x):
    return torch.utils.checkpoint.checkpoint(body, x, use_reentrant=False) + 1
def f(x):
    seen.append(1)
    return step(x)

args = (torch.ones(3, requires_grad=True),)
""",
        differences=("DIFF26",),
    ),
    Kind(
        "DX422",
        "an operator that may raise after the autograd history of an input changed",
        "If an operator raises, the engine undoes the graph's writes and runs the code again in Python. A write of a tensor that "
        "requires grad into an input with a grad_fn, or into a view, cannot be undone: it would be in the autograd graph twice. So "
        "where a `try` or a side effect makes the second run necessary, an operator that may raise after the write runs in Python.",
        "Use the out-of-place operator (`x = x * w` instead of `x.mul_(w)`), or take the operator out of the `try` block.",
        example="""
def f(x, w, index):
    x.mul_(w)
    try:
        return x.index_select(0, index)
    except IndexError:
        return x

args = (torch.ones(3).view(3), torch.ones(3, requires_grad=True), torch.tensor([0]))
""",
        fixed="""
def f(x, w, index):
    x = x * w
    try:
        return x.index_select(0, index)
    except IndexError:
        return x

args = (torch.ones(3).view(3), torch.ones(3, requires_grad=True), torch.tensor([0]))
""",
    ),
    Kind(
        "DX423",
        "an output shape that PyTorch cannot express without data",
        "The operator's output shape depends on data, and PyTorch has no meta kernel for it that returns a symbolic size "
        "(ctc_loss, linalg.lstsq). torch.compile breaks the graph here, too.",
        "Call it outside the compiled function, for example compile the model without its loss.",
        example="""
def f(x, targets, lengths, sizes):
    return torch.nn.functional.ctc_loss(x.log_softmax(2), targets, lengths, sizes)

args = (torch.ones(4, 1, 3), torch.tensor([[1, 2]]), torch.tensor([4]), torch.tensor([2]))
""",
        fixed="""
def step(x):
    return x.log_softmax(2)

def f(x, targets, lengths, sizes):
    return torch.nn.functional.ctc_loss(step(x), targets, lengths, sizes)

args = (torch.ones(4, 1, 3), torch.tensor([[1, 2]]), torch.tensor([4]), torch.tensor([2]))
""",
    ),
    # -- DX5xx: limits of the engine -------------------------------------------------------------------------------
    Kind(
        "DX501",
        "a call nested too deeply",
        "Inlining the callee would exceed the depth limit, usually because it is recursive.",
        "Compile the inner function separately, or turn the recursion into a loop.",
        example="""
options = {"inline_depth_limit": 2}

def power(x, n):
    return x if n == 0 else x * power(x, n - 1)

def f(x):
    return power(x, 4)
""",
        fixed="""
options = {"inline_depth_limit": 2}

def f(x):
    result = 1
    for _ in range(4):
        result = x * result
    return result
""",
    ),
    Kind(
        "DX502",
        "too many instructions in one graph",
        "The loop or the program is so long that capturing it in one graph would take too long.",
        "Move the loop out of the compiled function.",
        example="""
options = {"instruction_limit": 100}

def f(x):
    for i in range(20):
        x = x + i
    return x
""",
        fixed="""
options = {"instruction_limit": 100}

def f(x):
    return x + sum(range(20))
""",
    ),
    Kind(
        "DX505",
        "a capture that takes too long",
        "The capture took more than `config.translation_seconds` of CPU time, or more than 1/40 of that without reaching a tensor "
        "operation, so the frame runs as plain Python.",
        "Move the slow code out of the compiled function, or raise the limit.",
        example="""
options = {"translation_seconds": 1e-9}

def f(x):
    for i in range(300):
        x = x + i
    return x
""",
        fixed="""
options = {"translation_seconds": 100.0}

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
        self.is_callees = False  # the frame only forwards a call: the callee breaks there itself, and reports it
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

    def render(self, then: str = "", caller: UserFrame | None = None) -> str:
        """The displayed message block; `then` describes how the engine continued. `caller`: see GraphBroke."""
        return self.event(frame=0, caller=caller).report(then)


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
        "Look up the id of a graph break from your report, to find out why the graph broke and how to fix it. When the engine",
        "reaches an instruction that it cannot trace, it ends the graph, lets Python run the instruction, and starts a new graph",
        "after it. A *fundamental* break will remain in future versions of dynexplore; any other kind may be supported one day.",
        "",
        "A break in a called function usually ends only one graph, which the function shares with its callers. The guide lists the",
        "[cases in which each function ends its own graph](guide/breaks.md#in-a-called-function).",
    ]
    for prefix, theme in THEMES.items():
        lines += ["", f"## {theme}"]
        for kind in KINDS.values():
            if kind.id.startswith(prefix):
                lines += ["", f'<a id="{kind.id.lower()}"></a>', f"### {kind.id}: {kind.title}", ""]
                lines += [f"*{kind.status}*", "", f"**Why.** {kind.why}", "", f"**Fix.** {kind.fix}"]
                if kind.differences:
                    links = ", ".join(f"[{name}](differences.md#{name.lower()})" for name in kind.differences)
                    lines += ["", f"**Known differences** from plain Python that may apply here: {links}."]
                if kind.example:
                    lines += ["", "```python", kind.example.strip(), "```"]
                if kind.fixed:
                    lines += ["", kind.result_of_fix, "", "```python", kind.fixed.strip(), "```"]
                lines += ["", f"[Explore this program, and read when you can ignore the break](breaks/{kind.id.lower()}.md)"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(docs_page(), end="")
