"""Random programs on numpy arrays: arithmetic, reductions, views, writes and tensors on the same memory, at random places.

The idea: each drawn program is a straight line of statements over the names a, b (arrays, arguments), c, n (whatever came
out) and x (a tensor), where any statement may be followed by a `print`, which breaks the graph. Whatever it does, errors
included, the engine does the same: values to the last bit, dtypes, scalars where numpy gives scalars, layouts, mutations of
the arguments.
"""

from __future__ import annotations

import linecache
import warnings
from typing import Any

import numpy as np
import torch
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from properties.random_programs import ANY

from engine_checks import assert_same_as_eager

NAMES = st.sampled_from(["a", "b", "c", "n", "c", "n"])
ARRAYS = st.sampled_from(["a", "b", "c"])
NUMBERS = st.sampled_from(["2", "-1", "0.5", "3", "np.float32(1.5)", "np.int64(2)", "True", "0", "n", "c", "b"])
SYMBOLS = st.sampled_from(["+", "-", "*", "/", "//", "%", "**", "<", ">=", "==", "&", "@"])
UNARY = st.sampled_from(
    ["sin", "exp", "sqrt", "abs", "square", "sign", "floor", "isnan", "negative", "rint", "log1p", "copy", "asarray"]
)
REDUCTIONS = st.sampled_from(["sum", "mean", "max", "min", "std", "prod", "any", "all", "argmax", "cumsum"])
AXES = st.sampled_from(["", "axis=0", "axis=-1", "axis=1"])
KEYS = st.sampled_from(
    ["0", "-1", "1:", "::2", "..., 0", "None", "0, 1", ":, 1", "[0, 1]", "::-1", "5", "np.array([1, 0])", "c > 0"]
)
DTYPES = st.sampled_from(["np.float32", "np.int64", "'int8'", "bool", "float", "np.uint8", "a.dtype", "np.float16"])
VIEWS = st.sampled_from(
    ["T", "reshape(-1)", "ravel()", "flatten()", "swapaxes(0, -1)", "squeeze()", "copy()", "reshape(1, -1)", "transpose()"],
)


def _fill(template: str, **parts: st.SearchStrategy[str]) -> st.SearchStrategy[str]:
    return st.fixed_dictionaries(parts).map(lambda drawn: template.format(**drawn))


STATEMENTS = st.one_of(
    _fill("c = {m} {o} {v}", m=NAMES, o=SYMBOLS, v=NUMBERS),
    _fill("n = {v} {o} {m}", m=NAMES, o=SYMBOLS, v=NUMBERS),
    _fill("c = np.{f}({m})", f=UNARY, m=NAMES),
    _fill("n = {m}.{f}({k})", f=REDUCTIONS, m=NAMES, k=AXES),
    _fill("n = np.{f}({m}, keepdims=True)", f=st.sampled_from(["sum", "mean", "max"]), m=ARRAYS),
    _fill("c = {m}[{k}]", m=NAMES, k=KEYS),
    _fill("{l}[{k}] = {v}", l=NAMES, k=KEYS, v=NUMBERS),
    _fill("{l} {o}= {v}", l=NAMES, o=st.sampled_from(["+", "-", "*", "/"]), v=NUMBERS),
    _fill("c = {m}.{v}", m=ARRAYS, v=VIEWS),
    _fill("c = {m}.astype({d})", m=NAMES, d=DTYPES),
    _fill("c = np.{f}({m}.shape)", f=st.sampled_from(["zeros", "ones"]), m=ARRAYS),
    _fill("c = np.zeros(3, dtype={d})", d=DTYPES),
    _fill("c = np.where({m} > 0, {m}, {v})", m=NAMES, v=NUMBERS),
    _fill("c = np.maximum({m}, {v})", m=NAMES, v=NUMBERS),
    _fill("c = np.clip({m}, 0, {v})", m=NAMES, v=NUMBERS),
    _fill("c = np.{f}([{m}, {l}])", f=st.sampled_from(["stack", "concatenate", "array", "vstack"]), m=NAMES, l=NAMES),
    _fill("c = x.numpy()"),
    _fill("x = torch.from_numpy({m})", m=ARRAYS),
    _fill("x = torch.{f}({m})", f=st.sampled_from(["tensor", "as_tensor"]), m=NAMES),
    _fill("x = x + 1"),
    _fill("x.add_(1)"),
    _fill("n = type({m}), {m}.shape, {m}.dtype, {m}.ndim, {m}.size, isinstance({m}, np.ndarray)", m=NAMES),
    _fill("n = {m}.dtype == {d}, {m} is {l}, len({l})", m=NAMES, l=NAMES, d=DTYPES),
    _fill("n = [row for row in {m}]", m=ARRAYS),
    _fill("n = float({m}.sum())", m=NAMES),
    _fill("print({m}.shape)", m=ARRAYS),
    _fill("print('here')"),
)


@st.composite
def programs(draw: st.DrawFn) -> str:
    """The text of a function `program(np, torch, x, a, b)`."""
    lines = ["def program(np, torch, x, a, b):", "    c, n = a * 2, b.sum()"]
    for statement in draw(st.lists(STATEMENTS, min_size=2, max_size=9)):
        guarded = draw(st.integers(0, 3)) > 0
        if guarded:
            lines += ["    try:", f"        {statement}", "    except Exception as e:", "        n = type(e).__name__"]
        else:
            lines.append(f"    {statement}")
    lines.append("    return x, a, b, c, n")
    return "\n".join(lines) + "\n"


def function_of(text: str) -> Any:
    """Compile a program as if it stood in a file."""
    name = f"<drawn program {hash(text)}>"
    linecache.cache[name] = (len(text), None, text.splitlines(True), name)
    namespace: dict[str, Any] = {"np": np, "torch": torch}
    exec(compile(text.replace("np, torch, ", ""), name, "exec"), namespace)
    return namespace["program"]


MADE = st.sampled_from(["float32", "float64", "int32", "int64", "int8", "bool", "uint8", "float16"])
SHAPES = st.sampled_from([(2, 3), (3,), (1, 3), (2, 1)])


with warnings.catch_warnings():  # torch gives these two once in a process, and whoever comes first would get them
    warnings.simplefilter("ignore")
    torch.tensor([np.ones(1), np.ones(1)])
    torch.from_numpy(np.broadcast_to(np.ones(1), (2,)))


@settings(max_examples=60, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(programs(), MADE, MADE, SHAPES, SHAPES)
def test_a_random_program_does_the_same(text: str, first: str, second: str, shape: tuple[int, ...], other: tuple[int, ...]) -> None:
    """A random program on arrays equals eager in values, types, dtypes, layouts, mutations, exceptions and output."""
    a, b = (np.arange(np.prod(sizes)).reshape(sizes).astype(dtype) for sizes, dtype in ((shape, first), (other, second)))
    with np.errstate(all="ignore"):
        assert_same_as_eager(function_of(text), torch.arange(3.0), a, b, graphs=ANY)
