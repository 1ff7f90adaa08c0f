"""Operators that have no kernel for a dtype are refused while they are captured, though nobody may use their results."""

from __future__ import annotations

from typing import Any

import pytest
import torch

from dynexplore.engine.graph.kernel_support_probe import needs_probe, probe_kernel_support
from engine_checks import assert_same_as_eager

X = torch.tensor([1 + 2j, 3 - 1j])
REFUSED = {
    "remainder": lambda x: x % 2.5,
    "comparison": lambda x: x > 1,
    "clamp": lambda x: x.clamp(0, 1),
    "maximum": lambda x: torch.maximum(x, x),
    "largest": lambda x: x.max(),
    "sort": lambda x: x.sort(),
    "sign": lambda x: x.sign(),
    "of a float and a complex number": lambda x: x.abs() > 1j,
    "of floats and a complex tensor": lambda x: torch.fmod(x.abs(), x.sum()),
    "written in place": lambda x: x.clone().clamp_(0, 1),
    "of sizes that vary": lambda x: x.expand(x.shape[0], x.shape[0]).amax(0),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("refused", REFUSED.values(), ids=REFUSED)
def test_an_unused_operator_of_complex_numbers_is_refused(refused: Any, backend: str) -> None:
    """A compiler drops what nobody uses, and the refusal with it."""

    def fn(x: torch.Tensor) -> Any:
        y = x * 2
        try:
            refused(y)
        except (NotImplementedError, RuntimeError) as error:
            return y + 1, str(error)
        return y

    assert_same_as_eager(fn, X, then=[(torch.ones(2),), (torch.tensor([1j, 2]),)], backend=backend)


@pytest.mark.parametrize("dtype", [torch.int64, torch.bool])
@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_what_is_for_floats_alone_refuses_others(dtype: torch.dtype, backend: str) -> None:
    """A compiler takes softmax apart into operators that integers have, and gives a value."""

    def fn(x: torch.Tensor) -> Any:
        found = []
        for compute in (lambda x: x.softmax(0), torch.nn.functional.silu, lambda x: x + 1, lambda x: torch.hypot(x, x)):
            try:
                found.append(compute(x))
            except (NotImplementedError, RuntimeError) as error:
                found.append(str(error))
        return found

    assert_same_as_eager(fn, torch.ones(2), then=[(torch.ones(2, dtype=dtype),)], backend=backend)


INTEGERS, FLOATS, TRUTHS = torch.tensor([1, 2]), torch.tensor([1.0, 2.0]), torch.tensor([True, False])
FORGOTTEN = {
    "an integer divided in place": lambda: INTEGERS.clone().div_(2),
    "an integer divided in place by floats": lambda: INTEGERS.clone().div_(FLOATS),
    "many integers written floats": lambda: torch._foreach_add_([INTEGERS.clone()], [FLOATS]),
    "truth values subtracted": lambda: FLOATS - TRUTHS,
    "a truth value subtracted": lambda: FLOATS - True,
    "a float as the factor of integers": lambda: torch.add(INTEGERS, INTEGERS, alpha=2.5),
    "a truth value as the factor of floats": lambda: torch.add(FLOATS, FLOATS, alpha=True),
    "integers divided by addcdiv": lambda: torch.addcdiv(INTEGERS, INTEGERS, INTEGERS),
    "a product written to integers": lambda: INTEGERS.clone().addcmul_(FLOATS, FLOATS),
    "two dtypes of heaviside": lambda: torch.heaviside(INTEGERS, FLOATS),
    "halfs of an operator without them": lambda: torch.special.airy_ai(FLOATS.half()),
    "a slope too large": lambda: torch.nn.functional.leaky_relu(FLOATS, 1e300),
    "a choice too large": lambda: torch.where(TRUTHS, FLOATS, 1e300),
    "a value too large": lambda: torch.full((2,), 1e300),
    "a probability that is not a number": lambda: torch.nn.functional.dropout(FLOATS, float("nan")),
}


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
@pytest.mark.parametrize("refused", FORGOTTEN.values(), ids=FORGOTTEN)
def test_what_fake_tensors_forget_to_refuse_is_refused(refused: Any, backend: str) -> None:
    """A compiler drops or converts it; torch's fake forms forget other pairs of dtypes and numbers in each version."""

    def fn(x: torch.Tensor) -> Any:
        try:
            refused()
        except (NotImplementedError, RuntimeError) as error:
            return x + 1, str(error)
        return x

    assert_same_as_eager(fn, FLOATS, then=[(FLOATS,)], backend=backend)


@pytest.mark.parametrize("backend", ["eager", "aot_eager"])
def test_a_chance_that_varies_may_be_no_number(backend: str) -> None:
    """`nan` passes each comparison with the range; what draws the numbers refuses it, and a compiler computes with it."""

    def fn(x: torch.Tensor, chance: float) -> Any:
        try:
            y = torch.nn.functional.dropout(x * 0, chance)
        except (RuntimeError, ValueError) as error:
            return x + 1, type(error)
        return y + 2

    assert_same_as_eager(fn, FLOATS, 0.25, then=[(FLOATS, chance) for chance in (0.5, 0.75, float("nan"), 2.0)], backend=backend)


def test_what_has_a_kernel_is_one_graph() -> None:
    """A trial on one element says nothing of sizes: what it raises for them is not passed on, and it takes no memory."""

    def fn(x: torch.Tensor) -> Any:
        of_complex = x.exp() @ x, torch.cat([x, x]).view(2, -1), x.abs().max(), torch.fft.fft(x), torch.where(x.real > 1, x, 0)
        where = torch.arange(2)
        large = where.new_empty(1 << 20, 1 << 10).shape
        return of_complex, large, where.cumsum(0), x[where], (where + 3).eq(4).any(), where[:, None].repeat(9, 9), x == 1

    assert_same_as_eager(fn, X, graphs=1, breaks=0)


@pytest.mark.plain("it asks the function, and no program runs")
def test_operators_of_others_are_not_tried() -> None:
    """An operator of the program may do anything when it runs; it is not called for a trial."""

    @torch.library.custom_op("dynexplore_tests::not_tried", mutates_args=())
    def not_tried(x: torch.Tensor) -> torch.Tensor:
        return x.clone()

    assert not needs_probe(torch.ops.dynexplore_tests.not_tried.default, [X], {})
    assert needs_probe(torch.ops.aten.remainder.Scalar, [X, 2], {})
    assert not needs_probe(torch.ops.aten.remainder.Scalar, [X.real, 2], {})


@pytest.mark.plain("it asks the function that keeps what trials raised")
def test_trials_are_kept_by_the_class_of_a_number() -> None:
    """What a trial with 1 showed does not answer for True."""
    x = torch.tensor([True, False])
    probe_kernel_support(torch.ops.aten.rsub.Scalar, [x.int(), 1], {})
    with pytest.raises(RuntimeError, match="bool"):
        probe_kernel_support(torch.ops.aten.rsub.Scalar, [x.int(), True], {})
    probe_kernel_support(torch.ops.aten.rsub.Scalar, [x.int(), 1.0], {})
