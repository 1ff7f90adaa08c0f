"""Code units: instructions as opcodes with numeric operands, before their offsets are known.

The idea: one instruction becomes one unit, or two if one opcode cannot express a jump or a pair of operands. Operands are indices
into the tables of the code object (constants, names, local variables), which start as those of a given one and grow as needed.

In: instructions, and the code object that the result resembles. Out: `units_of(instructions, operands)`; `Operands`, with the
tables. PyTorch's counterpart: `fix_vars` and `instruction_size` in torch/_dynamo/bytecode_transformation.py.
"""

from __future__ import annotations

import opcode
from collections.abc import Sequence
from types import CodeType
from typing import Any

from dynexplore.engine.bytecode.instruction import Instruction
from dynexplore.engine.bytecode.versions import DECODE, FACTS, Decoding
from dynexplore.engine.bytecode.writer import arrived_as

DECODING: dict[str, Decoding] = {decoding.opname: decoding for decoding in DECODE if decoding is not None}
#: any name of a jump -> its direction-free name
_NEUTRAL = {opname: neutral for neutral, pair in FACTS.jumps.items() for opname in (neutral, *pair) if opname is not None}
_OPPOSITE = {
    "POP_JUMP_IF_TRUE": "POP_JUMP_IF_FALSE", "POP_JUMP_IF_FALSE": "POP_JUMP_IF_TRUE",
    "POP_JUMP_IF_NONE": "POP_JUMP_IF_NOT_NONE", "POP_JUMP_IF_NOT_NONE": "POP_JUMP_IF_NONE",
}  # fmt: skip
#: opcodes after which control does not reach the next instruction
ENDS = frozenset({
    "RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE", "JUMP_FORWARD", "JUMP_BACKWARD",
    "JUMP_BACKWARD_NO_INTERRUPT", "INTERPRETER_EXIT",
})  # fmt: skip


class Unit:
    """One opcode to be written: its number and operand, where it starts (in code units) and how long it is."""

    __slots__ = ("arg", "caches", "instruction", "number", "opname", "prefixes", "start", "target")

    def __init__(self, opname: str, arg: int, instruction: Instruction) -> None:
        decoding = DECODING[opname]
        self.opname = opname
        self.number = _NUMBERS[opname]
        self.caches = decoding.caches
        self.arg = arg
        self.instruction = instruction
        self.target: Unit | None = None
        self.start = 0
        self.prefixes = prefix_count(arg)

    @property
    def jump_target(self) -> Unit | None:
        """The unit to which it may jump, or None; `target` is also set if the operand only refers to a unit."""
        return None if self.instruction.jump_target is None else self.target

    @property
    def end(self) -> int:
        """The first code unit after it, its caches included."""
        return self.start + self.prefixes + 1 + self.caches


_NUMBERS = {opname: opcode.opmap[opname] for opname in DECODING}


def prefix_count(arg: int) -> int:
    """How many EXTENDED_ARG an operand needs."""
    if arg < 0x100:
        return 0
    return 1 if arg < 0x10000 else 2 if arg < 0x1000000 else 3


# -- operands ---------------------------------------------------------------------------------------------------------


class Operands:
    """Finds the index of a name or a constant; the tables start as those of the given code object."""

    def __init__(
        self,
        like: CodeType,
        varnames: tuple[str, ...],
        cellvars: tuple[str, ...],
        freevars: tuple[str, ...],
        moved: tuple[str, ...] = (),
    ) -> None:
        self.consts: list[Any] = list(like.co_consts)
        self.names: list[str] = list(like.co_names)
        self._name_index = {name: index for index, name in enumerate(self.names)}
        self._const_index: dict[Any, int] | None = None
        own_cells = [name for name in cellvars if name not in varnames]
        slots = [*varnames, *own_cells, *freevars]
        # an opcode for locals refers to the first slot of a name, an opcode for cells to the last
        self._local = {name: index for index, name in reversed(list(enumerate(slots)))}
        self._free = {name: index for index, name in enumerate(slots)}
        for name in moved:
            self._local[arrived_as(name)] = self._free[arrived_as(name)] = self._free[name]
            self._free[name] = self._local[name]
        # an inlined comprehension can make one name a local and a free variable: then only the index is unambiguous
        self._same_slots = len(self._free) < len(slots) and (varnames, cellvars, freevars) == (
            like.co_varnames, like.co_cellvars, like.co_freevars
        )  # fmt: skip

    def of(self, instruction: Instruction, decoding: Decoding) -> int:
        """The numeric operand of an instruction that does not jump."""
        arg, argval = instruction.arg, instruction.argval
        match decoding.kind:
            case "const":
                if arg is not None and arg < len(self.consts) and self.consts[arg] is argval:
                    return arg
                return self._const(argval)
            case "name":
                low = 0 if arg is None else arg & ((1 << decoding.shift) - 1)
                return self._name(argval) << decoding.shift | low
            case "local":
                return self._slot(self._local, instruction)
            case "free":
                return self._slot(self._free, instruction)
            case "local_pair":
                if self._keeps_slots(instruction):
                    return arg or 0
                return self._slot(self._local, instruction, argval[0]) << 4 | self._slot(self._local, instruction, argval[1])
        return arg or 0

    def _keeps_slots(self, instruction: Instruction) -> bool:
        """Whether the operand stays what it was, because a name alone is ambiguous."""
        return self._same_slots and instruction.arg is not None and instruction.origin is None

    def _slot(self, table: dict[str, int], instruction: Instruction, name: str | None = None) -> int:
        if instruction.arg is not None and self._keeps_slots(instruction):
            return instruction.arg
        variable: str = instruction.argval if name is None else name
        try:
            return table[variable]
        except KeyError:
            raise ValueError(f"{instruction}: there is no variable {variable!r} in {sorted(table)}") from None

    def _name(self, name: str) -> int:
        if name not in self._name_index:
            self._name_index[name] = len(self.names)
            self.names.append(name)
        return self._name_index[name]

    def _const(self, value: Any) -> int:
        if self._const_index is None:
            self._const_index = {}
            for index, const in enumerate(self.consts):
                self._const_index.setdefault(_const_key(const), index)
        key = _const_key(value)
        if key not in self._const_index:
            self._const_index[key] = len(self.consts)
            self.consts.append(value)
        return self._const_index[key]


