"""The README's example: a branch that depends on data, so that one function becomes three graphs."""

import torch


def toy(a, b):
    x = a / (torch.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b


if __name__ == "__main__":
    print(toy(torch.tensor([1.0, -3.0]), torch.tensor([2.0, 2.0])))  # the sum is positive
    print(toy(torch.tensor([1.0, -3.0]), torch.tensor([-2.0, -2.0])))  # the sum is negative
