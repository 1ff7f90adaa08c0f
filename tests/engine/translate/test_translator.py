"""One program for each theme of the engine: values, containers, calls, control flow, breaks, side effects, guards.

PYTEST_DONT_REWRITE: the asserts of the programs are material.
"""

from __future__ import annotations

import contextlib
import functools
import logging
from collections import OrderedDict, defaultdict, namedtuple
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from programs.program_table import Programs
from torch import nn

import dynexplore

PROGRAMS = Programs()
program = PROGRAMS.add
X = torch.linspace(-1, 1, 6).reshape(2, 3)
Y = torch.ones(3, 3)
LOG: list[Any] = []
COUNT = 0
Pair = namedtuple("Pair", "left right")


# -- values and containers -------------------------------------------------------------------------------------------


@program(X, 3, graphs=1, ops=2, recompiles=0, calls=2)
def constants_and_numbers(x, n):
    scale = n**2 // 2 + len("abc") - (7 % 4)
    return x * scale + 0.5, scale, n > 2


@program(X, graphs=2, ops=[0, 1], recompiles=1, then=[(torch.ones(4, 3),), (torch.ones(5, 3),)])
def shapes_and_attributes(x):
    rows, columns = x.shape
    return x.reshape(columns, rows), x.dtype, x.device.type, x.numel() / rows, x.is_floating_point(), x.dim()


@program(X, graphs=1, ops=4, recompiles=0, calls=2)
def tuples_lists_and_slices(x):
    parts = [x[0], x[1]]
    parts.append(parts[0] + parts[1])
    first, *rest = parts
    return tuple(reversed(parts)), rest[::-1], parts[-2:], x[:, 1:]


@program(X, {"a": 1}, graphs=2, ops=[1, 1], recompiles=1, then=[(X, {"a": 2})])
def dicts(x, options):
    outputs = OrderedDict(value=x * options["a"])
    outputs.setdefault("more", []).append(x)
    counts = defaultdict(int)
    for name in ("a", "b", "a"):
        counts[name] += 1
    return outputs, dict(counts), {**options, "b": 2}, options.get("none")


@program(X, graphs=1, ops=6, recompiles=0)
def sets_and_ranges(x):
    sizes = {size for size in x.shape} | {7}
    return sum(x * n for n in range(1, 6, 2)), sorted(sizes), 3 in sizes


@program(X, graphs=1, ops=1, recompiles=0)
def strings(x):
    name = f"layer_{x.shape[0]:02d}"
    parts = name.upper().split("_")
    return x + len(name), "-".join(parts), "%s=%d" % (name, 3), name.startswith("lay")


@program(X, graphs=1, ops=3, recompiles=0)
def records(x):
    pair = Pair(x + 1, right=x - 1)
    return pair, pair.left * pair[1], pair._replace(left=x)


@dataclass
class Output:
    """What a model gives."""

    loss: Any
    hidden: Any = None


@program(X, graphs=1, ops=1, recompiles=0)
def dataclasses_made_inside(x):
    output = Output(x.sum())
    output.hidden = x * output.loss
    return output.hidden, output


# -- functions -------------------------------------------------------------------------------------------------------


def helper(x: Any, *args: Any, scale: float = 1.0, **kwargs: Any) -> Any:
    return x * scale + sum(args) + len(kwargs)


@program(X, graphs=1, ops=9, recompiles=0)
def stars_and_defaults(x):
    args, kwargs = (1, 2), {"scale": 3.0, "more": 4}
    return helper(x), helper(x, *args), helper(x, *args, **kwargs)


@program(X, graphs=1, ops=2, recompiles=0)
def closures_and_nonlocals(x):
    total = 0

    def add(n):
        nonlocal total
        total += n
        return total

    add(1), add(2)
    return x * total, (lambda y: y + total)(x)


@program(X, graphs=1, ops=6, recompiles=0)
def comprehensions_and_generators(x):
    def rows():
        yield from x

    return [row * 2 for row in rows()], {n: x[n] for n in range(2)}, sum(n for n in x.shape)


@program(X, graphs=1, ops=4, recompiles=0)
def builtins_over_sequences(x):
    rows = list(map(torch.sum, x))
    pairs = list(zip(rows, enumerate("ab"), strict=True))
    return pairs, any([False, True]), all(size > 1 for size in x.shape), max(x.shape), isinstance(x, torch.Tensor)


