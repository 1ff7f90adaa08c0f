"""Stack depths: how many values are on the stack before each instruction, and at most.

The idea: every path through the code is walked once, from a known depth, as CPython's compiler does (stackdepth in
Python/compile.c). Paths that meet at different depths are an error, but not in code that is never reached.

In: code units, or a parsed code object. Out: `stack_size(units, generator)`, `stack_depths(parsed)`. PyTorch's counterpart:
`stacksize_analysis` in torch/_dynamo/bytecode_analysis.py.
"""

from __future__ import annotations

import dis

from dynexplore.engine.bytecode.code_units import DECODING, ENDS, Operands, Unit, units_of
from dynexplore.engine.bytecode.instruction import Handler, Instruction
from dynexplore.engine.bytecode.reader import ParsedCode
from dynexplore.engine.bytecode.versions import FACTS

GENERATOR_FLAGS = 0x20 | 0x80 | 0x200  # CO_GENERATOR, CO_COROUTINE, CO_ASYNC_GENERATOR

_effects: dict[tuple[int, int, bool], int] = {}


def _effect(unit: Unit, jump: bool) -> int:
    key = (unit.number, unit.arg, jump)
    effect = _effects.get(key)
    if effect is None:
        has_arg = DECODING[unit.opname].has_arg
        effect = _effects[key] = dis.stack_effect(unit.number, unit.arg if has_arg else None, jump=jump)
    return effect


def stack_size(units: list[Unit], generator: bool) -> int:
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
    units = units_of(parsed.instructions, Operands(code, code.co_varnames, code.co_cellvars, code.co_freevars))
    walk = _StackWalk(units)
    walk.follow(0, FACTS.generator_entry_depth if code.co_flags & GENERATOR_FLAGS else 0)
    return {unit.instruction: depth for unit, depth in zip(units, walk.depths, strict=True)}


class _StackWalk:
    """Finds the stack depth before each unit; `follow` walks every path that starts at one of them.

    `strict`: two paths that meet at different depths are an error. (Not in unreachable code.)
    """

    def __init__(self, units: list[Unit]) -> None:
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
            jump_target = unit.jump_target
            if index in passed or (jump_target is None and unit.opname in ENDS):
                return 1  # unknown: a handler of the outermost region, which starts with its exception
            passed.add(index)
            change += _effect(unit, jump_target is not None)
            index = index + 1 if jump_target is None else self._index_of[jump_target]
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
            jump_target = unit.jump_target
            if jump_target is not None:
                self._begin(self._index_of[jump_target], depth + _effect(unit, True))
            depth += _effect(unit, False)
            if depth < 0 and self.strict:
                raise ValueError(f"{unit.instruction} pops from an empty stack")
            if unit.opname in ENDS:
                self.deepest = max(self.deepest, depth)
                return
            index += 1
            self.deepest = max(self.deepest, depth)
        if self.depths[index] != depth and self.strict:
            raise ValueError(f"stack depth {self.depths[index]} or {depth} at {self.units[index].instruction}")

    def _enter_handler(self, handler: Handler, unit: Unit, depth: int) -> None:
        if depth < handler.depth and self.strict:
            raise ValueError(f"{unit.instruction}: stack depth {depth}, but its handler keeps {handler.depth}")
        if handler not in self._seen_handlers:
            self._seen_handlers.add(handler)
            self._begin(self._first_of[handler.target], handler.depth + handler.lasti + 1)
