"""A wrong handler that only changes what a container holds is flagged at its own step, and a right one never is."""

from __future__ import annotations

import dis
from collections import OrderedDict, defaultdict, deque
from collections.abc import Callable
from typing import Any

import pytest
import torch
from second_opinion.planted import flagged_by_handler, recorded

import dynexplore
from dynexplore.engine import events as ev
from dynexplore.engine.variables.containers.mapping import DictVariable
from dynexplore.engine.variables.containers.sequence import ListVariable, TupleVariable
from dynexplore.engine.variables.containers.set_ import SetVariable
from dynexplore.engine.variables.scalars.constant import ConstantVariable

NONE = ConstantVariable(None)


# -- wrong handlers ----------------------------------------------------------------------------------------------------


def appends_twice(frame: Any, step: Any, ctx: Any) -> None:
    item = frame.pop()
    frame.stack[-step.arg].items.extend([item, item])


def appends_in_front(frame: Any, step: Any, ctx: Any) -> None:
    item = frame.pop()
    frame.stack[-step.arg].items.insert(0, item)


def appends_something_else(frame: Any, step: Any, ctx: Any) -> None:
    frame.pop()
    frame.stack[-step.arg].items.append(ConstantVariable(7))


def forgets(frame: Any, step: Any, ctx: Any) -> None:
    frame.pop()


def swaps_key_and_value(frame: Any, step: Any, ctx: Any) -> None:
    value, key = frame.pop(), frame.pop()
    frame.stack[-step.arg].set_item(ctx, value, key)


def extends_backwards(frame: Any, step: Any, ctx: Any) -> None:
    items = frame.pop()
    frame.stack[-step.arg].items.extend(items.unpack(ctx)[::-1])


def keeps_the_old(frame: Any, step: Any, ctx: Any) -> None:
    mapping = frame.pop()
    target = frame.stack[-step.arg]
    for key, value in mapping.pairs(ctx):
        if target.find(ctx, key) is None:
            target.store(ctx, key, value)


def stores_at_the_front(frame: Any, step: Any, ctx: Any) -> None:
    _, container, value = frame.pop(), frame.pop(), frame.pop()
    container.set_item(ctx, ConstantVariable(0), value)


def stores_nothing(frame: Any, step: Any, ctx: Any) -> None:
    frame.popn(3)


def deletes_the_last(frame: Any, step: Any, ctx: Any) -> None:
    frame.pop()
    del frame.pop().items[-1]


def drops_a_pair(frame: Any, step: Any, ctx: Any) -> None:
    flat = frame.popn(2 * step.arg)
    made = DictVariable()
    for key, value in list(zip(flat[::2], flat[1::2], strict=True))[1:]:
        made.store(ctx, key, value)
    frame.push(made)


def turns_values_around(frame: Any, step: Any, ctx: Any) -> None:
    keys = frame.pop().unpack(ctx)
    made = DictVariable()
    for key, value in zip(keys, frame.popn(step.arg)[::-1], strict=True):
        made.store(ctx, key, value)
    frame.push(made)


def builds_an_empty_set(frame: Any, step: Any, ctx: Any) -> None:
    frame.popn(step.arg)
    frame.push(SetVariable())


def builds_a_list(frame: Any, step: Any, ctx: Any) -> None:
    frame.push(ListVariable(frame.popn(step.arg)))


def forgets_the_last(frame: Any, step: Any, ctx: Any) -> None:
    frame.push(TupleVariable(frame.pop().unpack(ctx)[:-1]))


def unpacks_into_the_wrong_name(frame: Any, step: Any, ctx: Any) -> None:
    first, last = step.arg
    items = frame.pop().unpack(ctx)
    middle = ListVariable(items[first + 1 : len(items) - last])
    for item in reversed([*items[:first], middle, *items[len(items) - last :]]):
        frame.push(item)


def is_never_in(frame: Any, step: Any, ctx: Any) -> None:
    frame.popn(2)
    frame.push(ConstantVariable(False))


def subscripts_the_first(frame: Any, step: Any, ctx: Any) -> None:
    _, container = frame.pop(), frame.pop()
    frame.push((container.items[0] if hasattr(container, "items") else next(iter(container.entries.values()))[1]).read(ctx))


