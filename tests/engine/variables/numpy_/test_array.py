"""numpy arrays in traced code: `x.numpy()`, arrays as arguments, numpy's functions on them, and back to torch."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from programs.program_table import Programs

import dynexplore
from dynexplore.views.headline import cause_of
from engine_checks import CountingBackend, assert_same_as_eager

PROGRAMS = Programs()
program = PROGRAMS.add
X = torch.arange(6.0).reshape(2, 3) / 10
A = np.arange(6.0, dtype=np.float32).reshape(2, 3) - 2
WHOLE = np.arange(-3, 3, dtype=np.int32)


@program(X, graphs=1, ops=4)
def through_numpy_and_back(x):
    return torch.from_numpy(np.sin(x.numpy()) + 1) * 2


@program(A, graphs=1, ops=9)
def an_array_in_and_an_array_out(a):
    return np.cos(a) * 2, a[1:] - a[:1], -a, abs(a), a @ a.T


@program(A, graphs=1, ops=7)
def scalars_are_no_arrays(a):
    total, first, most = a.sum(), a[0, 0], np.argmax(a)
    kinds = [type(total) is np.float32, isinstance(first, np.ndarray), isinstance(most, np.int64), type(a) is np.ndarray]
    return total, first, most, a.mean(axis=0), (a > 1).all(), a.sum(keepdims=True), kinds


@program(WHOLE, graphs=1, ops=13)
def dtypes_of_whole_numbers(a):
    return a / 2, a * 1.5, a + np.int8(1), np.sqrt(abs(a)), a.mean(), a.sum(), a > 0, a**2, a // 2, a % 3, a.astype(np.int8) + 1


@program(np.arange(4, dtype=np.int8), graphs=1, ops=9)
def dtypes_of_bytes(a):
    return np.sqrt(a), a + 1, a * np.float32(2), a * np.float64(2), a.std(), a.astype(float), a / a.astype("int16").max()


@program(A, graphs=1, ops=8)
def writing_to_an_argument(a):
    a[0] = 5
    a += 1
    a[:, 1] *= np.float32(2)
    a[a > 7] = 0
    return a, a.T


@program(X, A, graphs=1, ops=4)
def shared_memory(x, a):
    seen = x.numpy()
    seen[0] = 7
    other = torch.from_numpy(a)
    other.add_(1)
    return x + 1, seen, a, other, torch.as_tensor(a), torch.tensor(a)


@program(A, graphs=1, ops=3)
def a_scalar_is_a_copy(a):
    first = a[0, 0]
    a[0, 0] = 9
    return first, a[0, 0]


@program(A, graphs=1, ops=5)
def what_an_array_is(a):
    about = a.shape, a.ndim, a.size, a.dtype, a.itemsize, a.strides, len(a), a.dtype == np.float32, a.dtype == "int64"
    return a * 2, about, np.shape(a), [row.sum() for row in a]


@program(A, graphs=1, ops=8)
def arrays_in_lists(a):
    b = a * 2
    return np.stack([a, b]), np.concatenate((a, b), axis=1), np.where(a > 0, a, b), np.maximum(a, 0), np.vstack([a, b[:1]])


@program(A, graphs=1, ops=11)
def arrays_that_are_filled(a):
    out, ones = np.zeros(3), np.ones(2, dtype=np.float32)
    for place in range(2):
        out[place] = a[place].sum()
    ones += 1
    ones *= a[:, 1]
    full = np.empty((2, 2))
    full.fill(a.max())
    return out, ones, full


@program(X, graphs=1, ops=1)
def a_new_array_and_a_tensor_on_it(x):
    made = np.ones((2, 3), dtype=np.float32)
    tensor = torch.from_numpy(made)
    tensor.add_(x)
    return made, tensor


@program(A, graphs=1, ops=2, breaks=None)
def a_view_of_a_new_array_is_written(a):
    made = np.zeros(4)
    view = made[1:]
    view[0] = a[0, 0]
    return made, view


@program(A, np.array([1, 0]), np.int64(1), graphs=1, ops=7)
def subscripts(a, places, place):
    return a[places], a[place], a[None, ..., 0], a[:, ::2], a[-1, 1:], a[places[0:1], 1]


@program(A, graphs=1, ops=12)
def layouts(a):
    turned = a.T
    views = turned.reshape(3, 2), a.reshape(-1), a.ravel(), a.swapaxes(0, 1), np.expand_dims(a, 0), a.squeeze()
    return turned.ravel(), turned.copy(), np.copy(turned), turned * 2, a.flatten(), turned.flatten(), views


@program(A, graphs=1, ops=17)
def methods(a):
    about = a.max(), a.min(axis=0), a.prod(), a.std(ddof=1), a.cumsum(), a.clip(1, 3), a.round(1), a.all(), a.any(axis=1)
    return about, a.argmax(axis=1), a.dot(a.T), a.trace(), a.take([0, 1]), a.repeat(2), np.linalg.norm(a), np.sort(a, axis=1)


@program(A, graphs=1, ops=13)
def arithmetic_of_scalars(a):
    total = a.sum()
    both = np.array([total, a.mean(), 2.0])
    made = total + 1, total / 2, np.sqrt(total), total > 3, -total, total * a, abs(total), 1 / total, total**2
    return made, np.float64(total), both


@program(A, X, graphs=1, ops=4)
def tensors_of_arrays(a, x):
    y = np.asarray(x) + 1, torch.tensor(a.sum()), torch.as_tensor(a, dtype=torch.float64)
    return y, torch.tensor(a.T), torch.tensor(a, dtype=torch.int64), torch.asarray(a)


@program(A, X, graphs=1, ops=5)
def tensors_of_arrays_on_a_named_device(a, x):
    turned = torch.tensor(a.T.copy(), device=None)
    return torch.tensor(a, device=x.device, dtype=torch.bool), torch.as_tensor(a, device="cpu"), x + turned.T


@program(WHOLE, graphs=1, ops=5)
def an_array_repeated_without_memory(a):
    spans = np.broadcast_to(a[:, None], (6, 2))
    a[0] = 100
    return spans.reshape(12) + 1, torch.tensor(spans)


@program(WHOLE, graphs=2, ops=[1, 1], breaks=None)
def an_array_that_may_not_be_written_to_leaves(a):
    b = a + 1
    return np.broadcast_to(b, (2, 6)), b * 2


class Statistics(torch.nn.Module):
    """A module that keeps an array beside its parameters."""

    def __init__(self) -> None:
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)
        self.scale = np.ones(3, dtype=np.float32)

    def forward(self, x):
        y = self.layer(x)
        seen = y.detach().numpy()
        self.scale *= 2
        return y * torch.from_numpy(np.tanh(seen) * self.scale), seen.mean()


@program(A, A, graphs=1, ops=2)
def one_array_twice(a, b):
    b += 1
    return a is b, a * b


@program(torch.ones(2, requires_grad=True), graphs=1, ops=1, breaks=["DX417"])
def a_tensor_that_needs_a_gradient(x):
    y = x * 2
    return y.detach().numpy(), y.numpy()


@program(A, graphs=4, ops=[1, 1, 1, 1], breaks=None)
def what_is_left_to_python(a):
    b = a * 2
    c = b + np.random.rand() * 0
    return c[::-1], c[a > 0], float(c.sum()), c.tolist(), np.broadcast_to(c, (2, 2, 3))


@program(WHOLE, graphs=1, ops=1, breaks=None)
def whole_numbers_divided_by_zero(a):
    with np.errstate(all="ignore"):
        return a // (a * 0), 1 // a


@program(WHOLE, graphs=1, ops=1, breaks=None)
def an_integer_to_a_negative_power(a):
    b = a + 1
    return b**-1


@program(np.arange(3.0)[::-1], graphs=1, ops=1, breaks=None)
def an_array_walked_backwards(a):
    return a * 2


@program(np.array(["a", 1], dtype=object), graphs=0, breaks=None)
def an_array_of_objects(a):
    return a + a


@program(np.broadcast_to(np.arange(3.0), (2, 3)), graphs=1, ops=1, breaks=None)
def an_array_that_cannot_be_written(a):
    return a * 2


@program(np.arange(3, dtype=np.uint16), graphs=0, breaks=None)
def a_dtype_that_torch_barely_has(a):
    return a + 1


@PROGRAMS.parameters()
def test_program(run):
    """The program does under the engine what it does without, in as many graphs as expected."""
    run()


@pytest.mark.filterwarnings("ignore:__array_wrap__")
def test_a_tensor_and_an_array() -> None:
    """Between a tensor and an array numpy computes, and torch makes a tensor of the result."""

    def mixed(x, a):
        return x @ a.T, x + a, x * a

    backend = CountingBackend()
    for expected, actual in zip(mixed(X, A), dynexplore.optimize(backend)(mixed)(X, A), strict=True):
        assert type(actual) is torch.Tensor and torch.equal(actual, expected)
    assert len(backend.graphs) == 1 and backend.ops == [4]


def test_arrays_that_are_one_object_later() -> None:
    """What was traced with two arrays does not answer for one array given twice, nor for two in the same memory."""
    base = np.ones(4)

    def change(a, b):
        a += 1
        return a * b, a is b

    cases = [(base, base), (base[:3], base[1:]), (base[1:], base[:3])]
    for backend in ("eager", "aot_eager"):
        assert_same_as_eager(change, np.ones(4), np.ones(4), then=cases, backend=backend, breaks=None)


@pytest.mark.parametrize("backend", ["aot_eager", "inductor"])
def test_compilers_see_operators_of_torch(backend: str) -> None:
    """The same programs, traced by compilers: values up to rounding; types, dtypes and shared memory as they are."""
    assert_same_as_eager(through_numpy_and_back, X, graphs=1, backend=backend)
    runs = [an_array_in_and_an_array_out, scalars_are_no_arrays, writing_to_an_argument, layouts, methods, arithmetic_of_scalars]
    for run in runs:
        assert_same_as_eager(run, A, backend=backend, breaks=None)
    assert_same_as_eager(dtypes_of_whole_numbers, WHOLE, graphs=1, backend=backend)
    assert_same_as_eager(dtypes_of_bytes, np.arange(4, dtype=np.int8), graphs=1, backend=backend)


def test_a_module_with_an_array() -> None:
    """An attribute that is an array is written to in place, call after call."""
    torch.manual_seed(0)
    assert_same_as_eager(Statistics(), X, graphs=1, calls=3)


def test_errors_that_numpy_raises() -> None:
    """Where numpy is told to raise, it does."""

    def divide(a):
        return a / (a - a)

    with np.errstate(all="raise"):
        assert_same_as_eager(divide, A, graphs=0, breaks=["DX207"])
    with np.errstate(all="ignore"):
        assert_same_as_eager(divide, A, graphs=1)


TO_NUMBERS = {
    "item": lambda array: array.max().item(),
    "float": lambda array: float(array.max()),
    "int": lambda array: int(array.max()),
    "item of 0-d": lambda array: np.asarray(array.max()).item(),
    "float of one element": lambda array: float(array[:1][0]),
    "float of many": lambda array: float(array),
    "index": lambda array: [1, 2, 3][array.max() * 0],
}


@pytest.mark.parametrize("captured", [False, True])
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int8", "int32", "int64", "uint8", "bool"])
@pytest.mark.parametrize("name", TO_NUMBERS)
def test_an_element_as_a_number(name, dtype, captured) -> None:
    """`float(array.max())` is `x.max().item()` in terms of arrays: a break of the same kind, or a symbol; errors are numpy's."""

    def function(array):
        number = TO_NUMBERS[name](array + array)
        return number, type(number), np.ones(3, dtype="float32") * number

    arrays = [np.array(values).astype(dtype) for values in ([1.5, -2, 3], [0, 7.25, 1], [2, 2, 2])]
    with dynexplore.config.patch(capture_scalar_outputs=captured, log_level="ERROR"):
        assert_same_as_eager(function, arrays[0], then=[(array,) for array in arrays[1:]])


