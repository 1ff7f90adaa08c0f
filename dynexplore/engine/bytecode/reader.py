"""The reader: from a code object to instructions, raw ones as CPython runs them, and the canonical steps they are lowered to.

The idea: each code object is read once, and quickly, because every capture begins with it. The raw list keeps everything that the
assembler needs to reproduce the code bit for bit; the translator interprets the canonical steps. Both are linked, because a graph
may only break between two *raw* instructions.

In: a code object. Out: `ParsedCode` from `read`, cached per code object by identity (equal code objects of different functions must
not be mixed up, so no dict is ever keyed by one). PyTorch's counterpart: `cleaned_instructions` in
torch/_dynamo/bytecode_transformation.py, on top of `dis`.
"""

from __future__ import annotations

import functools
import weakref
from collections.abc import Callable, Iterator
from types import CodeType
from typing import Any

from dynexplore.engine.bytecode.instruction import Handler, Instruction, Position, Step
from dynexplore.engine.bytecode.versions import DECODE, FACTS
from dynexplore.engine.bytecode.versions.rows import (
    BINARY_OPERATORS,
    COMPARE_OPERATORS,
    INTRINSICS_1,
    INTRINSICS_2,
)
from dynexplore.engine.phases import timed

_VARARGS, _VARKEYWORDS = 0x04, 0x08


class ParsedCode:
    """A parsed code object: its raw `instructions`, its canonical `steps`, and the mapping between them.

    `first_step[i]` is the index of the first step at or after raw instruction i. `memo` caches other facts about this code object
    (liveness, resume functions); it must not refer to `code`. A ParsedCode keeps its code object alive; `read`'s cache does not.
    """

    __slots__ = ("__weakref__", "code", "first_step", "instructions", "memo", "steps")

    def __init__(
        self,
        code: CodeType,
        instructions: list[Instruction],
        steps: list[Step],
        first_step: list[int],
        memo: dict[Any, Any],
    ) -> None:
        self.code = code
        self.instructions = instructions
        self.steps = steps
        self.first_step = first_step
        self.memo = memo

    @property
    def ambiguous_names(self) -> frozenset[str]:
        """Names that are both a cell of this frame and a free variable; such a frame should be skipped.

        (From 3.12 an inlined comprehension whose variable is captured, and which shadows a free variable.)
        """
        return frozenset({*self.code.co_cellvars} & {*self.code.co_freevars})

    def step_of(self, instruction: Instruction) -> int:
        """The index of the first step at or after a raw instruction."""
        return self.first_step[instruction.index]

    def unit_start(self, instruction: Instruction) -> Instruction:
        """The first raw instruction of the unit: KW_NAMES, PRECALL and CALL only work together."""
        index = instruction.index
        while index > 0 and self.instructions[index - 1].is_prefix:
            index -= 1
        return self.instructions[index]

    def unit(self, instruction: Instruction) -> list[Instruction]:
        """The raw instructions of the unit that an instruction belongs to (mostly itself alone)."""
        first = last = self.unit_start(instruction).index
        while self.instructions[last].is_prefix:
            last += 1
        return self.instructions[first : last + 1]

    def nearest_with_line(self, instruction: Instruction) -> Instruction:
        """The instruction itself if it has a line, else the nearest one before it that has."""
        nearest = instruction
        while nearest.lineno is None and nearest.index > 0:
            nearest = self.instructions[nearest.index - 1]
        return nearest

    def next_unit(self, instruction: Instruction) -> Instruction:
        """The raw instruction that follows the unit in the code, except branch marks; IndexError at the end."""
        index = self.unit(instruction)[-1].index + 1
        return self.instructions[index + (self.instructions[index].opname == FACTS.not_taken)]

    def branch_mark(self, instruction: Instruction) -> Instruction | None:
        """The NOT_TAKEN mark after a conditional jump, if this Python has it."""
        index = instruction.index + 1
        following = self.instructions[index] if index < len(self.instructions) else None
        return following if following is not None and following.opname == FACTS.not_taken else None

    def at_offset(self, offset: int) -> Instruction:
        """The raw instruction at a byte offset as `dis` and `f_lasti` show it; KeyError if there is none."""
        for instruction in self.instructions:
            if instruction.offset == offset:
                return instruction
        raise KeyError(offset)


class _Reading:
    """The cached result of `read` for one code object, without the code object itself."""

    __slots__ = ("facade", "parts", "reference")

    def __init__(self, reference: weakref.ref[CodeType], parts: tuple[Any, ...]) -> None:
        self.reference = reference
        self.parts = parts
        self.facade: weakref.ref[ParsedCode] | None = None


_readings: dict[int, _Reading] = {}
#: emitted code object -> what the assembler knows about each instruction's origin: final offset -> (origin,
#: role)
_origins: dict[int, tuple[weakref.ref[CodeType], dict[int, tuple[Instruction | None, str]]]] = {}
_names: dict[int, tuple[weakref.ref[CodeType], str]] = {}


