"""What does a compiler make of nine operators?

Run it: `python examples/kernels.py`. The gallery of the documentation shows its explorer.
"""

import torch

import dynexplore


def gelu(x, bias):
    x = x + bias
    return 0.5 * x * (1 + torch.tanh(0.79788456 * (x + 0.044715 * x**3)))


torch.manual_seed(0)
shown = dynexplore.inductor_artifacts(gelu, torch.randn(64, 256), torch.randn(256))

if __name__ == "__main__":
    print(shown)
