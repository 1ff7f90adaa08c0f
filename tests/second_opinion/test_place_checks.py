"""A wrong handler of locals, cells, globals, attributes or loops is flagged at its own step, and a right one never is."""

from __future__ import annotations

import functools
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
from second_opinion.planted import flagged_by_handler, recorded

import dynexplore
from dynexplore.engine import events as ev
from dynexplore.engine.translate import dispatch
from dynexplore.engine.variables.scalars.constant import ConstantVariable

SCALE = 3
OTHER = 5
COUNTS = {"calls": 0}
MORE = {"calls": 0, "others": 0}


class Point:
    """Made in the frame, or given."""

    def __init__(self, x: Any, y: Any) -> None:
        self.x = x
        self.y = y


class Slotted:
    """Its attributes live in places of their own."""

    __slots__ = ("left", "right")


# -- wrong handlers ----------------------------------------------------------------------------------------------------


def stores_under_another_name(frame: Any, step: Any, ctx: Any) -> None:
    owner, value = frame.pop(), frame.pop()
    owner.set_attribute(ctx, "other", value)


def stores_another_value(frame: Any, step: Any, ctx: Any) -> None:
    owner, _ = frame.pop(), frame.pop()
    owner.set_attribute(ctx, step.arg, ConstantVariable(1))


def forgets(frame: Any, step: Any, ctx: Any) -> None:
    frame.pop()


def forgets_an_attribute(frame: Any, step: Any, ctx: Any) -> None:
    frame.popn(2)


def deletes_nothing(frame: Any, step: Any, ctx: Any) -> None:
    """Leaves all as it is."""


def loads_x(frame: Any, step: Any, ctx: Any) -> None:
    name = "x" if step.arg == "y" else step.arg
    frame.push(frame.pop().get_attribute(ctx, name).read(ctx))


def loads_cos(frame: Any, step: Any, ctx: Any) -> None:
    name = "cos" if step.arg == "sin" else step.arg
    frame.push(frame.pop().get_attribute(ctx, name).read(ctx))


def loads_another_global(frame: Any, step: Any, ctx: Any) -> None:
    frame.push(frame.globals.load(ctx, {"SCALE": "OTHER", "COUNTS": "MORE"}.get(step.arg, step.arg)))


def stores_another_global(frame: Any, step: Any, ctx: Any) -> None:
    frame.globals.store(ctx, "OTHER", frame.pop())


def stores_in_another_cell(frame: Any, step: Any, ctx: Any) -> None:
    name = step.arg if frame.cells[step.arg].content is None else next(name for name in frame.cells if name != step.arg)
    frame.cells[name].store(ctx, frame.pop())


def stores_once(frame: Any, step: Any, ctx: Any) -> None:
    value = frame.pop()
    if frame.cells[step.arg].content is None:
        frame.cells[step.arg].store(ctx, value)


def loads_another_cell(frame: Any, step: Any, ctx: Any) -> None:
    name = next(name for name in frame.cells if name != step.arg)
    frame.push(frame.cells[name].load(ctx))


def skips_one(frame: Any, step: Any, ctx: Any) -> None:
    iterator = frame.stack[-1]
    iterator.next_item(ctx)
    item = iterator.next_item(ctx)
    if item is None:
        frame.pop()
        frame.jump(step.target)
    else:
        frame.push(item)


def stops_at_once(frame: Any, step: Any, ctx: Any) -> None:
    frame.pop()
    frame.jump(step.target)


def begins_at_the_second(frame: Any, step: Any, ctx: Any) -> None:
    iterator = frame.pop().iterate(ctx)
    iterator.next_item(ctx)
    frame.push(iterator)


def is_always(frame: Any, step: Any, ctx: Any) -> None:
    frame.popn(2)
    frame.push(ConstantVariable(True))


# -- programs ----------------------------------------------------------------------------------------------------------


def makes_a_point(x: torch.Tensor) -> Any:
    return Point(x, x * 2)


def changes_a_point(x: torch.Tensor, point: Point) -> Any:
    point.y = x * 2
    return x + 1


def fills_slots(x: torch.Tensor) -> Any:
    made = Slotted()
    made.left = x * 2
    return made.left + 1


