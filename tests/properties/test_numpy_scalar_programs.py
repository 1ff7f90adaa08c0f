"""Random programs on numpy's scalars and arrays beside tensors of each dtype: who promotes whom, in which order, called how.

The idea: to torch a number of numpy's is sometimes a number and sometimes an array; which dtype comes out depends on both
sides, on the operator, on whether the tensor has dimensions. Each drawn program mixes tensors x, y with a scalar s, an array
a and what came of them (n, c); they come by several ways, with other values and other dtypes in the next call.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import strategies as st
from properties.fuzz_rounds import Passed, finds, run_drawn_for_long, run_slice
from properties.fuzzing import runs_on_a_gpu
from properties.two_worlds import World, function_of, graphs_of_same_worlds

from dynexplore.engine.translate import operations

TENSOR_DTYPES = ("float32", "float32", "float64", "float16", "bfloat16", "int64", "int32", "int8", "uint8", "bool", "complex64")
SCALARS = (
    "float64(2.5)", "float32(1.5)", "float16(0.1)", "float64(0.1)", "int64(3)", "int32(2)", "int8(-1)", "uint8(200)", "bool_(True)",
    "bool_(False)", "complex64(1 + 2j)", "float32(-2.0)", "float64('nan')", "int64(0)", "uint64(7)", "float64(1e300)",
    "longdouble(0.5)",
)
ARRAY_DTYPES = ("float32", "float64", "int64", "int32", "int8", "bool", "float16", "uint8")
WAYS = ("argument", "argument", "closure", "global", "attribute", "list")
HOW_READ = {"closure": "{n}_cell", "global": "{n}_global", "attribute": "box.{n}", "list": "box.items[{i}]"}


PUT = """
    def put(name, value):
        nonlocal s_cell, a_cell
        if name == "s":
            s_cell = value
        else:
            a_cell = value
