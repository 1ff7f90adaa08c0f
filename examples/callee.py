"""What happens to the caller of a function that breaks?

Run it: `python examples/callee.py`. The gallery of the documentation shows its explorer.
"""

import torch

import dynexplore


def scale(x):
    largest = x.abs().max().item()
    return x / largest


def predict(x, weight):
    hidden = torch.relu(x @ weight)
    return scale(hidden).softmax(-1)


torch.manual_seed(0)
shown = dynexplore.explain(predict, torch.randn(2, 4), torch.randn(4, 3))

if __name__ == "__main__":
    print(shown)
