"""numpy in traced code: arrays of known numbers are computed while tracing; what is random, shared or written is left to Python."""

from __future__ import annotations

import numpy as np
import torch
from programs.program_table import Programs

PROGRAMS = Programs()
program = PROGRAMS.add
X = torch.arange(6.0).reshape(2, 3) / 10


@program(X, graphs=1, ops=1)
def a_tensor_of_an_array(x):
    table = np.arange(6).reshape(2, 3) // 2
    return x + torch.tensor(table), torch.tensor(table, dtype=torch.float64)


@program(X, graphs=1, ops=2)
def a_mask_of_blocks(x):
    rows = [np.zeros((4, np.sum([1, 2])), dtype=np.int32) for _ in range(2)]
    for place in range(2):
        rows[place] = rows[place][1:3, :]
    stacked = np.stack(rows, axis=0)
    return x + torch.tensor(stacked, dtype=torch.long).sum() + stacked.shape[0], stacked.ndim


@program(X, graphs=1, ops=6)
def numbers_out_of_arrays(x):
    values = np.linspace(0, 1, 5)
    total = float(values.sum()) + values[1].item() + sum(values.tolist())
    for value in values:
        x = x + value
    return x * total, values.max() > 0.5, len(values), bool((values >= 0).all())


@program(X, graphs=1, ops=1)
def arrays_that_leave_the_frame(x):
    made = np.ones((2, 2))
    again = made * 2
    return x + 1, made, again, (made, [again])


@program(X, graphs=1, ops=2, breaks=None)
def a_view_that_leaves_the_frame(x):
    made = np.arange(4)
    part = made[1:]
    part[0] = 7
    return x + 1, made, part


@program(X, graphs=1, ops=3, breaks=None)
def an_array_that_is_written(x):
    made = np.zeros(3)
    made[1] = 2.0
    made += 1
    return x + torch.tensor(made, dtype=torch.float32)


@program(X, graphs=2, ops=[1, 1], breaks=None)
def random_arrays(x):
    np.random.seed(0)
    return x * np.random.rand(), x + torch.tensor(np.random.permutation(3))


@program(X, graphs=1, ops=1, breaks=None)
def functions_that_write(x):
    made, other = np.zeros(3), np.zeros(3)
    np.add(made, 1, out=other)
    np.copyto(made, other)
    return x + torch.tensor(made)


@program(X, graphs=1, ops=1)
def an_error_of_numpy(x):
    try:
        np.zeros((2, 3)) @ np.zeros((2, 3))
    except ValueError:
        return x + 1
    return x


@program(X, graphs=1, ops=2, breaks=None)
def memory_shared_with_a_tensor(x):
    made = np.zeros(3, dtype=np.float32)
    shared = torch.from_numpy(made)
    shared.add_(1)
    return x + shared, made


@PROGRAMS.parameters()
def test_program(run):
    """The program does under the engine what it does without, in as many graphs as expected."""
    run()
