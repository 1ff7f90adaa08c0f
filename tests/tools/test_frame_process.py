"""tools/frame_process.py: a saved frame is put back into the state that it was in, and run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import dynexplore
from dynexplore.engine.translate import dispatch
from dynexplore.recording.recording import Recording
from dynexplore.tools import frame_process


def outcome_of(file: Path, tmp_path: Path) -> dict[str, Any]:
    """Run in this process, which is quicker and is not what `replay` does."""
    frame_process.main([str(file), "-", str(tmp_path / "out.json")])
    return json.loads((tmp_path / "out.json").read_text())


def test_arguments_and_modes(tmp_path: Path) -> None:
    """Positional, keyword-only, * and ** come back as they were, and so do grad mode, dtype and random numbers."""

    def f(a: Any, b: Any = 2, *rest: Any, k: Any, **more: Any) -> Any:
        assert not torch.is_grad_enabled() and torch.get_default_dtype() is torch.float64
        return a * b + sum(rest) * k + more["z"] + torch.rand(1)

    dtype = torch.get_default_dtype()
    with torch.no_grad():
        torch.set_default_dtype(torch.float64)
        torch.manual_seed(7)
        file = dynexplore.record_frame(f, torch.ones(1), 3, 4, k=5, z=6, path=tmp_path / "f.frame")
        expected = f(torch.ones(1), 3, 4, k=5, z=6)
    torch.set_default_dtype(dtype)
    random = torch.get_rng_state()
    outcome = outcome_of(file, tmp_path)
    with torch.no_grad():
        torch.set_rng_state(random)
        torch.set_default_dtype(dtype)
    torch.set_grad_enabled(True)
    assert outcome["outcome"] == "ran" and outcome["message"] == "float64[1] cpu" and expected.dtype is torch.float64
    assert len(Recording.from_json(outcome["recording"]).graphs) == 1


def test_what_the_program_raises(tmp_path: Path) -> None:
    """It is an outcome, and no failure of a translation."""
    file = dynexplore.record_frame(lambda x: x[3], torch.ones(1), path=tmp_path / "f.frame")
    outcome = outcome_of(file, tmp_path)
    assert (outcome["outcome"], outcome["type"]) == ("raised", "IndexError")
    assert len(Recording.from_json(outcome["recording"]).frames) == 1


def test_what_was_learned_of_earlier_calls(tmp_path: Path) -> None:
    """A failure that needs a size that has changed before is there again: the history comes along."""

    def only_with_symbols(frame: Any, step: Any, ctx: Any) -> None:
        if any(isinstance(size, torch.SymInt) for size in frame.stack[-1].as_proxy().meta["example_value"].shape):
            raise ZeroDivisionError("a symbol")
        original(frame, step, ctx)

    fast = dynexplore.optimize("eager")(lambda x: x.sum() + x)
    with dispatch.override("BINARY_OP", only_with_symbols) as original:
        with dynexplore.config.patch(replay_record_enabled=True, replay_record_folder=str(tmp_path), log_level="ERROR"):
            fast(torch.ones(3))
            try:
                fast(torch.ones(4))
            except dynexplore.exc.EngineError:
                pass
        (file,) = tmp_path.glob("*.frame")
        outcome = outcome_of(file, tmp_path)
    assert outcome["outcome"] == "failed" and outcome["message"] == "a symbol"


@pytest.mark.plain("refused before anything is captured")
def test_a_file_that_cannot_be_used(tmp_path: Path) -> None:
    """The sentence is handed on."""
    (tmp_path / "bad.frame").write_text("bad")
    assert outcome_of(tmp_path / "bad.frame", tmp_path)["message"].endswith("(or its first bytes are damaged)")
