"""The assembler: from instructions to a code object (operands, offsets, exception table, line table, stack size).

The idea: only this file counts bytes. It redoes the last step of CPython's compiler (Python/compile.c of 3.11, Python/assemble.c
from 3.12) for lists of `Instruction`, so precisely that reading a code object and assembling it again gives the same bits. It adds
nothing to the instructions but prefixes (EXTENDED_ARG), inline caches, the direction of jumps, and a second instruction if one
opcode cannot express a jump or a pair of operands.

In: a `Writer` or a list of instructions, and the code object that the result resembles. Out: a code object; each instruction's
`final_offset`. PyTorch's counterpart: `assemble` and `update_offsets` in torch/_dynamo/bytecode_transformation.py.
"""

from __future__ import annotations

import dis
import opcode
from collections.abc import Sequence
from types import CodeType
from typing import Any

from dynexplore.engine.bytecode.instruction import Handler, Instruction, Position
from dynexplore.engine.bytecode.reader import ParsedCode, remember_origins
from dynexplore.engine.bytecode.versions import DECODE, FACTS, Decoding
from dynexplore.engine.bytecode.writer import Writer, arrived_as
from dynexplore.engine.phases import timed

_DECODING: dict[str, Decoding] = {decoding.opname: decoding for decoding in DECODE if decoding is not None}
_EXTENDED_ARG = opcode.opmap["EXTENDED_ARG"]
#: any name of a jump -> its direction-free name
_NEUTRAL = {opname: neutral for neutral, pair in FACTS.jumps.items() for opname in (neutral, *pair) if opname is not None}
_OPPOSITE = {
    "POP_JUMP_IF_TRUE": "POP_JUMP_IF_FALSE", "POP_JUMP_IF_FALSE": "POP_JUMP_IF_TRUE",
    "POP_JUMP_IF_NONE": "POP_JUMP_IF_NOT_NONE", "POP_JUMP_IF_NOT_NONE": "POP_JUMP_IF_NONE",
}  # fmt: skip
#: opcodes after which control does not reach the next instruction
_ENDS = frozenset({
    "RETURN_VALUE", "RETURN_CONST", "RAISE_VARARGS", "RERAISE", "JUMP_FORWARD", "JUMP_BACKWARD",
    "JUMP_BACKWARD_NO_INTERRUPT", "INTERPRETER_EXIT",
})  # fmt: skip
_GENERATOR_FLAGS = 0x20 | 0x80 | 0x200  # CO_GENERATOR, CO_COROUTINE, CO_ASYNC_GENERATOR


@timed("assemble")
def assemble(
    source: Writer | Sequence[Instruction],
    like: CodeType,
    *,
    name: str | None = None,
    qualname: str | None = None,
    argcount: int | None = None,
    posonlyargcount: int | None = None,
    kwonlyargcount: int | None = None,
    flags: int | None = None,
    varnames: tuple[str, ...] | None = None,
    cellvars: tuple[str, ...] | None = None,
    freevars: tuple[str, ...] | None = None,
    firstlineno: int | None = None,
    moved: tuple[str, ...] = (),
) -> CodeType:
    """Make a code object from instructions; everything else is as in `like`.

    `moved` are free variables whose cells the prologue moves to locals of the same name, to which all instructions then refer.

    Constants and names start with those of `like` and grow as needed. Sets each instruction's `final_offset`; a
    later `read` of the result knows each instruction's origin and role.

    ValueError: a label that was never marked, a name without a slot, or a stack that does not fit.

    >>> from dynexplore.engine.bytecode.reader import read
    >>> double = (lambda x: x + x).__code__
    >>> assemble(read(double).instructions, double) == double
    True
    """
    instructions = source.instructions if isinstance(source, Writer) else source
    local = like.co_varnames if varnames is None else varnames
    cells = like.co_cellvars if cellvars is None else cellvars
    free = like.co_freevars if freevars is None else freevars
    code_flags = like.co_flags if flags is None else flags
    operands = _Operands(like, local, cells, free, moved)
    units = _units(instructions, operands)
    _lay_out(units)
    first_line = like.co_firstlineno if firstlineno is None else firstlineno
    code = like.replace(
        co_code=_code_bytes(units),
        co_exceptiontable=_exception_table(units),
        co_linetable=_line_table(units, first_line),
        co_stacksize=_stack_size(units, bool(code_flags & _GENERATOR_FLAGS)),
        co_consts=tuple(operands.consts),
        co_names=tuple(operands.names),
        co_varnames=local,
        co_nlocals=len(local),
        co_cellvars=cells,
        co_freevars=free,
        co_flags=code_flags,
        co_firstlineno=first_line,
        co_name=like.co_name if name is None else name,
        co_qualname=like.co_qualname if qualname is None else qualname,
        co_argcount=like.co_argcount if argcount is None else argcount,
        co_posonlyargcount=like.co_posonlyargcount if posonlyargcount is None else posonlyargcount,
        co_kwonlyargcount=like.co_kwonlyargcount if kwonlyargcount is None else kwonlyargcount,
    )
    _assign_offsets(units, code)
    return code


