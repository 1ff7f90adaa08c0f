"""What instructions mean for containers: BUILD_LIST and its kin, items, operators and the methods of lists, dicts, sets, deques.

The idea: the step is carried out once more by CPython itself, on real containers of `Value`s (contents.py) that hold what the
trackers held before it, and what came out is held against what the trackers hold after it. So what `list.sort` or `dict.update`
does is described nowhere.

A container that a step may change is looked at before the step: `keeps` names it, `Stepped.kept` holds the copy.

In: a step, as opcode_checks.py gets it. Out: its verdict; Unknown where nothing can be said. PyTorch has no counterpart.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable
from typing import Any

from dynexplore.engine.variables.contract.base import VariableTracker
from dynexplore.engine.variables.objects.class_ import ClassVariable
from dynexplore.engine.variables.objects.function import BuiltinVariable
from dynexplore.engine.variables.operators import BINARY, COMPARE
from dynexplore.engine.variables.scalars.constant import ConstantMethodVariable, ConstantVariable
from dynexplore.second_opinion.check_table import Verdict, about, differs, moved, says
from dynexplore.second_opinion.contents import (
    CONTAINERS,
    MAPPINGS,
    SEQUENCES,
    Value,
    contents,
    items_of,
    real,
    same,
    unlike,
)
from dynexplore.second_opinion.deferred_checks import Mismatch, Stack, Stepped, Unknown, as_read, known, same_constant
from dynexplore.second_opinion.stack_calls import called


def before(view: Stepped, tracker: VariableTracker) -> Any:
    """The real container for a tracker as it was before the step. Raises Unknown."""
    found = view.kept.get(as_read(tracker))
    return contents(tracker) if found is None else real(found)


def _is_container(tracker: VariableTracker) -> bool:
    return type(as_read(tracker)) in CONTAINERS


def _carried_out(function: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """What Python gives; `Mismatch` where it raises and the step did not. Raises Unknown."""
    try:
        return function(*args, **named)
    except (IndexError, KeyError, ValueError) as error:
        if isinstance(error, KeyError):  # its text is the key, a Value
            return Mismatch("outcome", "KeyError", "no exception")
        return Mismatch("outcome", f"{type(error).__name__}: {error}", "no exception")
    except TypeError:
        raise Unknown from None


def _became(view: Stepped, target: VariableTracker, expected: Any, rest: Stack) -> Verdict:
    """The target must hold `expected` now, and the stack be `rest`."""
    return unlike(expected, contents(target)) or moved(rest, view)


def _gives(expected: Any, result: VariableTracker) -> Verdict:
    """A result of Python's, held against the tracker that came out."""
    if isinstance(expected, Mismatch):
        return expected
    if isinstance(expected, Value):
        return None if same(expected, Value(result)) else differs("value", expected.text(), says(result))
    if isinstance(expected, tuple | list | dict | set | frozenset | deque):
        return (
            unlike(expected, contents(result))
            if _is_container(result)
            else Mismatch("value", type(expected).__name__, says(result))
        )
    if not isinstance(expected, bool | int | type(None)):
        raise Unknown  # an iterator, a view
    found = known(result)
    return None if same_constant(expected, found) else Mismatch("value", repr(expected), repr(found)[:80])


# -- new containers ----------------------------------------------------------------------------------------------------


def _built(view: Stepped, expected: Any) -> Verdict:
    made = view.after[-1]
    if not _is_container(made):
        return Mismatch("value on the stack", f"a {type(expected).__name__}", says(made))
    return unlike(expected, contents(made))


@about("BUILD_SET")
def _build_set(view: Stepped) -> Verdict:
    return _built(view, set(map(Value, view.before[len(view.before) - view.step.arg :])))


@about("BUILD_MAP")
def _build_map(view: Stepped) -> Verdict:
    flat = view.before[len(view.before) - 2 * view.step.arg :]
    return _built(view, _mapping(flat[::2], flat[1::2]))


@about("BUILD_CONST_KEY_MAP")
def _build_const_key_map(view: Stepped) -> Verdict:
    keys = [value.tracker for value in items_of(view.before[-1])]
    if None in keys:
        raise Unknown
    return _built(view, _mapping(keys, view.before[-1 - view.step.arg : -1]))


def _mapping(keys: Any, values: Stack) -> dict[Value, Value]:
    return {Value(key): Value(value) for key, value in zip(keys, values, strict=True)}


@about("LIST_TO_TUPLE")
def _list_to_tuple(view: Stepped) -> Verdict:
    return _built(view, tuple(contents(view.before[-1])))


@about("UNPACK_EX")
def _unpack_ex(view: Stepped) -> Verdict:
    first, last = view.step.arg
    items = items_of(view.before[-1])
    middle = view.after[-1 - first]
    found = [*reversed(view.after[len(view.after) - first :]), *reversed(view.after[len(view.before) - 1 : -1 - first])]
    wanted = [*items[:first], *items[len(items) - last :]]
    if len(view.after) != len(view.before) + first + last:
        return None  # the depth is told by another opinion
    return unlike(wanted, list(map(Value, found)), "what was unpacked") or unlike(
        items[first : len(items) - last], contents(middle)
    )


