"""The writer: emits instructions by meaning ("load a constant", "call with two arguments") for the running Python.

The idea: code generation never counts bytes, never reads a table of names and never checks the version. The `Writer` appends raw
instructions with names and values as operands; `assembler.assemble` turns them into numbers. Each instruction carries its purpose
(`role`) and the original instruction it came from (`origin`), so that every view can link the modified code to the original.

In: method calls. Out: `Writer.instructions`, for `assemble`. PyTorch's counterpart: `PyCodegen` in torch/_dynamo/codegen.py, and
the `create_*` functions of torch/_dynamo/bytecode_transformation.py.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from types import CodeType
from typing import Any

from dynexplore.engine.bytecode.instruction import Handler, Instruction, Label, Position
from dynexplore.engine.bytecode.versions import EMIT, FACTS
from dynexplore.engine.bytecode.versions.rows import BINARY_OPERATORS

#: placeholder for the target of a jump or handler until its label is marked
UNMARKED = Instruction("<label never marked>")


#: instructions that move and pack values; the only user code that they may run is a `__hash__` or a `__del__`
MOVES = frozenset({"LOAD_CONST", "LOAD_FAST", "STORE_FAST", "LOAD_DEREF", "STORE_DEREF", "COPY", "SWAP", "POP_TOP", "BUILD_TUPLE",
                   "BUILD_LIST", "BUILD_MAP", "RETURN_VALUE"})


def arrived_as(name: str) -> str:
    """The name, in instructions, of the slot in which COPY_FREE_VARS stores the cell of a free variable that is then moved."""
    return f"{name} (free)"


class Writer:
    """Emits raw instructions of the running Python.

    >>> writer = Writer()
    >>> with writer.role("return"):
    ...     writer.load_const(7)
    ...     writer.return_value()
    >>> [(i.opname, i.role) for i in writer.instructions]
    [('LOAD_CONST', 'return'), ('RETURN_VALUE', 'return')]
    """

    def __init__(self, code: CodeType | None = None) -> None:
        """`code` is the original; instructions without a position get its first line."""
        self.code = code
        self.instructions: list[Instruction] = []
        self._role = ""
        self._origin: Instruction | None = None
        self._handler: Handler | None = None
        self._position: Position | None = None
        if code is not None:
            self._position = Position(code.co_firstlineno, code.co_firstlineno, 0, 0)
        self._marked: list[Label] = []

    # -- role, origin and exception handler of the next instructions

    @contextmanager
    def role(self, role: str) -> Iterator[None]:
        """Set the role of the instructions written inside: "load input", "call graph", ..."""
        before, self._role = self._role, role
        try:
            yield
        finally:
            self._role = before

    @contextmanager
    def at(self, origin: Instruction | None, position: Position | None = None) -> Iterator[None]:
        """Set the original instruction of those written inside: they get it as origin, and its position or this one."""
        before = self._origin, self._position
        if origin is not None:
            self._origin, self._position = origin.origin or origin, position or origin.position
        try:
            yield
        finally:
            self._origin, self._position = before

    @contextmanager
    def covered_by(self, label: Label | None, depth: int = 0, lasti: bool = False) -> Iterator[None]:
        """Set the exception handler of the instructions written inside (None: no handler); see `Handler` for depth, lasti."""
        before = self._handler
        self._handler = None if label is None else self._handler_to(label, depth, lasti)
        try:
            yield
        finally:
            self._handler = before

    def _handler_to(self, label: Label, depth: int, lasti: bool) -> Handler:
        handler = Handler(label.instruction or UNMARKED, depth, lasti)
        if label.instruction is None:
            label.waiting.append(handler)
        return handler

    # -- emitting

    def emit(self, opname: str, arg: int | None = None, argval: Any = None, jump_to: Label | None = None) -> Instruction:
        """Append one raw instruction. `arg` None: the assembler finds it from `argval` (a name, a constant)."""
        instruction = Instruction(
            opname, arg, argval, position=self._position, handler=self._handler, origin=self._origin, role=self._role
        )
        return self._append(instruction, jump_to)

    def _append(self, instruction: Instruction, jump_to: Label | None) -> Instruction:
        instruction.index = len(self.instructions)
        self.instructions.append(instruction)
        if jump_to is not None:
            instruction.target = jump_to.instruction or UNMARKED
            if jump_to.instruction is None:
                jump_to.waiting.append(instruction)
        for label in self._marked:
            label.instruction = instruction
            for waiting in label.waiting:
                waiting.target = instruction
            label.waiting.clear()
        self._marked.clear()
        return instruction

    def _emit_rows(self, key: str, *operands: Any) -> None:
        for opname, arg, argval in EMIT[key](*operands):
            self.emit(opname, arg, argval)

    def mark(self, label: Label) -> None:
        """Set a label to the instruction that is written next."""
        if label.instruction is not None or label in self._marked:
            raise ValueError(f"{label} is marked twice")
        self._marked.append(label)

    def original(self, instruction: Instruction, jump_to: Label | None = None) -> Instruction:
        """Append a copy of an original raw instruction; if it jumps, `jump_to` is its new target."""
        if (instruction.target is None) != (jump_to is None):
            raise ValueError(f"{instruction} needs a label exactly if it jumps; got {jump_to}")
        copied = Instruction(
            instruction.opname, instruction.arg, instruction.argval, position=instruction.position,
            handler=self._handler, origin=instruction.origin or instruction, role=self._role,
        )  # fmt: skip
        return self._append(copied, jump_to)

    def originals(
        self, instructions: Sequence[Instruction], labels: Mapping[Instruction, Label] | None = None
    ) -> dict[Instruction, Label]:
        """Append copies of original instructions with the jumps and exception regions among them kept.

        `labels` are labels to use: one of an instruction in the list is marked at its copy, one of an instruction outside is the
        target of its jumps or handlers. A region whose handler is in neither is dropped. Returns a label for each copy.
        """
        outer_labels = labels or {}
        own = {instruction: outer_labels.get(instruction) or Label() for instruction in instructions}
        label_of = {**outer_labels, **own}
        handlers: dict[Handler, Handler] = {}
        for instruction in instructions:
            self.mark(own[instruction])
            copied = self.original(instruction, None if instruction.target is None else label_of[instruction.target])
            handler = instruction.handler
            if handler is not None and handler.target in label_of:
                if handler not in handlers:
                    handlers[handler] = self._handler_to(label_of[handler.target], handler.depth, handler.lasti)
                copied.handler = handlers[handler]
        return own

    def prologue(self, cellvars: Iterable[str] = (), freevars: Sequence[str] = (), moved: Iterable[str] = ()) -> None:
        """Write what every function starts with: COPY_FREE_VARS, its cells, and the RESUME that CPython requires.

        The cells of the free variables `moved` go to locals of the same name, so that CPython's error for an unbound one names a
        local variable (Python/ceval.c, format_exc_unbound).
        """
        if freevars:
            self.emit("COPY_FREE_VARS", len(freevars), len(freevars))
        for name in cellvars:
            self.emit("MAKE_CELL", None, name)
        self.emit("RESUME", 0, 0)
        for name in moved:
            self.load_closure(arrived_as(name))
            self.store_fast(name)

    def calls_nothing(self) -> bool:
        """Whether everything written so far only moves and packs values."""
        return all(instruction.opname in MOVES for instruction in self.instructions)

    # -- names

    def load_const(self, value: Any) -> None:
        """Push a constant."""
        self.emit("LOAD_CONST", None, value)

    def load_fast(self, name: str) -> None:
        """Push a local variable that is bound (CPython does not check; `load_fast_checked` does)."""
        self.emit("LOAD_FAST", None, name)

    def load_fast_checked(self, name: str) -> None:
        """Push a local variable that may be unbound, which raises UnboundLocalError."""
        self._emit_rows("load_fast_checked", name)

    def load_fast_and_clear(self, name: str) -> None:
        """Push a local variable that is bound, and make it unbound."""
        self._emit_rows("load_fast_and_clear", name)

    def store_fast(self, name: str) -> None:
        """Bind a local variable."""
        self.emit("STORE_FAST", None, name)

    def delete_fast(self, name: str) -> None:
        """Make a local variable unbound; it must be bound."""
        self.emit("DELETE_FAST", None, name)

    def load_global(self, name: str) -> None:
        """Push a global, or else a builtin (never with a NULL beside it: see `begin_call`)."""
        self.emit("LOAD_GLOBAL", None, name)

    def store_global(self, name: str) -> None:
        """Bind a global name."""
        self.emit("STORE_GLOBAL", None, name)

    def delete_global(self, name: str) -> None:
        """Unbind a global name."""
        self.emit("DELETE_GLOBAL", None, name)

    def load_deref(self, name: str) -> None:
        """Push the content of a cell."""
        self.emit("LOAD_DEREF", None, name)

    def store_deref(self, name: str) -> None:
        """Store the top in a cell."""
        self.emit("STORE_DEREF", None, name)

    def delete_deref(self, name: str) -> None:
        """Empty a cell."""
        self.emit("DELETE_DEREF", None, name)

    def load_closure(self, name: str) -> None:
        """Push the cell itself."""
        self._emit_rows("load_closure", name)

    # -- attributes, items, operators

    def load_attr(self, name: str) -> None:
        """owner -- value"""
        self.emit("LOAD_ATTR", None, name)

    def store_attr(self, name: str) -> None:
        """value owner --"""
        self.emit("STORE_ATTR", None, name)

    def delete_attr(self, name: str) -> None:
        """owner --"""
        self.emit("DELETE_ATTR", None, name)

    def binary_subscr(self) -> None:
        """container key -- item"""
        self._emit_rows("binary_subscr")

    def store_subscr(self) -> None:
        """value container key --"""
        self.emit("STORE_SUBSCR")

    def delete_subscr(self) -> None:
        """container key --"""
        self.emit("DELETE_SUBSCR")

    def binary(self, op: str) -> None:
        """left right -- result, for an operator text such as "+" or "+="."""
        self.emit("BINARY_OP", BINARY_OPERATORS.index(op), op)

    def compare(self, op: str) -> None:
        """left right -- result, for "<", "<=", "==", "!=", ">" or ">="."""
        self._emit_rows("compare", op)

    def is_op(self, inverted: bool = False) -> None:
        """left right -- truth: `is`, or `is not` if inverted."""
        self.emit("IS_OP", int(inverted), int(inverted))

    def contains_op(self, inverted: bool = False) -> None:
        """item container -- truth: `in`, or `not in` if inverted."""
        self.emit("CONTAINS_OP", int(inverted), int(inverted))

    def to_bool(self) -> None:
        """value -- True or False"""
        self._emit_rows("to_bool")

    def unary_not(self) -> None:
        """value -- truth"""
        self._emit_rows("unary_not")

    def unary_positive(self) -> None:
        """value -- result"""
        self._emit_rows("unary_positive")

    # -- containers

    def build_tuple(self, n: int) -> None:
        """items... -- tuple"""
        self.emit("BUILD_TUPLE", n, n)

    def build_list(self, n: int) -> None:
        """items... -- list"""
        self.emit("BUILD_LIST", n, n)

    def build_set(self, n: int) -> None:
        """items... -- set"""
        self.emit("BUILD_SET", n, n)

    def build_map(self, n: int) -> None:
        """key value ... -- dict, of n pairs"""
        self.emit("BUILD_MAP", n, n)

    def build_slice(self, n: int) -> None:
        """start stop [step] -- slice, of n = 2 or 3 parts"""
        self.emit("BUILD_SLICE", n, n)

    def build_string(self, n: int) -> None:
        """strings... -- string"""
        self.emit("BUILD_STRING", n, n)

    def list_append(self, depth: int) -> None:
        """item --; the list is `depth` deep once the item is popped (1 = top)"""
        self.emit("LIST_APPEND", depth, depth)

    def list_extend(self, depth: int) -> None:
        """items --; the list is `depth` deep once the items are popped"""
        self.emit("LIST_EXTEND", depth, depth)

    def set_update(self, depth: int) -> None:
        """items --; the set is `depth` deep once the items are popped"""
        self.emit("SET_UPDATE", depth, depth)

    def dict_update(self, depth: int) -> None:
        """mapping --; the dict is `depth` deep once the mapping is popped"""
        self.emit("DICT_UPDATE", depth, depth)

    def list_to_tuple(self) -> None:
        """list -- tuple"""
        self._emit_rows("list_to_tuple")

    def unpack_sequence(self, n: int) -> None:
        """sequence -- items..., the first on top"""
        self.emit("UNPACK_SEQUENCE", n, n)

    def get_iter(self) -> None:
        """iterable -- iterator"""
        self.emit("GET_ITER")

    # -- the stack

    def pop_top(self) -> None:
        """value --"""
        self.emit("POP_TOP")

    def copy(self, n: int = 1) -> None:
        """Push the n-th value from the top (1 = top) again."""
        self.emit("COPY", n, n)

    def swap(self, n: int) -> None:
        """Exchange the top with the n-th value from the top; n = 1 writes nothing."""
        if n > 1:
            self.emit("SWAP", n, n)

    def push_null(self) -> None:
        """Push a NULL."""
        self.emit("PUSH_NULL")

    # -- calls: call_helper; or begin_call, callable, callable_ready, arguments, call

    def call_helper(self, push_callable: Callable[[], object], *loads: Callable[[], object]) -> None:
        """Call a function of the engine: `push_callable` pushes it, and each of `loads` pushes one argument."""
        self.begin_call()
        push_callable()
        self.callable_ready()
        for load in loads:
            load()
        self.call(len(loads))

    def begin_call(self) -> None:
        """Push the NULL, if this Python expects it below the callable; called before the callable is pushed."""
        if FACTS.null_below:
            self.push_null()

    def callable_ready(self) -> None:
        """Push the NULL, if this Python expects it above the callable; called after the callable is pushed."""
        if not FACTS.null_below:
            self.push_null()

    def call(self, n: int, kwnames: Sequence[str] = ()) -> None:
        """Call with n arguments, the last of which have the names `kwnames`."""
        self._emit_rows("call", n, tuple(kwnames))

    def call_function_ex(self, has_kwargs: bool = False) -> None:
        """Call with a tuple of arguments and optionally a dict of keywords (callable and NULL as for `call`)."""
        self._emit_rows("call_function_ex", has_kwargs)

    def make_function(self, code: CodeType, closure: bool = False, flags: int = 0) -> None:
        """[defaults] [keyword defaults] [annotations] [closure] -- function; `flags` as MAKE_FUNCTION's (1, 2, 4)."""
        self._emit_rows("make_function", code, flags | (8 if closure else 0))

    def return_value(self) -> None:
        """value --"""
        self.emit("RETURN_VALUE")

    def raise_varargs(self, n: int) -> None:
        """[exception [cause]] --: raise with n values."""
        self.emit("RAISE_VARARGS", n, n)

    def reraise_exception(self) -> None:
        """exception --: raise it again, without a new traceback entry for this frame."""
        self.emit("RERAISE", 0, 0)

    # -- jumps

    def jump(self, label: Label) -> None:
        """Go to the label, forward or backward."""
        self.emit("JUMP", jump_to=label)

    def pop_jump_if_true(self, label: Label) -> None:
        """value --; on some Pythons the value must be True or False (see `to_bool`)."""
        self.emit("POP_JUMP_IF_TRUE", jump_to=label)

    def pop_jump_if_false(self, label: Label) -> None:
        """value --; on some Pythons the value must be True or False (see `to_bool`)."""
        self.emit("POP_JUMP_IF_FALSE", jump_to=label)

    def pop_jump_if_none(self, label: Label) -> None:
        """value --"""
        self.emit("POP_JUMP_IF_NONE", jump_to=label)

    def pop_jump_if_not_none(self, label: Label) -> None:
        """value --"""
        self.emit("POP_JUMP_IF_NOT_NONE", jump_to=label)
