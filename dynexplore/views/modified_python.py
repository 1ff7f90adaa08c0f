"""Modified bytecode decompiled to Python: a function that people can read, and that runs.

The idea: modified code was not written by a person; it is the engine's plan as bytecode, and the plan is simple: load inputs,
call the graph, replay side effects, run the instruction that broke, branch, call resume functions. Every row is labeled with
its purpose (its role), and each is lowered to canonical instructions. So this decompiler need not guess: it executes the
instructions on a stack of expressions, and emits a statement for what must happen at a certain time. It is exact:

- An expression is emitted where its last part was evaluated; one that would move across a statement is assigned to a variable
  (`___v_0`) before it.
- A construct without Python syntax (a cell, a `with` block that is entered but not exited) has a name that begins with three
  underscores. `HELPERS` documents these names, and with their definitions the text runs: a test executes it in place of
  modified code.
- A variable that is unbound and read is declared, `name: object`: reading it raises the same exception as in the program.
- Code that needs anything else is refused, with the reason.

The branches of the plan never join again, each ends in a `return` or `raise`, so they nest like `if` statements. Two exception
handlers occur: the one around the graph runs the original code if an operator fails, and the one around the instruction that
broke calls the resume function of the original handler.

In: the CodeView of modified code, whose rows have roles and canonical steps. Out: `python_of(view, parameters)`, a
`PythonForm`; `modified_python(recording)`, the text for people. PyTorch's counterpart: none; the package depyf decompiles
torch.compile's modified code for the same purpose.
"""

from __future__ import annotations

import ast
import itertools
import keyword
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording

HELPERS = {
    "___next": "next(iterator, ___end), the step of a `for` loop",
    "___end": "returned by ___next when the iterator is exhausted",
    "___iter": "iter",
    "___slice": "slice",
    "___cell": "the cell of the one variable that a lambda reads",
    "___function": "makes a function of a code object, with these defaults, annotations and closure",
    "___go_on": "leaves this frame and calls a function in its place",
    "___original": "the original code, as plain Python",
    "___enter": "enters a context manager: its bound __exit__, and what __enter__ returned",
}
"""The names in the text that the program does not define, and their meaning."""

_COVERED = ("original instruction", "call carrier", "resume callee")  # the roles of what the original handler covers
_LONGEST_CONSTANT = 80  # a longer text may have been truncated
_FUNCTION_PARTS = ((1, "defaults"), (2, "kwdefaults"), (4, "annotations"), (16, "annotate"), (8, "closure"))
_BINARY: dict[str, type[ast.operator]] = {
    "+": ast.Add, "-": ast.Sub, "*": ast.Mult, "/": ast.Div, "//": ast.FloorDiv, "%": ast.Mod, "**": ast.Pow, "@": ast.MatMult,
    "<<": ast.LShift, ">>": ast.RShift, "&": ast.BitAnd, "|": ast.BitOr, "^": ast.BitXor,
}  # fmt: skip
_COMPARED: dict[str, type[ast.cmpop]] = {
    "<": ast.Lt, "<=": ast.LtE, "==": ast.Eq, "!=": ast.NotEq, ">": ast.Gt, ">=": ast.GtE,
}  # fmt: skip
_UNARY: dict[str, type[ast.unaryop]] = {"neg": ast.USub, "pos": ast.UAdd, "not": ast.Not, "invert": ast.Invert}
_CONVERSIONS = {"str": 115, "repr": 114, "ascii": 97}


class NoPython(Exception):
    """The code has no equivalent in Python; the message is the reason."""


@dataclass(frozen=True)
class PythonForm:
    """Modified code as the source of a function, or `why` there is none.

    `constants` are the names of constants and code objects without a literal: name -> index of the canonical step that loads it.
    `cells` are the closure variables that the text reads or writes.
    """

    text: str
    why: str = ""
    constants: dict[str, int] = field(default_factory=dict)
    cells: tuple[str, ...] = ()


@dataclass(frozen=True)
class _Value:
    """An expression on the stack. `reads` are the local variables in it that may be rebound; `acts`: it has an effect, so it must
    be evaluated exactly once, in order.
    """

    node: ast.expr
    reads: frozenset[str] = frozenset()
    acts: bool = False


_NULL = _Value(ast.Constant("NULL"))


@dataclass(frozen=True)
class _Step:
    """A canonical step with the role of its row; `target` is the index of the step that it jumps to, -1 for none."""

    number: int
    op: str
    arg: str
    role: str
    target: int = -1


# -- for people --------------------------------------------------------------------------------------------------------


def modified_python(recording: Recording) -> str:
    """The modified code of each frame as Python, one function after the other; "" if no frame has any."""
    return "\n\n".join(part for entered in recording.frames if (part := python_of_frame(recording, entered.frame)))


