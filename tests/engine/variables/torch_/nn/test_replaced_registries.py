"""What owns a dict, or a dict owns: a module's registries may be replaced, an OrderedDict may be given attributes."""

from __future__ import annotations

import copy
from collections import OrderedDict

import pytest
import torch
from torch import nn

import dynexplore
from engine_checks import assert_same_as_eager, graphs_compiled

X = torch.ones(1, 1)


def three() -> nn.ModuleList:
    return nn.ModuleList(nn.Linear(1, 1, bias=False) for _ in range(3))


def popped(modules, x):
    modules.pop(1)
    return x + 1, list(modules._modules), [name for name, _ in modules.named_parameters()]


def first_deleted(modules, x):
    del modules[0]
    return x + 1, list(modules._modules), len(modules)


def assigned(modules, x):
    before = modules._modules
    modules._modules = OrderedDict(a=modules[0])
    return x + 1, list(modules._modules), list(before), modules._modules is before


def put_into_its_dictionary(modules, x):
    modules.__dict__["_modules"] = {"a": modules[0]}
    return x + 1, list(modules._modules), len(modules)


class WithRegistriesOfItsOwn(nn.Module):
    def __init__(self):
        super().__init__()
        self._modules = {"inner": nn.ReLU()}


def made_inside(modules, x):
    made = WithRegistriesOfItsOwn()
    return x + 1, list(made._modules)


@pytest.mark.parametrize("program", [popped, first_deleted, assigned, put_into_its_dictionary, made_inside])
def test_the_registry_that_stands_there_now_is_the_modules(program):
    """Its names, its length and its parameters are those of the new dict, whoever put it there."""
    assert_same_as_eager(program, three(), X)


def test_a_shallow_copy_of_a_module_shares_its_registries():
    """`copy.copy` copies the module's dictionary, and not the dicts that stand in it."""
    modules = three()

    def program(x):
        copied = copy.copy(modules)
        return copied._modules is modules._modules, copied._parameters is modules._modules, x + 1

    assert dynexplore.optimize("eager")(program)(X)[:2] == (True, False)
    assert graphs_compiled()


def test_an_ordered_dict_is_asked_for_attributes_that_it_was_given():
    """Unlike a dict it takes any; what it has is the answer, in each call."""
    def program(d, x):
        return x + 1, hasattr(d, "note"), getattr(d, "note", None), hasattr(d, "other")

    noted = OrderedDict()
    noted.note = "here"
    optimized = dynexplore.optimize("eager")(program)
    for given in (OrderedDict(), noted, nn.Linear(1, 1).state_dict()):
        assert optimized(given, X) == program(given, X)
    assert graphs_compiled()


def test_the_metadata_of_a_state_dict_is_found():
    """torch gives the OrderedDict that it makes an attribute of its own."""
    layer = nn.Linear(1, 1)
    assert dynexplore.optimize("eager")(lambda x: (x + 1, hasattr(layer.state_dict(), "_metadata")))(X)[1]
    assert graphs_compiled()