class _Unit:
    """One opcode to be written: its number and operand, where it starts (in code units) and how long it is."""

    __slots__ = ("arg", "caches", "instruction", "number", "opname", "prefixes", "start", "target")

    def __init__(self, opname: str, arg: int, instruction: Instruction) -> None:
        decoding = _DECODING[opname]
        self.opname = opname
        self.number = _NUMBERS[opname]
        self.caches = decoding.caches
        self.arg = arg
        self.instruction = instruction
        self.target: _Unit | None = None
        self.start = 0
        self.prefixes = _prefixes(arg)

    @property
    def end(self) -> int:
        """The first code unit after it, its caches included."""
        return self.start + self.prefixes + 1 + self.caches


_NUMBERS = {opname: opcode.opmap[opname] for opname in _DECODING}


def _prefixes(arg: int) -> int:
    """How many EXTENDED_ARG an operand needs."""
    if arg < 0x100:
        return 0
    return 1 if arg < 0x10000 else 2 if arg < 0x1000000 else 3


# -- operands ---------------------------------------------------------------------------------------------------------


class _Operands:
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
                return self._slot(self._local, instruction, argval[0]) << 4 | self._slot(self._local, instruction, argval[1])
        return arg or 0

    def _slot(self, table: dict[str, int], instruction: Instruction, name: str | None = None) -> int:
        if self._same_slots and instruction.arg is not None and instruction.origin is None:
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


def _units(instructions: Sequence[Instruction], operands: _Operands) -> list[_Unit]:
    """The opcodes to be written, with linked jumps; mostly one per instruction."""
    units: list[_Unit] = []
    first: dict[Instruction, _Unit] = {}
    jumps: list[tuple[_Unit, Instruction]] = []
    pending: list[_Unit] = []
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
    if pending or not units or units[-1].opname not in _ENDS:
        raise ValueError("execution would run off the end of the instructions")
    return _with_handlers_checked(units, first)


def _with_handlers_checked(units: list[_Unit], first: dict[Instruction, _Unit]) -> list[_Unit]:
    for unit in units:
        handler = unit.instruction.handler
        if handler is not None and handler.target not in first:
            raise ValueError(f"{unit.instruction}: its handler {handler.target} is not in the list")
    return units


def _plain_units(instruction: Instruction, operands: _Operands) -> list[_Unit]:
    opname = instruction.opname
    try:
        decoding = _DECODING[opname]
    except KeyError:
        raise ValueError(f"this Python has no opcode {opname}") from None
    if decoding.kind == "local_pair":
        singles = FACTS.local_pairs[opname]
        parts = [Instruction(single, None, name) for single, name in zip(singles, instruction.argval, strict=True)]
        slots = [operands.of(part, _DECODING[part.opname]) for part in parts]
        if max(slots) > 15:  # too large for half a byte each
            return [_Unit(single, slot, instruction) for single, slot in zip(singles, slots, strict=True)]
    return [_Unit(opname, operands.of(instruction, decoding), instruction)]