def python_of_frame(recording: Recording, frame: int) -> str:
    """The modified code of a frame as Python, preceded by comments on its special names; "" if there is none, or the recording
    lacks its canonical steps.
    """
    view = recording.modified_code(frame)
    if view is None or not any(row.steps for row in view.rows):
        return ""
    entered = recording.frame(frame)
    module = python_of(view, [name for name, _ in entered.arguments], entered.code.qualname)
    if module.why:
        return f"# {entered.code.qualname} cannot be written as Python: {module.why}"
    steps = {step.index: step.arg for row in view.rows for step in row.steps}
    names = dict(recording.of_frame(frame, ev.CodeEmitted)[-1].objects) | HELPERS
    names["__must_run_again"] = "True if an operator failed; the original code then runs again to raise the real error"
    names |= {name: steps[number] for name, number in module.constants.items() if name.startswith(("___const", "___code"))}
    used = {node.id for node in ast.walk(ast.parse(module.text)) if isinstance(node, ast.Name)}
    return "\n".join([*(f"# {name}: {meaning}" for name, meaning in names.items() if name in used), module.text])


# -- decompilation -----------------------------------------------------------------------------------------------------


def python_of(view: ev.CodeView, parameters: Sequence[str], name: str = "modified") -> PythonForm:
    """Modified code as a Python function with these parameters."""
    try:
        return _Writer(view, parameters, name).form()
    except NoPython as reason:
        return PythonForm("", str(reason))


def identifier(name: str) -> str:
    """The identifier of a variable: `.0` of a comprehension is not valid, nor is `leaf:x` of a callee.

    >>> identifier(".0"), identifier("x"), identifier("leaf:x"), identifier("leaf:<function>")
    ('___dot_0', 'x', 'leaf___x', '___leaf')
    """
    if name.isidentifier():
        return name
    callee, is_of_callee, own = name.rpartition(":")
    if not is_of_callee:
        return f"___dot_{name.lstrip('.')}"
    callee = re.sub(r"\W", "_", callee)
    return f"___{callee}" if own == "<function>" else f"{callee}___{identifier(own)}"


