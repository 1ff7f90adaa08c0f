"""A print in a loop: it breaks in each round, and yet there are two graphs."""

import torch

import dynexplore


def settle(x):
    for round in range(6):
        x = torch.tanh(x * 2)
        print("round", round, "largest", x.max())
    return x


shown = dynexplore.explain(settle, torch.tensor([0.1, 0.5]))
