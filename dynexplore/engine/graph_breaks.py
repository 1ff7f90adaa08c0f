"""The table of graph-break kinds, the exception that carries one, and the text people read.

A graph break is no error: the translator does not trace something, so the graph ends there, Python does it,
and a resume function goes on. Which idea lives here: *why* is data. Each cause is one row of `KINDS` with a
stable id, a title without run-time text, why it is so, how to avoid it, and whether it is fundamental (it
could not be captured by any tracer of this sort) or only not done yet. A call site gives the id and the
facts; message, docs page and widget come from the row. To add a kind: one row here, one test that triggers
it, and `python -m dynexplore.engine.graph_breaks > docs/graph-breaks.md`.

In:  `unsupported("DX201", function="math.gamma")` or `raise GraphBreak("DX201", function="math.gamma")`.
Out: `GraphBreak`, its `reason` (one line), `render()` (the message block), `event()` (the record), `docs_page()`.

Ids by theme: DX1xx the value decides (data-dependent), DX2xx calls, DX3xx Python, DX4xx torch, DX5xx limits
of the engine.

PyTorch's counterpart: torch/_dynamo/exc.py (unimplemented) and torch/_dynamo/graph_break_registry.json.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NoReturn

from dynexplore.engine.events import GraphBroke, UserFrame, clip


@dataclass(frozen=True, slots=True)
class Kind:
    """One cause of graph breaks. `title` holds no run-time text; `why` and `fix` are plain sentences."""

    id: str
    title: str
    why: str
    fix: str
    fundamental: bool = False

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

_ROWS: tuple[Kind, ...] = (
    # -- DX1xx: the value decides ----------------------------------------------------------------------------
    Kind(
        "DX101",
        "a tensor read out as a Python number",
        "`Tensor.item()`, `int()`, `float()` and their like need data that exists only when the graph runs.",
        "Keep the value a tensor (0-d tensors work in arithmetic), read it after the compiled function, or "
        "set "
        "`config.capture_scalar_outputs = True` to carry it as a symbol.",
        fundamental=True,
    ),
    Kind(
        "DX102",
        "a tensor read out as a Python list",
        "`Tensor.tolist()` needs data that exists only when the graph runs.",
        "Index or stack tensors instead, or call `tolist` after the compiled function.",
        fundamental=True,
    ),
    Kind(
        "DX103",
        "a tensor turned into text",
        "`repr`, `str`, `format` or an f-string of a tensor prints data that exists only when the graph runs.",
        "Print shape or dtype instead, or print after the compiled function.",
        fundamental=True,
    ),
    Kind(
        "DX104",
        "`if` on a tensor value",
        "The branch depends on data that exists only when the graph runs.",
        "Use torch.where, or move the `if` out of the compiled function.",
        fundamental=True,
    ),
    Kind(
        "DX105",
        "the truth of a tensor as a value",
        "`bool(t)`, `not t`, `all(...)` or `any(...)` over tensors needs data that exists only when the graph runs.",
        "Use torch.logical_not, torch.all or torch.any and keep the result a tensor.",
        fundamental=True,
    ),
    Kind(
        "DX106",
        "an `assert` on a tensor value",
        "Whether the assertion holds depends on data that exists only when the graph runs.",
        "Use torch._assert_async, or check before the compiled function.",
        fundamental=True,
    ),
    Kind(
        "DX107",
        "the shape of the result depends on data",
        "Operators like nonzero, unique and boolean masks have an output size that is known only when they run.",
        "Use torch.where with three arguments or masked arithmetic, or set "
        "`config.capture_dynamic_output_shape_ops = True`.",
        fundamental=True,
    ),
    Kind(
        "DX108",
        "a Python object indexed by a tensor value",
        "Which item is meant depends on data that exists only when the graph runs.",
        "Stack the items into one tensor and index that (index_select, gather).",
        fundamental=True,
    ),
    Kind(
        "DX109",
        "a loop whose length is a tensor value",
        "How often the loop runs (`range(t)`, `while t > 0`) depends on data that exists only when the graph runs.",
        "Loop over a shape or a Python number, or write the loop as one tensor operation.",
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
        "`t in list_of_tensors`, `list.index(t)`, `list.remove(t)` compare element values, which exist only"
        " when the graph runs.",
        "Compare with `is`, or keep an index beside the tensor.",
        fundamental=True,
    ),
    Kind(
        "DX112",
        "the address of a tensor read out",
        "`data_ptr()` and `untyped_storage()` give memory that exists only when the graph runs.",
        "Move the code that needs the address out of the compiled function.",
        fundamental=True,
    ),
    # -- DX2xx: calls ----------------------------------------------------------------------------------------
    Kind(
        "DX201",
        "call of a C function that is not traced",
        "The function has no Python bytecode to look into, and the engine has no rule for it.",
        "Move the call out of the compiled function, or mark it with `allow_in_graph` if it maps tensors to tensors.",
        fundamental=True,
    ),
    Kind(
        "DX202",
        "call of a function marked as not to be traced",
        "The function, its module or its caller was marked with `disable`, `skip` or `disallow_in_graph` "
        "(or torch's own mark).",
        "Remove the mark if the function can be traced; otherwise call it outside of hot code.",
        fundamental=True,
    ),
    Kind(
        "DX203",
        "call of a function in a skipped file",
        "Files of the standard library and of some packages are not traced, because they do no tensor work.",
        "Move the call out of the compiled function.",
    ),
    Kind(
        "DX204",
        "call of a builtin that is not traced",
        "The engine has no rule for this builtin.",
        "Write it with operations that are traced, or move it out of the compiled function.",
    ),
    Kind(
        "DX205",
        "call of a builtin with an argument it has no rule for",
        "The engine has a rule for this builtin, but not for these types of arguments.",
        "Convert the arguments first, or move the call out of the compiled function.",
    ),
    Kind(
        "DX206",
        "printing or logging",
        "Output must appear when the function runs, once for each call, and not while it is compiled.",
        "Print before or after the compiled function, or remove the print.",
        fundamental=True,
    ),
    Kind(
        "DX207",
        "a numpy call",
        "numpy computes on memory that exists only when the graph runs.",
        "Use the torch function of the same name, or convert outside of the compiled function.",
    ),
    Kind(
        "DX208",
        "an explicit graph_break()",
        "The program asks for a graph break here.",
        "Remove the call of `graph_break()`.",
        fundamental=True,
    ),
    Kind(
        "DX209",
        "making an instance of a class that is not traced",
        "The class has a metaclass, a `__new__` or an `__init__` that the engine does not look into.",
        "Make the object outside of the compiled function, or give the class a plain Python `__init__`.",
    ),
    Kind(
        "DX210",
        "call of a generator function",
        "The body of a generator runs piece by piece, each time its caller asks for a value.",
        "Use a list or a list comprehension.",
    ),
    Kind(
        "DX211",
        "call of a coroutine or async generator",
        "Asynchronous code is run by an event loop outside of the engine's sight.",
        "Compile the synchronous functions that it calls.",
        fundamental=True,
    ),
    Kind(
        "DX212",
        "call of an object of unknown type",
        "The engine does not know what calling this object does.",
        "Call a plain function or method instead.",
    ),
    Kind(
        "DX213",
        "call of a method that is not traced",
        "The engine has no rule for this method of this type.",
        "Write it with methods that are traced, or move it out of the compiled function.",
    ),
    Kind(
        "DX214",
        "a graph break inside a called function",
        "The function called here cannot be captured as a whole; it becomes a frame of its own, with graphs"
        " of its own.",
        "Fix the break inside the called function.",
    ),
    Kind(
        "DX215",
        "reading or writing files, time or the system",
        "Input, output and the clock act on the world outside and must happen when the function runs.",
        "Do it before or after the compiled function.",
        fundamental=True,
    ),
    Kind(
        "DX216",
        "Python's random numbers",
        "Each call must draw new numbers, so they cannot be part of the graph.",
        "Use torch's random functions.",
    ),
    Kind(
        "DX217",
        "looking at frames or running text as code",
        "`eval`, `exec`, `sys._getframe` and `inspect` see the frame that really runs.",
        "Move the call out of the compiled function.",
        fundamental=True,
    ),
    Kind(
        "DX218",
        "a call whose arguments do not fit the function",
        "Binding the arguments raises in Python; the engine lets Python raise it.",
        "Pass the arguments that the function takes.",
        fundamental=True,
    ),
    # -- DX3xx: Python ---------------------------------------------------------------------------------------
    Kind(
        "DX301",
        "an instruction that is not traced",
        "The engine has no handler for this bytecode instruction.",
        "Write the line in another way, or move it out of the compiled function.",
    ),
    Kind(
        "DX302",
        "a value of a type that is not traced",
        "The engine has no tracker for values of this type.",
        "Pass the tensors and numbers that are needed instead of the object.",
    ),
    Kind(
        "DX303",
        "an attribute that is not traced",
        "Reading or writing this attribute runs code that the engine does not look into (a descriptor, "
        "`__getattr__`, a C type).",
        "Read the attribute before the compiled function and pass the value.",
    ),
    Kind(
        "DX304",
        "an operator that is not traced for these types",
        "The engine has no rule for this operator with these types of operands.",
        "Convert the operands first.",
    ),
    Kind(
        "DX305",
        "a comparison that is not traced for these types",
        "The engine has no rule for this comparison with these types of operands.",
        "Compare plain numbers, strings or tensors.",
    ),
    Kind(
        "DX306",
        "an index or slice that is not traced",
        "The engine has no rule for getting, setting or deleting this item.",
        "Use plain numbers, slices and strings as keys.",
    ),
    Kind(
        "DX307",
        "iteration over a type that is not traced",
        "The engine does not know which items this object gives.",
        "Turn it into a list or tuple before the compiled function.",
    ),
    Kind(
        "DX308",
        "a context manager that is not traced",
        "The engine does not know what entering and leaving this object does.",
        "Enter it outside of the compiled function.",
    ),
    Kind(
        "DX309",
        "a graph break inside a `with` block that cannot be entered again",
        "The rest of the block runs in a resume function, where this context manager would have to be entered anew.",
        "Fix the break inside the block, or move the `with` out of the compiled function.",
    ),
    Kind(
        "DX310",
        "an exception that is not traced",
        "The engine does not follow this way of raising, or this type of exception.",
        "Raise a plain exception class with constant arguments.",
    ),
    Kind(
        "DX311",
        "a graph break inside an `except` or `finally` handler",
        "The exception being handled is no stack value and cannot be passed to a resume function; the break"
        " moves back to "
        "the instruction that raised.",
        "Move the code that breaks out of the handler.",
        fundamental=True,
    ),
    Kind(
        "DX312",
        "an import that is not traced",
        "The imported module is not loaded yet, and loading it runs code.",
        "Import it at the top of the file.",
    ),
    Kind(
        "DX313",
        "`super()` in a form that is not traced",
        "The engine cannot see which class and instance this `super` is about.",
        "Use `super()` without arguments in a method of a plain class.",
    ),
    Kind(
        "DX314",
        "a mutation of an object that is not tracked",
        "The change could not be replayed after the graph ran.",
        "Return the new value instead of changing the object, or change it outside of the compiled function.",
    ),
    Kind(
        "DX315",
        "a class defined inside the compiled function",
        "Making a class runs its body as code of its own.",
        "Define the class at the top of the file.",
    ),
    Kind(
        "DX316",
        "a generator, coroutine or async instruction in the frame",
        "The frame can be left and entered in the middle.",
        "Compile the functions that it calls.",
    ),
    Kind(
        "DX317",
        "a pattern match that is not traced",
        "The engine has no rule for matching this pattern against this type.",
        "Use `if` and isinstance.",
    ),
    Kind(
        "DX318",
        "a value that cannot be made again",
        "After a break the modified code must rebuild this value, and the engine has no way to.",
        "Make the value after the break, or keep it out of the locals that are alive there.",
    ),
    Kind(
        "DX319",
        "a deletion that is not traced",
        "Deleting this attribute or item runs code that the engine does not look into.",
        "Delete it outside of the compiled function.",
    ),
    Kind(
        "DX320",
        "a key that is not traced in a dict or set",
        "The engine knows the hash and equality only of constants, tensors by identity, modules, functions "
        "and classes.",
        "Use strings or numbers as keys.",
    ),
    # -- DX4xx: torch ----------------------------------------------------------------------------------------
    Kind(
        "DX401",
        "an operator that fails on fake tensors",
        "While capturing, operators run on tensors without data, to learn shape and dtype; this one raised.",
        "If it also raises in eager, fix the call. If not, register a fake implementation "
        "(torch.library.register_fake).",
    ),
    Kind(
        "DX402",
        "a tensor subclass that is not traced",
        "The subclass changes what operators do, and the engine does not look into it.",
        "Pass plain tensors, or add the class to `config.traceable_tensor_subclasses`.",
    ),
    Kind(
        "DX403",
        "a TorchFunctionMode or TorchDispatchMode is active",
        "The mode changes what operators do, and must see them one by one.",
        "Leave the mode before the compiled function.",
    ),
    Kind(
        "DX404",
        "hooks on a tensor or module that are not traced",
        "The hook is Python code that autograd calls later.",
        "Register it outside of the compiled function.",
    ),
    Kind(
        "DX405",
        "an autograd.Function in a form that is not traced",
        "The engine traces forward and backward of plain autograd.Functions only.",
        "Use save_for_backward and tensors as arguments, or call it outside of the compiled function.",
    ),
    Kind(
        "DX406",
        "backward or torch.autograd.grad inside the compiled function",
        "Autograd runs on the graph of operations that have really run.",
        "Compile the forward and the loss, and call backward outside.",
        fundamental=True,
    ),
    Kind(
        "DX407",
        "requires_grad changed inside the compiled function",
        "Whether gradients flow decides how the graph is compiled.",
        "Set requires_grad before the compiled function.",
    ),
    Kind(
        "DX408",
        "a tensor whose memory is exchanged",
        "Assigning `.data`, `set_`, `resize_` and their like change what a tensor is behind the graph's back.",
        "Use copy_, or assign outside of the compiled function.",
    ),
    Kind(
        "DX409",
        "a tensor of a layout that is not traced",
        "Sparse, quantized, nested and mkldnn tensors have no plain sizes and strides to guard.",
        "Convert to a dense tensor before the compiled function.",
    ),
    Kind(
        "DX410",
        "a torch function that is not traced",
        "The function acts on the state of the process or on Python objects and not on tensors only.",
        "Call it outside of the compiled function.",
    ),
    Kind(
        "DX411",
        "a tensor attribute that is not traced",
        "The engine has no rule for this attribute of a tensor.",
        "Read the attribute before the compiled function and pass the value.",
    ),
    Kind(
        "DX412",
        "an operator whose result is no tensor",
        "Only tensors, sizes and numbers derived from sizes can be values of the graph.",
        "Call it outside of the compiled function.",
    ),
    Kind(
        "DX413",
        "a tensor with gradient history changed in place",
        "An in-place change of a leaf or view that needs gradients is checked by autograd when it runs.",
        "Use the operator that makes a new tensor.",
    ),
    Kind(
        "DX414",
        "a module that is not traced",
        "This kind of nn.Module (a ScriptModule, a lazy module, a module with `__getattr__` of its own) is "
        "not looked into.",
        "Call it outside of the compiled function, or mark it with `allow_in_graph`.",
    ),
    Kind(
        "DX415",
        "a change of global torch state that is not traced",
        "The setting (seed, default dtype, number of threads, ...) acts on everything that runs after it.",
        "Change it outside of the compiled function.",
    ),
    Kind(
        "DX416",
        "a deep-copied, pickled or loaded tensor",
        "Copying with Python's protocols, `torch.save` and `torch.load` need the tensor's data.",
        "Use clone(), or do it outside of the compiled function.",
        fundamental=True,
    ),
    Kind(
        "DX417",
        "a numpy array made from a tensor",
        "`Tensor.numpy()` and numpy's conversion share memory that exists only when the graph runs.",
        "Stay in torch, or convert outside of the compiled function.",
        fundamental=True,
    ),
    # -- DX5xx: limits of the engine -------------------------------------------------------------------------
    Kind(
        "DX501",
        "calls nested too deeply",
        "The callee would be inlined deeper than the limit, most often because it is recursive.",
        "Compile the inner function, or turn the recursion into a loop.",
    ),
    Kind(
        "DX502",
        "too many instructions in one graph",
        "The loop or the program is so long that capturing it as one graph would take too long.",
        "Move the loop out of the compiled function.",
    ),
    Kind(
        "DX503",
        "a value that no guard can protect",
        "The engine cannot test cheaply that the value is the same at the next call.",
        "Pass the value as an argument of a simple type.",
    ),
    Kind(
        "DX504",
        "a frame that cannot be resumed here",
        "The rest of the function cannot be made a function of its own at this place.",
        "Move the code that breaks to another place.",
    ),
    Kind(
        "DX505",
        "the stack holds a value that cannot be passed on",
        "What lies on the stack at the break is neither a value nor an empty slot that a resume function "
        "could receive.",
        "Put the inner expression into a variable of its own first.",
    ),
    Kind(
        "DX506",
        "an operator inside `try` that changes its inputs",
        "If the graph failed later, the change could not be taken back; the graph ends before it.",
        "Move the in-place operator out of the `try`.",
    ),
)

KINDS: dict[str, Kind] = {kind.id: kind for kind in _ROWS}
"""Every kind of graph break by id."""


class GraphBreak(Exception):
    """The translator does not trace something: the graph ends before the instruction at hand.

    `kind` is the row of the table, `facts` the run-time facts by name (text, each cut to one short line).
    `user_stack` is set by the translator, outermost frame first. An id that is not in the table is a mistake
    in the engine: KeyError.

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
        """The message block that people read; `then` says how the engine went on."""
        return self.event(frame=0).report(then)


def unsupported(kind: str, /, **facts: object) -> NoReturn:
    """Raise a GraphBreak of this kind: `unsupported("DX303", attribute="T.x")`."""
    raise GraphBreak(kind, **facts)


def one_line(value: object, limit: int = 160) -> str:
    """Return `value` as short text on one line; a `__str__` that raises is named instead."""
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
        "Where the engine does not trace something, the graph ends, Python does it, and the next graph begins",
        "after it. Each cause has an id. *Fundamental* means that no capture of this sort could go on; the",
        "others are not done yet.",
    ]
    for prefix, theme in THEMES.items():
        lines += ["", f"## {theme}"]
        for kind in KINDS.values():
            if kind.id.startswith(prefix):
                lines += ["", f'<a id="{kind.id.lower()}"></a>', f"### {kind.id}: {kind.title}", ""]
                lines += [f"*{kind.status}*", "", f"**Why.** {kind.why}", "", f"**Fix.** {kind.fix}"]
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    print(docs_page(), end="")
