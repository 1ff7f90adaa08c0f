"""A small TorchDynamo in one file: straight-line code, an `if` on a number, guards, graph breaks and resume functions, on PEP 523.

Tutorial 12 builds this file step by step and checks each step against a recording. Run it: `python examples/mini_dynamo.py`.

It captures operators, and PyTorch's own methods and functions that are implemented in C++. Any other operation is a graph break. A
frame that reaches an opcode without a handler (`for`, a closure, a keyword argument) runs as plain Python.
Known limit, on Python 3.11 only: after a graph break, a local variable that was never assigned is None.
"""

import builtins
import contextlib
import dis
import inspect
import operator
import sys
import types
from collections import namedtuple

import torch
from torch._subclasses.fake_tensor import FakeTensor, FakeTensorMode

from dynexplore.engine import native

# -- values and frames -------------------------------------------------------------------------------------------------

CONSTANTS = (int, float, bool, str, type(None), torch.Size)
Guard = namedtuple("Guard", "source kind expected")


class Value:
    """An item of the symbolic stack: a fake tensor or a real object, and where the value comes from."""

    def __init__(self, example, guard=None, node=None, name="", method=None):
        self.example, self.guard, self.node, self.name, self.method = example, guard, node, name, method
        self.is_tensor = isinstance(example, FakeTensor)
        self.is_constant = type(example) in CONSTANTS and not (name or method)


NULL = Value(None, name="NULL")  # the empty slot that CPython pushes beside a callable


class Frame:
    """A frame that is being captured: symbolic locals and stack, graph and guards so far, and the generated code.

    `lines` are the lines of the generated code, and `injected` contains the objects that it needs, by name.
    """

    def __init__(self, code, names, arguments):
        self.code, self.names, self.parameters = code, names, code.co_varnames[: code.co_argcount]
        self.graph, self.fake_mode, self.values, self.stack = torch.fx.Graph(), FakeTensorMode(), {}, []
        self.guards, self.outputs, self.injected, self.lines = [], [], {}, []
        self.locals = {name: self.value_of(name, each) for name, each in zip(self.parameters, arguments, strict=True)}

    def value_of(self, source, thing):
        """The `Value` of the object that `source` refers to, with the guard to install when it is used."""
        if source not in self.values:
            kind = "TENSOR_MATCH" if metadata(thing) else "EQUALS" if type(thing) in CONSTANTS else "ID_MATCH"
            example = self.fake_mode.from_tensor(thing) if metadata(thing) else thing
            self.values[source] = Value(example, Guard(source, kind, metadata(thing) or thing))
        return self.values[source]

    def use(self, value):
        """Install the guard of a value, and return its form in the graph: a node or a constant."""
        if value.guard and value.guard not in self.guards:
            self.guards.append(value.guard)
        if value.is_tensor and value.node is None:
            first = next((node for node in self.graph.nodes if node.op != "placeholder"), None)
            with self.graph.inserting_before(first) if first else contextlib.nullcontext():
                value.node = self.graph.placeholder(value.guard.source)
        return value.node if value.is_tensor else value.example


def metadata(thing):
    """The properties of a tensor that a graph depends on. The tensor's data is not one of them. None for any other object."""
    if type(thing) in (torch.Tensor, torch.nn.Parameter) and thing.layout is torch.strided and not vars(thing):
        return type(thing), thing.dtype, thing.device, tuple(thing.shape), thing.stride(), thing.requires_grad
    return None


# -- straight-line code ------------------------------------------------------------------------------------------------

HANDLERS = dict.fromkeys(("RESUME", "NOP", "EXTENDED_ARG", "PRECALL", "NOT_TAKEN", "TO_BOOL"), lambda frame, step: None)
OPERATORS = {"+": "add", "-": "sub", "*": "mul", "/": "truediv", "//": "floordiv", "%": "mod", "**": "pow", "@": "matmul"}


class Unsupported(Exception):
    """The frame cannot be captured (for example, an opcode has no handler), so it runs as plain Python."""


