"""Calls of torch that are no plain operators: questions about tensors, constructors, functions of TorchScript."""

from __future__ import annotations

import importlib
import warnings
from typing import Any

import numpy as np
import pytest
import torch
from programs.program_table import Programs

import dynexplore
from engine_checks import CountingBackend, assert_same_as_eager

PROGRAMS = Programs()
program = PROGRAMS.add
X = torch.arange(6.0).reshape(2, 3).requires_grad_()
LAYER = torch.nn.Linear(3, 3)


@program(X, graphs=1, ops=2)
def questions_about_dtype_and_size(x):
    y = x + 1 if torch.is_floating_point(x) and torch.is_floating_point(input=x) else x
    asked = torch.is_complex(x), torch.is_conj(x), torch.is_neg(x), torch.is_signed(x), torch.is_inference(x), torch.numel(x)
    return y * torch.numel(x), asked, torch.result_type(x, 1), torch.is_same_size(x, y)


@program(X, graphs=1, ops=7)
def tensors_made_the_old_way(x):
    made = torch.Tensor([1, 2]), torch.FloatTensor([1.5]), torch.LongTensor([1, 2]), torch.DoubleTensor([[1], [2]])
    return made, torch.Tensor(2, 3).shape, torch.Tensor(x.size()).shape, torch.FloatTensor(x.shape).shape


@torch.compiler.nested_compile_region
def nested_region(x, *, scale=2.0):
    return x.sin() * scale, LAYER(x)


class _Block(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 3)
        self.calls = 0

    @torch.compiler.nested_compile_region
    def forward(self, x):
        self.calls += 1
        return self.layer(x).relu()


BLOCKS = torch.nn.Sequential(_Block(), _Block())


@program(X, graphs=1, breaks=0)
def nested_compile_regions(x):
    for block in BLOCKS:
        block.calls = 0
    first, second = nested_region(x, scale=3.0)
    return nested_region(first + second)[0], BLOCKS(x), [block.calls for block in BLOCKS]


@program(X, graphs=1, ops=4)
def comparisons_by_their_methods(x):
    return x.__eq__(1), torch.Tensor.__ge__(x, x * 2), x.__lt__(2.5)


@program(X, graphs=1, ops=0)
def new_tensors_of_a_size_or_of_data(x):
    sized = x.new(x.size()).shape, x.new(torch.Size([4, 1])).shape, x.new(2, 3).shape
    return sized, x.new([1, 2]), x.new((1, 2))


@program(torch.ones(3), graphs=1, ops=3)
def a_tensor_of_tensors(x):
    return torch.tensor([x.sum(), x.mean()]), torch.tensor([[x[0], 2.0]], dtype=torch.float64)


REFUSED = {
    "more than one element": lambda x: torch.tensor([x, x]),
    "no element": lambda x: torch.tensor([[x[:0]], [x[:1]]]),
    "floats as integers": lambda x: torch.tensor([x.sum(), 1.0], dtype=torch.int64),
    "a complex number as a real one": lambda x: torch.tensor([x.sum() * 1j], dtype=torch.float32),
}


@pytest.mark.parametrize("make", REFUSED.values(), ids=REFUSED)
def test_a_tensor_of_tensors_that_cannot_be_read_out_is_refused(make):
    """torch's reference, which stands in the graph for torch.tensor, stacks them or casts them."""

    def fn(x):
        y = x * 2
        try:
            return make(y)
        except (ValueError, TypeError, RuntimeError) as error:
            return str(error), y + 1

    assert_same_as_eager(fn, torch.ones(3))


@program(X, graphs=1, ops=3)
def tensors_of_a_range(x):
    return torch.tensor(range(3)), torch.LongTensor(range(x.shape[1])), torch.FloatTensor(range(2))


@program(X.detach(), graphs=1, ops=27)
def distributions_that_validate_their_arguments(x):
    chosen = torch.distributions.Categorical(logits=x)
    coin = torch.distributions.Bernoulli(probs=x.sigmoid())
    return chosen.entropy(), coin.log_prob(torch.ones(2, 3)), chosen.probs, isinstance(type(chosen).logits, property)


@program(X, graphs=1, ops=4)
def tensors_of_a_range_like_another_one(x):
    return x.new_tensor(range(x.shape[1])) * 2, torch.as_tensor(range(1, 6, 2)) + 1, torch.asarray(range(2))


@program(X, graphs=0, breaks=1)
def a_range_is_no_size(x):
    return x.view(range(2, 4))


@program(torch.arange(4.0).reshape(2, 2), graphs=1, ops=3)
def matmul_has_no_form_in_place(x):
    y = x + 1
    z = y
    z @= torch.tensor([[0.0, 1.0], [2.0, 3.0]])
    return y, z, y is z


@program(X, graphs=2, ops=2, breaks=3)
def objects_of_torch_in_c_are_used_for_real(x):
    y = x + 1
    generator = torch.Generator()
    generator.manual_seed(3)
    return y * torch.rand(2, 3, generator=generator)


@torch.jit.script_if_tracing
def scripted_if_tracing(x: torch.Tensor) -> Any:
    return x + 1


def unscripted(x: torch.Tensor, y: float = 2.0) -> torch.Tensor:
    return torch.relu(x) * y


with warnings.catch_warnings():
    warnings.simplefilter("ignore", DeprecationWarning)  # newer versions of torch advise against TorchScript
    scripted = torch.jit.script(unscripted)