class _Writer:
    """Executes the steps on a stack of expressions, and emits statements."""

    def __init__(self, view: ev.CodeView, parameters: Sequence[str], name: str) -> None:
        name = name.split(".")[-1].strip("<>")
        self.name = name if name.isidentifier() and not keyword.iskeyword(name) else f"___{name}"
        self.parameters = [identifier(parameter) for parameter in parameters]
        steps = [step for step in _steps(view) if step.role != "prologue"]
        if not steps:
            raise NoPython("the recording does not contain its instructions' effects")
        self.steps = [step for step in steps if step.role != "run again"]
        self.again = [step for step in steps if step.role == "run again"]
        self.places = {step.number: place for place, step in enumerate(self.steps)}
        self.stores = Counter(identifier(step.arg) for step in steps if step.op in _REBINDS)
        self.bound: dict[str, set[str]] = {}
        for kind, ops in _KINDS_OF_NAMES.items():
            self.bound[kind] = {identifier(step.arg) for step in steps if step.op in ops}
        self.aliases: dict[str, _Value] = {}
        self.constants: dict[str, int] = {}
        self.new = 0
        self.handler = -1  # the index of the handler around the instruction that broke
        self.visited: set[int] = set()

    def form(self) -> PythonForm:
        """The decompiled function."""
        self._refuse_names_of_two_kinds()
        self._find_handler()
        body = _Block(self, self.steps, self.places, []).run(0)
        body = self._declarations() + body
        arguments = ast.arguments([], [ast.arg(name) for name in self.parameters], None, [], [], None, [])
        function = ast.FunctionDef(self.name, arguments, body or [ast.Pass()], [])
        if "type_params" in ast.FunctionDef._fields:
            function.type_params = []  # type: ignore[attr-defined, unused-ignore]
        try:
            tree = ast.parse(ast.unparse(ast.fix_missing_locations(function)))
            function.body[:0] = self._locals_without_value(tree)
            text = ast.unparse(ast.fix_missing_locations(function))
        except (ValueError, SyntaxError) as error:
            raise NoPython(f"it cannot be written ({error})") from None
        return PythonForm(text, "", self.constants, tuple(sorted(self.bound["cell"])))

    def _refuse_names_of_two_kinds(self) -> None:
        kinds = list(self.bound.items())
        for place, (kind, names) in enumerate(kinds):
            for other, others in kinds[place + 1 :]:
                if shared_names := sorted((names - set(self.parameters) if other == "cell" else names) & others):
                    raise NoPython(f"`{shared_names[0]}` names a {kind} and a {other} variable")

    def _declarations(self) -> list[ast.stmt]:
        declared: list[ast.stmt] = []
        for ops, statement in _DECLARED:
            names = sorted({identifier(step.arg) for step in self.steps if step.op in ops} - set(self.parameters))
            if names:
                declared.append(statement(names))
        return declared

    def _locals_without_value(self, tree: ast.Module) -> list[ast.stmt]:
        """`name: object` for each local variable that is read and never bound here: otherwise the name would refer to a global."""
        names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
        unbound = {node.id for node in names if isinstance(node.ctx, ast.Load)} & self.bound["local"] - set(self.parameters)
        unbound -= {node.id for node in names if not isinstance(node.ctx, ast.Load)}
        # variables that the engine adds to the frame begin with two underscores
        injected = {name for name in unbound if name.startswith("__")}
        return [ast.AnnAssign(ast.Name(name), ast.Name("object"), None, 1) for name in sorted(unbound - injected)]

    def _find_handler(self) -> None:
        """Find the handler of the instruction that broke: the steps without predecessors."""
        reached: set[int] = set()
        waiting = [0]
        while waiting:
            place = waiting.pop()
            if place in reached or place >= len(self.steps):
                continue
            reached.add(place)
            step = self.steps[place]
            if step.op not in ("RETURN_VALUE", "RAISE_VARARGS", "RERAISE", "JUMP"):
                waiting.append(place + 1)
            if step.target >= 0:
                waiting.append(self.places[step.target])
        rest = [place for place in range(len(self.steps)) if place not in reached]
        if rest:
            self.handler = rest[0]

    def handler_depth(self) -> int:
        """How many stack values the handler keeps: it begins by storing the exception, and then each of them."""
        stores = itertools.takewhile(lambda step: step.op == "STORE_FAST", self.steps[self.handler :])
        return sum(1 for _ in stores) - 1

    def fresh(self) -> str:
        """A new variable name."""
        self.new += 1
        return f"___v_{self.new - 1}"

    def is_fixed(self, name: str) -> bool:
        """Whether a variable is bound once, before any read: arguments, and variables of the engine."""
        is_bound_here_once = self.stores[name] == 1 and name.startswith("___") and name not in self.parameters
        return not self.stores[name] or is_bound_here_once

    def constant(self, step: _Step) -> ast.expr:
        """A constant as a literal, or by name if it has none."""
        if step.arg.startswith("<code ") and step.arg.endswith(">"):
            name = step.arg[len("<code ") : -1]
            name = "___original" if step.role == "run again" else name
            return self.named(name if name.startswith(("__resume_at_", "___original")) else f"___code_{step.number}", step)
        if step.arg == "Ellipsis":
            return ast.Constant(...)
        try:
            if len(step.arg) >= _LONGEST_CONSTANT:
                raise ValueError("it may have been cut")
            value = ast.literal_eval(step.arg)
        except (ValueError, SyntaxError):
            return self.named(f"___const_{step.number}", step)
        is_same = not isinstance(value, (set, list, dict)) and repr(value) == step.arg
        return ast.parse(step.arg, mode="eval").body if is_same else self.named(f"___const_{step.number}", step)

    def named(self, name: str, step: _Step) -> ast.expr:
        """The name of a constant without a literal."""
        self.constants.setdefault(name, step.number)
        return ast.Name(name)


_REBINDS = ("STORE_FAST", "DELETE_FAST", "LOAD_FAST_AND_CLEAR")
_KINDS_OF_NAMES = {
    "local": ("LOAD_FAST", *_REBINDS),
    "cell": ("LOAD_DEREF", "STORE_DEREF", "DELETE_DEREF", "LOAD_CLOSURE"),
    "global": ("LOAD_GLOBAL", "STORE_GLOBAL", "DELETE_GLOBAL"),
}
_DECLARED: tuple[tuple[tuple[str, ...], Callable[[list[str]], ast.stmt]], ...] = (
    (("STORE_GLOBAL", "DELETE_GLOBAL"), ast.Global),
    (("STORE_DEREF", "DELETE_DEREF"), ast.Nonlocal),
)


def _steps(view: ev.CodeView) -> list[_Step]:
    steps = []
    for row in view.rows:
        for step in row.steps:
            target = int(step.arg.removeprefix("to step ")) if step.arg.startswith("to step ") and row.target >= 0 else -1
            steps.append(_Step(step.index, step.op, step.arg, row.role, target))
    return steps


# -- a path through the steps -------------------------------------------------------------------------------------------

_OPS: dict[str, Callable[[_Block, _Step], None]] = {}
T = TypeVar("T", bound="Callable[[_Block, _Step], None]")


def _carries_out(*ops: str) -> Callable[[T], T]:
    """Register the decorated function for these steps."""

    def note(function: T) -> T:
        _OPS.update(dict.fromkeys(ops, function))
        return function

    return note


