"""Checks of the instructions for containers: BUILD_LIST and similar ones, subscripts, operators.

The idea: CPython itself repeats the step on real containers of `Value`s (contents.py) with the contents that the trackers had
before it, and the outcome is compared with the trackers' contents after it. So `dict.update` or `+=` need no second
implementation. method_checks.py checks methods of containers in the same way.

A container that a step may mutate is copied before the step: `changes` declares it, `CheckedStep.state_before` contains the
copy.

In: a step, as in opcode_checks.py. Out: its verdict; Unknown if it is inconclusive. PyTorch's counterpart: none.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.contract.inspection import Unknown
from dynexplore.engine.variables.operators import BINARY, COMPARE
from dynexplore.second_opinion.check_table import another, check, check_stack, text_of
from dynexplore.second_opinion.contents import (
    Value,
    container_of,
    first_difference,
    is_container,
    is_mapping,
    is_sequence,
    may_be_same,
    values_of,
)
from dynexplore.second_opinion.deferred_checks import CheckedStep, Mismatch, Stack, Verdict, as_read, same_constant
from dynexplore.second_opinion.large_containers import NO_TWIN, SMALL, Twin


def container_before(step: CheckedStep, tracker: VariableTracker) -> Any:
    """The real container for a tracker with the content before the step. Raises Unknown."""
    state = step.state_before.get(as_read(tracker))
    if state is NO_TWIN:
        raise Unknown
    return state.real if isinstance(state, Twin) else container_of(tracker, state)


def container_now(step: CheckedStep, tracker: VariableTracker) -> Any:
    """The real container for a tracker that the step does not mutate. Raises Unknown."""
    read = as_read(tracker)
    if read.bulk() <= SMALL or read.container_type is None:
        return container_of(tracker)
    twin = step.large.twin_of(read)
    if twin is NO_TWIN:
        raise Unknown
    return twin.real


def difference_after(step: CheckedStep, tracker: VariableTracker, expected: Any, touched: Any = None) -> Mismatch | None:
    """How a container differs from the expected one, which was mutated at `touched`. Raises Unknown."""
    twin = step.state_before.get(as_read(tracker))
    if isinstance(twin, Twin) and twin.real is expected:
        unlike: Mismatch | None = step.large.difference(as_read(tracker), twin, touched)
        return unlike
    return first_difference(expected, container_of(tracker))


def walked(step: CheckedStep, tracker: VariableTracker) -> Any:
    """A value as `extend` or `update` iterate over it: a real dict, or the list of its items. Raises Unknown."""
    return container_before(step, tracker) if is_mapping(tracker) else values_of(tracker)


def run_in_python(function: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """The result of running this in Python; `Mismatch` if it raises although the step did not. Raises Unknown."""
    try:
        return function(*args, **named)
    except (IndexError, KeyError, ValueError) as error:
        if isinstance(error, KeyError):  # its text is the key, a Value
            return Mismatch("outcome", "KeyError", "no exception")
        return Mismatch("outcome", f"{type(error).__name__}: {error}", "no exception")
    except TypeError:
        raise Unknown from None


def _check_target(step: CheckedStep, target: VariableTracker, expected: Any, rest: Stack, touched: Any = -1) -> Verdict:
    """Check that the content of the target is now `expected`, and the stack is `rest`."""
    return difference_after(step, target, expected, touched) or check_stack(rest, step)


def check_result(expected: Any, result: VariableTracker) -> Verdict:
    """Compare Python's result with the tracker that the step produced."""
    if isinstance(expected, Mismatch):
        return expected
    if isinstance(expected, Value):
        return None if may_be_same(expected, Value(result)) else another("value", expected.text(), text_of(result))
    if isinstance(expected, tuple | list | dict | set | frozenset | deque):
        return (
            first_difference(expected, container_of(result))
            if is_container(result)
            else Mismatch("value", type(expected).__name__, text_of(result))
        )
    if not isinstance(expected, bool | int | type(None)):
        raise Unknown  # an iterator, a view
    actual = result.unguarded_value()
    return None if same_constant(expected, actual) else Mismatch("value", repr(expected), repr(actual)[:80])


# -- new containers ----------------------------------------------------------------------------------------------------


def _check_built(step: CheckedStep, expected: Any) -> Verdict:
    container = step.after[-1]
    if not is_container(container):
        return Mismatch("value on the stack", f"a {type(expected).__name__}", text_of(container))
    return first_difference(expected, container_of(container))


