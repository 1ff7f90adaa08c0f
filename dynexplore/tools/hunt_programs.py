# mypy: ignore-errors
# people edit a copy of this file, which begins here:
"""Break hunt: ten functions that work, and that break the graph. Rewrite each one so that all of its calls run in one graph.

The rules:  keep the name and the values. `dynexplore hunt` runs every function on its CALLS, in eager and captured, and compares
            the values. A program is solved when its calls need one graph, without a graph break or a recompile.
Look first: dynexplore explain THIS_FILE:NAME, or dynexplore breaks THIS_FILE:NAME.
"""

import time

import torch

# -- easy ------------------------------------------------------------------------------------------------------------------


def scaled(x):
    """Divide by the largest element."""
    largest = x.abs().max().item()
    return x / largest + 1


def noisy(x):
    """Two steps, with a line of debug output that is no longer needed."""
    y = torch.tanh(x * 2)
    print("mean after the first step:", y.mean())
    return torch.tanh(y * 2)


def clipped(gradient):
    """Clip a gradient to length 1."""
    norm = gradient.norm()
    if norm > 1:
        gradient = gradient / norm
    return gradient


def positives(x):
    """Subtract the number of positive elements."""
    count = len([value for value in x.tolist() if value > 0])
    return x - count


# -- medium ----------------------------------------------------------------------------------------------------------------


def chosen(x, kind):
    """Apply the activation that `kind`, a tensor, selects."""
    activations = [torch.sin, torch.cos, torch.tanh]
    return activations[int(kind)](x) * 2


def timed(x, seconds):
    """Record how long a step takes. The record is not part of the result; the caller can measure the time instead."""
    begin = time.perf_counter()
    y = torch.relu(x) + 1
    seconds.append(time.perf_counter() - begin)
    return y * 3


def positive_rows(x):
    """Add up the rows whose sum is positive."""
    total = torch.zeros(x.shape[1])
    for row in x:
        if row.sum() < 0:
            continue
        total = total + row
    return total


# -- hard ------------------------------------------------------------------------------------------------------------------


def by_size(rows):
    """Sort rows by their sum in descending order, and divide each by its rank."""
    ordered = sorted(rows, key=lambda row: row.sum().item(), reverse=True)
    return sum(row / (place + 1) for place, row in enumerate(ordered))


def safe_mean(x, mask):
    """The mean of the elements that the mask selects, or 0 if there are none."""
    try:
        weight = 1 / int(mask.sum())
    except ZeroDivisionError:
        weight = 0.0
    return (x * mask).sum() * weight


def square_root(x):
    """Heron's method: repeat, at most 20 times, until no element changes by more than a thousandth."""
    guess = x
    for _ in range(20):
        better = (guess + x / guess) / 2
        change = (better - guess).abs().max()
        guess = better
        if change < 1e-3:
            break
    return guess


CALLS = {
    "scaled": [(torch.tensor([1.0, -4.0]),), (torch.tensor([0.5, 0.25]),)],
    "noisy": [(torch.tensor([0.5, -1.0]),), (torch.tensor([2.0, 0.0]),)],
    "clipped": [(torch.tensor([3.0, 4.0]),), (torch.tensor([0.3, 0.4]),)],
    "positives": [(torch.tensor([1.0, -2.0, 3.0]),), (torch.tensor([-1.0, -2.0, -3.0]),)],
    "chosen": [(torch.tensor([0.5, 1.0]), torch.tensor(kind)) for kind in (0, 2, 1)],
    "timed": [(torch.tensor([0.5, -1.0]), []), (torch.tensor([2.0, 0.0]), [])],
    "positive_rows": [(torch.tensor([[1.0, 2.0], [-3.0, 1.0], [4.0, -1.0]]),), (torch.tensor([[-1.0, 0.0]] * 3),)],
    "by_size": [([torch.tensor([1.0, 2.0]), torch.tensor([5.0, 0.0])],), ([torch.tensor([4.0, 2.0]), torch.tensor([0.0, 1.0])],)],
    "safe_mean": [(torch.tensor([2.0, 4.0]), torch.tensor([True, True])), (torch.tensor([2.0, 4.0]), torch.tensor([False, False]))],
    "square_root": [(torch.tensor([4.0, 9.0]),), (torch.tensor([1.0, 1.0]),)],
}
"""The arguments of two or three calls of each function, in the order from easy to hard."""
