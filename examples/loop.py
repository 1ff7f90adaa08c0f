"""Does a print in a loop make a graph for each iteration?

Run it: `python examples/loop.py`. The gallery of the documentation shows its explorer.
"""

import torch

import dynexplore


def settle(x):
    for round in range(6):
        x = torch.tanh(x * 2)
        print("round", round, "largest", x.max())
    return x


shown = dynexplore.explain(settle, torch.tensor([0.1, 0.5]))

if __name__ == "__main__":
    print(shown)