@check("BUILD_SET")
def _build_set(step: CheckedStep) -> Verdict:
    return _check_built(step, set(map(Value, step.before[len(step.before) - step.arg :])))


@check("BUILD_MAP")
def _build_map(step: CheckedStep) -> Verdict:
    flat = step.before[len(step.before) - 2 * step.arg :]
    return _check_built(step, _mapping(list(map(Value, flat[::2])), flat[1::2]))


@check("BUILD_CONST_KEY_MAP")
def _build_const_key_map(step: CheckedStep) -> Verdict:
    return _check_built(step, _mapping(values_of(step.before[-1]), step.before[-1 - step.arg : -1]))


def _mapping(keys: list[Value], values: Stack) -> dict[Value, Value]:
    return dict(zip(keys, map(Value, values), strict=True))


@check("LIST_TO_TUPLE")
def _list_to_tuple(step: CheckedStep) -> Verdict:
    return _check_built(step, tuple(container_of(step.before[-1])))


@check("UNPACK_EX")
def _unpack_ex(step: CheckedStep) -> Verdict:
    first, last = step.arg
    items = values_of(step.before[-1])
    middle = step.after[-1 - first]
    single = [*reversed(step.after[len(step.after) - first :]), *reversed(step.after[len(step.before) - 1 : -1 - first])]
    expected = [*items[:first], *items[len(items) - last :]]
    if len(step.after) != len(step.before) + first + last:
        return None  # the depth of the stack is checked for every instruction
    return first_difference(expected, list(map(Value, single)), "what was unpacked") or first_difference(
        items[first : len(items) - last], container_of(middle)
    )


# -- mutations ---------------------------------------------------------------------------------------------------------


def _changes(method: str, operands: int, depth_of_target: Callable[[Any], int]) -> Callable[[CheckedStep], Verdict]:
    """LIST_APPEND and similar instructions: `target.method(*operands)`, with the target at some depth of the stack."""

    def check_change(step: CheckedStep) -> Verdict:
        target = step.before[-depth_of_target(step.arg)]
        real = container_before(step, target)
        operand_trackers = step.before[len(step.before) - operands :]
        args = [walked(step, value) if method in ("extend", "update") else Value(value) for value in operand_trackers]
        if method == "append" and len(args) == 1:
            list.append(real, args[0])
        else:
            run_in_python(getattr(type(real), method), real, *args)
        touched = args[0] if method == "__setitem__" else -1
        return _check_target(step, target, real, step.before[: len(step.before) - operands], touched)

    return check_change


for _op, _method in (
    ("LIST_APPEND", "append"),
    ("SET_ADD", "add"),
    ("LIST_EXTEND", "extend"),
    ("SET_UPDATE", "update"),
    ("DICT_UPDATE", "update"),
    ("DICT_MERGE", "update"),
):
    check(_op, changes=lambda frame, step: frame.stack[-1 - step.arg :][:1])(_changes(_method, 1, lambda arg: arg + 1))
check("MAP_ADD", changes=lambda frame, step: frame.stack[-2 - step.arg :][:1])(_changes("__setitem__", 2, lambda arg: arg + 2))


@check("STORE_SUBSCR", changes=lambda frame, step: frame.stack[-2:-1])
def _store_subscript(step: CheckedStep) -> Verdict:
    value, container, key = step.before[-3:]
    return _check_item_change(step, container, [key], value, 3)


@check("STORE_SLICE", changes=lambda frame, step: frame.stack[-3:-2])
def _store_slice(step: CheckedStep) -> Verdict:
    value, container, start, stop = step.before[-4:]
    return _check_item_change(step, container, [start, stop], value, 4)


@check("DELETE_SUBSCR", changes=lambda frame, step: frame.stack[-2:-1])
def _delete_subscript(step: CheckedStep) -> Verdict:
    return _check_item_change(step, step.before[-2], step.before[-1:], None, 2)


def _check_item_change(
    step: CheckedStep, container: VariableTracker, key: Stack, value: VariableTracker | None, popped: int
) -> Verdict:
    """Check `container[key] = value`, or `del container[key]` if there is no value."""
    if not is_container(container):
        raise Unknown
    real = container_before(step, container)
    place = _place_of(container, key)
    if value is None:
        outcome = run_in_python(type(real).__delitem__, real, place)
    else:
        stored = values_of(value) if isinstance(place, slice) else Value(value)
        outcome = run_in_python(type(real).__setitem__, real, place, stored)
    if isinstance(outcome, Mismatch):
        return outcome
    return _check_target(step, container, real, step.before[: len(step.before) - popped], place)


