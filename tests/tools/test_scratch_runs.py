"""Runs of a program in a scratch directory, and their comparison."""

from __future__ import annotations

import pytest
import torch

from dynexplore.recording.recording import Recording
from dynexplore.tools.scratch_runs import Run, same_values
from dynexplore.watching import remedy_process

pytestmark = pytest.mark.plain("results are compared, and nothing is captured")


def test_an_eager_run_sees_both_branches(monkeypatch: pytest.MonkeyPatch) -> None:
    """Branches of two shapes or dtypes are counted, whichever is taken."""
    monkeypatch.setattr(torch, "where", torch.where)  # put back afterwards
    monkeypatch.setenv("TORCHDYNAMO_DISABLE", "1")
    branches = remedy_process.Branches()
    x = torch.ones(2)
    torch.where(x.sum() > 0, x, -x)
    assert branches.differing == 0
    torch.where(x.sum() > 0, x, x.sum())
    torch.where(x.sum() > 0, x, x.double())
    assert branches.differing == 2


def test_a_call_leaves_its_inputs_and_gradients() -> None:
    """Two runs whose results are equal, and whose inputs or gradients are not, differ."""
    results = remedy_process.Results(5)
    weight, x = torch.ones(2, requires_grad=True), torch.ones(2)
    results.around(lambda w, x: (w * x.mul_(2)).sum())(weight, x).backward()
    assert results.rows == [[[[], 4.0, 4.0, 2.0], [[2], 2.0, 2.0, 2.0], [[2], 4.0, 4.0, 4.0]]]
    assert results.state()[0] == [[2], 4.0, 4.0, 4.0]


def run(results: list[object], printed: str = "", state: list[object] | None = None) -> Run:
    return Run(Recording(), results, printed, "", state or [])


@pytest.mark.parametrize(
    ("before", "after", "same"),
    [
        (run([[1.0]]), run([[1.0 + 1e-7]]), True),
        (run([[1.0]]), run([[1.5]]), False),
        (run([[1.0]]), run([[1.0], [2.0]]), False),
        (run([[float("nan")]]), run([[float("nan")]]), True),
        (run([], "loss 1"), run([], "loss 2"), False),
        (run([]), run([]), None),
        (run([[1.0]], state=[2.0]), run([[1.0]], state=[3.0]), False),
    ],
)
def test_results_are_compared(before: Run, after: Run, same: bool | None) -> None:
    """What compiled calls returned and left behind, else what was printed; nothing is said where there is neither."""
    assert same_values(before, after) is same
