"""Meta kernels of recurrent layers (LSTM, GRU, RNN): output metadata from one step, so that the sequence length stays symbolic.

The idea: on fake tensors torch runs an LSTM by its decomposition, one step of the sequence after the other. That specializes the
length, and capture time grows with the length. But the output has the same form for any length: one row per step, and the final
states. So the layer runs on one step, and that row is repeated.

In: the call of a recurrent layer (`torch._VF.lstm`, ...) on fake values. Out: its fake results. PyTorch's counterpart: the
decompositions in torch/_decomp/decompositions.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import torch

_VF: Any = torch._VF
_LAYERS = frozenset(map(id, (_VF.lstm, _VF.gru, _VF.rnn_tanh, _VF.rnn_relu)))


def is_recurrent(target: object) -> bool:
    """Whether this is the function of a recurrent layer over all of its steps."""
    return id(target) in _LAYERS


def fake_results(layer: Any, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Any:
    """The fake results of a recurrent layer; packed sequences and invalid arguments are left to torch."""
    if kwargs or len(args) != 9 or type(args[3]) is not bool or args[0].dim() != 3:  # (input, states, weights, has biases, ...)
        return layer(*args, **kwargs)
    sequence, batch_first = args[0], args[8]
    steps = 1 if batch_first else 0
    first, *states = layer(sequence.narrow(steps, 0, 1), *args[1:])
    step = first.transpose(0, 1) if batch_first else first
    all_steps = step.expand(sequence.shape[steps], *step.shape[1:]).contiguous()
    initial_states = args[1] if isinstance(args[1], list | tuple) else [args[1]]
    # torch 2.11 returns them with an extra dimension
    states = [state.reshape(before.shape) for state, before in zip(states, initial_states, strict=True)]
    return (all_steps.transpose(0, 1) if batch_first else all_steps, *states)
