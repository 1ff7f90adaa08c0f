"""The instructions that move values, load and store names and attributes, and compute, one tiny function each."""

from __future__ import annotations

import types
from typing import Any

import torch
from opcodes.opcode_table import OpcodeTable, X

TABLE = OpcodeTable()
shows = TABLE.shows
COUNT = 1
GOES = 2


class Holder:
    """Something with attributes."""

    def __init__(self) -> None:
        self.scale = 2.0
        self.extra: Any = None

    def times(self, x: Any) -> Any:
        """A method."""
        return x * self.scale


class Child(Holder):
    """A class that calls up."""

    def times(self, x: Any) -> Any:
        """Calls up in both forms."""
        return super().times(x) + super(Child, self).times(x)


@shows("LOAD_FAST", graphs=1, ops=1)
def loads_and_stores_locals(x):
    y = x + 1
    z = y
    return z, y


@shows("LOAD_CONST", graphs=1, ops=1)
def loads_constants(x):
    return x + 1, None, "text", (1, 2.5), 3j, b"bytes", ...


@shows("POP_TOP", graphs=1, ops=1)
def throws_values_away(x):
    x + 1
    "no docstring"
    return x


@shows("DELETE_FAST", graphs=1, ops=2)
def deletes_a_local(x):
    y = x + 1
    del y
    try:
        y  # noqa: F821
    except UnboundLocalError as error:
        return str(error), x * 2


@shows("LOAD_FAST_AND_CLEAR", graphs=1, ops=2)
def comprehends_over_a_name_in_use(x):
    n = 7
    rows = [n * x for n in range(2)]
    return rows, n


@shows("STORE_GLOBAL", graphs=1, ops=1, setup=lambda: globals().__setitem__("COUNT", 1), observe=lambda: COUNT)
def stores_a_global(x):
    global COUNT
    COUNT = COUNT + 1
    return x * COUNT


def _missing() -> bool:
    return "GOES" not in globals()


@shows("DELETE_GLOBAL", graphs=1, ops=1, setup=lambda: globals().__setitem__("GOES", 2), observe=_missing)
def deletes_a_global(x):
    global GOES
    y = x * GOES
    del GOES
    return y


@shows("LOAD_GLOBAL", graphs=1, ops=3)
def loads_globals_and_builtins(x):
    return torch.abs(x) + len(x), torch.nn.functional.relu(x), COUNT


@shows("STORE_DEREF", graphs=1, ops=2)
def stores_into_a_cell(x):
    total = x

    def add(n):
        nonlocal total
        total = total + n
        return total

    return add(1), add(2), total


@shows("DELETE_DEREF", graphs=1, ops=1, breaks=None)
def deletes_a_cell(x):
    value = x + 1

    def read():
        return value  # noqa: F821

    first = read()
    del value
    try:
        read()
    except NameError as error:
        return first, str(error)


@shows("LOAD_CLOSURE", graphs=1, ops=2)
def makes_a_closure(x):
    scale = 3

    def inner(y, z=scale):
        return y * scale + z

    return inner(x)


@shows("UNARY_OP", graphs=1, ops=4)
def computes_with_one(x):
    n = x.shape[0]
    return -x, +x, ~(x > 1), not n, -n, ~n, +n


@shows("BINARY_OP", graphs=1, ops=18)
def computes_with_two(x):
    n = x.shape[1]
    results = [x + n, x - n, x * n, x / n, x // n, x % n, x**n, x @ x.T, (x > 1) & (x < 4), (x > 1) | (x < 0), (x > 1) ^ (x > 2)]
    return results, (n << 2, n >> 1, n & 1, n | 4, n ^ 2, n**2, n // 2, n % 2, n / 2, "a" + "b", "ab" * n)


@shows("BINARY_OP", graphs=1, ops=7)
def computes_in_place(x):
    y = x.clone()
    z = y
    y += 1
    y -= 2
    y *= 3
    y /= 2
    y **= 2
    y //= 2
    y %= 5
    n = 5
    n <<= 1
    n |= 1
    n >>= 1
    n &= 7
    n ^= 2
    items = [1]
    alias = items
    items += [2]
    return y is z, y, n, alias


@shows("COMPARE_OP", X, 2, graphs=1, ops=6)
def compares(x, n):
    return x < n, x <= n, x == n, x != n, x >= n, x > n, n < 3, "a" < "b", (1, 2) == (1, 2), [1] != [1], 1 < n < 3


@shows("IS_OP", X, None, graphs=1, ops=1)
def asks_for_identity(x, other):
    y = x
    return y is x, other is None, other is not None, x is not None, x + 1


@shows("LOAD_ATTR", X, Holder(), graphs=1, ops=2)
def loads_attributes(x, holder):
    return x.T, x.shape, holder.scale, x.sum(), holder.times(x), holder.extra, x.dtype.is_floating_point


@shows("STORE_ATTR", X, Holder(), graphs=1, ops=2)
def stores_an_attribute(x, holder):
    holder.extra = x + 1
    holder.scale += 1
    return holder.extra * holder.scale


@shows("DELETE_ATTR", X, types.SimpleNamespace(a=1), graphs=1, ops=1)
def deletes_an_attribute(x, holder):
    del holder.a
    return x + 1, hasattr(holder, "a")


@shows("LOAD_GLOBAL", X, Child(), graphs=1, ops=4)
def calls_a_method_that_calls_up(x, child):
    return torch.abs(child.times(x))


TABLE.shows("LOAD_SUPER_ATTR", Child(), X)(Child.times)


@shows("FORMAT_VALUE", graphs=1, ops=1)
def formats(x):
    n, pi = x.shape[1], 3.14159
    return f"{n} {pi:.2f} {n!r:>4} {'a'!s}", f"{pi:{n + 3}.{n}}", x + 1


@shows("CONVERT_VALUE", graphs=1, ops=1)
def converts(x):
    word = "é"
    return f"{word!a} {word!r} {word!s}", x + 1


@TABLE.parameters()
def test_instruction(run):
    """The function holds the instruction, where this Python has it, and does what CPython does, without a break."""
    run()
