"""A job for logs: breaks by print, item and a branch; recompiles by number, size, attribute; training; failures."""

import contextlib
import sys
import warnings

import torch

warnings.simplefilter("ignore")
BACKEND = sys.argv[1] if len(sys.argv) > 1 else "aot_eager"


@torch.compile(backend="eager")
def prints(x):
    y = x + 1
    print("hello")
    return y * 2


@torch.compile(backend="eager")
def asks(x):
    return x * x.sum().item()


@torch.compile(backend="eager")
def chooses(x):
    if x.sum() > 0:
        return x + 1
    return x - 1


@torch.compile(backend="eager")
def scaled(x, n):
    return torch.relu(x) * n


class Gain:
    by = 2


@torch.compile(backend="eager")
def gained(x, gain):
    return x * gain.by


@torch.compile(backend=BACKEND)
def layer(x, weight):
    return torch.tanh(x @ weight)


@torch.compile(backend="eager", fullgraph=True)
def fails(x):
    print("hello")
    return x


def refuses(graph, inputs):
    raise RuntimeError("this backend refuses")


@torch.compile(backend=refuses)
def refused(x):
    return x + 1


@torch.compile(backend="eager", dynamic=False)
def counted(x, n):
    return x + n


def main():
    one = torch.ones(2)
    prints(one)
    asks(one)
    chooses(one)
    scaled(one, 2)
    scaled(one, 3)
    scaled(torch.ones(5), 3)
    gain = Gain()
    gained(one, gain)
    gain.by = 3
    gained(one, gain)
    weight = torch.ones(2, 2, requires_grad=True)
    layer(torch.ones(3, 2), weight).sum().backward()
    with contextlib.suppress(Exception):
        fails(one)
    with contextlib.suppress(Exception):
        refused(one)
    torch._dynamo.config.cache_size_limit = 2
    for n in range(3):
        counted(one, n)
    print(torch.__version__, dict(torch._dynamo.utils.counters["stats"]), dict(torch._dynamo.utils.counters["graph_break"]))


main()
