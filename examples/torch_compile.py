"""Does torch.compile split the function in the same places?

Run it: `python examples/torch_compile.py`. The gallery of the documentation shows its explorer.
"""

import torch

import dynexplore


def toy(a, b):
    x = a / (torch.abs(a) + 1)
    if b.sum() < 0:
        b = b * -1
    return x * b


shown = dynexplore.explain(toy, torch.tensor([1.0, -3.0]), torch.tensor([-2.0, -2.0]), engine="torch.compile")

if __name__ == "__main__":
    print(shown)
