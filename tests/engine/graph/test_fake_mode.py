"""What the fake mode notes of the operators that run under it."""

from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from dynexplore.engine.aliasing.storage import storage_of
from dynexplore.engine.graph.fake_mode import EffectTrackingFakeMode

pytestmark = pytest.mark.plain("works on operators and modes by itself, without a frame")


def watch(operation):
    mode = EffectTrackingFakeMode()
    x = mode.from_tensor(torch.ones(3, 3))
    with mode:
        operation(x)
    return mode, x


@pytest.mark.parametrize(
    "operation",
    [
        lambda x: x.add_(1),
        lambda x: x[0].mul_(2),
        lambda x: x.data.zero_(),
        lambda x: x.t_(),
        lambda x: torch._foreach_add_([x], 1.0),
        lambda x: torch.add(x, 1, out=x),
        lambda x: F.batch_norm(x * 2, x[0], x[1], training=True),
    ],
)
def test_writing_is_noted(operation):
    """The memory that an operator writes to is known by its storage, however it is reached."""
    mode, x = watch(operation)
    assert storage_of(x) in mode.written
    assert mode.written_last


def test_what_neither_writes_nor_fails():
    """Batch norm only reads its statistics while evaluating; enlarging an image indexes it, but never out of range."""
    mode, x = watch(lambda x: (F.batch_norm(x * 2, x[0], x[1], training=False), F.interpolate(x[None, None], scale_factor=2)))
    assert storage_of(x) not in mode.written
    assert not watch(lambda x: F.interpolate(x[None, None], scale_factor=2, mode="bilinear"))[0].may_raise


def test_reading_writes_nothing():
    """Operators that give new tensors write to no storage, draw no numbers and do not fail for their data."""
    mode, x = watch(lambda x: (x + 1).sum().relu())
    assert storage_of(x) not in mode.written
    assert not (mode.draws_random_numbers or mode.may_raise)


@pytest.mark.parametrize("operation", [torch.rand_like, lambda x: F.dropout(x, 0.5), lambda x: x.clone().normal_()])
def test_random_numbers_are_noted(operation):
    """Drawing random numbers is noted."""
    assert watch(operation)[0].draws_random_numbers


@pytest.mark.parametrize(
    "operation",
    [lambda x: x[torch.zeros(2, dtype=torch.long)], torch.linalg.inv, lambda x: F.embedding(torch.zeros(2, dtype=torch.long), x)],
)
def test_what_data_decides_is_noted(operation):
    """An operator that raises for some data is noted."""
    assert watch(operation)[0].may_raise


def test_it_stops_watching():
    """A backend's own operators are not the program's."""
    mode = EffectTrackingFakeMode()
    mode.watching = False
    with mode:
        torch.ones(3).add_(1)
    assert not mode.written