# -- instructions that change one --------------------------------------------------------------------------------------


def _changes(method: str, operands: int, depth_of_target: Callable[[Any], int]) -> Callable[[Stepped], Verdict]:
    """LIST_APPEND and its kin: `target.method(*operands)`, the target somewhere down on the stack."""

    def opinion(view: Stepped) -> Verdict:
        target = view.before[-depth_of_target(view.step.arg)]
        found = before(view, target)
        args = [_argument(view, tracker, method) for tracker in view.before[len(view.before) - operands :]]
        if method == "append" and len(args) == 1:
            list.append(found, args[0])
        else:
            _carried_out(getattr(type(found), method), found, *args)
        return _became(view, target, found, view.before[: len(view.before) - operands])

    return opinion


for _op, _method in (
    ("LIST_APPEND", "append"),
    ("SET_ADD", "add"),
    ("LIST_EXTEND", "extend"),
    ("SET_UPDATE", "update"),
    ("DICT_UPDATE", "update"),
    ("DICT_MERGE", "update"),
):
    about(_op, keeps=lambda frame, step: frame.stack[-1 - step.arg :][:1])(_changes(_method, 1, lambda arg: arg + 1))
about("MAP_ADD", keeps=lambda frame, step: frame.stack[-2 - step.arg :][:1])(_changes("__setitem__", 2, lambda arg: arg + 2))


@about("STORE_SUBSCR", keeps=lambda frame, step: frame.stack[-2:-1])
def _store_subscript(view: Stepped) -> Verdict:
    value, container, key = view.before[-3:]
    return _item_changes(view, container, [key], value, 3)


@about("STORE_SLICE", keeps=lambda frame, step: frame.stack[-3:-2])
def _store_slice(view: Stepped) -> Verdict:
    value, container, start, stop = view.before[-4:]
    return _item_changes(view, container, [start, stop], value, 4)


@about("DELETE_SUBSCR", keeps=lambda frame, step: frame.stack[-2:-1])
def _delete_subscript(view: Stepped) -> Verdict:
    return _item_changes(view, view.before[-2], view.before[-1:], None, 2)


def _item_changes(view: Stepped, container: VariableTracker, key: Stack, value: VariableTracker | None, popped: int) -> Verdict:
    """`container[key] = value`, or `del container[key]` where there is no value."""
    if not _is_container(container):
        raise Unknown
    found = before(view, container)
    place = _place(container, key)
    if value is None:
        outcome = _carried_out(type(found).__delitem__, found, place)
    else:
        stored = items_of(value) if isinstance(place, slice) else Value(value)
        outcome = _carried_out(type(found).__setitem__, found, place, stored)
    if isinstance(outcome, Mismatch):
        return outcome
    return _became(view, container, found, view.before[: len(view.before) - popped])


def _place(container: VariableTracker, key: Stack) -> Any:
    """A key of a dict, or the number or slice that says where in a sequence."""
    if type(as_read(container)) in MAPPINGS:
        return Value(key[0])
    found = slice(*map(known, key)) if len(key) == 2 else known(key[0])
    if isinstance(found, bool | int) or (isinstance(found, slice) and _is_of_numbers(found)):
        return found
    raise Unknown


def _is_of_numbers(found: slice) -> bool:
    return all(part is None or isinstance(part, int) for part in (found.start, found.stop, found.step))


# -- items, operators --------------------------------------------------------------------------------------------------


@about("BINARY_SUBSCR", keeps=lambda frame, step: frame.stack[-2:-1])
def _subscript(view: Stepped) -> Verdict:
    return _item(view, view.before[-2], view.before[-1:], 2)


@about("BINARY_SLICE")
def _slice(view: Stepped) -> Verdict:
    return _item(view, view.before[-3], view.before[-2:], 3)


def _item(view: Stepped, container: VariableTracker, key: Stack, popped: int) -> Verdict:
    if type(as_read(container)) not in SEQUENCES and type(as_read(container)) not in MAPPINGS:
        raise Unknown
    found = before(view, container)
    if hasattr(found, "default_factory") and Value(key[0]) not in found:
        raise Unknown  # the factory makes one
    place = _place(container, key)
    wanted = _carried_out(type(found).__getitem__, found, place)
    return _gives(wanted, view.after[-1]) or unlike(found, contents(container)) or _deep(view, popped - 1)


def _deep(view: Stepped, fewer: int) -> Verdict:
    """Below the result the stack is as it was, without the operands."""
    return moved([*view.before[: len(view.before) - fewer - 1], view.after[-1]], view)