def test_converting_an_element_breaks_as_a_tensor_does() -> None:
    """The reason is that a number is needed, whether of an array or of a tensor; its remedy captures both."""

    def function(x):
        low, high = x.numpy().min(), x.numpy().max()
        return (x - float(low)) / float(high)

    assert_same_as_eager(function, X, graphs=2, breaks=["DX101"])
    with dynexplore.config.patch(capture_scalar_outputs=True):
        assert_same_as_eager(function, X, graphs=1, breaks=[])


@pytest.mark.parametrize(
    ("function", "operation"),
    [
        (lambda x: x * float(x.numpy().sum()), "float() of a numpy number"),
        (lambda x: x * int(x.numpy()[0, 1]), "int() of a numpy number"),
        (lambda x: x * x.numpy().max().item(), "item() of a numpy number"),
        (lambda x: x * x.numpy()[:1, :1].item(), "ndarray.item()"),
    ],
)
def test_a_report_calls_a_numpy_value_so(function: Any, operation: str) -> None:
    """An array is a tensor in the graph; the reason of a break speaks of what the program has."""
    (broke,) = dynexplore.explain(function, X).recording.breaks
    assert cause_of(broke) == f"converting a numpy value to a Python number ({operation})"


def test_sizes_that_change() -> None:
    """Arrays of many lengths make two graphs."""
    others = [(np.ones(size),) for size in range(3, 8)]
    assert_same_as_eager(
        lambda a: (np.sin(a) + 1, a.sum(), a[1:], len(a), a.shape), np.ones(2), then=others, graphs=2, recompiles=1
    )


def test_a_list_that_lives_across_a_break_beside_an_array() -> None:
    """A list of the program is an argument of numpy's operators as a list, whatever else the engine knows of it."""

    def program(a):
        rows = [row for row in a]
        dynexplore.graph_break()
        return a + rows, len(rows)

    assert_same_as_eager(program, A, graphs=range(1, 3))