def handles(*opcodes):
    """Register a handler."""
    return lambda handler: HANDLERS.update(dict.fromkeys(opcodes, handler)) or handler


def interpret(frame):
    """Interpret the bytecode symbolically, up to a `return` or a graph break, which sets `frame.lines`."""
    steps = {step.offset: step for step in dis.get_instructions(frame.code)}
    following = dict(zip(steps, [*steps][1:], strict=False))
    frame.next = 0
    while not frame.lines:
        step = steps[frame.next]
        frame.next = following.get(frame.next)
        if step.opname not in HANDLERS:
            raise Unsupported(step.opname)
        HANDLERS[step.opname](frame, step)
    return frame


def operation(frame, kind, target, operands, write):
    """Compute constants now, add a node for tensors, or break the graph and leave the operation to Python."""
    function = getattr(torch.Tensor, target) if kind == "call_method" else target
    if function and all(each.is_tensor or each.is_constant for each in operands):
        try:
            with frame.fake_mode:
                result = function(*(each.example for each in operands))
        except Exception:  # Python will raise the same error, or the operation depends on the tensor's data
            return graph_break(frame, write)
        needs_no_node = target in ("size", "dim") or not any(each.is_tensor for each in operands)
        if isinstance(result, FakeTensor) or (needs_no_node and type(result) in CONSTANTS):
            arguments = tuple(frame.use(each) for each in operands)
            node = frame.graph.create_node(kind, target, arguments) if isinstance(result, FakeTensor) else None
            return frame.stack.append(Value(result, node=node))
    return graph_break(frame, write)


def text_of(frame, value):
    """The expression for a value in the generated code."""
    if value.name:
        return value.name
    if value.method:
        return f"{text_of(frame, value.method[0])}.{value.method[1]}"
    if value.guard and value.guard.source in frame.parameters:
        return value.guard.source
    if value.is_tensor:
        frame.use(value)
        frame.outputs += [value] if value not in frame.outputs else []
        return f"__out_{frame.outputs.index(value)}"
    # the repr is a literal, unless it begins with - (a negative number), i (inf), n (nan) or t (torch.Size)
    if value.is_constant and not value.guard and repr(value.example)[0] not in "-int":
        return repr(value.example)
    name = value.guard.source.replace(".", "_") if value.guard else f"__constant_{len(frame.injected)}"
    frame.injected[name] = value.example
    return name


@handles("LOAD_FAST", "LOAD_FAST_BORROW", "LOAD_FAST_LOAD_FAST", "LOAD_FAST_BORROW_LOAD_FAST_BORROW")
def load_fast(frame, step):
    for name in step.argval if isinstance(step.argval, tuple) else (step.argval,):
        if name not in frame.locals:
            raise Unsupported("an unbound local variable")
        frame.stack.append(frame.locals[name])


@handles("STORE_FAST", "STORE_FAST_STORE_FAST")
def store_fast(frame, step):
    for name in step.argval if isinstance(step.argval, tuple) else (step.argval,):
        frame.locals[name] = frame.stack.pop()


@handles("STORE_FAST_LOAD_FAST")
def store_fast_load_fast(frame, step):
    frame.locals[step.argval[0]] = frame.stack.pop()
    frame.stack.append(frame.locals[step.argval[1]])


@handles("LOAD_CONST", "LOAD_SMALL_INT")
def load_const(frame, step):
    frame.stack.append(Value(step.argval))


@handles("POP_TOP")
def pop_top(frame, step):
    frame.stack.pop()


@handles("BINARY_OP", "BINARY_SUBSCR")
def binary_op(frame, step):
    right, left, symbol = frame.stack.pop(), frame.stack.pop(), step.argrepr or "[]"
    if symbol == "[]":
        return operation(frame, "call_function", operator.getitem, [left, right], lambda text: f"{text(left)}[{text(right)}]")
    if symbol.endswith("=") and not left.is_constant:  # `x += 1` may mutate an object that is referenced elsewhere
        return graph_break(frame, lambda text: f"{text(left)}\n__result {symbol} {text(right)}")
    function = getattr(operator, OPERATORS.get(symbol.removesuffix("="), ""), None)
    return operation(frame, "call_function", function, [left, right], lambda text: f"{text(left)} {symbol} {text(right)}")


