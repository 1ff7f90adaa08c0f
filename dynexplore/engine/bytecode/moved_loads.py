"""Moved loads: which loads of a local push a value that the next instruction to take it only moves elsewhere.

The idea: a local that is stored in another local or passed to a function has not been used yet. If it is loaded for no more than
that, the translator need not know its value, so that no guard depends on it. The analysis follows one value from its load to the
step that pops it, through straight code only: a jump in between ends it, and the load then counts as a use. So does a container:
rules look at the items of a list, a key or `*args`, and expect real trackers.

In: a `ParsedCode`. Out: `moved_loads`, the indices of such steps. PyTorch's counterpart: none; there a `LazyVariableTracker` may be
on the stack until something other than a move realizes it (torch/_dynamo/variables/lazy.py).
"""

from __future__ import annotations

from dynexplore.engine.bytecode.instruction import Step
from dynexplore.engine.bytecode.liveness import ENDS
from dynexplore.engine.bytecode.opcodes import OPCODES, stack_change
from dynexplore.engine.bytecode.reader import ParsedCode

_ALL_PLACES = frozenset({"POP_TOP", "STORE_FAST"})


def moved_loads(parsed: ParsedCode) -> frozenset[int]:
    """The indices of the LOAD_FAST steps whose values are only moved.

    >>> from dynexplore.engine.bytecode.reader import read
    >>> parsed = read((lambda f, x, flag: f(x + 1, flag)).__code__)
    >>> [parsed.steps[index].arg for index in sorted(moved_loads(parsed))]
    ['flag']
    """
    loads: frozenset[int] | None = parsed.memo.get("moved loads")
    if loads is None:
        steps = parsed.steps
        loads = frozenset(index for index, step in enumerate(steps) if step.op == "LOAD_FAST" and _is_moved(steps, index))
        parsed.memo["moved loads"] = loads
    return loads


def _is_moved(steps: list[Step], load: int) -> bool:
    above = 0  # values on the stack above the one that was loaded
    for step in steps[load + 1:]:
        if OPCODES[step.op].jumps or step.op in ENDS or step.op == "UNSUPPORTED":
            return False
        change = stack_change(step.op, step.arg)
        if change.popped <= above:
            above += len(change.pushed) - change.popped
            continue
        index = change.popped - 1 - above
        if not OPCODES[step.op].only_moves or not change.pushed:
            return _takes_unused(step, index, change.popped)
        if change.pushed.count(index) != 1:
            return False  # COPY: one of the two may be used
        above = len(change.pushed) - 1 - change.pushed.index(index)
    return False


def _takes_unused(step: Step, index: int, popped: int) -> bool:
    """Whether a step takes a value, the `index`-th of those that it pops, without looking at it."""
    match step.op:
        case "CALL":
            return bool(index >= popped - step.arg[0])
        case "CALL_KW":
            return bool(popped - 1 - step.arg <= index < popped - 1)
    return step.op in _ALL_PLACES
