"""Loop-carried locals: local variables of a function that change from iteration to iteration.

The idea: a resume function in a loop gets the loop's variables and counters as arguments, with different values each time. Those
that the code itself increments (`i += 1`, an induction variable) or takes from an iterator (`for i in ...`) are known to change
before a second value has been seen. Objects change in the same way: a module that an iteration selects (`expert = self.experts[i]`)
is a different one in the next, so the arguments of a resume function inside the loop are not guarded by identity (`stored_around`).
And the result of an operator with a data-dependent output size has a different size in each call of the resume function after it.

In: parsed code, one of its instructions. Out: names. PyTorch's counterpart: none; Dynamo does not resume inside loops.
"""

from __future__ import annotations

from dynexplore.engine.bytecode import Instruction, ParsedCode
from dynexplore.engine.bytecode.liveness import ENDS


def loop_carried_locals(parsed: ParsedCode) -> frozenset[str]:
    """The names of fast locals that the code increments, or takes from an iterator."""
    names: frozenset[str] | None = parsed.memo.get("loop-carried locals")
    if names is None:
        names = parsed.memo["loop-carried locals"] = frozenset(_names(parsed))
    return names


def stored_around(parsed: ParsedCode, instruction: Instruction) -> frozenset[str] | None:
    """The names of fast locals that are stored by the loops around an instruction; None if it is not in a loop."""
    step_index = parsed.step_of(instruction)
    steps = parsed.steps
    loops = [loop for loop in _loops(parsed) if step_index in loop]
    if not loops:
        return None
    return frozenset(steps[index].arg for loop in loops for index in loop if steps[index].op == "STORE_FAST")


def _loops(parsed: ParsedCode) -> list[frozenset[int]]:
    """The steps of each loop: those between a backward jump and its target, and those from which the jump is reachable.

    From Python 3.14 on, blocks of a loop may follow its backward jump; an outer loop's may precede its inner loop.
    """
    loops: list[frozenset[int]] | None = parsed.memo.get("loops")
    if loops is None:
        before: dict[int, list[int]] = {}
        for step in parsed.steps:
            following = () if step.op in ENDS else (step.index + 1,)
            for index in (*following, *((step.target,) if step.target >= 0 else ())):
                before.setdefault(index, []).append(step.index)
        loops = parsed.memo["loops"] = [
            frozenset({*range(step.target, step.index + 1), *_reaching(step.index, step.target, before)})
            for step in parsed.steps
            if 0 <= step.target <= step.index
        ]
    return loops


def _reaching(end: int, head: int, before: dict[int, list[int]]) -> set[int]:
    """The steps from which `end` is reachable without passing `head`."""
    reaching, waiting = {head}, [end]
    while waiting:
        index = waiting.pop()
        if index not in reaching:
            reaching.add(index)
            waiting += before.get(index, ())
    return reaching


def note_dynamic_output_shape(parsed: ParsedCode, instruction: Instruction) -> None:
    """Record that the tensor on top of the stack at an instruction has a dynamic output shape (`nonzero`)."""
    parsed.memo.setdefault("dynamic output shapes", set()).add(instruction)


def has_dynamic_output_shape(parsed: ParsedCode, instruction: Instruction) -> bool:
    """Whether `note_dynamic_output_shape` was called for the instruction."""
    return instruction in parsed.memo.get("dynamic output shapes", ())


def _names(parsed: ParsedCode) -> set[str]:
    names = set()
    expected = 0  # how many of the next stores are loop variables
    for before, step in zip(parsed.steps, parsed.steps[1:], strict=False):
        if before.op == "FOR_ITER":
            expected = 1
        if step.op == "UNPACK_SEQUENCE" and expected:
            expected += int(step.arg) - 1
        elif step.op == "STORE_FAST":
            counted = before.op == "BINARY_OP" and str(before.arg).endswith("=")
            if expected or counted:
                names.add(step.arg)
            expected = max(expected - 1, 0)
        else:
            expected = 0
    return names
