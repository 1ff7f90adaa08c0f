"""graph/recurrent_meta_kernels.py: a recurrent layer on fake values is asked for one step."""

from __future__ import annotations

import itertools
from typing import Any

import pytest
import torch
from torch import nn
from torch._dispatch.python import enable_python_dispatcher
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from dynexplore.engine.graph.recurrent_meta_kernels import fake_results, is_recurrent
from engine_checks import assert_same_as_eager

FORMS = list(itertools.product(["RNN", "LSTM", "GRU"], [False, True], [False, True], [1, 2]))


def facts(value: Any) -> Any:
    """All that a fake tensor knows."""
    if isinstance(value, tuple):
        return tuple(map(facts, value))
    return value.shape, value.stride(), value.dtype, value.device, value.requires_grad


@pytest.mark.plain("it asks fake tensors, no capture")
@pytest.mark.parametrize(("kind", "batch_first", "bidirectional", "layers"), FORMS)
@pytest.mark.parametrize("trains", [True, False])
def test_one_step_says_what_all_say(kind: str, batch_first: bool, bidirectional: bool, layers: int, trains: bool) -> None:
    """Shapes, strides, dtypes and gradients are those of the layer over all steps, for real."""
    module = getattr(nn, kind)(3, 4, num_layers=layers, batch_first=batch_first, bidirectional=bidirectional)
    x = torch.randn(5, 2, 3)
    states = torch.zeros(layers * (1 + bidirectional), x.shape[0 if batch_first else 1], 4)
    hidden: Any = [states, states.clone()] if kind == "LSTM" else states
    layer = {"RNN": torch._VF.rnn_tanh, "LSTM": torch._VF.lstm, "GRU": torch._VF.gru}[kind]
    assert is_recurrent(layer)
    rest = (True, layers, 0.0, trains, bidirectional, batch_first)
    with torch.set_grad_enabled(trains):
        real = layer(x, hidden, module._flat_weights, *rest)
        mode = FakeTensorMode()
        weights = [mode.from_tensor(weight) for weight in module._flat_weights]
        assert not trains or weights[0].requires_grad
        fakes = [mode.from_tensor(state) for state in hidden] if kind == "LSTM" else mode.from_tensor(hidden)
        with mode, enable_python_dispatcher():
            fake = fake_results(layer, (mode.from_tensor(x), fakes, weights, *rest), {})
    assert facts(tuple(fake)) == facts(tuple(real))


class Counted(nn.Module):
    def __init__(self, kind: str) -> None:
        super().__init__()
        self.layer = getattr(nn, kind)(3, 4, batch_first=True)

    def forward(self, x: torch.Tensor) -> Any:
        out, _ = self.layer(x)
        return out.sum(-1) * x.shape[1]


@pytest.mark.parametrize("kind", ["RNN", "LSTM", "GRU"])
def test_one_graph_serves_all_lengths(kind: str) -> None:
    """A sequence of another length is one more graph, and then none."""
    lengths = [(torch.randn(2, length, 3),) for length in (5, 7, 9, 4, 11)]
    assert_same_as_eager(Counted(kind), *lengths[0], then=lengths[1:], graphs=2, breaks=0)


def test_an_empty_sequence_is_refused_as_in_eager() -> None:
    """A sequence without a step raises what eager raises."""
    assert_same_as_eager(Counted("GRU"), torch.randn(2, 5, 3), then=[(torch.randn(2, 0, 3),)], graphs=None)


def test_packed_sequences() -> None:
    """Sequences of several lengths in one batch are right."""
    layer = nn.GRU(3, 4)

    def fn(x: torch.Tensor, lengths: torch.Tensor) -> torch.Tensor:
        out, _ = layer(pack_padded_sequence(x, lengths))
        return pad_packed_sequence(out)[0] * 2

    assert_same_as_eager(fn, torch.randn(5, 2, 3), torch.tensor([5, 3]), graphs=None, breaks=None)