class _Block:
    """A path through the steps up to its `return` or `raise`: the stack of expressions, and the statements so far."""

    def __init__(
        self, writer: _Writer, steps: list[_Step], places: dict[int, int], stack: list[_Value], *, failure: str = ""
    ) -> None:
        self.writer = writer
        self.steps = steps
        self.places = places
        self.stack = stack
        self.statements: list[ast.stmt] = []
        self.failure = failure  # in a handler: the name of the exception
        self.caught = ""  # the variable that the code stores it in
        self.place = 0
        self.ended = False

    def run(self, place: int) -> list[ast.stmt]:
        """Execute the steps from this index on, and return the statements."""
        self.place = place
        while not self.ended:
            if self.place >= len(self.steps):
                raise NoPython("execution continues past its last instruction")
            step = self.steps[self.place]
            if step.role in ("call graph", "load input") and self.writer.again and not self.failure:
                self._call_of_graph()
                continue
            if step.role in _COVERED and self.writer.handler >= 0 and not self.failure:
                self._covered(step.role)
                continue
            self.place += 1
            self.carry_out(step)
        return self.statements

    def carry_out(self, step: _Step) -> None:
        """Execute one step."""
        act = _OPS.get(step.op)
        if act is None:
            raise NoPython(f"{step.op} has no Python equivalent")
        act(self, step)

    # -- the two handlers

    def _call_of_graph(self) -> None:
        """Emit the call of the graph; if an operator in it fails, the original code runs."""
        inner = self._until(lambda step: step.role in ("call graph", "load input") or step.role == "")
        again = {step.number: place for place, step in enumerate(self.writer.again)}
        handler = _Block(self.writer, self.writer.again, again, [_Value(ast.Name("___raised"))], failure="___raised")
        self.statements.append(_try(inner, "___raised", handler.run(0)))

    def _covered(self, role: str) -> None:
        """Emit the instruction that broke, or the call of a callee that runs it: exceptions continue in a resume function."""
        self.flush()
        below = self.stack[: self.writer.handler_depth()]
        inner = self._until(lambda step: step.role == role)
        handler = _Block(self.writer, self.steps, self.places, [*below, _Value(ast.Name("___raised"))], failure="___raised")
        self.statements.append(_try(inner or [ast.Pass()], "___raised", handler.run(self.writer.handler)))
        if self.branch is not None and self.branch[0].op == "FOR_ITER":
            self._goes_round(*self.branch)
        elif self.branch is not None:
            self._branch(*self.branch)

    branch: tuple[_Step, ast.expr] | None = None  # a jump in the covered region: its condition is evaluated inside

    def _until(self, belongs: Callable[[_Step], bool]) -> list[ast.stmt]:
        """Execute the steps of a handler's region; return the statements, with results in variables."""
        self.flush()
        outer, self.statements = self.statements, []
        while not self.ended and belongs(step := self.steps[self.place]):
            self.place += 1
            if step.target >= 0:
                self.branch = step, self._next_item() if step.op == "FOR_ITER" else self._condition_in_variable(step)
                break
            self.carry_out(step)
        self.flush()
        inner, self.statements = self.statements, outer
        return inner

    def _condition_in_variable(self, step: _Step) -> ast.expr:
        if step.op not in ("POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE"):
            raise NoPython(f"{step.op} in a `try` has no Python equivalent")
        condition = self.pop()
        truth = self.keep(_Value(ast.UnaryOp(ast.Not(), ast.UnaryOp(ast.Not(), condition.node)), acts=True))
        return truth.node

    def _next_item(self) -> ast.expr:
        """Assign the next item of the iterator on top of the stack to a variable."""
        self.flush()
        return self.keep(_Value(_call("___next", self.stack[-1].node, ast.Name("___end")))).node

    def _goes_round(self, step: _Step, item: ast.expr) -> None:
        """Emit the two paths of a loop: an exhausted iterator is popped, otherwise the next item is pushed."""
        ends = ast.Compare(item, [ast.Is()], [ast.Name("___end")])
        self.split(ends, self.places[step.target], self.place, [_Value(item)], depth=1)

    # -- the stack

    def push(self, node: ast.expr, *parts: _Value) -> None:
        """Push an expression that is evaluated here and has these parts."""
        self.stack.append(_Value(node, frozenset().union(*(part.reads for part in parts)), acts=True))

    def pop(self) -> _Value:
        """Pop the top of the stack."""
        if not self.stack:
            raise NoPython("it pops more values than it pushed")
        return self.stack.pop()

    def pops(self, count: int) -> list[_Value]:
        """Pop `count` values, the deepest first."""
        return [self.pop() for _ in range(count)][::-1]

    def keep(self, value: _Value) -> _Value:
        """Assign a value to a new variable."""
        name = self.writer.fresh()
        self.statements.append(_assign(ast.Name(name), value.node))
        return _Value(ast.Name(name))

    def flush(self, *names: str) -> None:
        """Evaluate now each expression that must precede the next statement, or reads a variable that it binds."""
        for place, value in enumerate(self.stack):
            if value.acts or value.reads.intersection(names):
                self.stack[place] = self.keep(value)

    def say(self, statement: ast.stmt, *names: str) -> None:
        """Emit a statement that binds these local variables, after evaluating the stack."""
        self.flush(*names)
        self.statements.append(statement)

    def end(self, statement: ast.stmt) -> None:
        """Emit the last statement of this path."""
        self.say(statement)
        self.ended = True

    def _branch(self, step: _Step, condition: ast.expr) -> None:
        """Emit two paths: the one that continues here, and the one at the target, which `condition` selects."""
        if step.op == "POP_JUMP_IF_FALSE":
            self.split(condition, self.place, self.places[step.target])
        else:
            self.split(condition, self.places[step.target], self.place)

    def split(self, condition: ast.expr, then: int, otherwise: int, pushed: Sequence[_Value] = (), depth: int = 0) -> None:
        """Emit `if condition:` with the steps at one index, else those at another; `pushed` values are only on the latter's stack,
        and the former's has `depth` fewer.
        """
        self.flush()
        stack = self.stack[: len(self.stack) - depth]
        first = _Block(self.writer, self.steps, self.places, list(stack), failure=self.failure)
        first.caught = self.caught
        self.statements.append(ast.If(condition, first.run(then), []))
        second = _Block(self.writer, self.steps, self.places, [*self.stack, *pushed], failure=self.failure)
        second.caught = self.caught
        self.statements += second.run(otherwise)
        self.ended = True


