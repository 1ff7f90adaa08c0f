"""What happens to a loop over modules?

Run it: `python examples/recommender.py`. The gallery of the documentation shows its explorer.
"""

import torch
from torch import nn

import dynexplore


class Recommender(nn.Module):
    """The probability that somebody clicks."""

    def __init__(self, tables: int = 6, width: int = 16) -> None:
        super().__init__()
        self.tables = nn.ModuleList(nn.EmbeddingBag(50, width, mode="sum") for _ in range(tables))
        self.bottom = nn.Sequential(nn.Linear(13, 32), nn.ReLU(), nn.Linear(32, width), nn.ReLU())
        pairs = (tables + 1) * tables // 2
        self.top = nn.Sequential(nn.Linear(width + pairs, 32), nn.ReLU(), nn.Linear(32, 1), nn.Sigmoid())

    def forward(self, numbers, categories):
        rows = [self.bottom(numbers)]
        for table, part in zip(self.tables, categories, strict=True):
            rows.append(table(part))
        stacked = torch.stack(rows, dim=1)
        products = torch.bmm(stacked, stacked.transpose(1, 2))
        first, second = torch.triu_indices(len(rows), len(rows), offset=1)
        return self.top(torch.cat([rows[0], products[:, first, second]], dim=1))


torch.manual_seed(0)
shown = dynexplore.explain(Recommender().eval(), torch.randn(8, 13), [torch.randint(0, 50, (8, 3)) for _ in range(6)])

if __name__ == "__main__":
    print(shown)
