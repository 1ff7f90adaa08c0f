"""Loop-carried locals: which local variables of a function change from iteration to iteration.

A resume function in a loop gets the loop's variables and counters as arguments, another value each time. Those that the code itself
counts up (`i += 1`, an induction variable) or takes from an iterator (`for i in ...`) are known to change before a second value is
seen.

Objects change in the same way: a module that an iteration selects (`expert = self.experts[i]`) is another one in the next, so
what a resume function inside the loop is given is not guarded by identity (`stored_around`).

And the result of an operator whose output size depends on data has another size in each call of the resume function after it.

In: parsed code, an instruction of it. Out: names. torch/_dynamo has no counterpart: it does not resume inside loops.
"""

from __future__ import annotations

from dynexplore.engine.bytecode import Instruction, ParsedCode
from dynexplore.engine.bytecode.liveness import ENDS


def loop_carried_locals(parsed: ParsedCode) -> frozenset[str]:
    """The names of fast locals that the code counts up, or takes from an iterator."""
    names: frozenset[str] | None = parsed.memo.get("loop-carried locals")
    if names is None:
        names = parsed.memo["loop-carried locals"] = frozenset(_names(parsed))
    return names


def stored_around(parsed: ParsedCode, instruction: Instruction) -> frozenset[str] | None:
    """The names of fast locals that the loops around an instruction store; None where no loop is around it."""
    step_index = parsed.step_of(instruction)
    steps = parsed.steps
    loops = [loop for loop in _loops(parsed) if step_index in loop]
    if not loops:
        return None
    return frozenset(steps[index].arg for loop in loops for index in loop if steps[index].op == "STORE_FAST")


def _loops(parsed: ParsedCode) -> list[frozenset[int]]:
    """The steps of each loop: those between a jump back and its target, and those from which the jump can be reached.

    From Python 3.14 on the blocks of a loop may stand behind its jump back: an outer loop's before its inner loop.
    """
    loops: list[frozenset[int]] | None = parsed.memo.get("loops")
    if loops is None:
        before: dict[int, list[int]] = {}
        for step in parsed.steps:
            following = () if step.op in ENDS else (step.index + 1,)
            for place in (*following, *((step.target,) if step.target >= 0 else ())):
                before.setdefault(place, []).append(step.index)
        loops = parsed.memo["loops"] = [
            frozenset({*range(step.target, step.index + 1), *_reaching(step.index, step.target, before)})
            for step in parsed.steps
            if 0 <= step.target <= step.index
        ]
    return loops


def _reaching(end: int, head: int, before: dict[int, list[int]]) -> set[int]:
    """The steps from which `end` is reached without passing `head`."""
    reaching, waiting = {head}, [end]
    while waiting:
        place = waiting.pop()
        if place not in reaching:
            reaching.add(place)
            waiting += before.get(place, ())
    return reaching


def note_data_dependent_size(parsed: ParsedCode, instruction: Instruction) -> None:
    """The tensor on top of the stack at an instruction has a size that depends on data (`nonzero`)."""
    parsed.memo.setdefault("data-dependent sizes", set()).add(instruction)


def has_data_dependent_size(parsed: ParsedCode, instruction: Instruction) -> bool:
    """Whether `note_data_dependent_size` was called for the instruction."""
    return instruction in parsed.memo.get("data-dependent sizes", ())


def _names(parsed: ParsedCode) -> set[str]:
    names = set()
    expected = 0  # how many of the next stores are the variables of a loop
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