def deletes_an_attribute(x: torch.Tensor, point: Point) -> Any:
    del point.x
    return x + 1


def reads_a_point(x: torch.Tensor, point: Point) -> Any:
    return x * point.y


def reads_what_it_made(x: torch.Tensor) -> Any:
    return makes_a_point(x).y + 1


def calls_sin(x: torch.Tensor) -> Any:
    return torch.sin(x)


def calls_the_method(x: torch.Tensor) -> Any:
    return x.sin() + 1


def uses_a_global(x: torch.Tensor) -> Any:
    return x * SCALE


def uses_a_global_object(x: torch.Tensor) -> Any:
    return x * len(COUNTS)


def sets_a_global(x: torch.Tensor) -> Any:
    global SCALE
    SCALE = 3
    return x + 1


def counts(x: torch.Tensor) -> Any:
    total, other = 1, 2

    def inner() -> torch.Tensor:
        nonlocal total
        total = 7
        return x * total * other

    return inner()


def unbinds(x: torch.Tensor) -> Any:
    y = x * 2
    del y
    return x + 1


def loops(x: torch.Tensor) -> Any:
    for n in (1, 2, 3):
        x = x * n
    return x


def loops_over_a_list(x: torch.Tensor, items: list[Any]) -> Any:
    for item in items:
        x = x + item
    return x


def counts_up(x: torch.Tensor) -> Any:
    for n in range(3):
        x = x + n
    return x


def asks_for_none(x: torch.Tensor) -> Any:
    y = x if x is not None else None
    return (y is x) + x


PLANTED: list[tuple[str, Any, Callable[..., Any], tuple[Any, ...]]] = [
    ("STORE_ATTR", stores_under_another_name, makes_a_point, ()),
    ("STORE_ATTR", stores_another_value, makes_a_point, ()),
    ("STORE_ATTR", forgets_an_attribute, makes_a_point, ()),
    ("STORE_ATTR", stores_another_value, changes_a_point, (Point(1, 2),)),
    ("STORE_ATTR", stores_another_value, fills_slots, ()),
    ("DELETE_ATTR", forgets, deletes_an_attribute, (Point(1, 2),)),
    ("LOAD_ATTR", loads_x, reads_a_point, (Point(1, 2),)),
    ("LOAD_ATTR", loads_x, reads_what_it_made, ()),
    ("LOAD_ATTR", loads_cos, calls_sin, ()),
    ("LOAD_ATTR", loads_cos, calls_the_method, ()),
    ("LOAD_GLOBAL", loads_another_global, uses_a_global, ()),
    ("LOAD_GLOBAL", loads_another_global, uses_a_global_object, ()),
    ("STORE_GLOBAL", stores_another_global, sets_a_global, ()),
    ("STORE_GLOBAL", forgets, sets_a_global, ()),
    ("STORE_DEREF", stores_in_another_cell, counts, ()),
    ("STORE_DEREF", stores_once, counts, ()),
    ("LOAD_DEREF", loads_another_cell, counts, ()),
    ("DELETE_FAST", deletes_nothing, unbinds, ()),
    ("FOR_ITER", skips_one, loops, ()),
    ("FOR_ITER", skips_one, counts_up, ()),
    ("FOR_ITER", stops_at_once, loops_over_a_list, ([1, 2],)),
    ("GET_ITER", begins_at_the_second, loops, ()),
    ("IS_OP", is_always, lambda x: x + (x is None), ()),
]


@pytest.mark.parametrize(
    ("op", "handler", "program", "more"), PLANTED, ids=[f"{row[0]}-{row[1].__name__}-{row[2].__name__}" for row in PLANTED]
)
def test_a_wrong_handler_is_flagged_at_its_step(op: str, handler: Any, program: Callable[..., Any], more: tuple[Any, ...]) -> None:
    """Whatever an instruction does to a place with a name: the first divergence stands at that very step."""
    more = tuple(Point(one.x, one.y) if isinstance(one, Point) else one for one in more)
    assert recorded(program, torch.ones(2), *more).divergences == ()
    more = tuple(Point(1, 2) if isinstance(one, Point) else one for one in more)
    dynexplore.reset()
    with dispatch.override(op, handler):
        recording = watched(program, torch.ones(2), *more)
    assert recording.divergences, "nothing is flagged"
    found = recording.divergences[0]
    step = recording.step_of(found)
    assert step is not None
    assert (found.where, step.op) == ("step", op)
    assert found.expected != found.actual