def _try(body: list[ast.stmt], name: str, handler: list[ast.stmt]) -> ast.stmt:
    return ast.Try(body, [ast.ExceptHandler(ast.Name("BaseException"), name, handler)], [], [])


def _assign(target: ast.expr, value: ast.expr) -> ast.stmt:
    return ast.Assign([target], value, lineno=0)


def _call(name: str, *args: ast.expr) -> ast.expr:
    return ast.Call(ast.Name(name), list(args), [])


def _nodes(values: Sequence[_Value]) -> list[ast.expr]:
    return [value.node for value in values]


# -- steps: the stack, and names -----------------------------------------------------------------------------------------


@_carries_out("NOP")
def _nop(block: _Block, step: _Step) -> None:
    pass


@_carries_out("POP_TOP")
def _pop_top(block: _Block, step: _Step) -> None:
    value = block.pop()
    if value.acts or value.reads:
        block.say(ast.Expr(value.node))


@_carries_out("PUSH_NULL")
def _push_null(block: _Block, step: _Step) -> None:
    block.stack.append(_NULL)


@_carries_out("COPY")
def _copy(block: _Block, step: _Step) -> None:
    block.flush()
    block.stack.append(block.stack[-int(step.arg)])


@_carries_out("SWAP")
def _swap(block: _Block, step: _Step) -> None:
    block.flush()
    depth = int(step.arg)
    block.stack[-1], block.stack[-depth] = block.stack[-depth], block.stack[-1]


@_carries_out("LOAD_CONST")
def _load_const(block: _Block, step: _Step) -> None:
    block.stack.append(_Value(block.writer.constant(step)))


@_carries_out("LOAD_FAST")
def _load_fast(block: _Block, step: _Step) -> None:
    name = identifier(step.arg)
    if name == block.caught:
        block.stack.append(_Value(ast.Name(block.failure)))
    elif name in block.writer.aliases:
        block.stack.append(block.writer.aliases[name])
    else:
        block.stack.append(_Value(ast.Name(name), frozenset() if block.writer.is_fixed(name) else frozenset({name})))


@_carries_out("STORE_FAST")
def _store_fast(block: _Block, step: _Step) -> None:
    name, value = identifier(step.arg), block.pop()
    if block.failure and isinstance(value.node, ast.Name) and value.node.id == block.failure:
        block.caught = name  # the `except` clause binds it, and unbinds it at its end
    elif name == block.caught:
        pass
    elif not value.acts and not value.reads and block.writer.is_fixed(name):
        block.writer.aliases[name] = value  # an alias of a value that never changes
    else:
        block.say(_assign(ast.Name(name), value.node), name)


@_carries_out("DELETE_FAST")
def _delete_fast(block: _Block, step: _Step) -> None:
    name = identifier(step.arg)
    block.say(ast.Delete([ast.Name(name)]), name)


@_carries_out("LOAD_FAST_AND_CLEAR")
def _load_fast_and_clear(block: _Block, step: _Step) -> None:
    """Where the engine writes it the local is bound (`Writer.load_fast_and_clear`)."""
    _load_fast(block, step)
    _delete_fast(block, step)


@_carries_out("LOAD_GLOBAL", "LOAD_DEREF")
def _load_name(block: _Block, step: _Step) -> None:
    block.push(ast.Name(identifier(step.arg)))


