"""Looking at a run without being noticed: copies, random numbers, modes, warnings."""

from __future__ import annotations

import warnings

import pytest
import torch
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode

import dynexplore
from dynexplore.engine import events as ev
from dynexplore.second_opinion.snapshots import RandomState, Snapshot, bytes_to_copy, quiet, why_not_quiet

pytestmark = pytest.mark.plain("copies and puts back what stands around any run")


def test_only_what_is_written_to_is_copied() -> None:
    """And all that lies on the same memory; views stay views of one another."""
    base, other = torch.arange(6.0), torch.ones(2)
    view = base[2:].view(2, 2).T
    snapshot = Snapshot([base, view, other, 3], written=(0,))
    copied, copied_view, same, number = snapshot.inputs()
    assert number == 3
    assert same.data_ptr() == other.data_ptr()
    assert torch.equal(copied, base) and torch.equal(copied_view, view) and copied_view.stride() == view.stride()
    copied.add_(1)
    assert torch.equal(copied_view, view + 1)
    assert torch.equal(base, torch.arange(6.0))
    assert snapshot.written == [0, 1]
    assert snapshot.bytes == bytes_to_copy([base, view, other], (0,)) == 24


def test_an_input_that_requires_grad_is_detached() -> None:
    """Whatever the replay does, no gradient gets to the program's tensors."""
    parameter = torch.nn.Parameter(torch.ones(2))
    (inside,) = Snapshot([parameter], written=()).inputs()
    assert not inside.requires_grad


def test_random_numbers_are_put_back() -> None:
    """The generator is what it was."""
    state = RandomState()
    first = torch.rand(3)
    reached = state.now()
    state.restore()
    assert torch.equal(torch.rand(3), first)
    assert state.now() == reached
    assert state != reached


def test_quiet_puts_everything_back() -> None:
    """Gradient mode, autocast and its cache, the place where warnings go."""
    shown = warnings.showwarning
    with torch.autocast("cpu", torch.bfloat16), quiet():
        assert not torch.is_grad_enabled()
        torch.set_autocast_enabled("cpu", False)
        torch.set_grad_enabled(True)
    assert torch.is_grad_enabled()
    assert torch.is_autocast_cache_enabled()
    assert warnings.showwarning is shown
    with torch.no_grad(), quiet():
        pass
    assert torch.is_grad_enabled()


def test_a_mode_of_the_program_would_see_the_replay() -> None:
    """Then nothing is replayed, and it is said why; the mode sees the program's own operators only."""
    seen: list[str] = []

    class Counts(TorchFunctionMode):
        def __torch_function__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            seen.append(getattr(function, "__name__", ""))
            return function(*args, **(kwargs or {}))

    class Sees(TorchDispatchMode):
        def __torch_dispatch__(self, function, types, args=(), kwargs=None):  # type: ignore[no-untyped-def]
            return function(*args, **(kwargs or {}))

    assert why_not_quiet() == ""
    with torch.device("cpu"):
        assert why_not_quiet() == ""
    with Sees():
        assert "TorchDispatchMode" in why_not_quiet()
    counts = []
    for real in (True, False):
        dynexplore.reset()
        seen.clear()
        with Counts():
            assert "Counts" in why_not_quiet()
            recording = dynexplore.explain(lambda x: torch.sin(x) + 1, real=real)(torch.ones(2)).recording
        counts.append(list(seen))
        if real:
            assert all("Counts" in left.reason for left in recording.of(ev.RunLeftOut))
            assert not recording.of(ev.ValueObserved)
    assert counts[0] == counts[1]