def _remover(table: dict[int, Any], key: int) -> Callable[[Any], Any]:
    """A weak reference's callback that removes a key. It is C code alone: a signal handler of the program that ran in a callback
    in Python would lose its exception.
    """
    return functools.partial(table.pop, key)  # the reference is the default of `pop`


@timed("read")
def read(code: CodeType) -> ParsedCode:
    """Read a code object, or return the cached result.

    >>> [step.op for step in read((lambda x: x + 1).__code__).steps]
    ['LOAD_FAST', 'LOAD_CONST', 'BINARY_OP', 'RETURN_VALUE']
    """
    key = id(code)
    reading = _readings.get(key)
    if reading is None or reading.reference() is not code:
        reading = _Reading(weakref.ref(code, _remover(_readings, key)), (*_parse(code), {}))
        _readings[key] = reading
    parsed = reading.facade() if reading.facade is not None else None
    if parsed is None:
        parsed = ParsedCode(code, *reading.parts)
        reading.facade = weakref.ref(parsed)
    return parsed


def remember_origins(code: CodeType, origins: dict[int, tuple[Instruction | None, str]]) -> None:
    """Record each instruction's origin and role (by final offset) for later reads of an emitted code object."""
    key = id(code)
    _origins[key] = (weakref.ref(code, _remover(_origins, key)), origins)


def remember_name(code: CodeType, name: str) -> None:
    """Give an emitted code object a name for views, other than the one in tracebacks."""
    key = id(code)
    _names[key] = (weakref.ref(code, _remover(_names, key)), name)


def name_of_code(code: CodeType) -> str:
    """The qualified name of a code object for views; a resume function has its own, not that of the function it resumes."""
    entry = _names.get(id(code))
    return entry[1] if entry is not None and entry[0]() is code else code.co_qualname


def slot_names(code: CodeType) -> list[str]:
    """The names of a frame's slots in order: locals, cells that are not arguments, free variables."""
    local = set(code.co_varnames)
    return [*code.co_varnames, *(name for name in code.co_cellvars if name not in local), *code.co_freevars]


def argument_slots(code: CodeType) -> tuple[str, ...]:
    """The names of a frame's argument slots in order: positional, keyword-only, *args, **kwargs."""
    count = code.co_argcount + code.co_kwonlyargcount
    count += bool(code.co_flags & _VARARGS) + bool(code.co_flags & _VARKEYWORDS)
    return code.co_varnames[:count]


def _parse(code: CodeType) -> tuple[list[Instruction], list[Step], list[int]]:
    instructions, by_start, jumps = _decode(code)
    for instruction, start in jumps:
        instruction.target = by_start[start]
    _assign_handlers(code, instructions, by_start)
    _assign_origins(code, instructions)
    _find_units(instructions)
    steps, first_step = _lower(code, instructions)
    return instructions, steps, first_step


def _decode(code: CodeType) -> tuple[list[Instruction], dict[int, Instruction], list[tuple[Instruction, int]]]:
    """The raw instructions; each by the offset where it starts (prefixes included); jumps with their target offset."""
    raw = code.co_code
    consts, names, slots = code.co_consts, code.co_names, slot_names(code)
    positions = list(code.co_positions())
    instructions: list[Instruction] = []
    by_start: dict[int, Instruction] = {}
    jumps: list[tuple[Instruction, int]] = []
    last_position: Any = None
    position: Position | None = None
    offset = start = prefix = 0
    end = len(raw)
    while offset < end:
        decoding = DECODE[raw[offset]]
        assert decoding is not None, f"no opcode {raw[offset]} in {code}"
        opname, kind, shift, caches, has_arg, _ = decoding
        arg: int | None = raw[offset + 1] | prefix if has_arg else None
        if opname == "EXTENDED_ARG":
            prefix = (raw[offset + 1] | prefix) << 8
            offset += 2
            continue
        raw_position = positions[offset >> 1]
        if raw_position != last_position:
            last_position = raw_position
            position = None if raw_position == (None, None, None, None) else Position(*raw_position)
        after = offset + 2 + 2 * caches
        argval: Any = arg
        if arg is not None and kind != "plain":
            if kind == "local" or kind == "free":
                argval = slots[arg]
            elif kind == "name":
                argval = names[arg >> shift]
            elif kind == "const":
                argval = consts[arg]
            elif kind == "jump":
                argval = after + 2 * arg
            elif kind == "jump_back":
                argval = after - 2 * arg
            elif kind == "local_pair":
                argval = (slots[arg >> 4], slots[arg & 15])
            else:
                argval = _OPERATORS[kind][arg >> shift]
        instruction = Instruction(opname, arg, argval, offset, position, len(instructions))
        if kind == "jump" or kind == "jump_back":
            jumps.append((instruction, argval))
        instructions.append(instruction)
        by_start[start] = instruction
        offset = start = after
        prefix = 0
    return instructions, by_start, jumps


_OPERATORS: dict[str, tuple[str, ...]] = {
    "binary": BINARY_OPERATORS,
    "compare": COMPARE_OPERATORS,
    "intrinsic_1": INTRINSICS_1,
    "intrinsic_2": INTRINSICS_2,
}


