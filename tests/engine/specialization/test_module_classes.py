"""Blocks of which a model has several: compiled once for all of them where they break."""

from __future__ import annotations

import pytest
import torch
from torch import nn

import dynexplore
from dynexplore.engine.config import config
from engine_checks import assert_same_as_eager, graphs_compiled

X = torch.linspace(-1, 1, 12).reshape(3, 4)


class Inner(nn.Module):
    """Breaks: a branch on a tensor's value."""

    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(4, 4)

    def forward(self, x):
        y = torch.tanh(self.linear(x))
        if y.sum() < 100:
            y = y * 2
        return y + 1


class Block(nn.Module):
    """Does not break itself; what it calls does. Its number is another one in each instance."""

    def __init__(self, number: int) -> None:
        super().__init__()
        self.inner, self.outer, self.number = Inner(), nn.Linear(4, 4), number

    def forward(self, x):
        scaled = [part * self.outer.bias[0] for part in (x, x + 1)]
        return self.outer(self.inner(x)) + scaled[1]


class Stack(nn.Module):
    """Blocks in a list."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.blocks = nn.ModuleList(Block(number) for number in range(count))

    def forward(self, x):
        for block in self.blocks:
            x = block(x)
        return x


class Pair(nn.Module):
    """Blocks under names of their own."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Inner(), Inner()

    def forward(self, x):
        return self.second(self.first(x))


class Blocks(nn.Module):
    """Blocks whose own parts break, called one behind the other."""

    def __init__(self) -> None:
        super().__init__()
        self.first, self.second = Block(1), Block(1)

    def forward(self, x):
        return self.second(self.first(x))


@pytest.mark.parametrize(("nests", "graphs"), [(False, 4), (True, 2)])
@pytest.mark.parametrize("count", [2, 5])
def test_a_block_that_breaks_is_compiled_once_for_all_its_instances(count, nests, graphs):
    """The frames of the first block serve the others, too: as many graphs for five blocks as for two."""
    with config.patch(nested_graph_breaks=nests):
        assert_same_as_eager(Stack(count).requires_grad_(False), X, calls=3, graphs=graphs)


@pytest.mark.parametrize("nests", [False, True])
def test_blocks_under_names_of_their_own_are_compiled_once(nests):
    """They need not stand in a list: two graphs, before and behind the break. It does not nest in them, not being in a loop."""
    with config.patch(nested_graph_breaks=nests):
        assert_same_as_eager(Pair().requires_grad_(False), X, calls=2, graphs=2)


@pytest.mark.parametrize(("nests", "graphs"), [(False, 4), (True, 2)])
def test_a_break_nests_up_to_the_block_of_which_there_is_another(nests, graphs):
    """Of the parts of a block there is one in it: they share its graphs."""
    with config.patch(nested_graph_breaks=nests):
        assert_same_as_eager(Blocks().requires_grad_(False), X, calls=2, graphs=graphs)


def graphs_of_a_choice() -> int:
    """Of a function that is called with one layer and then another: the first is guarded by identity, where nothing is known."""

    def applies(layer, x):
        return layer(x) + 1

    dynexplore.reset()
    optimized = dynexplore.optimize("eager")(applies)
    for layer in (nn.Linear(4, 4), nn.Linear(4, 4), nn.Linear(4, 4)):
        optimized(layer, X)
    return graphs_compiled()


def test_reset_forgets_which_blocks_there_are():
    """What breaks in a layer of one model says nothing of other programs once all is forgotten."""

    def breaks(layer, inputs):
        dynexplore.graph_break()

    before = graphs_of_a_choice()
    layers = nn.Sequential(nn.Linear(4, 4), nn.Linear(4, 4))
    layers[0].register_forward_pre_hook(breaks)
    dynexplore.optimize("eager")(layers)(X)
    assert graphs_of_a_choice() == before == 2


def test_a_change_of_one_block_is_seen():
    """Entries that serve every block rely on no weight, mode or layer of one of them."""
    model = Stack(3)

    def changed(model, x, how):
        if how == 1:
            model.blocks[1].inner.linear.weight = nn.Parameter(torch.ones(4, 4))
        elif how == 2:
            model.blocks[2].outer = nn.Sequential(nn.Linear(4, 4), nn.Dropout(0.0))
            model.blocks[2].outer.bias = nn.Parameter(torch.ones(4))
        elif how == 3:
            model.blocks[0].train(not model.blocks[0].training)
        elif how == 4:
            model.blocks.append(Block(7))
            torch.nn.init.ones_(model.blocks[3].inner.linear.weight)
        return model(x)

    torch.manual_seed(0)
    assert_same_as_eager(changed, model, X, 0, then=[(model, X, how) for how in (0, 1, 2, 3, 0)])


class Bare(nn.Module):
    """Never calls `Module.__init__`, so that it has no registries."""

    def __init__(self) -> None:
        pass

    def double(self, x):
        print("doubling")
        return x * 2


def test_a_module_without_registries_has_no_blocks():
    """A break in one of its methods is a break like any other."""

    def doubled(module, x):
        return module.double(x) + 1

    assert_same_as_eager(doubled, Bare(), X, calls=2)