@program(X, graphs=1, ops=3, recompiles=0)
def partial_functions(x):
    double = functools.partial(torch.mul, other=2)
    return double(x), functools.reduce(lambda a, b: a + b, [x, x, x])


def recursive(x: Any, depth: int) -> Any:
    return x if depth == 0 else recursive(x + depth, depth - 1)


@program(X, graphs=1, ops=4, recompiles=0)
def recursion(x):
    return recursive(x, 4)


# -- objects and modules ---------------------------------------------------------------------------------------------


class Scaler:
    """A class of the program."""

    unit = 2

    def __init__(self, scale: float) -> None:
        self.scale = scale

    @property
    def whole(self) -> float:
        """A property."""
        return self.scale * self.unit

    @classmethod
    def double(cls) -> Scaler:
        """A class method."""
        return cls(2.0)

    def __call__(self, x: Any) -> Any:
        return x * self.whole

    def __len__(self) -> int:
        return 3


@program(X, Scaler(1.5), graphs=2, ops=[3, 3], recompiles=1, then=[(X, Scaler(2.5))])
def objects_of_a_class(x, scaler):
    return scaler(x) + Scaler.double()(x), len(scaler), hasattr(scaler, "none"), getattr(scaler, "scale", 0)


class Net(nn.Module):
    """A module with children of several kinds."""

    def __init__(self) -> None:
        super().__init__()
        self.layers = nn.ModuleList([nn.Linear(3, 3), nn.Linear(3, 3)])
        self.norm = nn.BatchNorm1d(3)
        self.scale = nn.Parameter(torch.ones(3))
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: Any) -> Any:
        """Changes a buffer."""
        self.calls += 1
        for layer in self.layers:
            x = torch.relu(layer(x))
        return self.norm(x) * self.scale


NET = Net()


@program(X, graphs=1, ops=7, recompiles=0, calls=2)
def a_module_in_training(x):
    return NET(x)


@program(X, graphs=1, ops=5, recompiles=0)
def named_parameters(x):
    names = [name for name, _ in NET.named_parameters()]
    return x * sum(parameter.sum() for parameter in NET.layers.parameters()), names


class Hooked(nn.Linear):
    """A layer whose hook changes its output."""


HOOKED = Hooked(3, 3)
HOOKED.register_forward_hook(lambda module, args, output: output * 2)


@program(X, graphs=1, ops=2, recompiles=0)
def hooks(x):
    return HOOKED(x)


# -- control flow ----------------------------------------------------------------------------------------------------


@program(X, 2, graphs=2, ops=[1, 2], recompiles=1, then=[(X, 5)])
def branches_on_numbers(x, n):
    if n > 3:
        return x * n
    elif n == 2:
        return x + n
    return x


@program(X, graphs=1, ops=6, recompiles=0)
def loops(x):
    n = 0
    while True:
        n += 1
        if n % 2:
            continue
        x = x + n
        if n > 5:
            break
    for _ in range(2):
        x = x * 2
    else:
        x = x - 1
    return x


@program(X, graphs=1, ops=2, recompiles=0)
def exceptions(x):
    try:
        {}["missing"]
    except KeyError as error:
        x = x + len(error.args)
    else:
        x = x * 100
    finally:
        x = x * 2
    return x


@program(X, graphs=1, ops=6, recompiles=0)
def blocks(x):
    with torch.no_grad(), contextlib.nullcontext(3) as n:
        y = x * n
    with torch.autocast("cpu", dtype=torch.bfloat16):
        z = y @ Y
    return z, torch.is_grad_enabled()


@program(X, graphs=1, ops=1, recompiles=0)
def assertions_and_matches(x):
    assert x.dim() == 2, "a matrix"
    match x.shape:
        case (2, n):
            return x * n
    return x


# -- graph breaks ----------------------------------------------------------------------------------------------------


@program(X, graphs=2, ops=[1, 1], breaks=["DX206"], recompiles=0, calls=2)
def printing(x):
    y = x + 1
    print("woo", y.shape)
    return y * 2


@program(X, graphs=2, ops=[1, 1], breaks=None, recompiles=0)
def logging_a_message(x):
    y = x + 1
    logging.getLogger("themes").warning("value %s", 3)
    return y * 2