@_carries_out("STORE_GLOBAL", "STORE_DEREF")
def _store_name(block: _Block, step: _Step) -> None:
    value = block.pop()
    block.say(_assign(ast.Name(identifier(step.arg)), value.node))


@_carries_out("DELETE_GLOBAL", "DELETE_DEREF")
def _delete_name(block: _Block, step: _Step) -> None:
    block.say(ast.Delete([ast.Name(identifier(step.arg))]))


@_carries_out("LOAD_CLOSURE")
def _load_closure(block: _Block, step: _Step) -> None:
    read = ast.Lambda(ast.arguments([], [], None, [], [], None, []), ast.Name(identifier(step.arg)))
    block.stack.append(_Value(_call("___cell", read)))


# -- operators, attributes and subscripts --------------------------------------------------------------------------------


@_carries_out("UNARY_OP")
def _unary(block: _Block, step: _Step) -> None:
    value = block.pop()
    block.push(ast.UnaryOp(_UNARY[step.arg](), value.node), value)


@_carries_out("TO_BOOL")
def _to_bool(block: _Block, step: _Step) -> None:
    value = block.pop()
    block.push(ast.UnaryOp(ast.Not(), ast.UnaryOp(ast.Not(), value.node)), value)


@_carries_out("BINARY_OP")
def _binary(block: _Block, step: _Step) -> None:
    lhs, rhs = block.pops(2)
    if not step.arg.endswith("="):
        block.push(ast.BinOp(lhs.node, _BINARY[step.arg](), rhs.node), lhs, rhs)
        return
    block.flush()
    target = block.keep(lhs)
    assert isinstance(target.node, ast.Name)
    block.say(ast.AugAssign(target.node, _BINARY[step.arg[:-1]](), rhs.node))
    block.stack.append(target)


@_carries_out("COMPARE_OP", "IS_OP", "CONTAINS_OP")
def _compare(block: _Block, step: _Step) -> None:
    lhs, rhs = block.pops(2)
    is_inverted = step.arg == "True"
    if step.op == "IS_OP":
        how: ast.cmpop = ast.IsNot() if is_inverted else ast.Is()
    elif step.op == "CONTAINS_OP":
        how = ast.NotIn() if is_inverted else ast.In()
    else:
        how = _COMPARED[step.arg]()
    block.push(ast.Compare(lhs.node, [how], [rhs.node]), lhs, rhs)


@_carries_out("LOAD_ATTR")
def _load_attr(block: _Block, step: _Step) -> None:
    owner = block.pop()
    block.push(ast.Attribute(owner.node, step.arg), owner)


@_carries_out("STORE_ATTR")
def _store_attr(block: _Block, step: _Step) -> None:
    value, owner = block.pops(2)
    block.say(_assign(ast.Attribute(owner.node, step.arg), value.node))


@_carries_out("DELETE_ATTR")
def _delete_attr(block: _Block, step: _Step) -> None:
    owner = block.pop()
    block.say(ast.Delete([ast.Attribute(owner.node, step.arg)]))


@_carries_out("BINARY_SUBSCR")
def _subscript(block: _Block, step: _Step) -> None:
    container, key = block.pops(2)
    block.push(ast.Subscript(container.node, _key(key)), container, key)


@_carries_out("STORE_SUBSCR")
def _store_subscript(block: _Block, step: _Step) -> None:
    value, container, key = block.pops(3)
    block.say(_assign(ast.Subscript(container.node, _key(key)), value.node))


@_carries_out("DELETE_SUBSCR")
def _delete_subscript(block: _Block, step: _Step) -> None:
    container, key = block.pops(2)
    block.say(ast.Delete([ast.Subscript(container.node, _key(key))]))


@_carries_out("BINARY_SLICE")
def _slice_of(block: _Block, step: _Step) -> None:
    container, start, stop = block.pops(3)
    block.push(ast.Subscript(container.node, ast.Slice(start.node, stop.node)), container, start, stop)


@_carries_out("STORE_SLICE")
def _store_slice(block: _Block, step: _Step) -> None:
    value, container, start, stop = block.pops(4)
    block.say(_assign(ast.Subscript(container.node, ast.Slice(start.node, stop.node)), value.node))


@_carries_out("BUILD_SLICE")
def _build_slice(block: _Block, step: _Step) -> None:
    parts = block.pops(int(step.arg))
    block.push(_call("___slice", *_nodes(parts)), *parts)


def _key(key: _Value) -> ast.expr:
    """The expression of a subscript, with slice syntax."""
    node = key.node
    if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "___slice":
        return ast.Slice(*node.args)
    return node


# -- containers and strings ----------------------------------------------------------------------------------------------


