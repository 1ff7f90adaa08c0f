"""tools/frame_record.py: a frame whose translation fails leaves a file; so does one on request."""

from __future__ import annotations

import argparse
import warnings
from pathlib import Path
from typing import Any

import pytest
import torch

import dynexplore
from dynexplore.engine.translate import dispatch
from dynexplore.tools.frame_record import described


def fails(frame: Any, step: Any, ctx: Any) -> None:
    raise ZeroDivisionError("planted")


@pytest.mark.engine_errors_fall_back
def test_only_where_it_is_wanted(tmp_path: Path, caplog: Any) -> None:
    """Nothing is written by default; with the option one line says where the file is, and the frame runs all the same."""
    with (
        dispatch.override("BINARY_OP", fails),
        warnings.catch_warnings(),
        dynexplore.config.patch(replay_record_folder=str(tmp_path)),
    ):
        warnings.simplefilter("ignore")
        assert dynexplore.optimize("eager")(lambda x: x * 2)(torch.ones(1)).item() == 2
        assert not list(tmp_path.iterdir())
        with dynexplore.config.patch(replay_record_enabled=True):
            assert dynexplore.optimize("eager")(lambda x: x * 3)(torch.ones(1)).item() == 3
    (file,) = tmp_path.iterdir()
    assert f"is saved: dynexplore.replay('{file}') shows it" in caplog.text


def test_the_error_tells_where_the_file_is(tmp_path: Path) -> None:
    """As a note; a graph break under nopython and a failing backend leave a frame too."""

    def refuses(graph: Any, inputs: Any) -> Any:
        raise NotImplementedError("never")

    def breaks(x: Any) -> Any:
        print(x)
        return x

    cases = [(lambda x: x + 1, {"backend": refuses}), (breaks, {"backend": "eager", "nopython": True})]
    with dynexplore.config.patch(replay_record_enabled=True, replay_record_folder=str(tmp_path), log_level="ERROR"):
        for number, (fn, options) in enumerate(cases, 1):
            with pytest.raises(dynexplore.exc.DynexploreError):
                dynexplore.optimize(**options)(fn)(torch.ones(1))
            assert len(list(tmp_path.iterdir())) == number


def test_a_folder_that_cannot_be_written(tmp_path: Path, caplog: Any) -> None:
    """It costs the user nothing but a line."""
    (tmp_path / "taken").write_text("")
    with dynexplore.config.patch(replay_record_enabled=True, replay_record_folder=str(tmp_path / "taken")):
        with dispatch.override("BINARY_OP", fails), pytest.raises(dynexplore.exc.EngineError):
            dynexplore.optimize("eager")(lambda x: x * 2)(torch.ones(1))
    assert "could not be saved" in caplog.text


@pytest.mark.plain("describes frames that do not run")
def test_on_request(tmp_path: Path) -> None:
    """A function, a method, a module: nothing runs, and the file tells what the frame would work on."""

    def never(x: Any, *rest: Any, k: int = 1, **more: Any) -> Any:
        raise AssertionError("it ran")

    frame = dynexplore.replay(dynexplore.record_frame(never, torch.ones(2), 5, z=6, path=tmp_path / "never.frame"))
    assert [(value.name, value.text) for value in frame.inputs[:4]] == [
        ("x", "float32[2] cpu"), ("rest", "(5,)"), ("k", "1"), ("more", "{'z': 6}"),
    ]  # fmt: skip
    assert "it ran" in frame.source and frame.failure is None
    model = torch.nn.Linear(2, 3)
    frame = dynexplore.replay(dynexplore.record_frame(model, torch.ones(1, 2), path=tmp_path / "model.frame"))
    assert frame.qualname == "Linear" and "def forward" in frame.source
    frame = dynexplore.replay(dynexplore.record_frame(model.forward, torch.ones(1, 2), path=tmp_path / "method.frame"))
    assert [value.name for value in frame.inputs[:2]] == ["self", "input"]
    decorated = torch.no_grad()(never)
    frame = dynexplore.replay(dynexplore.record_frame(decorated, torch.ones(1), path=tmp_path / "decorated.frame"))
    assert [value.name for value in frame.inputs[:2]] == ["args", "kwargs"]
    with pytest.raises(TypeError, match="missing a required argument"):
        dynexplore.record_frame(never)
    with pytest.raises(TypeError, match="expected a function, a method or a module, not int"):
        dynexplore.record_frame(3)


@pytest.mark.plain("describes values given by hand")
def test_descriptions() -> None:
    """One line each."""
    assert described(torch.nn.BatchNorm1d(2)) == "BatchNorm1d, a state_dict of 5 tensors"
    assert described((torch.ones(1),)) == "(float32[1] cpu,)" and described(torch) == "module torch, by import"
    assert described(len) == "<built-in function len>" and described(argparse.Namespace) == "class argparse.Namespace"