"""


@dataclass(frozen=True)
class Values:
    """What x, y, s and a are in one call."""

    dtypes: tuple[str, str]
    shapes: tuple[tuple[int, ...], tuple[int, ...]]
    scalar: str
    array_dtype: str
    array_shape: tuple[int, ...]
    wants_gradient: bool


@dataclass(frozen=True)
class Case:
    """A program, the ways by which scalar and array come, and the values of each call."""

    body: tuple[str, ...]
    ways: tuple[str, str]
    calls: tuple[Values, ...]
    backend: str

    @property
    def text(self) -> str:
        """The source of the program."""
        pairs = list(zip("sa", self.ways, strict=True))
        read = [f"    {n} = {HOW_READ[way].format(n=n, i=i)}" for i, (n, way) in enumerate(pairs) if way != "argument"]
        arguments = ", ".join(["x", "y", *(n for n, way in pairs if way == "argument"), "box"])
        lines = [f"def program({arguments}):", *read, "    c, n = x, s"]
        for statement in self.body:
            lines += ["    try:", f"        {statement}", "    except Exception as e:", "        n = type(e).__name__"]
        lines.append("    return x, y, s, a, c, n, x * 2")
        inner = "\n".join(f"    {line}" for line in lines)
        return f"def outer():\n    s_cell = a_cell = None\n{PUT}\n{inner}\n    return program, put\nprogram, put = outer()\n"


class Box:
    """Where the program finds values as attributes and items."""

    def __init__(self) -> None:
        self.items: list[Any] = [None, None]


def _fill(template: str, **parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.fixed_dictionaries(parts).map(lambda drawn: template.format(**drawn))


_T = st.sampled_from(["x", "y", "x", "c"])
_N = st.sampled_from([
    "s", "s", "n", "a", "s * 2", "s + n", "a.sum()", "a[0]", "a.mean()", "a.max()", "np.float32(0.3)", "np.int64(2)",
    "np.array(2)", "np.array(1.5)", "abs(s)", "-s", "a[:1]", "np.bool_(True)", "s.item()", "float(s)", "int(s)",
])  # fmt: skip
_METHODS = st.sampled_from(["add", "mul", "pow", "div", "lt", "fill_", "add_", "mul_", "clamp_min"])
_SIZES = st.sampled_from(["s", "np.int64(3)", "(s, 2)", "n"])
_O = st.sampled_from(["+", "-", "*", "/", "//", "%", "**", "<", ">=", "==", "&", "@"])
STATEMENTS = st.one_of(
    _fill("c = {t} {o} {n}", t=_T, o=_O, n=_N),
    _fill("c = {n} {o} {t}", t=_T, o=_O, n=_N),
    _fill("n = {n} {o} {m}", n=_N, m=_N, o=_O),
    _fill("c = torch.{f}({t}, {n})", t=_T, n=_N,
          f=st.sampled_from(["add", "mul", "sub", "div", "pow", "eq", "lt", "fmod", "remainder", "clamp", "full_like", "maximum"])),
    _fill("c = torch.{f}({n}, {t})", t=_T, n=_N, f=st.sampled_from(["add", "mul", "pow"])),
    _fill("c = {t}.{f}({n})", t=_T, n=_N, f=_METHODS),
    _fill("{t} {o}= {n}", t=_T, n=_N, o=st.sampled_from(["+", "*", "-", "/", "**"])),
    _fill("n {o}= {t}", t=_T, o=st.sampled_from(["+", "*"])),
    _fill("{t}[0] = {n}", t=_T, n=_N),
    _fill("{t}[...] = {n}", t=_T, n=_N),
    _fill("c = {t}[{n}]", t=_T, n=_N),
    _fill("n = a[{n}]", n=_N),
    _fill("a[0] = {n}", n=_N),
    _fill("c = torch.where({t} > 0, {t}, {n})", t=_T, n=_N),
    _fill("c = torch.{f}({n})", n=_N, f=st.sampled_from(["tensor", "as_tensor", "scalar_tensor", "sqrt"])),
    _fill("c = torch.full((2,), {n})", n=_N),
    _fill("c = torch.tensor([{n}, {m}])", n=_N, m=_N),
    _fill("c = torch.add(x, y, alpha={n})", n=_N),
    _fill("c = torch.clamp({t}, min={n})", t=_T, n=_N),
    _fill("c = torch.nn.functional.{f}({t}, {n})", t=_T, n=_N, f=st.sampled_from(["leaky_relu", "dropout", "elu"])),
    _fill("c = {t}.sum(dim={n}, keepdim={m})", t=_T, n=st.sampled_from(["np.int64(0)", "s", "0"]),
          m=st.sampled_from(["np.bool_(True)", "True", "s"])),
    _fill("c = torch.{f}({n})", f=st.sampled_from(["zeros", "ones", "arange"]), n=_SIZES),
    _fill("c = {t}.{f}", t=_T, f=st.sampled_from(["reshape(np.int64(-1))", "repeat(np.int32(2))", "to(torch.float64)", "numpy()"])),
    _fill("n = np.{f}({m})", m=_N, f=st.sampled_from(["sqrt", "float32", "int64", "asarray", "abs", "sin"])),
    _fill("n = np.{f}({m}, {n})", m=_N, n=_N, f=st.sampled_from(["add", "maximum", "multiply", "power"])),
    _fill("n = type({n}).__name__, isinstance({n}, np.floating), isinstance({n}, (int, float))", n=_N),
    _fill("c = {t} + 1 if {n} else {t} - 1", t=_T, n=_N),
    _fill("c = {t} + [1, 2, 3][{n}]", t=_T, n=_N),
    _fill("c = {t} * {{1: 2, 2.5: 3}}.get({n}, 4)", t=_T, n=_N),
    _fill("n = f'{{{n}}} {{{n}!r}}'", n=st.sampled_from(["s", "n"])),
    _fill("print('here')"),
)
_SHAPES = st.sampled_from([(3,), (3,), (), (2, 3), (1,)])
_VALUES = st.builds(
    Values,
    st.tuples(*[st.sampled_from(TENSOR_DTYPES)] * 2), st.tuples(_SHAPES, _SHAPES), st.sampled_from(SCALARS),
    st.sampled_from(ARRAY_DTYPES), st.sampled_from([(3,), (3,), (2, 3), (1,), ()]), st.booleans(),
)  # fmt: skip


def cases(*backends: str) -> st.SearchStrategy[Case]:
    """Drawn cases for these backends."""
    return st.builds(
        Case, st.lists(STATEMENTS, min_size=1, max_size=4).map(tuple), st.tuples(st.sampled_from(WAYS), st.sampled_from(WAYS)),
        st.lists(_VALUES, min_size=1, max_size=3).map(tuple), st.sampled_from(backends),
    )  # fmt: skip


def world_of(case: Case) -> World:
    """One side: a namespace of its own, values of its own."""
    box = Box()
    names: dict[str, Any] = {"torch": torch, "np": np, "s_global": None, "a_global": None}
    function = function_of(case.text, names)
    now: list[Any] = []

    def prepare(values: Values) -> tuple[Any, ...]:
        tensors, scalar, array = made(values)
        now[:] = [*tensors, array]
        arguments: list[Any] = [*tensors]
        for index, (name, way, value) in enumerate(zip("sa", case.ways, (scalar, array), strict=True)):
            if way == "argument":
                arguments.append(value)
            elif way == "closure":
                names["put"](name, value)
            elif way == "global":
                names[f"{name}_global"] = value
            elif way == "attribute":
                setattr(box, name, value)
            else:
                box.items[index] = value
        return (*arguments, box)

    calls = [lambda values=values: prepare(values) for values in case.calls]
    return World(function, calls, lambda: now[:], lambda: [t for t in now[:2] if t.requires_grad])


def made(values: Values) -> tuple[list[torch.Tensor], Any, Any]:
    """The tensors, the scalar and the array of a call."""
    tensors = []
    for dtype, shape in zip(values.dtypes, values.shapes, strict=True):
        tensor = (torch.arange(6)[: int(np.prod(shape))].reshape(shape) + 1).to(getattr(torch, dtype))
        tensors.append(tensor.requires_grad_() if values.wants_gradient and tensor.is_floating_point() else tensor)
    array = (np.arange(int(np.prod(values.array_shape))).reshape(values.array_shape) % 3).astype(values.array_dtype)
    return tensors, eval(f"np.{values.scalar}", {"np": np}), array


def check(case: Case) -> Passed:
    """The case does under the engine what it does without.

    Not counted is what leaves nothing to compare without the engine: a place that is not there ends the use of a GPU, and torch
    refuses to copy a tensor of integers that was given a gradient.
    """
    if runs_on_a_gpu() and any(_TAKES_A_PLACE.match(statement) for statement in case.body):
        return Passed(0)
    try:
        with np.errstate(all="ignore"):
            graphs = graphs_of_same_worlds(lambda: world_of(case), case.backend, f"{case.text}\ncalls: {case.calls}")
    except RuntimeError as error:
        if "Autograd not support dtype" not in str(error):
            raise
        return Passed(0)
    return Passed(graphs, (case.backend, *set(case.ways)))


_TAKES_A_PLACE = re.compile(r"c = [xyc]\[")


@pytest.mark.parametrize(("backend", "count"), [("eager", 60), ("aot_eager", 12)])
def test_numpy_scalars_beside_tensors_do_the_same(backend: str, count: int) -> None:
    """Random programs that mix numpy's numbers and arrays with tensors equal eager in values, dtypes, types and exceptions."""
    print(run_slice(cases(backend), check, count))


@pytest.mark.soak
def test_the_fuzzer_finds_a_scalar_that_promotes_otherwise(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    """With the mend taken out, some program differs from eager."""
    monkeypatch.setattr(operations, "_refuse_other_promotion", lambda *given: None)
    difference = finds(cases("eager"), check)
    with capfd.disabled():
        print(f"\n{difference}")
    assert difference


@pytest.mark.soak
def test_numpy_scalars_beside_tensors_for_long(capfd: pytest.CaptureFixture[str]) -> None:
    """Thousands of such programs, from a seed that is printed."""
    with capfd.disabled():
        tally = run_drawn_for_long(cases("eager", "eager", "aot_eager"), check)
    assert not tally.failures, "\n\n".join(tally.failures)
