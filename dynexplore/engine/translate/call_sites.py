"""Call sites: how often the code of a frame calls the same callable.

The idea: the graphs of a callee are captured once for each call site if a break nests in it (nested_frames.py). How many
there are is read from the bytecode, before any of them has run: calls that load their callable through the same names, `leaf` or
`self.attention`, are of the same callable. Each call has a NULL beside its callable, below it or above, by which it is found.

In: a frame at a call. Out: `call_site_count`, and the names of all callables. PyTorch's counterpart: none.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from dynexplore.engine.bytecode import FACTS, ParsedCode, Step
from dynexplore.engine.translate.symbolic_frame import SymbolicFrame

_Path = tuple[tuple[str, object], ...]
_VARIABLES = ("LOAD_FAST", "LOAD_GLOBAL", "LOAD_DEREF", "LOAD_NAME")


def call_site_count(frame: SymbolicFrame) -> int:
    """How many calls in the code of a frame load the callable as the current one does: `self.attention(x)` twice.

    A call in a loop counts as two: its first and its last iteration have graphs of their own. Of two branches only one is taken:
    a call counts if one of the two calls is behind the other.
    """
    parsed = frame.parsed
    callables = callables_of(parsed)
    current = current_call(frame)
    if current not in callables:
        return 1
    reachable = {index: _reachable(parsed.steps, index) for index, path in callables.items() if path == callables[current]}
    together = (index for index in reachable if index == current or index in reachable[current] or current in reachable[index])
    return sum(2 if index in reachable[index] else 1 for index in together)


def _reachable(steps: Sequence[Step], index: int) -> set[int]:
    """The steps that may run behind this one, itself in a loop; handlers of exceptions, which may jump back, are left out."""
    reached: set[int] = set()
    waiting = [index]
    while waiting:
        step = steps[waiting.pop()]
        following = [step.target] if step.target >= 0 else []
        if step.op not in ("JUMP", "RETURN_VALUE", "RAISE_VARARGS", "RERAISE"):
            following.append(step.index + 1)
        waiting += [other for other in following if other not in reached]
        reached.update(following)
    return reached


def current_call(frame: SymbolicFrame) -> int:
    """The index of the step that calls in the current instruction."""
    return next((step.index for step in frame.steps if step.origin is frame.current and step.op.startswith("CALL")), -1)


def callables_of(parsed: ParsedCode) -> dict[int, _Path]:
    """The names by which each call loads its callable, by the index of its step."""
    if "callables" not in parsed.memo:
        parsed.memo["callables"] = _find(parsed.steps)
    callables: dict[int, _Path] = parsed.memo["callables"]
    return callables


def _find(steps: Sequence[Step]) -> dict[int, _Path]:
    callables: dict[int, _Path] = {}
    waiting: list[_Path] = []
    for step in steps:
        if step.op == "PUSH_NULL" and steps[step.index + 1].op != "CALL_FUNCTION_EX":  # there it stands for no keywords
            waiting.append(_callable_at(steps, step.index))
        elif step.op.startswith("CALL") and waiting:
            callables[step.index] = waiting.pop()
    return callables


def _callable_at(steps: Sequence[Step], null: int) -> _Path:
    """The names of the callable beside a NULL: a variable, and attributes; none for any other expression."""
    if FACTS.null_below and steps[null + 1].op != "SWAP":
        attributes = itertools.takewhile(lambda step: step.op == "LOAD_ATTR", steps[null + 2 :])
        path = (steps[null + 1], *attributes)
    else:
        attributes = itertools.takewhile(lambda step: step.op == "LOAD_ATTR", reversed(steps[:null]))
        path = tuple(reversed(tuple(attributes)))
        path = (steps[null - len(path) - 1], *path)
    return tuple((step.op, step.arg) for step in path) if path[0].op in _VARIABLES else ((path[0].op, null),)
