"""Checks of calls: methods of lists, dicts, sets and deques, and builtins that construct, sort or count containers.

The idea: as in container_checks.py, CPython repeats the call on real containers of `Value`s with the contents that the trackers
had before it; receiver and result are compared with those of the step. So `list.sort` needs no second implementation.

In: a step, as in opcode_checks.py. Out: its verdict; Unknown if it is inconclusive, as for a `key=` function of the program.
PyTorch's counterpart: none.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from typing import Any

from dynexplore.engine.variables.callables.function import BuiltinVariable
from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.contract.inspection import Unknown
from dynexplore.engine.variables.objects.class_ import ClassVariable
from dynexplore.engine.variables.scalars.constant import ConstantMethodVariable, ConstantVariable
from dynexplore.second_opinion.check_table import check
from dynexplore.second_opinion.container_checks import (
    check_result,
    container_before,
    container_now,
    difference_after,
    run_in_python,
    walked,
)
from dynexplore.second_opinion.contents import Value, container_of, is_container, values_of
from dynexplore.second_opinion.deferred_checks import CheckedStep, Mismatch, Stack, Verdict
from dynexplore.second_opinion.stack_calls import call_on_stack


def _receivers(frame: Any, step: Any) -> Stack:
    """The containers on the stack whose methods are about to be called."""
    count = (step.arg[0] if step.op == "CALL" else step.arg + 1) + 2
    return [value.receiver for value in frame.stack[-count:][:2] if type(value) is ConstantMethodVariable]


_NUMBERS = {"insert": (0,), "index": (1, 2), "rotate": (0,), "move_to_end": (1,), "popitem": (0,), "__getitem__": (0,)}
_ITERABLES = frozenset({"extend", "extendleft", "issubset", "issuperset", "isdisjoint", "union", "intersection", "difference",
                        "symmetric_difference", "update", "intersection_update", "difference_update",
                        "symmetric_difference_update"})  # fmt: skip


def _argument(step: CheckedStep, tracker: VariableTracker, method: str, place: int = 0, receiver: type[Any] = object) -> Any:
    """An argument as the real method expects it: an item, a number or an iterable."""
    if method in _ITERABLES:
        return walked(step, tracker)
    is_number = place in _NUMBERS.get(method, ()) or (method == "pop" and not issubclass(receiver, dict))
    return tracker.unguarded_value() if is_number else Value(tracker)


@check("CALL", "CALL_KW", changes=_receivers)
def _call(step: CheckedStep) -> Verdict:
    function, args, named = call_on_stack(step)
    if type(function) is ConstantMethodVariable and is_container(function.receiver):
        return _call_of_method(step, function, args, named)
    maker: Any = function.value if type(function) is ClassVariable else getattr(function, "function", None)
    if type(function) not in (ClassVariable, BuiltinVariable) or maker not in _MAKERS or named or len(args) > 1:
        raise Unknown
    if not args:
        return check_result(run_in_python(maker), step.after[-1])
    if maker is len:
        return check_result(len(container_now(step, args[0])), step.after[-1])
    real = container_of(args[0]) if is_container(args[0]) else values_of(args[0])
    return check_result(run_in_python(maker, real), step.after[-1])


_MAKERS: tuple[Any, ...] = (list, tuple, dict, set, frozenset, sorted, deque, OrderedDict, len)


def _call_of_method(step: CheckedStep, function: ConstantMethodVariable, args: Stack, named: dict[str, VariableTracker]) -> Verdict:
    real = container_before(step, function.receiver)
    name = function.name
    if hasattr(real, "default_factory") and name in ("__getitem__", "copy"):
        raise Unknown
    positional = [_argument(step, tracker, name, place, type(real)) for place, tracker in enumerate(args)]
    if name == "update" and isinstance(real, dict):
        positional.append({Value(ConstantVariable(key)): Value(value) for key, value in named.items()})
        outcome: Any = None
        for mapping in positional:
            outcome = run_in_python(dict.update, real, mapping)
    else:
        options = {key: value.unguarded_value() for key, value in named.items()}
        if options.get("key") is not None:
            raise Unknown  # a function of the program
        method = getattr(type(real), name, None)
        if method is None:
            raise Unknown  # of a torch.Size or a named tuple
        outcome = run_in_python(method, real, *positional, **options)
    if isinstance(outcome, Mismatch):
        return outcome
    changed = difference_after(step, function.receiver, real, positional[0] if positional and isinstance(real, dict) else -1)
    return changed or check_result(outcome, step.after[-1])
