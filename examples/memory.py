"""What is saved for backward, and where does memory peak?

Run it: `python examples/memory.py`. The gallery of the documentation shows its explorer.
"""

import torch
from torch import nn

import dynexplore


class Deep(nn.Module):
    """Layers that autograd remembers, one after the other."""

    def __init__(self, width: int = 256, layers: int = 6) -> None:
        super().__init__()
        self.layers = nn.ModuleList(nn.Linear(width, width) for _ in range(layers))

    def forward(self, x):
        for layer in self.layers:
            x = torch.nn.functional.gelu(layer(x))
        return x.square().mean()


torch.manual_seed(0)
with dynexplore.config.patch(artifacts=("graph", "memory")):
    shown = dynexplore.explain(Deep(), torch.randn(512, 256), backend="aot_eager")
    shown.value.backward()

if __name__ == "__main__":
    print(shown)
