"""Which loads of a local only move its value; and that no guard then depends on the value, while each use still sees it."""

from __future__ import annotations

import functools
import io
import operator
from contextlib import redirect_stdout
from typing import Any

import pytest
import torch

import dynexplore
from dynexplore.engine.bytecode import moved_loads, read
from engine_checks import graphs_compiled


def moved(function: Any) -> list[str]:
    """The names of the locals that are loaded only to be moved, once for each load, in the order of the code."""
    parsed = read(function.__code__)
    return [parsed.steps[index].arg for index in sorted(moved_loads(parsed))]


@pytest.mark.plain("reads bytecode, and captures nothing")
def test_moves_and_uses() -> None:
    """A store and a call move; an operator, a subscript, a return and a container use."""

    def moves(f, a, b, c):
        d = a
        b, c = c, b
        f(a + 1, b, key=c)
        return [a, 1], (b,), {"k": c}, {1: a}

    def uses(f, a, b, c):
        f(a).b = b
        if c:
            return a
        return a[b], {c: 1}, f(*a, **b), f"{c}"

    assert moved(moves) == ["a", "c", "b", "b", "c"]
    assert moved(uses) == ["a"]  # only as the argument of the call


@pytest.mark.plain("reads bytecode, and captures nothing")
def test_a_branch_or_a_copy_in_between_is_a_use() -> None:
    """What happens to the value there is not followed."""

    def branches(f, a, b):
        f(a, b if f else 1)
        c = d = b
        return c, d

    assert not {"a", "b"} & set(moved(branches))


#: a program of `x`, `flag` and `other`, in which `flag` is moved and not used
MOVES = {
    "a local": "y = flag",
    "locals in turn": "y = flag; z = y; flag = z",
    "exchanged": "flag, other = other, flag",
    "deleted": "y = flag; del flag; del y",
    "an argument": "x = ignores(x, flag)",
    "a keyword": "x = ignores(x, second=flag)",
    "passed on": "x = passes_on(x, flag)",
    "to a method": "x = Box().method(x, flag)",
    "to a class method": "x = Box.of_class(x, flag)",
    "to a lambda": "x = (lambda first, second: first)(x, flag)",
    "to a local function": "def inner(first, second):\n        return first\n    x = inner(x, flag)",
    "to a generator": "x = next(yields(x, flag))",
    "bound to a cell": "x = binds(x, flag)",
}
#: programs that use the value, now or later
USES = {
    "returned": "y = flag\n    x = x, y",
    "one of many": "x = takes_all(x, flag, flag, name=flag)",
    "returned in a tuple": "x = x, (flag, other)",
    "returned in a dict": "x = {'a': flag, 'b': [flag]}, x",
    "read behind a move": "y = flag\n    x = x + 1 if y else x",
    "compared": "t = (flag, 1)\n    x = x, t == (other, 1), flag is t[0]",
    "as a key": "t = {}\n    t[flag] = 1\n    x = x, t",
    "unpacked": "a, b = (flag, other)\n    x = x, a, b, type(a)",
    "walked": "x = [x, *[repr(item) for item in [flag, other]]]",
    "over a break": "y = flag\n    print(y)\n    x = x, y, flag",
    "over a break and exchanged": "flag, other = other, flag\n    print()\n    x = x, flag, other",
    "overwritten before a break": "y = flag\n    flag = 5\n    print(y, flag)\n    x = x, y, flag",
    "deleted before a break": "y = flag\n    del flag\n    print(y)\n    x = x, y",
    "an argument of a break": "print(flag)\n    x = x + 1",
    "an argument that is used": "x = x, uses(flag)",
    "an argument of a builtin": "x = x, repr(flag), str(other), bool(flag), isinstance(flag, int)",
    "an argument of a tensor method": "x = x, x.new_full((2,), 1.0 if flag else 2.0)",
    "a wrong number of arguments": "try:\n        ignores(flag, x, x)\n    except TypeError as e:\n        x = x, str(e)",
    "formatted": "t = (flag, other)\n    x = x, '%s %s' % t, f'{t}'",
    "through a partial": "x = x, functools.partial(uses, flag)()",
    "through a closure": "x = x, gives(flag, other)()",
    "in an exception": "try:\n        raise ValueError(flag, other)\n    except ValueError as error:\n        x = x, error.args",
    "stored in an object": "box = Box()\n    box.value = flag\n    x = x, box.value",
    "stored in the caller's list": "OUT.append(flag)\n    OUT[:] = OUT[-1:]\n    x = x, list(OUT)",
    "hashed in a set": "x = x, sorted(map(repr, {flag, other}))",
}
VALUES = {
    "integers": [2, 3, 4, 5],
    "texts": ["a", "b", "c", "d"],
    "floats": [0.5, 1.5, float("inf"), -0.0],
    "truths": [True, False, True, False],
    "several kinds": [1, "a", None, 2.5],
    "equal numbers": [1, True, 1.0, 1],
    "dtypes": [torch.float32, torch.int8, torch.bool, torch.float64],
}
#: the kinds that `make test` runs; `make soak` runs the others, too
KINDS = [pytest.param(kind, marks=() if kind in ("integers", "texts") else pytest.mark.soak) for kind in VALUES]
PROGRAM = """
def program(x, flag, other):
    {body}
    return {result}
"""


