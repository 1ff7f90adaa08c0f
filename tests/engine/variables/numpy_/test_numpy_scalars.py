"""Scalars of numpy beside tensors: which dtype comes out is what eager says, in one graph where torch takes them for numbers."""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np
import pytest
import torch

import dynexplore
from engine_checks import assert_same_as_eager, graphs_compiled

NUMBERS = [np.float64(2.5), np.float32(0.1), np.float16(2), np.int64(3), np.int8(-1), np.uint8(3)]
DTYPES = [torch.float32, torch.float16, torch.bfloat16, torch.float64, torch.int32, torch.int8, torch.bool]


def beside_a_number(x, s):
    return x * s, s * x, torch.add(x, s), x < s


def beside_a_computed_number(x, a):
    return x * a.sum(), a[0] + x, x * a.max()


def made_of_it(s):
    return torch.tensor(s), torch.as_tensor(s)


def made_of_several(x, s):
    return x * 2, torch.tensor([s, s])


def made_of_several_kinds(x, s):
    return x * 2, torch.tensor([s, x]), torch.tensor([[x, x], [s, 1]]), torch.tensor([2.5, s]), torch.tensor((s, True))


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("scalar", NUMBERS, ids=repr)
def test_a_number_promotes_as_in_eager(scalar: Any, dtype: torch.dtype, backend: str) -> None:
    """float32 stays float32 beside np.float64, with and without dimensions."""
    for shape in ((3,), ()):
        assert_same_as_eager(beside_a_number, torch.ones(shape).to(dtype), scalar, backend=backend, graphs=1, breaks=0)


@pytest.mark.parametrize("scalar", [np.bool_(True), np.complex64(1 + 2j)], ids=repr)
def test_what_torch_takes_for_another_number(scalar: Any) -> None:
    """A bool of numpy is a float to torch, of a complex number it takes the real part: both are left to torch."""
    assert_same_as_eager(lambda x, s: (x * 2) * s, torch.ones(3), scalar, graphs=1, breaks=["DX412"])


@pytest.mark.parametrize("kind", [np.int64, np.int32, np.float32, np.bool_])
@pytest.mark.parametrize("dtype", [torch.int32, torch.float32, torch.int8], ids=str)
def test_a_computed_number_is_no_array(kind: Any, dtype: torch.dtype) -> None:
    """`x * a.sum()`: to torch the sum is a number, which does not make int64 of an int32."""
    assert_same_as_eager(beside_a_computed_number, torch.ones(3, dtype=dtype), np.ones(3, kind))


@pytest.mark.parametrize("scalar", [np.float64(1.5), np.float32(1.5), np.int32(3), np.float16(2)], ids=repr)
def test_a_tensor_made_of_it_has_its_dtype(scalar: Any) -> None:
    """`torch.tensor(np.float64(1.5))` is float64, where `torch.tensor(1.5)` is float32."""
    assert_same_as_eager(made_of_it, scalar, graphs=1, breaks=0)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_list_of_them(backend: str) -> None:
    """Their dtype is what torch makes of a list of such types, also beside Python's numbers and tensors."""
    assert_same_as_eager(made_of_several, torch.ones(2), np.float64(1.5), then=[(torch.ones(2), np.float16(2))], backend=backend,
                         breaks=0)
    for x in (torch.ones(()), torch.ones((), dtype=torch.float16), torch.ones((), dtype=torch.int64)):
        for number in (np.float64(1.5), np.float32(1.5), np.int8(2), np.bool_(True)):
            assert_same_as_eager(made_of_several_kinds, x, number, backend=backend)


def test_a_list_says_what_it_refuses_first() -> None:
    """A number too large comes before the truth value of numpy that is none to torch."""

    def fn(x: torch.Tensor, s: Any) -> Any:
        try:
            return torch.tensor([int(s), np.bool_(True)])
        except (TypeError, ValueError) as error:
            return x + 1, str(error)

    assert_same_as_eager(fn, torch.ones(2), np.float64(1e300), then=[(torch.ones(2), np.float64(1))])


def test_what_numpy_computes_is_a_new_object_in_each_call() -> None:
    """Two calls give two objects, as operators of numpy do; within one call it is one object, wherever it is held."""

    def fn(x: torch.Tensor, s: Any) -> Any:
        total = s + s
        return x * 2, total, [total, -s]

    compiled = dynexplore.optimize("eager")(fn)
    for run in (fn, compiled):
        calls = [run(torch.ones(2), np.float32(1.5)) for _ in range(3)]
        assert [total for _, total, _ in calls] == [3.0] * 3
        assert all(type(total) is np.float32 and total is held[0] for _, total, held in calls)
        assert len({id(one) for _, total, held in calls for one in (total, held[1])}) == 6
    assert dynexplore.counters["stats"]["graphs"] == 1