@_carries_out("BUILD_TUPLE", "BUILD_LIST", "BUILD_SET")
def _build(block: _Block, step: _Step) -> None:
    items = block.pops(int(step.arg))
    nodes = _nodes(items)
    if step.op == "BUILD_SET" and not nodes:
        nodes = [ast.Starred(ast.Tuple([]))]
    kinds: dict[str, Callable[[list[ast.expr]], ast.expr]] = {
        "BUILD_TUPLE": ast.Tuple, "BUILD_LIST": ast.List, "BUILD_SET": ast.Set,
    }  # fmt: skip
    block.push(kinds[step.op](nodes), *items)


@_carries_out("BUILD_MAP")
def _build_map(block: _Block, step: _Step) -> None:
    items = block.pops(2 * int(step.arg))
    nodes = _nodes(items)
    block.push(ast.Dict(list[ast.expr | None](nodes[::2]), nodes[1::2]), *items)


@_carries_out("LIST_EXTEND", "SET_UPDATE", "LIST_APPEND", "SET_ADD")
def _extend(block: _Block, step: _Step) -> None:
    items = block.pop()
    target = block.stack[-int(step.arg)] if int(step.arg) <= len(block.stack) else _NULL
    if int(step.arg) != 1 or not isinstance(target.node, (ast.List, ast.Set)):
        raise NoPython(f"{step.op} of a container built earlier has no Python equivalent")
    block.pop()
    more = items.node if step.op in ("LIST_APPEND", "SET_ADD") else ast.Starred(items.node)
    block.push(type(target.node)([*target.node.elts, more]), target, items)


@_carries_out("DICT_UPDATE")
def _update(block: _Block, step: _Step) -> None:
    mapping = block.pop()
    target = block.stack[-1] if block.stack else _NULL
    if step.arg != "1" or not isinstance(target.node, ast.Dict):
        raise NoPython(f"{step.op} of a container built earlier has no Python equivalent")
    block.pop()
    block.push(ast.Dict([*target.node.keys, None], [*target.node.values, mapping.node]), target, mapping)


@_carries_out("LIST_TO_TUPLE")
def _to_tuple(block: _Block, step: _Step) -> None:
    items = block.pop()
    node = items.node
    block.push(ast.Tuple(node.elts if isinstance(node, ast.List) else [ast.Starred(node)]), items)


@_carries_out("UNPACK_SEQUENCE")
def _unpack(block: _Block, step: _Step) -> None:
    """Unpack into the variables of the following store instructions, if there are as many."""
    sequence, count = block.pop(), int(step.arg)
    after = block.steps[block.place : block.place + count]
    names = [identifier(following.arg) for following in after if following.op == "STORE_FAST" and following.target < 0]
    if len(names) == count and len(set(names)) == count:
        block.place += count
    else:
        names = [block.writer.fresh() for _ in range(count)]
        block.stack += [_Value(ast.Name(name)) for name in reversed(names)]
    block.say(_assign(ast.Tuple([ast.Name(name) for name in names]), sequence.node), *names)


@_carries_out("FORMAT_VALUE")
def _format(block: _Block, step: _Step) -> None:
    conversion, has_spec = ast.literal_eval(step.arg)
    spec = block.pop() if has_spec else None
    value = block.pop()
    shown = None if spec is None else ast.JoinedStr(_pieces(spec.node))
    piece = ast.FormattedValue(value.node, _CONVERSIONS.get(conversion, -1), shown)
    block.push(ast.JoinedStr([piece]), value, *([spec] if spec else []))


@_carries_out("BUILD_STRING")
def _build_string(block: _Block, step: _Step) -> None:
    parts = block.pops(int(step.arg))
    block.push(ast.JoinedStr([piece for part in parts for piece in _pieces(part.node)]), *parts)


def _pieces(node: ast.expr) -> list[ast.expr]:
    """The parts of an f-string that an expression contributes."""
    if isinstance(node, ast.JoinedStr):
        return node.values
    return [node] if isinstance(node, ast.Constant) and isinstance(node.value, str) else [ast.FormattedValue(node, -1, None)]


# -- calls and functions ---------------------------------------------------------------------------------------------------


@_carries_out("CALL")
def _call_step(block: _Block, step: _Step) -> None:
    count, names = _counted(step.arg)
    arguments = block.pops(count)
    function, first = _callable(block)
    arguments = [*first, *arguments]
    by_place = len(arguments) - len(names)
    plain = _nodes(arguments[:by_place])
    named = [ast.keyword(name, value.node) for name, value in zip(names, arguments[by_place:], strict=True)]
    if isinstance(function.node, ast.Name) and function.node.id == "__tail_call":
        block.push(_going_on(plain[0], plain[1:]), *arguments)
    else:
        block.push(ast.Call(function.node, plain, named), function, *arguments)


