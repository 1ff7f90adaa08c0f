"""Batches of 8, 8, 5, 12 and 3 rows: which of these calls compile?"""

import torch

import dynexplore


def normalize(batch):
    return (batch - batch.mean(0)) / (batch.std(0) + 1e-5)


torch.manual_seed(0)
shown = dynexplore.explain(normalize).calls(*(torch.randn(rows, 4) for rows in (8, 8, 5, 12, 3)))