def watched(program: Callable[..., Any], *args: Any) -> Any:
    """The recording of a call that a wrong handler may make fail."""
    explainer = dynexplore.explain(program)
    with explainer as under_watch:
        try:
            under_watch(*args)
        except AttributeError:
            pass
        return under_watch.explanation.recording


def test_the_text_of_a_wrong_attribute() -> None:
    """Which attribute, what was to be there, what is there."""
    found, _ = flagged_by_handler("STORE_ATTR", stores_another_value, makes_a_point, torch.ones(2))
    assert found.sentence == "STORE_ATTR x: attribute x expected float32[2] cpu (x), found 1"


# -- right ones --------------------------------------------------------------------------------------------------------


class Base:
    """A property, a class attribute, a cached property, `__getattr__`, `__setattr__`."""

    size = 4

    def __init__(self, x: torch.Tensor) -> None:
        self.x = x
        self._hidden = 2

    @property
    def hidden(self) -> int:
        return self._hidden

    @hidden.setter
    def hidden(self, value: int) -> None:
        self._hidden = value * 2

    @functools.cached_property
    def computed(self) -> int:
        return self._hidden + 1

    def __getattr__(self, name: str) -> str:
        return name


class DeferredEvent(Base):
    """Every assignment goes through code of the program."""

    def __setattr__(self, name: str, value: Any) -> None:
        super().__setattr__(name, value)
        super().__setattr__("last", name)


@dataclass
class Record:
    """A dataclass."""

    x: Any
    n: int = 2


class Layer(torch.nn.Module):
    """A module that counts its calls and keeps what it saw."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(2, 2)
        self.calls = 0
        self.seen: list[Any] = []
        self.register_buffer("total", torch.zeros(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        self.last = x
        self.seen.append(x)
        self.total = self.total + x
        return self.linear(x) * self.calls


def objects(x: torch.Tensor) -> Any:
    """Objects in every style."""
    instances = [Base(x), DeferredEvent(x)]
    for one in instances:
        one.hidden = 5
        one.size += 1
        one.new = [x]
        del one.new
        one.x = one.x * one.computed
    record = Record(x)
    record.n += 1
    global OTHER
    OTHER = 5
    return instances[0].x + record.n + instances[1].size, instances[1].missing, [one.hidden for one in instances]


def closures(x: torch.Tensor) -> Any:
    """Cells that are shared, rebound and walked in comprehensions."""
    total = 0

    def add(n: int) -> int:
        nonlocal total
        total += n
        return total

    seen = [add(n) for n in range(3)]
    functions = [lambda n=n: n + total for n in range(2)]
    return x + total + sum(function() for function in functions), seen


def loops_of_all_kinds(x: torch.Tensor, items: list[Any]) -> Any:
    """Lists that grow while they are walked, breaks, else, zip, enumerate, reversed, dicts."""
    for item in items:
        if item < 3:
            items.append(item + 2)
    for n, (a, b) in enumerate(zip(items, reversed(items), strict=False)):
        x = x + n * a - b
    for key, value in {"a": 1, "b": 2}.items():
        x = x * len(key) + value
    while items:
        if items.pop() == 1:
            break
    else:
        x = x + 1
    return x, items, [n for n in range(4, 0, -2)]


@pytest.mark.parametrize(
    ("program", "more"),
    [(objects, ()), (closures, ()), (loops_of_all_kinds, ([1, 2],)), (sets_a_global, ()), (Layer(), ())],
    ids=["objects", "closures", "loops", "global", "module"],
)
def test_right_ones_are_clean(program: Callable[..., Any], more: tuple[Any, ...]) -> None:
    """Properties, `__setattr__`, dataclasses, modules, nonlocal, loops: nothing is flagged, and every step can be judged."""
    recording = recorded(program, torch.ones(2), *more)
    assert [one.sentence for one in recording.divergences] == []
    assert recording.of(ev.RunLeftOut) == () and recording.graphs