def _counted(operand: str) -> tuple[int, tuple[str, ...]]:
    """The number of arguments of a call, and the names of the keyword arguments: from "3 (dim=, out=)", or an older recording's
    tuple.

    >>> _counted("1"), _counted("3 (dim=, out=)"), _counted("(2, ('dim',))")
    ((1, ()), (3, ('dim', 'out')), (2, ('dim',)))
    """
    if operand.startswith("("):
        count, names = ast.literal_eval(operand)
        return count, names
    number, _, words = operand.partition(" ")
    return int(number), tuple(word.removesuffix("=") for word in words.strip("()").split(", ") if word)


def _going_on(function: ast.expr, arguments: list[ast.expr]) -> ast.expr:
    """A tail call: of a function by its name, if it has no closure and was not created before its arguments."""
    if isinstance(function, ast.Call) and not function.keywords:
        return ast.Call(function.args[0], arguments, [])
    return _call("___go_on", function, *arguments)


def _callable(block: _Block) -> tuple[_Value, list[_Value]]:
    """The callable, and the first argument if that replaces the NULL slot."""
    function, *first = [value for value in block.pops(2) if value is not _NULL]
    return function, first


@_carries_out("CALL_KW")
def _call_kw(block: _Block, step: _Step) -> None:
    names = ast.literal_eval(ast.unparse(block.pop().node))
    _call_step(block, _Step(step.number, "CALL", repr((int(step.arg), names)), step.role))


@_carries_out("CALL_FUNCTION_EX")
def _call_ex(block: _Block, step: _Step) -> None:
    keywords = block.pop() if step.arg == "True" else None
    arguments = block.pop()
    function, first = _callable(block)
    node = arguments.node
    plain: list[ast.expr] = _nodes(first)
    plain += node.elts if isinstance(node, (ast.List, ast.Tuple)) else [ast.Starred(node)]
    named = [ast.keyword(None, keywords.node)] if keywords else []
    block.push(ast.Call(function.node, plain, named), function, *first, arguments, *([keywords] if keywords else []))


@_carries_out("MAKE_FUNCTION")
def _make_function(block: _Block, step: _Step) -> None:
    code = block.pop()
    flags = int(step.arg)
    names = [name for flag, name in _FUNCTION_PARTS if flags & flag]
    parts = block.pops(len(names))
    named = [ast.keyword(name, part.node) for name, part in zip(names, parts, strict=True)]
    block.push(ast.Call(ast.Name("___function"), [code.node], named), code, *parts)


@_carries_out("SET_FUNCTION_ATTRIBUTE")
def _set_function_attribute(block: _Block, step: _Step) -> None:
    value, function = block.pops(2)
    node = function.node
    name = next((name for flag, name in _FUNCTION_PARTS if flag == int(step.arg)), "")
    if not isinstance(node, ast.Call) or not name:
        raise NoPython("it changes an existing function")
    block.push(ast.Call(node.func, node.args, [ast.keyword(name, value.node), *node.keywords]), value, function)


# -- control flow ------------------------------------------------------------------------------------------------------------


@_carries_out("RETURN_VALUE")
def _return(block: _Block, step: _Step) -> None:
    block.end(ast.Return(block.pop().node))


@_carries_out("POP_JUMP_IF_TRUE", "POP_JUMP_IF_FALSE", "POP_JUMP_IF_NONE", "POP_JUMP_IF_NOT_NONE")
def _jump_if(block: _Block, step: _Step) -> None:
    node = _truth(block.pop().node)
    if step.op.endswith("NONE"):
        node = ast.Compare(node, [ast.IsNot() if "NOT" in step.op else ast.Is()], [ast.Constant(None)])
    block._branch(step, node)


def _truth(node: ast.expr) -> ast.expr:
    """A condition without double negation: `if` evaluates the truth value itself."""
    if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not) and isinstance(inner := node.operand, ast.UnaryOp):
        return inner.operand if isinstance(inner.op, ast.Not) else node
    return node


@_carries_out("FOR_ITER")
def _for_iter(block: _Block, step: _Step) -> None:
    block._goes_round(step, block._next_item())


@_carries_out("GET_ITER")
def _get_iter(block: _Block, step: _Step) -> None:
    value = block.pop()
    block.push(_call("___iter", value.node), value)


@_carries_out("BEFORE_WITH")
def _before_with(block: _Block, step: _Step) -> None:
    manager = block.pop()
    exit_name, entered = block.writer.fresh(), block.writer.fresh()
    block.say(_assign(ast.Tuple([ast.Name(exit_name), ast.Name(entered)]), _call("___enter", manager.node)))
    block.stack += [_Value(ast.Name(exit_name)), _Value(ast.Name(entered))]


@_carries_out("RAISE_VARARGS")
def _raise(block: _Block, step: _Step) -> None:
    parts = _nodes(block.pops(int(step.arg)))
    block.end(ast.Raise(*parts))


@_carries_out("RERAISE")
def _reraise(block: _Block, step: _Step) -> None:
    if not block.failure:
        raise NoPython("it re-raises an exception from before it began")
    block.pop()
    block.end(ast.Raise())
