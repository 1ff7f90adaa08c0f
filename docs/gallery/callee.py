"""A function that is called breaks: one graph ends in it, and one goes on."""

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