def adds_in_front(frame: Any, step: Any, ctx: Any) -> None:
    right, left = frame.pop(), frame.pop()
    left.items[:0] = right.unpack(ctx)
    frame.push(left)


def makes_a_new_list(frame: Any, step: Any, ctx: Any) -> None:
    right, left = frame.pop(), frame.pop()
    frame.push(ListVariable(left.items + right.unpack(ctx)))


# -- programs ----------------------------------------------------------------------------------------------------------


def comprehension(x: torch.Tensor) -> Any:
    return [x + n for n in range(2)]


def set_comprehension(x: torch.Tensor) -> Any:
    return x * len({n % 2 for n in range(3)})


def dict_comprehension(x: torch.Tensor) -> Any:
    return {n: n + 10 for n in range(2)}, x + 1


def starred(x: torch.Tensor) -> Any:
    return [x, *(x * 2, x * 3)]


def merged(x: torch.Tensor) -> Any:
    return {**{"a": x, "b": x * 2}, **{"b": x * 3}}


def takes(**named: torch.Tensor) -> torch.Tensor:
    return sum(named.values())  # type: ignore[return-value]


def passed_on(x: torch.Tensor) -> Any:
    return takes(**{"a": x}, **{"b": x * 2})


def stored_item(x: torch.Tensor) -> Any:
    items = [x, x * 2]
    items[1] = x * 3
    return items


def stored_key(x: torch.Tensor) -> Any:
    found: dict[str, Any] = {}
    found["a"] = x * 3
    return found


def stored_in_an_argument(x: torch.Tensor, items: list[Any]) -> Any:
    items[1] = x * 3
    return x + 1


def deleted_item(x: torch.Tensor) -> Any:
    items = [x, x * 2, x * 3]
    del items[0]
    return items


def pairs(x: torch.Tensor) -> Any:
    return {x.shape[0]: x, "b": x * 2}


def named_pairs(x: torch.Tensor) -> Any:
    return {"a": x, "b": x * 2}


def members(x: torch.Tensor, n: int) -> Any:
    return x * len({n, n + 1, 5})


def two(x: torch.Tensor) -> Any:
    return (x, x * 2)


def frozen(x: torch.Tensor) -> Any:
    return (*[x, x * 2], x * 3)


def unpacked(x: torch.Tensor) -> Any:
    first, *rest = [x, x * 2, x * 3]
    return first, rest


def within(x: torch.Tensor) -> Any:
    names = {"a": 1, "b": 2}
    return x + 1 if "b" in names else x - 1


def by_key(x: torch.Tensor) -> Any:
    return named_pairs(x)["b"] + 1


def by_place(x: torch.Tensor, items: list[Any]) -> Any:
    return x + items[1]


def added(x: torch.Tensor) -> Any:
    items = [x]
    items += [x * 2]
    return items


def in_a_callee(x: torch.Tensor) -> Any:
    return [stored_item(x), stored_key(x)]


PLANTED: list[tuple[str, Any, Callable[..., Any], tuple[Any, ...]]] = [
    ("LIST_APPEND", appends_twice, comprehension, ()),
    ("LIST_APPEND", appends_in_front, comprehension, ()),
    ("LIST_APPEND", appends_something_else, comprehension, ()),
    ("LIST_APPEND", forgets, comprehension, ()),
    ("SET_ADD", forgets, set_comprehension, ()),
    ("MAP_ADD", swaps_key_and_value, dict_comprehension, ()),
    ("LIST_EXTEND", extends_backwards, starred, ()),
    ("DICT_UPDATE", keeps_the_old, merged, ()),
    ("DICT_MERGE", forgets, passed_on, ()),
    ("STORE_SUBSCR", stores_at_the_front, stored_item, ()),
    ("STORE_SUBSCR", stores_at_the_front, stored_key, ()),
    ("STORE_SUBSCR", stores_nothing, stored_key, ()),
    ("STORE_SUBSCR", stores_nothing, in_a_callee, ()),
    ("STORE_SUBSCR", stores_at_the_front, stored_in_an_argument, ([1, 2],)),
    ("DELETE_SUBSCR", deletes_the_last, deleted_item, ()),
    ("BUILD_MAP", drops_a_pair, pairs, ()),
    # a display of constant keys, until Python 3.14 builds it like another
    *([("BUILD_CONST_KEY_MAP", turns_values_around, named_pairs, ())] if "BUILD_CONST_KEY_MAP" in dis.opmap else []),
    ("BUILD_SET", builds_an_empty_set, members, (3,)),
    ("BUILD_TUPLE", builds_a_list, two, ()),
    ("LIST_TO_TUPLE", forgets_the_last, frozen, ()),
    ("UNPACK_EX", unpacks_into_the_wrong_name, unpacked, ()),
    ("CONTAINS_OP", is_never_in, within, ()),
    ("BINARY_SUBSCR", subscripts_the_first, by_key, ()),
    ("BINARY_SUBSCR", subscripts_the_first, by_place, ([1, 2],)),
    ("BINARY_OP", adds_in_front, lambda x: added(x)[0], ()),
    ("BINARY_OP", makes_a_new_list, lambda x: added(x)[0], ()),
]