def _jump_units(instruction: Instruction, backward: bool) -> list[_Unit]:
    """A jump in the right direction; if there is no such opcode, the opposite condition over an unconditional jump."""
    opname = instruction.opname
    neutral = _NEUTRAL.get(opname)
    if neutral is None:
        return [_Unit(opname, instruction.arg or 0, instruction)]
    forward_name, backward_name = FACTS.jumps[neutral]
    # Jumps that span each other have several consistent sets of lengths; starting from the old operands finds
    # the one that the compiler chose.
    if not backward:
        return [_Unit(forward_name, instruction.arg or 0, instruction)]
    if backward_name is not None:
        return [_Unit(backward_name, instruction.arg or 0, instruction)]
    over = FACTS.jumps[_OPPOSITE[neutral]][0]
    back = FACTS.jumps["JUMP"][1]
    assert back is not None
    return [_Unit(over, 0, instruction), _Unit(back, 0, instruction)]


def _lay_out(units: list[_Unit]) -> None:
    """Find where each unit starts; a jump that needs a longer operand moves others, so repeat until nothing moves."""
    jumps = [unit for unit in units if unit.target is not None]
    moved = True
    while moved:
        start = 0
        for unit in units:
            unit.start = start
            start += unit.prefixes + 1 + unit.caches
        moved = False
        for unit in jumps:
            assert unit.target is not None
            distance = unit.target.start - unit.end
            if (distance < 0) != (unit.opname in FACTS.backward_jumps):
                raise ValueError(f"{unit.instruction} ({unit.opname}) cannot jump in that direction")
            unit.arg = abs(distance)
            if _prefixes(unit.arg) > unit.prefixes:
                unit.prefixes = _prefixes(unit.arg)
                moved = True


def _assign_offsets(units: list[_Unit], code: CodeType) -> None:
    origins: dict[int, tuple[Instruction | None, str]] = {}
    seen: Instruction | None = None
    for unit in units:
        instruction = unit.instruction
        offset = 2 * (unit.start + unit.prefixes)
        if instruction is not seen:
            instruction.final_offset = offset
            seen = instruction
        if instruction.origin is not None or instruction.role:
            origins[offset] = (instruction.origin, instruction.role)
    if origins:
        remember_origins(code, origins)


# -- the parts of a code object ---------------------------------------------------------------------------------------


def _code_bytes(units: list[_Unit]) -> bytes:
    out = bytearray()
    for unit in units:
        for shift in range(8 * unit.prefixes, 0, -8):
            out += bytes((_EXTENDED_ARG, unit.arg >> shift & 0xFF))
        out += bytes((unit.number, unit.arg & 0xFF))
        out += bytes(2 * unit.caches)
    return bytes(out)


def _exception_table(units: list[_Unit]) -> bytes:
    """One entry for each run of instructions with the same handler (CPython: assemble_exception_table)."""
    start_of: dict[Instruction, int] = {}
    for unit in units:
        start_of.setdefault(unit.instruction, unit.start)
    out = bytearray()
    run: Handler | None = None
    begin = 0
    for unit in units:
        handler = unit.instruction.handler
        if handler is run or (handler is not None and run is not None and _same_handler(handler, run)):
            continue
        if run is not None:
            _add_exception_entry(out, begin, unit.start, start_of[run.target], run)
        run, begin = handler, unit.start
    if run is not None:
        _add_exception_entry(out, begin, units[-1].end, start_of[run.target], run)
    return bytes(out)


def _same_handler(first: Handler, second: Handler) -> bool:
    return (first.target, first.depth, first.lasti) == (second.target, second.depth, second.lasti)


