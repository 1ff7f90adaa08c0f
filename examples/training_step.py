"""How much of a training step is captured?

Run it: `python examples/training_step.py`. The gallery of the documentation shows its explorer.
"""

import torch
from torch import nn

import dynexplore

torch.manual_seed(0)
model = nn.Sequential(nn.Linear(8, 16), nn.ReLU(), nn.Linear(16, 1))
optimizer = torch.optim.SGD(model.parameters(), lr=0.1)


def step(x, target):
    loss = nn.functional.mse_loss(model(x), target)
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return loss


shown = dynexplore.explain(step, torch.randn(32, 8), torch.randn(32, 1), backend="aot_eager")

if __name__ == "__main__":
    print(shown)