@about("BINARY_OP", keeps=lambda frame, step: frame.stack[-2:-1])
def _binary(view: Stepped) -> Verdict:
    left, right = view.before[-2:]
    if not (_is_container(left) or _is_container(right)):
        raise Unknown
    symbol, found = view.step.arg, before(view, left) if _is_container(left) else known(left)
    in_place = symbol.endswith("=") and isinstance(found, list | dict | set | deque)
    if in_place and symbol == "+=":
        other: Any = items_of(right)
    else:
        other = before(view, right) if _is_container(right) else known(right)
    wanted = _carried_out(BINARY[symbol], found, other)
    if in_place and view.after[-1] is not as_read(left):
        return differs("value on the stack", says(left), says(view.after[-1]))
    return _gives(wanted, view.after[-1]) or _deep(view, 1)


@about("COMPARE_OP")
def _compare(view: Stepped) -> Verdict:
    left, right = view.before[-2:]
    if not (_is_container(left) and _is_container(right)):
        raise Unknown
    return _gives(_carried_out(COMPARE[view.step.arg], contents(left), contents(right)), view.after[-1])


@about("CONTAINS_OP")
def _contains(view: Stepped) -> Verdict:
    item, container = view.before[-2:]
    if not _is_container(container):
        raise Unknown
    return _gives((Value(item) in contents(container)) is not bool(view.step.arg), view.after[-1])


@about("TO_BOOL", "GET_LEN")
def _of_size(view: Stepped) -> Verdict:
    if not _is_container(view.before[-1]):
        raise Unknown
    return _gives((bool if view.step.op == "TO_BOOL" else len)(contents(view.before[-1])), view.after[-1])


# -- methods -----------------------------------------------------------------------------------------------------------


def _receivers(frame: Any, step: Any) -> Stack:
    """The containers whose methods lie on the stack to be called."""
    count = (step.arg[0] if step.op == "CALL" else step.arg + 1) + 2
    return [value.receiver for value in frame.stack[-count:][:2] if type(value) is ConstantMethodVariable]


_NUMBERS = {"insert": (0,), "index": (1, 2), "rotate": (0,), "move_to_end": (1,), "popitem": (0,), "__getitem__": (0,)}
_ITERABLES = frozenset({"extend", "extendleft", "issubset", "issuperset", "isdisjoint", "union", "intersection", "difference",
                        "symmetric_difference", "update", "intersection_update", "difference_update",
                        "symmetric_difference_update"})  # fmt: skip


def _argument(view: Stepped, tracker: VariableTracker, method: str, place: int = 0, receiver: type[Any] = object) -> Any:
    """An argument as the real method wants it: an item, a number or something to walk."""
    if method in _ITERABLES:
        return before(view, tracker) if type(as_read(tracker)) in MAPPINGS else items_of(tracker)
    is_number = place in _NUMBERS.get(method, ()) or (method == "pop" and not issubclass(receiver, dict))
    return known(tracker) if is_number else Value(tracker)


@about("CALL", "CALL_KW", keeps=_receivers)
def _call(view: Stepped) -> Verdict:
    function, args, named = called(view)
    if type(function) is ConstantMethodVariable and _is_container(function.receiver):
        return _call_of_method(view, function, args, named)
    maker: Any = function.value if type(function) is ClassVariable else getattr(function, "function", None)
    if type(function) not in (ClassVariable, BuiltinVariable) or maker not in _MAKERS or named or len(args) > 1:
        raise Unknown
    if not args:
        return _gives(_carried_out(maker), view.after[-1])
    if maker is len:
        return _gives(len(contents(args[0])), view.after[-1])
    return _gives(_carried_out(maker, contents(args[0]) if _is_container(args[0]) else items_of(args[0])), view.after[-1])


_MAKERS: tuple[Any, ...] = (list, tuple, dict, set, frozenset, sorted, deque, OrderedDict, len)


def _call_of_method(view: Stepped, function: ConstantMethodVariable, args: Stack, named: dict[str, VariableTracker]) -> Verdict:
    found = before(view, function.receiver)
    name = function.name
    if hasattr(found, "default_factory") and name in ("__getitem__", "copy"):
        raise Unknown
    given = [_argument(view, tracker, name, place, type(found)) for place, tracker in enumerate(args)]
    if name == "update" and isinstance(found, dict):
        given.append({Value(ConstantVariable(key)): Value(value) for key, value in named.items()})
        outcome: Any = None
        for mapping in given:
            outcome = _carried_out(dict.update, found, mapping)
    else:
        options = {key: known(value) for key, value in named.items()}
        if options.get("key") is not None:
            raise Unknown  # a function of the program
        method = getattr(type(found), name, None)
        if method is None:
            raise Unknown  # of torch.Size, of a named tuple
        outcome = _carried_out(method, found, *given, **options)
    if isinstance(outcome, Mismatch):
        return outcome
    changed = unlike(found, contents(function.receiver))
    return changed or _gives(outcome, view.after[-1])
