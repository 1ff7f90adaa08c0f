"""views/names.py: functions and files by the names that people give them."""

from __future__ import annotations

import functools
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from torch import nn

from dynexplore import explain
from dynexplore.engine import native
from dynexplore.views.explorer_data import explorer_data
from dynexplore.views.names import ENTRY_FILE, frame_code, frame_name, input_names, is_entry, is_library, user_codes
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


def timed(func: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    @functools.wraps(func)
    def wrapper(*args: torch.Tensor, scale: int = 1) -> torch.Tensor:
        return func(*args) * scale

    return wrapper


def printed(func: Callable[..., torch.Tensor]) -> Callable[..., torch.Tensor]:
    @functools.wraps(func)
    def wrapper(*args: torch.Tensor) -> torch.Tensor:
        result = func(*args)
        print("printed")
        return result + 1

    return wrapper


@timed
@timed
def decorated(x: torch.Tensor) -> torch.Tensor:
    return x.relu()


@printed
def breaks_in_its_decorator(x: torch.Tensor) -> torch.Tensor:
    return x.relu()


ENGINES = pytest.mark.parametrize("engine", ["dynexplore", pytest.param("torch.compile", marks=pytest.mark.lenses)])


@ENGINES
def test_a_decorated_function_goes_by_its_own_name(engine: str) -> None:
    """What functools.wraps says that it wraps is what people mean; on the way to it there are the decorators' names."""
    recording = explain(decorated, torch.ones(2), engine=engine).recording
    (entered,) = recording.frames
    assert (frame_name(recording, entered), frame_code(recording, entered).qualname) == ("decorated", "decorated")
    names = {code["name"] for code in explorer_data(recording)["codes"].values()}
    assert names == {"@timed", "decorated"}


@ENGINES
def test_what_goes_on_in_a_decorator_is_the_decorators(engine: str) -> None:
    """After a break in a decorator's function its lines go on, not those of the function behind it."""
    recording = explain(breaks_in_its_decorator, torch.ones(2), engine=engine).recording
    names = [frame_name(recording, entered) for entered in recording.frames]
    line = breaks_in_its_decorator.__code__.co_firstlineno
    assert names == ["breaks_in_its_decorator", f"@printed, from line {line + 3} on"]


def test_frames_of_functions() -> None:
    """A frame goes by its function; what continues it names the line."""
    assert [frame_name(toy(), entered) for entered in toy().frames] == ["toy", "toy, from line 12 on"]
    assert [frame_name(inlined(), entered) for entered in inlined().frames] == ["outer"]
    assert [code.qualname for code in user_codes(inlined())] == ["outer", "inner"]


def test_libraries() -> None:
    """Installed packages, the standard library and the engine's entry are not the user's code."""
    assert is_library(torch.__file__) and is_library(ENTRY_FILE) and not is_library("model.py")


LIBRARYS = """class Kept(nn.Module):
    def forward(self, x):
        return generated(x) * 2
"""


def test_what_a_librarys_model_calls_does_not_name_its_frame() -> None:
    """Code that a dataclass generates belongs to no library; the frame of a library's model is named by `forward` all the same."""
    names = {"nn": nn, "generated": eval(compile("lambda x: x + 1", "<string>", "eval"))}
    exec(compile(LIBRARYS, str(Path(torch.__file__).parents[1] / "kept.py"), "exec"), names)
    recording = explain(names["Kept"]())(torch.ones(2)).recording
    assert [frame_name(recording, entered) for entered in recording.frames] == ["Kept.forward"]
