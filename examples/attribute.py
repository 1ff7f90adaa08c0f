"""Why does this module recompile?

Run it: `python examples/attribute.py`. The gallery of the documentation shows its explorer.
"""

import torch

import dynexplore


class Warmup(torch.nn.Module):
    """Grows its output over the first calls."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = torch.nn.Linear(4, 4)
        self.calls = 0

    def forward(self, x):
        self.calls += 1
        factor = 0.1 if self.calls < 3 else 1.0
        return self.linear(x) * factor


torch.manual_seed(0)
shown = dynexplore.explain(Warmup()).calls(*(torch.randn(2, 4) for _ in range(5)))

if __name__ == "__main__":
    print(shown)