@program(torch.ones(3), graphs=1, ops=5)
def functions_of_torchscript(x):
    return scripted_if_tracing(x), scripted(x), scripted(x, y=3.0)


@PROGRAMS.parameters()
def test_program(run):
    """The program does under the engine what it does without, in as many graphs as expected."""
    run()


@pytest.mark.lenses
def test_torchs_mark_for_traces_that_are_not_strict() -> None:
    """`torch._dynamo.nonstrict_trace` makes a call one node, whatever stands in the function; gradients flow through it."""
    decorators = importlib.import_module("torch._dynamo.decorators")

    @decorators.nonstrict_trace
    def scaled(x: torch.Tensor, others: list[torch.Tensor], factor: int) -> tuple[torch.Tensor, list[torch.Tensor]]:
        dynexplore.graph_break()
        return x * factor + others[0], [other + 1 for other in others]

    def program(x: torch.Tensor) -> torch.Tensor:
        first, others = scaled(x, [x, x + 1], factor=3)
        return first.sum() + others[1].sum()

    for inner in ("eager", "aot_eager"):
        backend = CountingBackend(inner)
        x = torch.ones(2, requires_grad=True)
        dynexplore.optimize(backend)(program)(x).backward()
        assert x.grad is not None
        assert x.grad.tolist() == [5, 5]
        assert len(backend.graphs) == 1


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_dropout_that_drops_nothing_gives_its_argument(backend: str) -> None:
    """In eval mode, and of no share: the very tensor, so that a later write to the result is one to the argument."""

    def run(x: Any, share: float, training: bool) -> Any:
        y = torch.nn.functional.dropout(x, share, training)
        y.add_(1)
        return y is x, x * 2

    shares = [(0.5, False), (0.0, True), (1.0, True), (0, True), (0.25, False)]
    calls = [(torch.ones(3), share, training) for share, training in shares]
    assert_same_as_eager(run, *calls[0], then=calls[1:], backend=backend, breaks=0)


def with_a_complex_number(x, number):
    y = x.sin()
    return y * number, y + number.conjugate(), abs(number)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_complex_number_that_has_no_text(backend: str) -> None:
    """What FX cannot write down as a number, an infinite or undefined part, is left to Python."""
    inf, nan = float("inf"), float("nan")
    for number in (1 + 2j, complex(1, inf), complex(-inf, 2), complex(nan, 0), 1j, np.complex64(complex(1, inf))):
        assert_same_as_eager(with_a_complex_number, torch.ones(2), number, backend=backend)


MADE_OF_AN_INTEGER = {
    "tensor": lambda x, n: torch.tensor(n),
    "tensor of a list": lambda x, n: torch.tensor([[n], [1]]),
    "tensor of another dtype": lambda x, n: torch.tensor((n, 2.5), dtype=torch.float64),
    "as_tensor": lambda x, n: torch.as_tensor([n], dtype=torch.float64),
    "asarray": lambda x, n: torch.asarray(n),
    "new_tensor": lambda x, n: x.new_tensor([n]),
    "new": lambda x, n: x.new([n, 1]),
    "Tensor": lambda x, n: torch.Tensor([n]),
    "LongTensor": lambda x, n: torch.LongTensor((n, n)),
}


@pytest.mark.parametrize("name", MADE_OF_AN_INTEGER)
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_an_integer_that_varies_is_data_whole(name: str, backend: str) -> None:
    """Torch's constructors keep 32 bits of an integer that a compiler traces; the tensor has all of them."""
    make = MADE_OF_AN_INTEGER[name]

    def program(x, n):
        return x + 1, make(x, n)

    counting = CountingBackend(backend)
    compiled = dynexplore.optimize(counting)(program)
    for n in (3, 5, 2**31, -(2**31) - 1, 2**53 + 1, -(2**63), 7):
        (_, expected), (_, made) = program(X, n), compiled(X, n)
        assert made.dtype == expected.dtype and torch.equal(made, expected), n
    assert counting.graphs


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_data_that_no_graph_can_hold_is_left_to_python(backend: str) -> None:
    """A number of numpy that Python has no number for, beside others in a list, breaks the graph where the tensor is made."""

    def program(x, number):
        y = x.sin()
        return y, torch.tensor([number * 2, 1.0])

    for number in (np.longdouble(0.5), np.longdouble(1.5), np.float32(2.5), 3.5):
        assert_same_as_eager(program, torch.ones(2), number, backend=backend)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_quantized_result_is_left_to_python(backend: str) -> None:
    """Its fake form is a tensor of floats, of which `dequantize` seemed to be the tensor itself."""

    def program(x):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            one = torch.quantize_per_tensor(x * 2, 0.1, 0, torch.quint8)
            many = torch.quantize_per_channel(x, torch.ones(2), torch.zeros(2), 0, torch.qint8)
        return one.dequantize() + 1, many.dequantize(), one.is_quantized, many.dtype

    assert assert_same_as_eager(program, torch.ones(2, 3), backend=backend).breaks


@pytest.mark.parametrize("distance", [lambda a, b: (a - b).norm(dim=-1), torch.nn.PairwiseDistance(1.0)])
def test_an_operator_that_is_given_a_function_calls_it(distance: Any) -> None:
    """What torch wrote in Python is one node, but where it computes with a function of the program."""

    def program(x, y):
        return torch.nn.functional.triplet_margin_with_distance_loss(x, y, y - x, distance_function=distance)

    assert_same_as_eager(program, X, torch.ones(2, 3), graphs=1, breaks=0)