@handles("RETURN_VALUE")
def return_value(frame, step):
    frame.lines = [f"return {text_of(frame, frame.stack.pop())}"]


@handles("RETURN_CONST")
def return_const(frame, step):
    frame.lines = [f"return {text_of(frame, Value(step.argval))}"]


# -- calls -------------------------------------------------------------------------------------------------------------


def push_callable(frame, value, with_null=True):
    """Push a callable and, before a call, the empty slot: above it since Python 3.13, below it in older versions."""
    pair = [value, NULL] if sys.version_info >= (3, 13) else [NULL, value]
    frame.stack += pair if with_null else [value]


@handles("PUSH_NULL")
def push_null(frame, step):
    frame.stack.append(NULL)


@handles("LOAD_GLOBAL")
def load_global(frame, step):
    if step.argval not in frame.names and not hasattr(builtins, step.argval):
        raise Unsupported("an undefined name")
    value = frame.value_of(step.argval, frame.names.get(step.argval, getattr(builtins, step.argval, None)))
    frame.use(value)
    push_callable(frame, value, step.arg & 1)


@handles("LOAD_ATTR", "LOAD_METHOD")
def load_attr(frame, step):
    owner, name = frame.stack.pop(), step.argval
    is_method = step.opname == "LOAD_METHOD" or (sys.version_info >= (3, 12) and step.arg & 1)
    if is_method and (owner.is_tensor or type(owner.example) in (list, dict, set)):
        push_callable(frame, Value(None, method=(owner, name)))
    elif owner.is_tensor and name in ("shape", "ndim"):
        frame.use(owner)
        frame.stack.append(Value(getattr(owner.example, name)))
    elif isinstance(owner.example, types.ModuleType) and hasattr(owner.example, name):
        value = frame.value_of(f"{owner.guard.source}.{name}", getattr(owner.example, name))
        frame.use(value)
        push_callable(frame, value, is_method)
    else:
        push_callable(frame, Value(None, name="__result"), is_method)
        graph_break(frame, lambda text: f"{text(owner)}.{name}", push_result=False)


@handles("CALL")
def call(frame, step):
    base = len(frame.stack) - step.arg - 2
    pair, arguments = frame.stack[base : base + 2], frame.stack[base + 2 :]
    del frame.stack[base:]
    (callee,) = (each for each in pair if each is not NULL)
    function, name = callee.example, callee.method[1] if callee.method else getattr(callee.example, "__name__", "")
    if name.endswith("_"):  # by PyTorch's convention an in-place operator, which is not captured here
        kind, target, operands = "call_function", None, []
    elif callee.method and isinstance(getattr(torch.Tensor, name, None), types.MethodDescriptorType):
        kind, target, operands = "call_method", name, [callee.method[0], *arguments]
    elif getattr(torch._C._VariableFunctions, name, NULL) is function and any(each.is_tensor for each in arguments):
        kind, target, operands = "call_function", function, arguments
    else:
        kind, target, operands = "call_function", None, []
    operation(frame, kind, target, operands, lambda text: f"{text(callee)}({', '.join(map(text, arguments))})")


@handles("BUILD_TUPLE")
def build_tuple(frame, step):
    # a full implementation makes each item an output of the graph; this one breaks the graph, and Python builds the tuple
    items = frame.stack[len(frame.stack) - step.arg :]
    del frame.stack[len(frame.stack) - step.arg :]
    graph_break(frame, lambda text: f"({''.join(f'{text(item)}, ' for item in items)})")


# -- guards ------------------------------------------------------------------------------------------------------------