def exception_entries(table: bytes) -> Iterator[tuple[int, int, int, int, bool]]:
    """The entries (start, end, target, depth, lasti) of an exception table, offsets in bytes.

    CPython: Objects/exception_handling_notes.txt.
    """
    data = iter(table)

    def number(first: int) -> int:
        value = first & 63
        while first & 64:
            first = next(data)
            value = value << 6 | first & 63
        return value

    for first in data:
        start = 2 * number(first)
        end = start + 2 * number(next(data))
        target = 2 * number(next(data))
        depth_lasti = number(next(data))
        yield start, end, target, depth_lasti >> 1, bool(depth_lasti & 1)


def _assign_handlers(code: CodeType, instructions: list[Instruction], by_start: dict[int, Instruction]) -> None:
    """Give each instruction its exception region (entries are sorted and do not overlap)."""
    shared: dict[tuple[int, int, bool], Handler] = {}
    index, count = 0, len(instructions)
    for start, end, target, depth, lasti in exception_entries(code.co_exceptiontable):
        key = (target, depth, lasti)
        handler = shared.get(key)
        if handler is None:
            handler = shared[key] = Handler(by_start[target], depth, lasti)
        while index < count and instructions[index].offset < start:
            index += 1
        while index < count and instructions[index].offset < end:
            instructions[index].handler = handler
            index += 1


def _assign_origins(code: CodeType, instructions: list[Instruction]) -> None:
    entry = _origins.get(id(code))
    if entry is None or entry[0]() is not code:
        return
    for instruction in instructions:
        instruction.origin, instruction.role = entry[1].get(instruction.offset, (None, ""))


def _find_units(instructions: list[Instruction]) -> None:
    """Mark each instruction that only works together with the next one."""
    if FACTS.unit_heads:
        for instruction in instructions:
            instruction.is_prefix = instruction.opname in FACTS.unit_heads
    unit = FACTS.with_unit
    for instruction in instructions if unit else ():
        if (instruction.opname, instruction.arg) == unit[1] and instruction.opname == "LOAD_SPECIAL":
            raw = instructions[instruction.index - 1 : instruction.index - 1 + len(unit)]
            if tuple([(each.opname, each.arg) for each in raw]) == unit:
                for each in raw[:-1]:
                    each.is_prefix = True


#: the steps of entering a `with`, if it takes several raw instructions: a NULL is pushed beside the exit function
_WITH_STEPS = (("BEFORE_WITH", None), ("PUSH_NULL", None), ("SWAP", 2))


def _lower(code: CodeType, instructions: list[Instruction]) -> tuple[list[Step], list[int]]:
    """The canonical steps of raw instructions, and for each raw instruction the first step at or after it."""
    steps: list[Step] = []
    first_step: list[int] = []
    jumps: list[Step] = []
    # if LOAD_FAST also pushes cells, it is LOAD_CLOSURE for the slot of a cell or free variable
    cells = {*code.co_cellvars, *code.co_freevars} if FACTS.closure_by_load_fast else ()
    kwnames: tuple[str, ...] = ()
    in_prologue = True
    for instruction in instructions:
        first_step.append(len(steps))
        opname, argval = instruction.opname, instruction.argval
        if FACTS.with_unit and (instruction.is_prefix or (instruction.index and instructions[instruction.index - 1].is_prefix)):
            if not instruction.is_prefix:
                steps += [Step(op, operand, instruction, len(steps) + number) for number, (op, operand) in enumerate(_WITH_STEPS)]
            continue
        row = _LOWER[opname]
        if row is not None:
            if opname == "RESUME":
                in_prologue = False
            elif opname == "KW_NAMES":
                kwnames = argval
            elif opname == "CALL":
                argval, kwnames = kwnames, ()
            for op, operand in row(instruction.arg or 0, argval):
                canonical = "LOAD_CLOSURE" if op == "LOAD_FAST" and operand in cells else op
                steps.append(Step(canonical, operand, instruction, len(steps)))
        elif opname == "LOAD_FAST" and argval in cells:
            steps.append(Step("LOAD_CLOSURE", argval, instruction, len(steps)))
        elif opname != "MAKE_CELL" or not in_prologue:
            operand = argval if instruction.target is None else None
            steps.append(Step(opname, operand, instruction, len(steps)))
        if instruction.jump_target is not None:
            jumps.append(steps[-1])
    for step in jumps:
        step.target = first_step[_jump_target(step, instructions)]
    return steps, first_step


_LOWER = {decoding.opname: decoding.lower for decoding in DECODE if decoding is not None}


def _jump_target(step: Step, instructions: list[Instruction]) -> int:
    """The index of the raw instruction at which a jump arrives: the interpreter skips END_FOR and END_SEND."""
    target = step.origin.jump_target
    assert target is not None
    index = target.index
    skips = FACTS.for_iter_skips if step.op == "FOR_ITER" else FACTS.send_skips if step.op == "SEND" else ()
    for opname in skips:
        if instructions[index].opname != opname:
            break
        index += 1
    return index