def ignores(first, second=None):
    return first * 2


def takes_all(first, *rest, **named):
    return first * 2


def passes_on(first, second):
    return ignores(second=second, first=first)


def yields(first, second):
    yield first * 2


def binds(first, second):
    def inner():
        return second

    return first if inner else inner


def gives(first, second):
    return lambda: (first, second)


def uses(value):
    return [value, repr(value)]


class Box:
    def method(self, first, second):
        return first * 2

    @classmethod
    def of_class(cls, first, second):
        return first * 2


OUT: list[Any] = []


def program(body: str, result: str = "x") -> Any:
    """A fresh function with this body."""
    namespace = {**globals()}
    exec(PROGRAM.format(body=body, result=result), namespace)
    return namespace["program"]


def outcome(function: Any, x: torch.Tensor, flag: Any, other: Any) -> str:
    """What a call returns and prints, as text."""
    OUT.clear()
    printed = io.StringIO()
    with redirect_stdout(printed):
        result = function(x, flag, other)
    return repr((result, printed.getvalue()))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("move", MOVES)
def test_nothing_depends_on_a_value_that_is_only_moved(move: str, kind: str) -> None:
    """One graph for all values."""
    plain, compiled = (wrap(program(MOVES[move], "x * 3")) for wrap in (lambda f: f, dynexplore.optimize("eager", nopython=True)))
    x, values = torch.ones(2), VALUES[kind]
    for flag, other in zip(values, reversed(values), strict=True):
        assert outcome(compiled, x, flag, other) == outcome(plain, x, flag, other)
    assert graphs_compiled() == 1
    assert dynexplore.counters["stats"]["recompiles"] == 0


@pytest.mark.plain("compares values, which Python has, too")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("use", USES)
def test_each_use_sees_the_value_of_its_call(use: str, kind: str) -> None:
    """Now, later, in a callee, behind a break: as in Python, over calls with other values."""
    plain, compiled = program(USES[use]), dynexplore.optimize("eager")(program(USES[use]))
    x, values = torch.ones(2), VALUES[kind]
    for flag, other in [*zip(values, reversed(values), strict=True), (values[0], values[0])]:
        assert outcome(compiled, x, flag, other) == outcome(plain, x, flag, other)


def test_a_decorated_function_gets_its_values() -> None:
    """Whatever is not a plain Python function looks at its arguments."""
    cached = functools.lru_cache(uses)

    def f(x, flag):
        return x + 1, cached(flag), functools.reduce(max, (flag, 1)), max(flag, 2)

    compiled = dynexplore.optimize("eager")(f)
    for flag in (1, 2, 3, 1):
        assert repr(compiled(torch.ones(2), flag)) == repr(f(torch.ones(2), flag))
    assert graphs_compiled() >= 1