CHECKS = {
    "TENSOR_MATCH": lambda thing, expected: metadata(thing) == expected,
    "EQUALS": lambda thing, expected: type(thing) is type(expected) and repr(thing) == repr(expected),  # 0.0 is not -0.0
    "ID_MATCH": lambda thing, expected: thing is expected,
}


def guard_check(frame):
    """One function that checks all guards. The hook calls it with a frame's arguments, its closure and its globals."""
    sources = "".join(f"{guard.source}, " for guard in frame.guards)
    read = eval(f"lambda {''.join(f'{name}, ' for name in frame.parameters)}*_: ({sources})", frame.names)
    return lambda *arguments: all(
        CHECKS[guard.kind](thing, guard.expected) for guard, thing in zip(frame.guards, read(*arguments), strict=True)
    )


# -- an `if` on a number -----------------------------------------------------------------------------------------------

COMPARISONS = {"<": "lt", "<=": "le", "==": "eq", "!=": "ne", ">": "gt", ">=": "ge"}


@handles("COMPARE_OP")
def compare_op(frame, step):
    right, left, symbol = frame.stack.pop(), frame.stack.pop(), step.argval
    function = getattr(operator, COMPARISONS[symbol])
    operation(frame, "call_function", function, [left, right], lambda text: f"{text(left)} {symbol} {text(right)}")


@handles("JUMP_FORWARD", "JUMP_BACKWARD")
def jump(frame, step):
    frame.next = step.argval


@handles(*(f"POP_JUMP_{way}IF_{truth}" for way in ("", "FORWARD_", "BACKWARD_") for truth in ("TRUE", "FALSE")))
def jump_if(frame, step):
    condition, jumps_if = frame.stack.pop(), step.opname.endswith("TRUE")
    if condition.is_constant:
        if bool(frame.use(condition)) == jumps_if:
            frame.next = step.argval
    else:  # a graph break: only Python knows the condition, and each branch continues in a resume function
        on_true, on_false = (step.argval, frame.next) if jumps_if else (frame.next, step.argval)
        question = text_of(frame, condition)
        frame.lines = [f"if {question}:", f"    {resume_at(frame, on_true)}", resume_at(frame, on_false)]


# -- graph breaks and resume functions ---------------------------------------------------------------------------------

ORIGINAL = {}  # the code of a resume function -> the code that it continues, and the size of the prologue before it


def graph_break(frame, write, push_result=True):
    """End the graph here: Python runs this one operation, and a resume function continues with the result."""
    result = f"__result = {write(lambda value: text_of(frame, value))}"
    if push_result:
        frame.stack.append(Value(None, name="__result"))
    frame.lines = [*result.splitlines(), resume_at(frame, frame.next)]


def resume_at(frame, offset):
    """The line that calls the resume function for an instruction of the frame."""
    code, shift = ORIGINAL.get(frame.code, (frame.code, 0))
    function = resume_function(code, frame.names, offset - shift, [value is NULL for value in frame.stack])
    frame.injected[function.__name__] = function
    live = [frame.locals.get(name, Value(None)) for name in code.co_varnames]
    live += [value for value in frame.stack if value is not NULL]
    return f"return {function.__name__}({', '.join(text_of(frame, value) for value in live)})"