@program(X, graphs=2, ops=[0, 1], breaks=["DX101"], recompiles=0)
def reading_a_number_out(x):
    return x * x.sum().item()


@program(X + 1, graphs=3, ops=[2, 1, 1], breaks=None, recompiles=0, then=[(-X - 1,)])
def branching_on_a_tensor(x):
    y = x * 2
    if y.sum() > 0:
        return y + 1
    return y - 1


@program(X, graphs=2, ops=[2, 1], breaks=None, recompiles=0)
def a_numpy_call(x):
    y = x + 1
    n = np.sum(y.detach().numpy())
    return y * float(n)


@program(X, graphs=2, ops=[2, 1], breaks=["DX107"])
def a_shape_that_depends_on_data(x):
    y = x * 2
    return y[y > 0].sum() + y.sum()


@dynexplore.disable
def left_alone(x: Any) -> Any:
    return x.sin()


@program(X, graphs=2, ops=[1, 1], breaks=["DX202"], recompiles=0)
def a_disabled_function(x):
    return left_alone(x + 1) * 2


@program(X, graphs=3, ops=[1, 2, 1], breaks=None)
def a_break_in_a_loop(x):
    for n in range(5):
        x = x + n
        print(n)
        x = x * 2
    return x


@program(X, graphs=2, ops=[3, 1], breaks=["DX206"], recompiles=0)
def a_break_inside_with(x):
    with torch.no_grad():
        y = x + 1
        print("inside")
        z = y * 2
    return z, torch.is_grad_enabled()


@program(X, graphs=2, ops=[1, 1], breaks=None, recompiles=0)
def a_break_inside_try(x):
    try:
        x = x + 1
        print("inside")
        x = x * 2
        raise ValueError("v")
    except ValueError as error:
        return x, str(error)
    finally:
        print("finally")


@program(X, graphs=2, ops=[1, 1], breaks=["DX206"], recompiles=0)
def values_on_the_stack(x):
    return [x + 1, x.sum(), print("in the middle"), x * 2]


def callee_that_prints(x: Any) -> Any:
    y = x + 1
    print("callee")
    return y * 2


@program(X, graphs=2, ops=[2, 2], breaks=1, recompiles=0)
def a_break_in_a_callee(x):
    y = x - 1
    z = callee_that_prints(y)
    return z + y


@program(X, graphs=2, ops=[1, 1], breaks=None)
def stopping_early(x):
    best = 0.0
    for step in range(10):
        loss = (x * step).abs().sum()
        if loss.item() > 3:
            break
        best = loss.item()
    return step, best


# -- side effects ----------------------------------------------------------------------------------------------------


@program(X, [1], {"a": 1}, graphs=1, ops=1, recompiles=0)
def mutated_arguments(x, items, table):
    items.append(x + 1)
    items[0] = "changed"
    table["b"] = items
    del table["a"]
    return items


def _count() -> Any:
    return COUNT


@program(X, graphs=1, ops=1, setup=lambda: globals().__setitem__("COUNT", 0), observe=_count)
def globals_and_attributes(x):
    global COUNT
    COUNT += 1
    holder = Scaler(1.0)
    holder.scale = COUNT
    holder.extra = x
    return holder.extra * holder.scale


@program(X.clone(), graphs=1, ops=4, recompiles=0)
def tensors_in_place(x):
    view = x[0]
    view.add_(1)
    x[:, 0] = 5
    x += 2
    torch.mul(x, 2, out=x)
    return view, x


@program(X, graphs=1, ops=5, breaks=None, recompiles=0)
def random_numbers(x):
    torch.manual_seed(3)
    noise = torch.rand_like(x) + torch.randn(3)
    return nn.functional.dropout(x, 0.5) + noise


@program(X, X, graphs=2, ops=[1, 1], recompiles=1, then=[(X, X.clone())])
def the_same_tensor_twice(x, y):
    return x is y, x + y


@PROGRAMS.parameters()
def test_program(run: Any) -> None:
    """The program does under the engine what it does without, in so many graphs, breaks and recompiles."""
    run()


@pytest.mark.plain("counts the rows of the table")
def test_there_are_forty() -> None:
    """One program for each theme."""
    assert len(PROGRAMS) >= 40