ITEMS_USED: dict[str, Any] = {
    "index": lambda x, n, s: x[n, :],
    "index and slice": lambda x, n, s: x[:n, n],
    "view": lambda x, n, s: x.new_zeros((n, 2)),
    "reshape": lambda x, n, s: x.reshape(*(2, 2)) * n,
    "cmp": lambda x, n, s: x + ((n, 1) == (1, 1)),
    "in": lambda x, n, s: x + (n in [1, 2]),
    "sum": lambda x, n, s: x + sum([n, 1]),
    "max": lambda x, n, s: x + max(n, 2),
    "sorted": lambda x, n, s: x + sorted([n, 2])[0],
    "f-string": lambda x, n, s: (x + 1, f"{(n, s)}"),
    "repr": lambda x, n, s: (x + 1, repr([n, s])),
    "join": lambda x, n, s: (x + 1, "-".join([s, "a"])),
    "percent format": lambda x, n, s: (x + 1, "%s %d" % (s, n)),
    "hash": lambda x, n, s: (x + 1, {(n, s): 1}),
    "dict": lambda x, n, s: (x + 1, {"k": n}["k"] + 1),
    "dict.get": lambda x, n, s: (x + 1, {"k": n}.get("k")),
    "set": lambda x, n, s: (x + 1, {n, 2}),
    "unpack": lambda x, n, s: (lambda a, b: x + a)(*(n, s)),
    "keywords": lambda x, n, s: (lambda a, b: x + a)(**{"a": n, "b": s}),
    "repeated": lambda x, n, s: (x + 1, [n] * 3),
    "add": lambda x, n, s: (x + 1, (n,) + (s,)),  # noqa: RUF005
    "is": lambda x, n, s: (x + 1, [n][0] is n, (s,)[0] is s),
    "bool": lambda x, n, s: x + bool([n]),
    "len": lambda x, n, s: x + len((n, s)),
    "iter": lambda x, n, s: [x + i for i in (n, 1)],
    "enumerate": lambda x, n, s: [(i, x + v) for i, v in enumerate([n, 2])],
    "zip": lambda x, n, s: [x + a * b for a, b in zip([n, 2], (1, n))],
    "map": lambda x, n, s: [x + a for a in map(int, [n, 2])],
    "slice": lambda x, n, s: (x + 1, [n, s, 3][0:2]),
    "tensor": lambda x, n, s: torch.tensor([n, 1]),
    "stack": lambda x, n, s: torch.stack([x, x * n]),
    "cat": lambda x, n, s: torch.cat([x] * n),
    "full": lambda x, n, s: torch.full((n, 2), n),
    "expand": lambda x, n, s: x[:1].expand([n, 2]),
    "split": lambda x, n, s: x.reshape(-1).split([n, 4 - n]),
    "pad": lambda x, n, s: torch.nn.functional.pad(x, (n, 1)),
    "set item": lambda x, n, s: operator.setitem(y := x.clone(), (n, 0), 5) or y,
    "isinstance": lambda x, n, s: x + isinstance((n,)[0], int),
    "type": lambda x, n, s: (x + 1, type([n][0])),
    "sort": lambda x, n, s: (x + 1, sorted([s, "b"], key=len)),
    "index of": lambda x, n, s: x + [3, n].index(n),
    "count": lambda x, n, s: x + [n, 1].count(1),
    "equal dicts": lambda x, n, s: x + ({"a": n} == {"a": 1}),
    "range": lambda x, n, s: [x + i for i in range(*(0, n))],
    "getattr": lambda x, n, s: x * getattr(x, *("shape",))[0] + n,
    "dtype": lambda x, n, s: x.to(*(torch.float64,)) * n,
    "nested": lambda x, n, s: (x + 1, [[n], (s, [n])]),
    "any": lambda x, n, s: x + any([n - 1, 0]),
    "not": lambda x, n, s: x + (not (n,)),
    "conditional": lambda x, n, s: x + 1 if (n,)[0] else x,
    "min with a key": lambda x, n, s: x + min((n, 3), key=lambda v: -v),
    "divmod": lambda x, n, s: x + divmod(*(7, n + 1))[1],
    "pow": lambda x, n, s: x + pow(*[n, 2]),
    "reversed": lambda x, n, s: (x + 1, list(reversed([n, s]))),
    "star list": lambda x, n, s: (x + 1, [*(n, s), n]),
    "store": lambda x, n, s: (lambda d: (d.__setitem__("q", [n]), x + d["q"][0])[1])({}),
    "einsum": lambda x, n, s: torch.einsum("ij,jk->ik", [x, x * n]),
    "where": lambda x, n, s: torch.where(x > n, *(x, -x)),
    "roll": lambda x, n, s: x.roll((n, 0), (0, 1)),
    "clamp": lambda x, n, s: x.clamp(*(0, n)),
    "norm": lambda x, n, s: x.sum(dim=[0, 1]) * n,
    "arange": lambda x, n, s: torch.arange(*(0, n)),
    "flip": lambda x, n, s: x.flip([0]) + n,
    "chunk": lambda x, n, s: x.chunk(*(2, 0))[0] * n,
    "tile": lambda x, n, s: x.tile((n, 1)),
    "rand": lambda x, n, s: torch.zeros(size=(n, 1)),
    "gather": lambda x, n, s: x.index_select(0, torch.tensor([n - 1 if n else 0])),
}  # fmt: skip
"""A container of values that were only moved is used: by an operator, a builtin function, a tensor, a method, a call."""


def seen(value: Any) -> Any:
    """A value with its types and, of tensors, their sizes."""
    if isinstance(value, torch.Tensor):
        return value.tolist(), value.dtype, tuple(value.shape)
    return [type(value), *map(seen, value)] if isinstance(value, list | tuple) else (repr(value), type(value))


@pytest.mark.parametrize("name", ITEMS_USED)
def test_a_container_is_used_with_the_values_of_its_call(name: str) -> None:
    """As in Python, over calls with other values, whole numbers beyond 32 bits among them where no size is made of them."""
    function = ITEMS_USED[name]
    compiled = dynexplore.optimize("aot_eager")(function)
    for n, s in [(1, "a"), (1, "a"), (2, "b"), (0, "cc"), (3, ""), *([(2**31, "a")] if name in ("tensor", "sum") else ())]:
        results = []
        for run in (function, compiled):
            try:
                results.append(seen(run(torch.arange(4.0).reshape(2, 2), n, s)))
            except Exception as error:
                results.append((type(error), str(error)[:80]))
        assert results[0] == results[1], (n, s)
    assert graphs_compiled() >= 1
