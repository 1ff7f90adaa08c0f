"""engine/records.py: the same records, made quickly."""

from __future__ import annotations

import dataclasses
import pickle

import pytest

from dynexplore.engine import events as ev
from dynexplore.engine.records import quick

VIEW = ev.ValueView(1, "TensorVariable", "float32[2] cpu", "x", "x")
STEP = {"frame": 1, "attempt": 2, "offset": 4, "inline": 0, "step": 3, "op": "LOAD_FAST", "arg": "x", "stack": (VIEW,)}


@pytest.mark.parametrize(
    ("cls", "values"),
    [
        (ev.InstructionStepped, STEP),
        (ev.ValueView, {"id": 1, "kind": "k", "text": "t"}),
        (ev.AttemptStarted, {"frame": 1, "attempt": 1}),
    ],
)
def test_it_makes_what_the_class_makes(cls: type[ev.Event], values: dict[str, object]) -> None:
    """Equal, of the same class, with the same defaults, hash and text, and pickled the same."""
    made, usual = quick(cls)(**values), cls(**values)  # type: ignore[arg-type]
    assert type(made) is cls and made == usual and hash(made) == hash(usual) and repr(made) == repr(usual)
    assert pickle.loads(pickle.dumps(made)) == usual


def test_what_it_makes_is_frozen() -> None:
    """Nobody can change it, as any other record."""
    made = quick(ev.InstructionStepped)(**STEP)
    with pytest.raises(dataclasses.FrozenInstanceError):
        made.op = "POP_TOP"  # type: ignore[misc]
    with pytest.raises(dataclasses.FrozenInstanceError):
        del made.op


def test_a_missing_field_is_an_error() -> None:
    """A field without a default must be given."""
    with pytest.raises(TypeError, match="step"):
        quick(ev.InstructionStepped)(frame=1, attempt=1, offset=1, inline=0)
