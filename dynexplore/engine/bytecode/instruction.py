"""What one instruction is: the raw one of the running Python, and the canonical step it is lowered to.

The idea: everything in the bytecode layer passes `Instruction` objects around, never byte offsets. Jumps and exception regions
point at other `Instruction` objects, so a list can be sliced, copied and concatenated, and only the assembler has to count bytes.
A `Step` is one *canonical* instruction: the same for every Python, with its operand resolved (a name instead of a table index).

In: `FACTS`. Out: the types `Position`, `Handler`, `Instruction`, `Step`, `Label`.
PyTorch's counterpart: `Instruction` and `InstructionExnTabEntry` in torch/_dynamo/bytecode_transformation.py.
"""

from __future__ import annotations

from typing import Any, NamedTuple

from dynexplore.engine.bytecode.versions import FACTS


class Position(NamedTuple):
    """Where in the source an instruction comes from: lines from 1, columns in UTF-8 bytes from 0; None if unknown."""

    lineno: int | None
    end_lineno: int | None
    col: int | None
    end_col: int | None


class Handler:
    """The exception handler of an instruction: where to jump when it raises, and how deep the stack is then.

    `depth` values are kept from the bottom of the stack, then (if `lasti`) the index of the raising
    instruction is pushed as an int, then the exception itself. (CPython:
    Objects/exception_handling_notes.txt.)
    """

    __slots__ = ("depth", "lasti", "target")

    def __init__(self, target: Instruction, depth: int, lasti: bool) -> None:
        self.target = target
        self.depth = depth
        self.lasti = lasti

    def __repr__(self) -> str:
        return f"Handler(to {self.target.opname}@{self.target.offset}, depth={self.depth}, lasti={self.lasti})"


class Instruction:
    """One raw instruction of the running Python (its EXTENDED_ARG prefixes folded in); compared by identity.

    `argval` is `arg` resolved: a constant, a name, an operator's text. `offset` is the byte offset of the
    opcode itself in the code it was read from, as `dis` shows it (-1 if it was made by a `Writer`);
    `final_offset` is where the assembler put it. `origin` and `role` tell which original instruction an emitted one came from, and
    what it is for. `is_prefix`: it only works together with the next one.
    """

    __slots__ = (
        "arg",
        "argval",
        "final_offset",
        "handler",
        "index",
        "is_prefix",
        "offset",
        "opname",
        "origin",
        "position",
        "role",
        "target",
    )  # fmt: skip

    def __init__(
        self,
        opname: str,
        arg: int | None = None,
        argval: Any = None,
        offset: int = -1,
        position: Position | None = None,
        index: int = -1,
        target: Instruction | None = None,
        handler: Handler | None = None,
        origin: Instruction | None = None,
        role: str = "",
    ) -> None:
        self.opname = opname
        self.arg = arg
        self.argval = argval
        self.offset = offset
        self.position = position
        self.index = index
        self.target = target
        self.handler = handler
        self.origin = origin
        self.role = role
        self.final_offset = -1
        self.is_prefix = False

    @property
    def lineno(self) -> int | None:
        """The source line, or None where the compiler gave none."""
        return None if self.position is None else self.position.lineno

    @property
    def jump_target(self) -> Instruction | None:
        """The instruction to which it may jump, or None; a `target` can also be one that the operand only refers to."""
        return None if self.opname in FACTS.references else self.target

    def __repr__(self) -> str:
        shown = "" if self.arg is None and self.argval is None else f" {self.argval!r}"
        if self.target is not None:
            shown = f" to {self.target.offset}"
        return f"<{self.opname}{shown} @{self.offset}>"


class Step:
    """One canonical instruction: `op` is a row of `opcodes.OPCODES`, `arg` its resolved operand.

    `target` is the index of the step it jumps to (-1 if it does not jump); `origin` the raw instruction it was lowered from;
    `index` its index in `ParsedCode.steps`.
    """

    __slots__ = ("arg", "index", "op", "origin", "target")

    def __init__(self, op: str, arg: Any, origin: Instruction, index: int, target: int = -1) -> None:
        self.op = op
        self.arg = arg
        self.origin = origin
        self.index = index
        self.target = target

    def __repr__(self) -> str:
        shown = "" if self.arg is None else f" {self.arg!r}"
        where = "" if self.target < 0 else f" to step {self.target}"
        return f"<step {self.index}: {self.op}{shown}{where}>"


class Label:
    """A position in a `Writer`'s instructions, usable before it is known; `Writer.mark` sets it to the next instruction."""

    __slots__ = ("instruction", "name", "waiting")

    def __init__(self, name: str = "") -> None:
        self.name = name
        self.instruction: Instruction | None = None
        #: jumps and handlers emitted before the label was marked; their `target` is filled in by the Writer
        self.waiting: list[Instruction | Handler] = []

    def __repr__(self) -> str:
        return f"<Label {self.name or hex(id(self))}>"
