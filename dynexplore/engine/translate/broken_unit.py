"""The instruction that broke, and how it is emitted again in the modified code.

The idea: some raw instructions only work as a group (KW_NAMES, PRECALL and CALL), so the whole unit is copied, and the successors
of its last instruction are the places where a resume function may start.

In: parsed code, the instruction at which a frame stopped. Out: `BrokenUnit`. PyTorch's counterpart: the copy of the instruction in
`break_graph_if_unsupported` and `generic_jump` (torch/_dynamo/symbolic_convert.py).
"""

from __future__ import annotations

from dynexplore.engine.bytecode import FACTS, Instruction, Label, ParsedCode, Step, Writer
from dynexplore.engine.native import special_method


class BrokenUnit:
    """The raw instructions that only work as a group, the last of which broke."""

    def __init__(self, parsed: ParsedCode, current: Instruction) -> None:
        self.parsed = parsed
        self.instructions = parsed.unit(current)
        self.broken = self.instructions[-1]
        self.steps = [step for step in parsed.steps if step.origin in self.instructions]

    @property
    def jump(self) -> Step | None:
        """The step that may jump, or None."""
        return next((step for step in self.steps if step.target >= 0), None)

    @property
    def ends_here(self) -> bool:
        """Whether control never falls through to the next instruction."""
        return self.steps[-1].op in ("JUMP", "RETURN_VALUE", "RAISE_VARARGS", "RERAISE")

    @property
    def raises(self) -> bool:
        """Whether it raises an exception that is on the stack."""
        return self.steps[-1].op in ("RAISE_VARARGS", "RERAISE")

    def targets(self) -> list[Instruction]:
        """The original instructions at which execution may continue after the broken one."""
        targets = []
        if not self.ends_here:
            targets.append(self.parsed.next_unit(self.broken))
        if self.jump is not None:
            targets.append(self.parsed.steps[self.jump.target].origin)
        if self.broken.handler is not None:
            targets.append(self.broken.handler.target)
        return targets

    def write(self, writer: Writer, jumped: Label | None) -> None:
        """Write the original instructions; method forms of attribute loads are changed so that the NULL's position stays known."""
        if self.broken.handler is not None:
            # if `__init__` raises, CPython 3.13 (CALL_ALLOC_AND_ENTER_INIT, which bypasses the frame hook) looks for the caller's
            # handler one code unit before the call: that unit must be covered
            writer.emit("NOP")
        first = self.steps[0]
        if len(self.steps) > 1 and first.op in ("LOAD_ATTR", "LOAD_SUPER_ATTR"):
            if first.op == "LOAD_ATTR":
                writer.load_attr(first.arg)
            else:
                assert self.broken.arg is not None
                writer.emit("LOAD_SUPER_ATTR", self.broken.arg & ~1, first.arg[0])
            writer.push_null()
            if FACTS.null_below:
                writer.swap(2)
            return
        if first.op == "BEFORE_WITH" and FACTS.with_unit:
            self._enter_with(writer)
            return
        for instruction in self.instructions:
            writer.original(instruction, jumped if instruction.target is not None else None)
        mark = self.parsed.branch_mark(self.broken)
        if jumped is not None and mark is not None:
            writer.original(mark)

    def _enter_with(self, writer: Writer) -> None:
        """Write a `with` entry for 3.14 and later, where the slot beside the exit function may hold its receiver: bind it, so that
        the slot is empty.
        """
        bound = Label("bound")
        writer.load_const(special_method)
        writer.push_null()
        writer.copy(3)
        writer.load_const("__exit__")
        writer.call(2)
        writer.copy(1)
        writer.pop_jump_if_not_none(bound)
        writer.pop_top()
        writer.original(self.instructions[1])  # there is none: this raises
        writer.mark(bound)
        writer.swap(2)
        writer.push_null()
        writer.swap(2)
        for instruction in self.instructions[-2:]:
            writer.original(instruction)

    def write_fillers(self, writer: Writer, jump: Step) -> None:
        """Write the instructions at the target of an exhausted FOR_ITER, which 3.12 and later skip but require."""
        if jump.op != "FOR_ITER":
            return
        assert self.broken.target is not None
        jump_target = self.parsed.steps[jump.target].origin
        for index in range(self.broken.target.index, jump_target.index):
            writer.original(self.parsed.instructions[index])