def _const_key(value: Any) -> Any:
    """A key that is equal for constants that may share a slot: 1, 1.0 and True, or 0.0 and -0.0, may not."""
    kind = type(value)
    if kind in (int, str, bytes, bool, type(None), type(...)):
        return kind, value
    if kind in (float, complex):
        return kind, repr(value)
    if kind is tuple:
        return kind, tuple(map(_const_key, value))
    return kind, id(value)


# -- from instructions to units ---------------------------------------------------------------------------------------


def units_of(instructions: Sequence[Instruction], operands: Operands) -> list[Unit]:
    """The opcodes to be written, with linked jumps; mostly one per instruction."""
    units: list[Unit] = []
    first: dict[Instruction, Unit] = {}
    jumps: list[tuple[Unit, Instruction]] = []
    pending: list[Unit] = []
    for instruction in instructions:
        if instruction.target is not None:
            new_units = _jump_units(instruction, instruction.target in first or instruction.target is instruction)
            jumps.append((new_units[-1], instruction.target))
        else:
            new_units = _plain_units(instruction, operands)
        for unit in pending:
            unit.target = new_units[0]
        # a backward jump in two parts: the first jumps over the second
        pending = [new_units[0]] if instruction.target is not None and len(new_units) > 1 else []
        if instruction in first:
            raise ValueError(f"{instruction} is twice in the list")
        first[instruction] = new_units[0]
        units += new_units
    for unit, target in jumps:
        if target not in first:
            raise ValueError(f"{unit.instruction} jumps to {target}, which is not in the list")
        unit.target = first[target]
    if pending or not units or units[-1].opname not in ENDS:
        raise ValueError("execution would run off the end of the instructions")
    return _with_handlers_checked(units, first)


def _with_handlers_checked(units: list[Unit], first: dict[Instruction, Unit]) -> list[Unit]:
    for unit in units:
        handler = unit.instruction.handler
        if handler is not None and handler.target not in first:
            raise ValueError(f"{unit.instruction}: its handler {handler.target} is not in the list")
    return units


def _plain_units(instruction: Instruction, operands: Operands) -> list[Unit]:
    opname = instruction.opname
    try:
        decoding = DECODING[opname]
    except KeyError:
        raise ValueError(f"this Python has no opcode {opname}") from None
    if decoding.kind == "local_pair":
        singles = FACTS.local_pairs[opname]
        parts = [Instruction(single, None, name) for single, name in zip(singles, instruction.argval, strict=True)]
        slots = [operands.of(part, DECODING[part.opname]) for part in parts]
        if max(slots) > 15:  # too large for half a byte each
            return [Unit(single, slot, instruction) for single, slot in zip(singles, slots, strict=True)]
    return [Unit(opname, operands.of(instruction, decoding), instruction)]


def _jump_units(instruction: Instruction, backward: bool) -> list[Unit]:
    """A jump in the right direction; if there is no such opcode, the opposite condition over an unconditional jump."""
    opname = instruction.opname
    neutral = _NEUTRAL.get(opname)
    if neutral is None:
        return [Unit(opname, instruction.arg or 0, instruction)]
    forward_name, backward_name = FACTS.jumps[neutral]
    # Jumps that span each other have several consistent sets of lengths; starting from the old operands finds
    # the one that the compiler chose.
    if not backward:
        return [Unit(forward_name, instruction.arg or 0, instruction)]
    if backward_name is not None:
        return [Unit(backward_name, instruction.arg or 0, instruction)]
    over = FACTS.jumps[_OPPOSITE[neutral]][0]
    back = FACTS.jumps["JUMP"][1]
    assert back is not None
    return [Unit(over, 0, instruction), Unit(back, 0, instruction)]
