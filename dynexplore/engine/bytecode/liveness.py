"""Liveness: which local variables are read later, so that a resume function needs them, and which of them may be unbound.

The idea: the textbook's backward data-flow analysis, over canonical steps, one bit per variable. A variable is live before a step
if the step reads it, or if it is live after the step (or in the handler of the step) and the step does not write it. Whether it is
bound is a forward analysis: it may be unbound before a step if it may be unbound on one of the paths to the step.

In: a `ParsedCode` and one of its raw instructions. Out: names, from `live_locals` and `unbound_locals`.
PyTorch's counterpart: `livevars_analysis` in torch/_dynamo/bytecode_analysis.py.
"""

from __future__ import annotations

from dynexplore.engine.bytecode.instruction import Instruction, Step
from dynexplore.engine.bytecode.reader import ParsedCode, argument_slots

#: code that names one of these can see its local variables, or (zero-argument super) its first argument
SEES_LOCALS = frozenset({"super", "locals", "vars", "dir", "eval", "exec"})
_READS = frozenset({"LOAD_FAST", "LOAD_FAST_AND_CLEAR", "DELETE_FAST"})
_WRITES = frozenset({"STORE_FAST", "LOAD_FAST_AND_CLEAR", "DELETE_FAST"})
#: canonical opcodes after which control does not reach the next step
ENDS = frozenset({"JUMP", "RETURN_VALUE", "RAISE_VARARGS", "RERAISE"})


def live_locals(parsed: ParsedCode, instruction: Instruction) -> frozenset[str]:
    """The fast locals (cells excluded) that may be read at or after a raw instruction, in handlers too.

    In code that names super, locals, vars, dir, eval or exec all are live; the first argument always is.

    >>> from dynexplore.engine.bytecode.reader import read
    >>> parsed = read((lambda a, b, c: b + c).__code__)
    >>> sorted(live_locals(parsed, parsed.instructions[-1])), sorted(live_locals(parsed, parsed.instructions[0]))
    (['a'], ['a', 'b', 'c'])
    """
    code = parsed.code
    hidden = {*code.co_cellvars, *code.co_freevars}
    if not SEES_LOCALS.isdisjoint(code.co_names):
        return frozenset(code.co_varnames) - hidden
    names, masks = _analysis(parsed)
    index = parsed.step_of(instruction)
    mask = masks[index] if index < len(masks) else 0
    live = {name for bit, name in enumerate(names) if mask >> bit & 1}
    return frozenset({*live, *code.co_varnames[:1]} - hidden)


def unbound_locals(parsed: ParsedCode, instruction: Instruction) -> frozenset[str]:
    """The live fast locals that may be unbound on one of the paths to a raw instruction (an argument: if a path has a `del`).

    Empty for code that names super, locals, vars, dir, eval or exec, which sees whether a variable is bound without reading it.

    >>> from dynexplore.engine.bytecode.reader import read
    >>> def last(items):
    ...     for item in items:
    ...         pass
    ...     return item
    >>> parsed = read(last.__code__)
    >>> sorted(unbound_locals(parsed, parsed.steps[-2].origin))
    ['item']
    """
    if not SEES_LOCALS.isdisjoint(parsed.code.co_names):
        return frozenset()
    names, _ = _analysis(parsed)
    masks: list[int] | None = parsed.memo.get("unbound")
    if masks is None:
        masks = parsed.memo["unbound"] = _solve_unbound(parsed, names)
    mask = masks[parsed.step_of(instruction)]
    return live_locals(parsed, instruction) & {name for bit, name in enumerate(names) if mask >> bit & 1}


def _solve_unbound(parsed: ParsedCode, names: list[str]) -> list[int]:
    """For each step, a mask of the variables that may be unbound before it."""
    steps = parsed.steps
    bits = {name: 1 << bit for bit, name in enumerate(names)}
    arguments = argument_slots(parsed.code)
    unbound = [0] * (len(steps) + 1)
    reached = {0}
    unbound[0] = sum(bit for name, bit in bits.items() if name not in arguments)
    waiting = [0]
    while waiting:
        index = waiting.pop()
        step, before = steps[index], unbound[index]
        after = before
        if step.op in ("STORE_FAST", "LOAD_FAST"):  # a variable that was read is bound
            after &= ~bits[step.arg]
        elif step.op in _WRITES:
            after |= bits[step.arg]
        edges = [(target, after) for target in _successors(parsed, step)]
        for successor, mask in (*edges, (_handler(parsed, step), before | after)):
            if successor < len(steps) and (successor not in reached or mask & ~unbound[successor]):
                reached.add(successor)
                unbound[successor] |= mask
                waiting.append(successor)
    return unbound


def _analysis(parsed: ParsedCode) -> tuple[list[str], list[int]]:
    """The variables, and for each step a mask of those live before it; computed once per code object."""
    solution: tuple[list[str], list[int]] | None = parsed.memo.get("liveness")
    if solution is None:
        solution = parsed.memo["liveness"] = _solve(parsed)
    return solution


def _solve(parsed: ParsedCode) -> tuple[list[str], list[int]]:
    steps = parsed.steps
    bits: dict[str, int] = {}
    reads, keeps = [0] * len(steps), [-1] * len(steps)
    for index, step in enumerate(steps):
        if step.op in _READS or step.op in _WRITES:
            bit = bits.setdefault(step.arg, 1 << len(bits))
            if step.op in _READS:
                reads[index] = bit
            if step.op in _WRITES:
                keeps[index] = ~bit
    successors = [_successors(parsed, step) for step in steps]
    handlers = [_handler(parsed, step) for step in steps]
    live = [0] * (len(steps) + 1)
    changed = True
    while changed:
        changed = False
        for index in range(len(steps) - 1, -1, -1):
            after = 0
            for successor in successors[index]:
                after |= live[successor]
            # a step may raise before it writes, so variables that the handler reads are live before it
            live_before = reads[index] | after & keeps[index] | live[handlers[index]]
            if live_before != live[index]:
                live[index] = live_before
                changed = True
    return list(bits), live


def _successors(parsed: ParsedCode, step: Step) -> tuple[int, ...]:
    onward = () if step.op in ENDS else (step.index + 1,)
    return onward if step.target < 0 else (*onward, step.target)


def _handler(parsed: ParsedCode, step: Step) -> int:
    """The first step of a step's exception handler; without one the end of the code, where nothing is live."""
    handler = step.origin.handler
    return len(parsed.steps) if handler is None else parsed.step_of(handler.target)
