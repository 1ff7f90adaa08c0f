"""What Inductor makes of a graph: nine operators, one kernel."""

import torch

import dynexplore


def gelu(x, bias):
    x = x + bias
    return 0.5 * x * (1 + torch.tanh(0.79788456 * (x + 0.044715 * x**3)))


torch.manual_seed(0)
shown = dynexplore.inductor_artifacts(gelu, torch.randn(64, 256), torch.randn(256))
