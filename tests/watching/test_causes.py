"""traces/torch_words.py, as a watch uses it: causes of breaks that name what broke, and remedies for the program."""

from __future__ import annotations

import datetime
import logging
import os
import random
import time
import warnings
from collections.abc import Callable

import pytest
import torch

import dynexplore
from dynexplore.views.headline import headline
from dynexplore.views.ranked_costs import costs_of

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


def logs(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    logging.info("doubled")
    return y + 1


def logs_by_name(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    LOG.info("doubled")
    return y + 1


def reads_the_seed(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    return y + torch.initial_seed() % 2


def branches(x: torch.Tensor) -> torch.Tensor:
    y = x * 2
    if y.sum() > 0:
        y = y + 1
    return y


LOG = logging.getLogger(__name__)
LOGGING = "Move the logging out of the compiled function, or add"

CAUSES = {
    logs: (" in info (__init__.py:", f"{LOGGING} `logging.info` to"),
    logs_by_name: ("logging.Logger method not supported", f"{LOGGING} `logging.Logger.info` to"),
    reads_the_seed: ("op returned non-Tensor.", "Move the call to `torch.initial_seed` out of the compiled function, and pass"),
    branches: ("Data-dependent branching.", "Use torch.where or torch.cond, or move the `if` out of the compiled function."),
    attends: ("argument 'is_causal' must be bool, not SymBool.", "The argument depends on a symbolic size. Write it"),
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
    assert cause in where and remedy.startswith(begin)


def test_a_key_in_another_place_is_named() -> None:
    """The key that was there, the one that is there now, and advice about the dict: not torch's expression for its list of keys."""

    def total(batch: dict[str, torch.Tensor]) -> torch.Tensor:
        return sum((batch[key] for key in batch), torch.zeros(3))

    torch._dynamo.reset()
    with dynexplore.watch(steps=False) as seen:
        fast = torch.compile(total, backend="eager")
        for keys in ("ab", "ac"):
            fast({key: torch.ones(3) for key in keys})
    (cost,) = costs_of(seen.recording)
    assert cost.cause == "key 2 of `batch` changed from 'b' to 'c'"
    assert cost.advice == "Use the same keys in `batch` in every call, or compile a separate function for each set of keys."
