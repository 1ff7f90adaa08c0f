"""What `register_buffer`, `register_parameter` and `add_module` leave behind, on a live module and on one made in the frame.

Theme: engine/variables/torch_/nn/nn_module.py (RegistryVariable, `store_in_registry`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from torch import nn

import dynexplore
from engine_checks import assert_same_as_eager, graphs_compiled

X = torch.arange(3.0)
Change = Callable[[Any, torch.Tensor], object]


class Net(nn.Module):
    """Something under a name in each place where a name can stand."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("kept", torch.ones(3))
        self.register_buffer("not_kept", torch.ones(3), persistent=False)
        self.weight = nn.Parameter(torch.ones(3))
        self.child = nn.Identity()
        self.plain = 3


def _twice(net: Net, x: torch.Tensor) -> None:
    net.register_buffer("new", x)
    net.new = x * 2


def _anew(net: Net, x: torch.Tensor) -> None:
    del net.kept
    net.register_buffer("kept", x * 2, persistent=False)


CHANGES: dict[str, Change] = {
    "a new buffer": lambda net, x: net.register_buffer("new", x * 2),
    "a new buffer that is not kept": lambda net, x: net.register_buffer("new", x * 2, persistent=False),
    "by position": lambda net, x: net.register_buffer("new", x * 2, False),
    "by keywords": lambda net, x: net.register_buffer(name="new", tensor=x * 2),
    "none": lambda net, x: net.register_buffer("new", None),
    "a parameter as a buffer": lambda net, x: net.register_buffer("new", net.weight),
    "again": lambda net, x: net.register_buffer("kept", x * 2),
    "no longer kept": lambda net, x: net.register_buffer("kept", x * 2, persistent=False),
    "kept from now on": lambda net, x: net.register_buffer("not_kept", x * 2),
    "and assigned": _twice,
    "deleted and anew": _anew,
    "into the registry": lambda net, x: net._buffers.__setitem__("new", x * 2),
    "a parameter": lambda net, x: net.register_parameter("new", nn.Parameter(torch.ones(3))),
    "no parameter": lambda net, x: net.register_parameter("new", None),
    "a child": lambda net, x: net.add_module("new", nn.ReLU()),
    "no child": lambda net, x: net.register_module("new", None),
    "where a child stands": lambda net, x: net.add_module("child", nn.ReLU()),
}
REFUSED: dict[str, Change] = {
    "a buffer where a number stands": lambda net, x: net.register_buffer("plain", x),
    "a buffer where a parameter stands": lambda net, x: net.register_buffer("weight", x),
    "a buffer with a dot": lambda net, x: net.register_buffer("a.b", x),
    "a buffer without a name": lambda net, x: net.register_buffer("", x),
    "no tensor": lambda net, x: net.register_buffer("new", 3),
    "a child where a number stands": lambda net, x: net.add_module("plain", nn.ReLU()),
    "a child with a dot": lambda net, x: net.add_module("a.b", nn.ReLU()),
    "no module": lambda net, x: net.add_module("new", 3),
}


def _everything(net: nn.Module) -> tuple[Any, ...]:
    """Where each name stands, in order, and what `state_dict` says."""
    own = vars(net)
    shown = [[(name, str(value)) for name, value in own[kind].items()] for kind in ("_parameters", "_buffers", "_modules")]
    plain = {name: str(value) for name, value in own.items() if not name.startswith("_")}
    return shown, plain, own["_non_persistent_buffers_set"], str(net.state_dict())


def _outcomes(change: Change, run: Callable[[Any], Any]) -> list[Any]:
    """What three calls do to one module."""
    net = Net()

    def fn(x: torch.Tensor) -> torch.Tensor:
        change(net, x)
        return x + 1

    compiled, outcomes = run(fn), []
    for factor in (1.0, 2.0, 3.0):
        try:
            outcome = str(compiled(X * factor))
        except (KeyError, TypeError) as error:
            outcome = repr(error)
        outcomes.append((outcome, _everything(net)))
    return outcomes


@pytest.mark.parametrize("change", CHANGES)
def test_a_live_module_has_it_where_torch_puts_it(change: str) -> None:
    """Over three calls: in which registry, in what order, and whether `state_dict` has it."""
    compiled = _outcomes(CHANGES[change], dynexplore.optimize("eager", nopython="into" not in change))
    assert compiled == _outcomes(CHANGES[change], lambda fn: fn)
    assert graphs_compiled() >= 1


@pytest.mark.parametrize("change", REFUSED)
def test_a_name_that_torch_refuses_is_refused(change: str) -> None:
    """The same exception in each call, and nothing is left behind."""
    tried = []

    def run(fn: Any) -> Any:
        def caught(x: torch.Tensor) -> tuple[torch.Tensor, str]:
            try:
                return fn(x), ""
            except (KeyError, TypeError) as error:
                return x * 2, str(error)

        tried.append(dynexplore.optimize("eager")(caught))
        return tried[-1]

    compiled = _outcomes(REFUSED[change], run)
    plain = _outcomes(REFUSED[change], lambda fn: fn)
    assert [state for _, state in compiled] == [state for _, state in plain]
    assert all("Error" in outcome for outcome, _ in plain) and all(", ''" not in outcome for outcome, _ in compiled)
    assert graphs_compiled() >= 1


@pytest.mark.parametrize("change", [*CHANGES, *REFUSED])
def test_a_module_made_in_the_frame_has_it_too(change: str) -> None:
    """It leaves the frame with what was registered; a refused name raises there, too."""
    def fn(x: torch.Tensor) -> Any:
        net = Net()
        try:
            {**CHANGES, **REFUSED}[change](net, x)
        except (KeyError, TypeError) as error:
            return x * 2, str(error), net
        return x + 1, "", net

    assert_same_as_eager(fn, X, graphs=range(1, 4))
    eager, compiled = fn(X), dynexplore.optimize("eager")(fn)(X)
    assert eager[1] == compiled[1]
    assert _everything(eager[2]) == _everything(compiled[2])


def test_a_cache_of_angles_that_grows_is_one_graph() -> None:
    """A rotary embedding registers longer buffers where a longer input comes, as those of transformers do."""
    class Rotary(nn.Module):
        def __init__(self) -> None:
            super().__init__()
            self.grow(4)

        def grow(self, length: int) -> None:
            self.length = length
            angles = torch.outer(torch.arange(length), torch.tensor([1.0, 0.1]))
            self.register_buffer("cos", angles.cos(), persistent=False)
            self.register_buffer("sin", angles.sin(), persistent=False)

        def forward(self, x: torch.Tensor) -> torch.Tensor:
            if x.shape[0] > self.length:
                self.grow(x.shape[0])
            return x * self.cos[: x.shape[0]] + x.flip(-1) * self.sin[: x.shape[0]]

    plain, rotary = Rotary(), Rotary()
    compiled = dynexplore.optimize("eager", nopython=True)(rotary)
    for length in (3, 4, 9, 5, 9, 3):
        x = torch.arange(2.0 * length).reshape(length, 2)
        assert torch.equal(compiled(x), plain(x))
        assert _everything(rotary)[1:] == _everything(plain)[1:]
    assert 1 <= graphs_compiled() <= 4
