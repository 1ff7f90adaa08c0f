"""traces/torch_words.py, as a watch uses it: causes of breaks that name what broke, and remedies for the program."""

from __future__ import annotations

import datetime
import os
import random
import time
import warnings
from collections.abc import Callable

import pytest
import torch

import dynexplore
from dynexplore.views.headline import headline

pytestmark = [pytest.mark.lenses, pytest.mark.filterwarnings("ignore:Guards may run slower on Python 3.13.0:RuntimeWarning")]


def attends(x: torch.Tensor) -> torch.Tensor:
    y = x + 1
    return torch.nn.functional.scaled_dot_product_attention(y, y, y, is_causal=x.shape[1] > 1)


def measured(x: torch.Tensor) -> torch.Tensor:
    began = time.perf_counter()
    return x * 2 + 0 * began


def warns(x: torch.Tensor) -> torch.Tensor:
    warnings.warn("told")
    return x * 2


def draws(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    return y * random.choice([1, 2])


def branches_on_a_number(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    return y * 2 if random.uniform(0, 1) < 0.5 else y


def asks_the_clock(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    return y * datetime.datetime.now().year


def opens(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    with open(os.devnull) as file:
        return y + len(file.read())


CAUSES = {
    attends: ("argument 'is_causal' must be bool, not SymBool.", "The argument depends on a size that varies. Write it"),
    measured: ("torch.compile does not trace time.perf_counter.", "Move the call to `time.perf_counter` out of the compiled"),
    warns: ("torch.compile does not trace warnings.warn.", "Move the call to `warnings.warn` out of the compiled function, or add"),
    draws: ("torch.compile does not trace random.choice.", "Move the call to `random.choice` out of the compiled function, and"),
    branches_on_a_number: ("Data-dependent branching.", "Draw the number outside the compiled function, and pass the result of"),
    asks_the_clock: ("Unsupported method call: datetime.datetime.now.", "Move the call to `datetime.datetime.now` out of the"),
    opens: ("Failed to trace builtin operator.", "Move the call to `open` out of the compiled function."),
}


@pytest.mark.filterwarnings("ignore::UserWarning")
@pytest.mark.parametrize("function", CAUSES)
def test_the_headline_names_what_broke_and_what_the_program_can_do(function: Callable[[torch.Tensor], torch.Tensor]) -> None:
    """An operator's own words; the function that is not traced; and no request to write to PyTorch."""
    torch._dynamo.reset()
    with dynexplore.watch() as seen:
        torch.compile(function, backend="eager", dynamic=True)(torch.ones(1, 3, 4))
    _, where, remedy = headline(seen.recording).lines
    cause, begin = CAUSES[function]
    assert where.endswith(cause) and remedy.startswith(begin)