def test_a_number_that_a_function_of_numpy_computed_is_a_new_one_in_each_call() -> None:
    """`np.sqrt(s)` twice gives two objects, as it does without the engine; so does what is read of a known array."""

    def program(x: torch.Tensor, s: Any) -> Any:
        return x * 2, np.sqrt(s), np.array([1.5, 2.5])[1], np.array([1.5, 2.5]).sum(), np.greater(s, 1)

    number = np.float64(2.5)
    compiled = dynexplore.optimize("eager")(program)
    (_, *first), (_, *second), (_, *plain) = [fn(torch.ones(2), number) for fn in (compiled, compiled, program)]
    assert first == second == plain and list(map(type, first)) == list(map(type, plain))
    assert [a is b for a, b in zip(first, second, strict=True)] == [a is b for a, b in zip(first, plain, strict=True)]
    assert graphs_compiled() == 1


def divides_by_zero(x: torch.Tensor) -> torch.Tensor:
    return x + float(np.float64(1) / np.float64(0))


def overflows(x: torch.Tensor) -> Any:
    with warnings.catch_warnings(record=True) as warned:
        warnings.simplefilter("always")
        grown = np.float32(3e38) * np.float32(3)
    return x * 2, float(grown), [(str(one.message), os.path.basename(one.filename)) for one in warned]


@pytest.mark.parametrize("fn", [divides_by_zero, overflows])
def test_arithmetic_that_warns_is_left_to_the_program(fn: Any) -> None:
    """A warning of numpy about numbers that are known while tracing names the program's line, and comes in each call."""
    with warnings.catch_warnings(record=True) as expected:
        warnings.simplefilter("always")
        wanted = [fn(torch.ones(2)) for _ in range(2)]
    optimized = dynexplore.optimize("eager")(fn)
    with warnings.catch_warnings(record=True) as found:
        warnings.simplefilter("always")
        assert [str(optimized(torch.ones(2))) for _ in range(2)] == [str(value) for value in wanted]
    assert [(str(one.message), one.filename) for one in found] == [(str(one.message), one.filename) for one in expected]
    assert dynexplore.counters["stats"]["graphs"]


@pytest.mark.parametrize("value", [True, False])
@pytest.mark.parametrize("other", [np.float64(2.5), np.bool_(False), 3, True], ids=repr)
def test_numpys_one_true_and_one_false_are_no_operand_given_back(other: Any, value: bool) -> None:
    """A comparison that answers as its operand did is still asked: all of numpy's truth values are one of two objects."""

    def compared(x, array, other):
        top = array.max()
        return x * 2, top == other, top > other, other < top, top & (top != other)

    for again in (value, not value, value):
        assert_same_as_eager(compared, torch.ones(3), np.array([again, again]), other)


SIZES = (
    "x.new_zeros(n)", "x.new_zeros((n, 2))", "x.new_zeros([n])", "x.new_zeros(n + 1)", "torch.zeros(n) + x[0]", "x[:n]", "x[n:]",
    "x[1:n]", "x.narrow(0, 1, n)", "x.expand(n, 12)", "x.repeat(n)", "x.new_full((n,), 2.0)", "torch.arange(n) + x[0]",
    "F.pad(x, (0, n))", "x.topk(n)[0]", "x.roll(n)", "x * n",
)  # fmt: skip


@pytest.mark.parametrize("kind", [np.int64, *(pytest.param(kind, marks=pytest.mark.soak) for kind in (np.int32, np.uint8))])
@pytest.mark.parametrize("expression", SIZES)
def test_a_size_that_differs_in_each_call_is_one_graph(expression: str, kind: Any) -> None:
    """A size, an end of a slice or a factor: comparing the dtypes that come out does not fix it."""
    namespace: dict[str, Any] = {"torch": torch, "F": torch.nn.functional}
    exec(f"def f(x, n): return {expression}", namespace)
    compiled, x = dynexplore.optimize("eager")(namespace["f"]), torch.randn(12)
    for number in (4, 7, 5, 9):
        assert torch.equal(compiled(x, kind(number)), namespace["f"](x, kind(number)))
    assert graphs_compiled() == 1
