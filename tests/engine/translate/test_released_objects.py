"""A mutation that lets go of an object with an observed end: its `__del__` runs where eager runs it, before the next line.

Each row: what makes the argument `a`, and what the function does with it. The first part releases an object whose end is observed;
the second mutates the same container, which keeps it.
"""

from __future__ import annotations

import gc
import textwrap
from typing import Any

import pytest
import torch

import dynexplore
from engine_checks import graphs_compiled

SETUP = """
import weakref
from collections import *
from torch import nn
LOG = []
KEPT = None
class Ends:
    def __del__(self): LOG.append("end")
class Plain: pass
class Slots: __slots__ = ("o",)
class OwnList(list): pass
class OwnDict(dict): pass
def cell(o):
    def put(value):
        nonlocal o
        o = value
    return put
def suspended():
    try: yield 1
    finally: LOG.append("end")
def started():
    generator = suspended()
    next(generator)
    return generator
def with_attributes(owner, **attributes):
    for name, value in attributes.items():
        setattr(owner, name, value)
    return owner
def watched(kind):
    global KEPT
    made = [Plain()]
    KEPT = kind(made[0])
    return made
"""
RELEASED = {
    "list item": ("[Ends()]", "a[0] = None"),
    "list del": ("[Ends()]", "del a[0]"),
    "list pop": ("[Ends()]", "a.pop()"),
    "list pop first": ("[Ends(), 1]", "a.pop(0)"),
    "list clear": ("[Ends()]", "a.clear()"),
    "list slice": ("[Ends(), 1]", "a[:] = []"),
    "list del slice": ("[Ends(), 1]", "del a[:1]"),
    "list *=": ("[Ends(), 1]", "a *= 0"),
    "list remove": ("[Ends(), 1]", "a.remove(a[0])"),
    "list in list": ("[[Ends()]]", "a[0] = 1"),
    "tuple in list": ("[(Ends(),)]", "a[0] = 1"),
    "attribute of an item": ("[with_attributes(Plain(), o=Ends())]", "a[0] = 1"),
    "dict item": ("{1: Ends()}", "a[1] = None"),
    "dict del": ("{1: Ends()}", "del a[1]"),
    "dict pop": ("{1: Ends()}", "a.pop(1)"),
    "dict popitem": ("{1: Ends()}", "a.popitem()"),
    "dict clear": ("{1: Ends()}", "a.clear()"),
    "dict update": ("{1: Ends()}", "a.update({1: 2})"),
    "dict |=": ("{1: Ends()}", "a |= {1: 2}"),
    "dict key": ("{Ends(): 1}", "a.clear()"),
    "dict key popitem": ("{Ends(): 1}", "a.popitem()"),
    "OrderedDict": ("OrderedDict({1: Ends()})", "a[1] = 2"),
    "defaultdict": ("defaultdict(list, {1: Ends()})", "a[1] = 2"),
    "set clear": ("{Ends()}", "a.clear()"),
    "set pop": ("{Ends()}", "a.pop()"),
    "set -=": ("{Ends()}", "a -= set(a)"),
    "set &=": ("{Ends()}", "a &= set()"),
    "deque pop": ("deque([Ends()])", "a.pop()"),
    "deque item": ("deque([Ends()])", "a[0] = 1"),
    "deque clear": ("deque([Ends()])", "a.clear()"),
    "deque full": ("deque([Ends()], 1)", "a.append(1)"),
    "attribute": ("with_attributes(Plain(), o=Ends())", "a.o = 1"),
    "attribute del": ("with_attributes(Plain(), o=Ends())", "del a.o"),
    "setattr": ("with_attributes(Plain(), o=Ends())", "setattr(a, 'o', 1)"),
    "slot": ("with_attributes(Slots(), o=Ends())", "a.o = 1"),
    "vars clear": ("with_attributes(Plain(), o=Ends())", "a.__dict__.clear()"),
    "vars of it": ("[Ends()]", "a[0].__dict__.get('o'); a[0] = 1"),
    "vars item": ("with_attributes(Plain(), o=Ends())", "vars(a)['o'] = 1"),
    "attribute of an attribute": ("with_attributes(Plain(), n=with_attributes(Plain(), o=Ends()))", "a.n = 1"),
    "module": ("with_attributes(nn.Linear(1, 1), o=Ends())", "a.o = 1"),
    "class": ("with_attributes(type('K', (), {}), o=Ends())", "a.o = 1"),
    "class del": ("with_attributes(type('K', (), {}), o=Ends())", "del a.o"),
    "function": ("with_attributes(lambda: 1, o=Ends())", "a.o = None"),
    "defaults": ("lambda given=Ends(): 1", "a.__defaults__ = None"),
    "global": ("with_attributes(G, KEPT=Ends())", "global KEPT; KEPT = 1"),
    "global del": ("with_attributes(G, KEPT=Ends())", "global KEPT; del KEPT"),
    "cell": ("cell(Ends())", "a(1)"),
    "list iterator": ("iter([Ends()])", "list(a)"),
    "own list": ("OwnList([Ends()])", "a[0] = 1"),
    "own dict": ("OwnDict({1: Ends()})", "a[1] = 1"),
    "generator": ("[started()]", "a[0] = 1"),
    "weak set": ("watched(lambda o: weakref.WeakSet([o]))", "a[0] = 1; LOG.append(len(KEPT))"),
    "callback": ("watched(lambda o: weakref.ref(o, lambda _: LOG.append('end')))", "a[0] = 1"),
    "called reference": ("watched(weakref.ref)", "a[0] = 1; LOG.append(KEPT() is None)"),
    "finalize": ("watched(lambda o: weakref.finalize(o, LOG.append, 'end'))", "a[0] = 1"),
    "through a name": ("[Ends()]", "a[0], b = 1, a[0]; LOG.append(0); b = 1"),
}
KEPT = {
    "list item": ("[Ends(), 1]", "a[1] = 2"),
    "list append": ("[Ends()]", "a.append(1)"),
    "list swap": ("[Ends(), 1]", "a[0], a[1] = a[1], a[0]"),
    "list pop and append": ("[Ends()]", "b = a.pop(); LOG.append(0); a.append(b)"),
    "dict item": ("{1: Ends()}", "a[2] = 1"),
    "attribute": ("with_attributes(Plain(), o=Ends(), k=1)", "a.k = 2"),
    "set": ("{Ends()}", "a.add(1)"),
    "no `__del__`": ("[Plain(), Plain()]", "a[0] = 1"),
}


