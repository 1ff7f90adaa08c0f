"""Descriptors in unusual places: slots under another name or in another class, data descriptors that a frame assigns to a class or
to its metaclass, and operators of C types that come before the reflected methods of the other operand.
"""

from __future__ import annotations

import collections
from typing import Any

import pytest
import torch

import dynexplore
from engine_checks import graphs_compiled

SETUP = """
from collections import *
class A:
    __slots__ = ("a", "z")
A.b = A.a
class B(A):
    __slots__ = ("__m",)
    c = A.a
    def __init__(self): self.__m = 4
    def m(self): return self.__m
class S:
    __slots__ = ("w",)
    v = A.a
class M(type): pass
class C(metaclass=M):
    attr = True
    def __init__(self): self.x = 1
class Data:
    def __get__(self, instance, cls=None): return "data"
    def __set__(self, instance, value): SEEN.append(value)
class NonData:
    def __get__(self, instance, cls=None): return "no data"
SEEN = []
class R(UserDict):
    def __ror__(self, other): return 5
    def __ior__(self, other): return 6
    def __radd__(self, other): return 7
class D(dict):
    def __ror__(self, other): return 5
class K:
    def keys(self): return ["q"]
    def __getitem__(self, key): return 2
    def __ror__(self, other): return 8
"""

SLOTS = (
    "o = A(); o.b = 1; r = o.a", "o = A(); o.a = 1; r = o.b", "o = A(); o.b = 1; del o.a; r = hasattr(o, 'b')",
    "o = B(); o.c = 3; r = o.a, o.b, o.m()", "o = S(); o.w = 2; r = o.v", "o = S(); o.v = 2; r = o.w", "o = S(); del o.v",
    "o = A(); r = o.z", "o = A(); o.z = 1; del o.z; r = o.z", "o = S(); r = hasattr(o, 'v')",
)  # fmt: skip
ASSIGNED = (
    "M.attr = property(lambda self: False); r = C.attr; del M.attr; r = r, C.attr",
    "M.attr = Data(); r = C.attr; C.attr = 5; r = r, C.attr, SEEN; del M.attr",
    "M.attr = NonData(); r = C.attr; del M.attr",
    "o = C(); C.x = property(lambda self: 9); r = o.x; del C.x; r = r, o.x",
    "o = C(); C.x = Data(); r = o.x; o.x = 3; del C.x; r = r, o.x, SEEN",
    "o = C(); C.x = NonData(); r = o.x; del C.x; r = r, o.x",
    "o = C(); C.x = property(lambda self: 9); o.x = 3", "o = C(); C.x = property(lambda self: 9); del o.x",
)  # fmt: skip
IN_PLACE = (
    "d = {1: 2}; d |= R({3: 4}); r = d", "d = {1: 2}; r = d | R({3: 4})", "d = defaultdict(int); d |= R({3: 4}); r = d",
    "d = OrderedDict(); d |= R({3: 4}); r = d", "d = {1: 2}; d |= D({3: 4}); r = d", "d = {1: 2}; r = d | D({3: 4})",
    "d = [1]; d += R(); r = d", "d = {1: 2}; d |= K(); r = d", "d = {1: 2}; r = d | K()", "d = {1}; d |= K(); r = d",
    "d = deque([1]); d += R(); r = d", "d = R(); d |= {1: 2}; r = d", "d = Counter(a=1); d |= R({3: 4}); r = d",
    "d = {1: 2}; d |= 5", "d = {1: 2}; d |= A()", "d = {1: 2}; e = d; d |= R({3: 4}); r = e is d",
)  # fmt: skip
STRUCTURES = (
    "r = time.struct_time(range(9))", "r = time.struct_time(range(9), {'tm_zone': 'x'}).tm_zone", "r = time.struct_time(range(5))",
    "r = time.struct_time()", "r = time.struct_time(sequence=range(9))", "r = os.terminal_size((1, 2, 3))",
    "r = os.stat_result(range(12), {}).st_atime", "r = os.terminal_size((1, 2))",
    "r = time.struct_time('123')", "r = time.struct_time(None)",
    "t = time.gmtime(0); r = copy.copy(t).tm_zone", "t = time.gmtime(0); r = copy.deepcopy(t).tm_zone",
    "r = time.struct_time([1] * 9)[3]",
    "t = os.stat_result([[i] for i in range(10)], {'st_atime': [1.0]}); u = copy.deepcopy(t); r = u.st_atime, t == u, u[0] is t[0]",
    "t = os.stat_result(list(range(10)), {'st_atime': 1.5}); r = copy.copy(t).st_atime, pickle.loads(pickle.dumps(t)).st_atime",
)  # fmt: skip


@pytest.mark.parametrize("statements", [*SLOTS, *ASSIGNED, *IN_PLACE, *STRUCTURES])
def test_a_descriptor_or_operator_in_an_unusual_place(statements: str) -> None:
    """Each of these statements, in two calls: the answer or the exception of plain Python."""
    outcomes: list[Any] = []
    for engine in (lambda fn: fn, dynexplore.optimize("eager")):
        names: dict[str, Any] = {"collections": collections}
        exec(SETUP, names)
        exec(f"import copy, os, pickle, time\ndef program(x):\n    x = x + 1; r = None\n    {statements}\n    return x, r\n", names)
        program = engine(names["program"])
        for _ in range(2):
            try:
                outcomes.append(repr(program(torch.ones(2))[1]))
            except (TypeError, AttributeError) as error:
                outcomes.append(f"{type(error).__name__}: {error}")
            names["SEEN"].clear()
    assert outcomes[:2] == outcomes[2:]
    assert graphs_compiled() > 0