def resume_function(code, names, offset, nulls):
    """A prologue that restores the stack and jumps, then the original bytecode.

    The parameters are the local variables, followed by the values on the stack.
    """
    pushed = [f"___stack{place}" for place in range(nulls.count(False))]
    variables = (*code.co_varnames, *pushed)
    slots = iter(range(len(code.co_varnames), len(variables)))
    prologue = [("RESUME", 0)] + [("PUSH_NULL", 0) if null else ("LOAD_FAST", next(slots)) for null in nulls]
    prologue += [("JUMP_FORWARD", offset // 2)]
    packed = b"".join(bytes([dis.EXTENDED_ARG, arg >> 8, dis.opmap[op], arg & 255]) for op, arg in prologue)
    without_lines = b"".join(bytes([0x80 | 15 << 3 | 1]) for _ in prologue)  # each entry covers two code units
    resumed = code.replace(
        co_name=f"{code.co_name.replace('<lambda>', 'anonymous')}__resume_at_{offset}",
        co_code=packed + code.co_code,
        co_linetable=without_lines + code.co_linetable,
        co_varnames=variables,
        co_nlocals=len(variables),
        co_argcount=len(variables),
        co_posonlyargcount=0,
        co_stacksize=max(code.co_stacksize, len(nulls) + 1),
    )
    ORIGINAL[resumed] = code, len(packed)
    return types.FunctionType(resumed, names)


def generated_code(frame, backend):
    """The code that the frame runs instead of its own: it calls the graph, then runs `frame.lines`.

    The hook passes in the graph and the other objects that this code needs, as extra local variables (`frame.injected`).
    """
    lines = frame.lines
    if frame.outputs or any(node.op != "placeholder" for node in frame.graph.nodes):
        inputs = [node.target for node in frame.graph.nodes if node.op == "placeholder"]
        frame.graph.output(tuple(frame.use(value) for value in frame.outputs))
        compiled = backend(torch.fx.GraphModule(torch.nn.Module(), frame.graph))
        frame.injected["__graph"] = native.RegionCall(compiled, None)  # None: the hook is off in compiled code
        outputs = "".join(f"__out_{place}, " for place in range(len(frame.outputs)))
        lines = [f"{outputs + '= ' if outputs else ''}__graph({', '.join(inputs)})", *lines]
    variables = ", ".join([*frame.parameters, *frame.injected])
    name = frame.code.co_name.replace("<lambda>", "anonymous")
    frame.source = f"def {name}({variables}):\n    " + "\n    ".join(lines)
    namespace = {}
    exec(compile(frame.source, frame.code.co_filename, "exec"), namespace)
    return namespace[name].__code__.replace(co_argcount=len(frame.parameters), co_posonlyargcount=0)


# -- the frame hook ----------------------------------------------------------------------------------------------------


MAX_ENTRIES = 8  # further calls that match no entry run as plain Python


def can_be_captured(code):
    """Whether code can be captured. Code with exception handlers, keyword-only arguments, *args or **kwargs cannot."""
    return not (code.co_exceptiontable or code.co_kwonlyargcount or code.co_flags & (inspect.CO_VARARGS | inspect.CO_VARKEYWORDS))


class MiniDynamo:
    """Captures the frames of functions, and keeps each captured frame in `frames`."""

    def __init__(self, backend=lambda module: module.forward):
        self.backend, self.frames, self.store = backend, [], native.CacheStore()

    def optimize(self, function):
        """Wrap a function so that it runs with the frame hook on.

        The hook calls `on_frame` for each frame that matches no cache entry.
        """
        return native.RegionCall(function, native.Region(self.store, self.on_frame))

    def on_frame(self, state):
        """Capture a frame that is about to run. Returns its new cache entry, or None if it should run as plain Python."""
        code, module = state.code, state.globals.get("__name__", "").partition(".")[0]
        if module == "torch" or module in sys.stdlib_module_names - {"__main__"}:
            state.cache.skip = True
        elif can_be_captured(code) and len(state.cache.entries) < MAX_ENTRIES:
            with contextlib.suppress(Unsupported):
                frame = interpret(Frame(code, state.globals, state.values))
                new_code = generated_code(frame, self.backend)
                entry = native.Entry(guard_check(frame), new_code, tuple(frame.injected.values()), code.co_argcount)
                state.cache.entries += (entry,)
                self.frames.append(frame)
                return entry
        return None


if __name__ == "__main__":

    def toy(a, b):
        x = a / (torch.abs(a) + 1)
        if b.sum() < 0:
            b = b * -1
        return x * b

    mini = MiniDynamo()
    print(mini.optimize(toy)(torch.tensor([1.0, -3.0]), torch.tensor([-2.0, -2.0])))
    for frame in mini.frames:
        print(f"\n{frame.source}\n\n{frame.graph}")
