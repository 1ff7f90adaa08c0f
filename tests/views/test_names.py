"""views/names.py: functions and files by the names that people give them."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import nn

from dynexplore import explain
from dynexplore.engine import native
from dynexplore.views.names import ENTRY_FILE, frame_name, input_names, is_entry, is_library, user_codes
from sample_recordings import inlined, toy


class Model(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.layer = nn.Linear(2, 2)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return self.layer(x).relu()


def test_the_entry_is_known_by_its_file() -> None:
    """The engine's wrapper around a module is told by the file that the engine gives it."""
    assert ENTRY_FILE == native.ENTRY_FILE
    recording = explain(Model())(torch.ones(1, 2)).recording
    assert [is_entry(entered.code) for entered in recording.frames] == [True]
    assert frame_name(recording, recording.frames[0]) == "Model.forward"
    assert [code.qualname for code in user_codes(recording)] == ["Model.forward"]


def twice(forward: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    def wrapper(*args: torch.Tensor) -> torch.Tensor:
        return forward(*args) * 2

    return wrapper


class Decorated(Model):
    forward = twice(Model.forward)  # type: ignore[assignment]


def test_a_decorated_forward_is_what_people_mean() -> None:
    """What decorators put around `forward` is called first, and bears no name of the model; inputs are those of `forward`."""
    recording = explain(Decorated())(torch.ones(1, 2)).recording
    (entered,) = recording.frames
    assert frame_name(recording, entered) == "Model.forward"
    assert "x" in input_names(recording, entered).values()


def test_frames_of_functions() -> None:
    """A frame goes by its function; what continues it names the line."""
    assert [frame_name(toy(), entered) for entered in toy().frames] == ["toy", "toy, from line 12 on"]
    assert [frame_name(inlined(), entered) for entered in inlined().frames] == ["outer"]
    assert [code.qualname for code in user_codes(inlined())] == ["outer", "inner"]


def test_libraries() -> None:
    """Installed packages, the standard library and the engine's entry are not the user's code."""
    assert is_library(torch.__file__) and is_library(ENTRY_FILE) and not is_library("model.py")