def _run(made: str, body: str, optimized: bool) -> list[list[Any]]:
    space: dict[str, Any] = {"__name__": __name__}
    exec(SETUP, space)
    space["G"] = _Globals(space)
    lines = f"def run(x, a):\n    y = x + 1\n{textwrap.indent(body, '    ')}\n    LOG.append(2)\n    return y * 2"
    exec(lines, space)
    run = dynexplore.optimize("eager")(space["run"]) if optimized else space["run"]
    logs = []
    gc.disable()  # it would hide a reference cycle, now and then
    try:
        for _ in range(3):
            given = eval(made, space)
            space["LOG"].clear()
            run(torch.ones(2), given)
            logs.append(list(space["LOG"]))
    finally:
        gc.enable()
    return logs


class _Globals:
    """Attributes that are the globals of the program."""

    def __init__(self, space: dict[str, Any]) -> None:
        object.__setattr__(self, "space", space)

    def __setattr__(self, name: str, value: Any) -> None:
        self.space[name] = value


@pytest.mark.parametrize("row", RELEASED)
def test_an_observed_end_comes_where_eager_has_it(row: str) -> None:
    """What ends with the mutation ends before the next line, in three calls."""
    expected = _run(*RELEASED[row], optimized=False)
    assert _run(*RELEASED[row], optimized=True) == expected
    assert graphs_compiled()


@pytest.mark.parametrize("row", KEPT)
def test_an_object_that_stays_breaks_nothing(row: str) -> None:
    """A mutation after which the container still holds the object is part of the graph."""
    expected = _run(*KEPT[row], optimized=False)
    assert _run(*KEPT[row], optimized=True) == expected
    assert not dynexplore.counters["graph_break"]
    assert graphs_compiled()