def _add_exception_entry(out: bytearray, start: int, end: int, target: int, handler: Handler) -> None:
    first = 0x80  # marks the first byte of an entry
    for value in (start, end - start, target, handler.depth << 1 | handler.lasti):
        shift = 0
        while value >> shift >= 64:
            shift += 6
        for down in range(shift, -1, -6):
            out.append(value >> down & 63 | (64 if down else 0) | first)
            first = 0


def _line_table(units: list[_Unit], first_line: int) -> bytes:
    """The positions of all instructions (CPython: Objects/locations.md, assemble_location_info)."""
    out = bytearray()
    line = first_line
    length = 0
    position: Position | None = None
    for unit in units:
        size = unit.prefixes + 1 + unit.caches
        if length and FACTS.merges_positions and unit.instruction.position == position:
            length += size
            continue
        if length:
            line = _add_position(out, position, length, line)
        position, length = unit.instruction.position, size
    _add_position(out, position, length, line)
    return bytes(out)


def _add_position(out: bytearray, position: Position | None, length: int, line: int) -> int:
    """Add entries (of at most 8 code units) for one position; returns the line that the next entry counts from."""
    while length > 8:
        line = _add_position_entry(out, position, 8, line)
        length -= 8
    return _add_position_entry(out, position, length, line)


_NOWHERE = Position(None, None, None, None)


def _add_position_entry(out: bytearray, position: Position | None, length: int, line: int) -> int:
    lineno, end_lineno, col, end_col = position or _NOWHERE
    if lineno is None:
        out.append(0x80 | 15 << 3 | length - 1)
        return line
    delta = lineno - line
    if col is None or end_col is None:
        if end_lineno is None or end_lineno == lineno:
            out.append(0x80 | 13 << 3 | length - 1)
            _add_signed(out, delta)
            return lineno
    elif end_lineno == lineno:
        if delta == 0 and col < 80 and 0 <= end_col - col < 16:
            out += bytes((0x80 | col >> 3 << 3 | length - 1, (col & 7) << 4 | end_col - col))
            return lineno
        if 0 <= delta < 3 and col < 128 and end_col < 128:
            out += bytes((0x80 | 10 + delta << 3 | length - 1, col, end_col))
            return lineno
    out.append(0x80 | 14 << 3 | length - 1)
    _add_signed(out, delta)
    _add_unsigned(out, (lineno if end_lineno is None else end_lineno) - lineno)
    _add_unsigned(out, 0 if col is None else col + 1)
    _add_unsigned(out, 0 if end_col is None else end_col + 1)
    return lineno


def _add_unsigned(out: bytearray, value: int) -> None:
    while value >= 64:
        out.append(64 | value & 63)
        value >>= 6
    out.append(value)


def _add_signed(out: bytearray, value: int) -> None:
    _add_unsigned(out, -value << 1 | 1 if value < 0 else value << 1)


_effects: dict[tuple[int, int, bool], int] = {}


def _effect(unit: _Unit, jump: bool) -> int:
    key = (unit.number, unit.arg, jump)
    effect = _effects.get(key)
    if effect is None:
        has_arg = _DECODING[unit.opname].has_arg
        effect = _effects[key] = dis.stack_effect(unit.number, unit.arg if has_arg else None, jump=jump)
    return effect


def _stack_size(units: list[_Unit], generator: bool) -> int:
    """The maximum stack depth, by following all paths through the code (CPython: stackdepth in compile.c)."""
    walk = _StackWalk(units)
    walk.follow(0, FACTS.generator_entry_depth if generator else 0)
    # The compiler also counts handlers that no longer cover anything (`try: return 1 finally: ...`).
    walk.strict = False
    for index in range(len(units)):
        if walk.depths[index] < 0:
            walk.follow(index, walk.deduced(index))
    return walk.deepest


