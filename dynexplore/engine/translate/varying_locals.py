"""Which local variables of a function change as its loops go round.

The idea: a resume function in a loop gets the loop's variables and counters as arguments, another value each time. Those that the
code itself counts up (`i += 1`) or takes from an iterator (`for i in ...`) are known to change before they were seen to.

Objects come and go in the same way: a module that a round of the loop chooses (`expert = self.experts[i]`) is another one in the
next, so what a resume function inside the loop is given is not guarded by identity first (`stored_around`).

And what a resume function is handed by an operator whose result has a size that only data tells has another size in each call.

In: parsed code, an instruction of it. Out: names. torch/_dynamo has no counterpart: it does not resume inside loops.
"""

from __future__ import annotations

from dynexplore.engine.bytecode import Instruction, ParsedCode


def varying_locals(parsed: ParsedCode) -> frozenset[str]:
    """The names of fast locals that the code counts up, or takes from an iterator."""
    names: frozenset[str] | None = parsed.memo.get("varying locals")
    if names is None:
        names = parsed.memo["varying locals"] = frozenset(_names(parsed))
    return names


def stored_around(parsed: ParsedCode, instruction: Instruction) -> frozenset[str] | None:
    """The names of fast locals that the loops around an instruction store; None where no loop is around it."""
    at = parsed.step_of(instruction)
    steps = parsed.steps
    loops = [range(step.target, step.index + 1) for step in steps if 0 <= step.target <= at <= step.index]
    if not loops:
        return None
    return frozenset(steps[index].arg for loop in loops for index in loop if steps[index].op == "STORE_FAST")


def note_sizes_of_data(parsed: ParsedCode, instruction: Instruction) -> None:
    """What is on top of the stack at an instruction has a size that only the data of another tensor told (`nonzero`)."""
    parsed.memo.setdefault("sizes of data", set()).add(instruction)


def gives_sizes_of_data(parsed: ParsedCode, instruction: Instruction) -> bool:
    """Whether `note_sizes_of_data` was told so."""
    return instruction in parsed.memo.get("sizes of data", ())


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
