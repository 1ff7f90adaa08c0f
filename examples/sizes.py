"""Which batch sizes recompile?

Run it: `python examples/sizes.py`. The gallery of the documentation shows its explorer.
"""

import torch

import dynexplore


def normalize(batch):
    return (batch - batch.mean(0)) / (batch.std(0) + 1e-5)


torch.manual_seed(0)
shown = dynexplore.explain(normalize).calls(*(torch.randn(rows, 4) for rows in (8, 8, 5, 12, 3)))

if __name__ == "__main__":
    print(shown)