def _place_of(container: VariableTracker, key: Stack) -> Any:
    """The place in a container: a key of a dict, or an index or slice of a sequence."""
    if is_mapping(container):
        return Value(key[0])
    place = slice(*(value.unguarded_value() for value in key)) if len(key) == 2 else key[0].unguarded_value()
    if isinstance(place, bool | int) or (isinstance(place, slice) and _is_of_numbers(place)):
        return place
    raise Unknown


def _is_of_numbers(place: slice) -> bool:
    return all(part is None or isinstance(part, int) for part in (place.start, place.stop, place.step))


# -- items, operators --------------------------------------------------------------------------------------------------


@check("BINARY_SUBSCR", changes=lambda frame, step: frame.stack[-2:-1])
def _subscript(step: CheckedStep) -> Verdict:
    return _check_item(step, step.before[-2], step.before[-1:], 2)


@check("BINARY_SLICE")
def _slice(step: CheckedStep) -> Verdict:
    return _check_item(step, step.before[-3], step.before[-2:], 3)


def _check_item(step: CheckedStep, container: VariableTracker, key: Stack, popped: int) -> Verdict:
    if not is_sequence(container) and not is_mapping(container):
        raise Unknown
    real = container_before(step, container)
    if hasattr(real, "default_factory") and Value(key[0]) not in real:
        raise Unknown  # the default factory creates one
    place = _place_of(container, key)
    expected_item = run_in_python(type(real).__getitem__, real, place)
    differs = difference_after(step, container, real, place)
    return check_result(expected_item, step.after[-1]) or differs or _check_below(step, popped - 1)


def _check_below(step: CheckedStep, fewer: int) -> Verdict:
    """Check that below the result the stack is unchanged, without the operands."""
    return check_stack([*step.before[: len(step.before) - fewer - 1], step.after[-1]], step)


@check("BINARY_OP", changes=lambda frame, step: frame.stack[-2:-1])
def _binary(step: CheckedStep) -> Verdict:
    lhs, rhs = step.before[-2:]
    if not (is_container(lhs) or is_container(rhs)):
        raise Unknown
    symbol, real = step.arg, container_before(step, lhs) if is_container(lhs) else lhs.unguarded_value()
    in_place = symbol.endswith("=") and isinstance(real, list | dict | set | deque)
    if in_place and symbol == "+=":
        other: Any = values_of(rhs)
    else:
        other = container_before(step, rhs) if is_container(rhs) else rhs.unguarded_value()
    expected = run_in_python(BINARY[symbol], real, other)
    if is_container(lhs):
        twin = step.state_before.get(as_read(lhs))
        if isinstance(twin, Twin):
            differs = difference_after(step, lhs, real, -1)
            if differs is not None or expected is real:
                return differs or _check_in_place(step, lhs)
    if in_place and step.after[-1] is not as_read(lhs):
        return another("value on the stack", text_of(lhs), text_of(step.after[-1]))
    return check_result(expected, step.after[-1]) or _check_below(step, 1)


def _check_in_place(step: CheckedStep, target: VariableTracker) -> Verdict:
    """Check that the result is the object that was mutated in place."""
    if step.after[-1] is not as_read(target):
        return another("value on the stack", text_of(target), text_of(step.after[-1]))
    return _check_below(step, 1)


@check("COMPARE_OP")
def _compare(step: CheckedStep) -> Verdict:
    lhs, rhs = step.before[-2:]
    if not (is_container(lhs) and is_container(rhs)):
        raise Unknown
    return check_result(run_in_python(COMPARE[step.arg], container_of(lhs), container_of(rhs)), step.after[-1])


@check("CONTAINS_OP")
def _contains(step: CheckedStep) -> Verdict:
    item, container = step.before[-2:]
    if not is_container(container):
        raise Unknown
    return check_result((Value(item) in container_now(step, container)) is not bool(step.arg), step.after[-1])


@check("TO_BOOL", "GET_LEN")
def _of_size(step: CheckedStep) -> Verdict:
    if not is_container(step.before[-1]):
        raise Unknown
    return check_result((bool if step.op == "TO_BOOL" else len)(container_now(step, step.before[-1])), step.after[-1])