@pytest.mark.parametrize(
    ("op", "handler", "program", "more"), PLANTED, ids=[f"{row[0]}-{row[1].__name__}-{row[2].__name__}" for row in PLANTED]
)
def test_a_wrong_handler_is_flagged_at_its_step(op: str, handler: Any, program: Callable[..., Any], more: tuple[Any, ...]) -> None:
    """Whatever an instruction does to a container: the first divergence stands at that very step."""
    if op == "BINARY_OP":
        right = dynexplore.engine.translate.dispatch.HANDLERS[op]
        wrong = handler
        handler = lambda frame, step, ctx: (wrong if step.arg == "+=" else right)(frame, step, ctx)
    found, step = flagged_by_handler(op, handler, program, torch.ones(2), *more)
    assert (found.where, step.op) == ("step", op)
    assert found.expected != found.actual


def test_what_is_said_names_place_and_nodes() -> None:
    """Two tensors of one shape are told apart by their nodes."""
    found, _ = flagged_by_handler("LIST_APPEND", appends_in_front, comprehension, torch.ones(2))
    assert found.sentence == "LIST_APPEND 2: item 0 of the list expected float32[2] cpu (add), found float32[2] cpu (add_1)"


# -- right ones --------------------------------------------------------------------------------------------------------


class Point:
    """An object that hashes by identity."""


def all_kinds(x: torch.Tensor, given: list[Any], named: dict[str, Any]) -> Any:
    """Containers in every style: nothing of it may be flagged."""
    given.append(x)
    given[0] = x * 2
    given.extend(n for n in range(2))
    named["new"] = given
    named.setdefault("z", x)
    items = [given, x, 1, 2.0, True]
    items.insert(-1, items[0])
    items += (x,)
    items *= 2
    items.remove(given)
    del items[3:5]
    items[1:2] = [x, x]
    order = sorted([3, 1, 2], reverse=True)
    order.sort(key=lambda n: n % 3)
    counts: defaultdict[str, list[int]] = defaultdict(list)
    for place, letter in enumerate("abca"):
        counts[letter].append(place)
    queue = deque([1, 2, 3], 3)
    queue.append(4)
    queue.extendleft([5])
    point = Point()
    by_object = {point: x, None: 1, (1, 2): x, 1.0: "one"}
    by_object[1] = "other"
    kinds = {1, 1.0, True, "a"} | frozenset({2}) - {3}
    kinds ^= {1}
    ordered = OrderedDict(a=1, b=2)
    ordered.move_to_end("a")
    nested = [[1], [2]]
    nested[0].append(nested)
    found = {key: value for key, value in ordered.items() if value} | {"q": queue.popleft()}
    _, *rest = items
    return items, order, dict(counts), by_object, kinds, found, rest, x + len(nested) + (2 in order), list(named), [*named.values()]


def test_containers_in_every_style_are_clean() -> None:
    """Arguments, comprehensions, slices, keys of all kinds, default factories, cycles."""
    recording = recorded(all_kinds, torch.ones(2), [1, 2], {"a": 1})
    assert [one.sentence for one in recording.divergences] == []
    assert recording.of(ev.RunLeftOut) == () and recording.graphs


def test_a_long_list_is_not_looked_through() -> None:
    """A list of thousands of items costs its copy, and is not flagged."""

    def program(x: torch.Tensor) -> Any:
        items = list(range(3000))
        items.append(1)
        return x + items[5]

    recording = recorded(program, torch.ones(2))
    assert recording.divergences == () and recording.graphs