def stack_depths(parsed: ParsedCode) -> dict[Instruction, int]:
    """How many values (and NULLs) are on the stack before each raw instruction of a code object; -1: never reached.

    >>> from dynexplore.engine.bytecode.reader import read
    >>> parsed = read((lambda a, b: a + b).__code__)
    >>> list(stack_depths(parsed).values())[-2:]
    [2, 1]
    """
    code = parsed.code
    units = _units(parsed.instructions, _Operands(code, code.co_varnames, code.co_cellvars, code.co_freevars))
    walk = _StackWalk(units)
    walk.follow(0, FACTS.generator_entry_depth if code.co_flags & _GENERATOR_FLAGS else 0)
    return {unit.instruction: depth for unit, depth in zip(units, walk.depths, strict=True)}


class _StackWalk:
    """Finds the stack depth before each unit; `follow` walks every path that starts at one of them.

    `strict`: two paths that meet at different depths are an error. (Not in unreachable code.)
    """

    def __init__(self, units: list[_Unit]) -> None:
        self.units = units
        self.depths = [-1] * len(units)
        self.deepest = 0
        self.strict = True
        self._paths: list[tuple[int, int]] = []
        self._seen_handlers: set[Handler] = set()
        self._index_of = {unit: index for index, unit in enumerate(units)}
        self._first_of: dict[Instruction, int] = {}
        for index, unit in enumerate(units):
            self._first_of.setdefault(unit.instruction, index)

    def follow(self, index: int, depth: int) -> None:
        """Walk from a unit at a known depth through everything reachable from it."""
        self._begin(index, depth)
        while self._paths:
            self._walk_path(*self._paths.pop())

    def deduced(self, index: int) -> int:
        """The depth at an unreachable unit: deduced from its successors, or from its cleanup region."""
        handler = self.units[index].instruction.handler
        if self.units[index].opname == "PUSH_EXC_INFO" and handler is not None:
            return handler.depth  # the region around a handler keeps the handler's initial stack
        change = 0
        passed: set[int] = set()
        while self.depths[index] < 0:
            unit = self.units[index]
            if index in passed or (unit.target is None and unit.opname in _ENDS):
                return 1  # unknown: a handler of the outermost region, which starts with its exception
            passed.add(index)
            change += _effect(unit, unit.target is not None)
            index = index + 1 if unit.target is None else self._index_of[unit.target]
        return self.depths[index] - change

    def _begin(self, index: int, depth: int) -> None:
        self.deepest = max(self.deepest, depth)
        earlier_depth = self.depths[index]
        if earlier_depth < 0:
            self._paths.append((index, depth))
        elif earlier_depth != depth and self.strict:
            raise ValueError(f"stack depth {earlier_depth} or {depth} at {self.units[index].instruction}")

    def _walk_path(self, index: int, depth: int) -> None:
        """Walk until the path ends or meets a known one; jumps and handlers begin new paths."""
        while self.depths[index] < 0:
            self.depths[index] = depth
            unit = self.units[index]
            if unit.instruction.handler is not None:
                self._enter_handler(unit.instruction.handler, unit, depth)
            if unit.target is not None:
                self._begin(self._index_of[unit.target], depth + _effect(unit, True))
            depth += _effect(unit, False)
            if depth < 0 and self.strict:
                raise ValueError(f"{unit.instruction} pops from an empty stack")
            if unit.opname in _ENDS:
                self.deepest = max(self.deepest, depth)
                return
            index += 1
            self.deepest = max(self.deepest, depth)
        if self.depths[index] != depth and self.strict:
            raise ValueError(f"stack depth {self.depths[index]} or {depth} at {self.units[index].instruction}")

    def _enter_handler(self, handler: Handler, unit: _Unit, depth: int) -> None:
        if depth < handler.depth and self.strict:
            raise ValueError(f"{unit.instruction}: stack depth {depth}, but its handler keeps {handler.depth}")
        if handler not in self._seen_handlers:
            self._seen_handlers.add(handler)
            self._begin(self._first_of[handler.target], handler.depth + handler.lasti + 1)
