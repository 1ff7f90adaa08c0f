"""`watch(check=True)`: compiled calls beside eager mode, and the first operator that differs."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch

import dynexplore
from dynexplore.cli import main
from dynexplore.tools import wrong_operator

pytestmark = [
    pytest.mark.lenses,
    pytest.mark.filterwarnings("ignore:Guards may run slower on Python 3.13.0:RuntimeWarning"),
    pytest.mark.plain("torch.compile runs, and this engine does not"),
]


def wrong_cos(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
    """A backend with a fault: its cosine is a sine."""
    for node in graph.graph.nodes:
        if node.target is torch.cos:
            node.target = torch.sin
    graph.recompile()
    return graph.forward


def test_the_first_operator_that_differs() -> None:
    """The call, the operator, and the line; what was searched for it is not in the recording."""
    with dynexplore.watch(steps=False, check=True) as seen:

        @torch.compile(backend=wrong_cos)
        def f(x: torch.Tensor) -> torch.Tensor:
            y = x.exp() + 1
            y = torch.cos(y)
            return y * 2

        for size in (2, 2, 3):
            f(torch.ones(size))
    first, *later = seen.wrong_calls
    assert (first.number, len(later)) == (1, 2) and first.operator is not None
    assert first.operator.target == "torch.cos" and first.operator.place.startswith("test_checked_calls.py:")
    assert len(seen.recording.graphs) == 2
    assert "backend='wrong_cos'" in str(first) and "Checked: 3 compiled calls, 0 as in eager mode." in seen.notices


class Keeps(torch.nn.Module):
    def __init__(self, name: str) -> None:
        super().__init__()
        self.name = name
        setattr(self, name, torch.zeros(2))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        getattr(self, self.name).add_(torch.cos(x))
        return x * 2


def test_state_that_differs_is_named_as_the_program_names_it() -> None:
    """A tensor that is an attribute of the module, and one that a function finds in a container."""
    kept = {"last": torch.zeros(2)}

    def keeps(x: torch.Tensor) -> torch.Tensor:
        kept["last"].add_(torch.cos(x))
        return x * 2

    with dynexplore.watch(steps=False, check=True) as seen:
        torch.compile(Keeps("cache"), backend=wrong_cos)(torch.zeros(2))
        torch.compile(keeps, backend=wrong_cos)(torch.zeros(2))
    words = [str(call.difference) for call in seen.wrong_calls]
    assert [text.partition(" differs")[0] for text in words] == ["after the call, `self.cache`", "after the call, `kept['last']`"]


def test_a_right_program_is_not_disturbed() -> None:
    """Buffers, gradients, random numbers, changed arguments, graphs that autograd still needs: as without the check."""

    def results(check: bool) -> list[Any]:
        torch.manual_seed(0)
        torch._dynamo.reset()
        with dynexplore.watch(steps=False, check=check) as seen:
            inner = torch.nn.Sequential(torch.nn.Linear(3, 3), torch.nn.BatchNorm1d(3), torch.nn.Dropout(0.5))
            model = torch.compile(inner, backend="eager")
            step = torch.compile(lambda x: x.add_(1).sum(), backend="eager")
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5)
            rows: list[Any] = []
            for _ in range(2):
                one, two = model(torch.rand(4, 3)), model(torch.rand(4, 3))
                gradient = inner[0].weight.grad
                (one + two).pow(2).sum().backward()
                assert gradient is None or gradient is inner[0].weight.grad
                optimizer.step()
                x = torch.zeros(2)
                rows += [float(step(x)), x.tolist(), inner[0].weight.tolist(), inner[1].running_mean.tolist()]
        if check:
            assert not seen.wrong_calls and "Checked: 6 compiled calls, 6 as in eager mode." in seen.notices
            assert "4 calls drew random numbers: compared by types and shapes only." in seen.notices
        return [*rows, int(inner[1].num_batches_tracked), float(torch.rand(()))]

    assert results(check=True) == results(check=False)


def test_an_exception_of_one_of_the_two() -> None:
    """Is a difference, and reaches the program."""

    def raises(graph: torch.fx.GraphModule, inputs: list[Any]) -> Callable[..., Any]:
        def run(*values: Any) -> Any:
            raise ValueError("of the backend")

        return run

    with dynexplore.watch(steps=False, check=True) as seen:
        f = torch.compile(lambda x: x + 1, backend=raises)
        with pytest.raises(ValueError, match="of the backend"):
            f(torch.ones(2))
    assert "eager mode returns, the compiled call raises ValueError: of the backend" in str(seen.wrong_calls[0])


def test_an_optimizer_is_left_alone() -> None:
    """Its state would be replaced by copies: the call is counted, and not checked."""
    weight = torch.ones(2, requires_grad=True)
    optimizer = torch.optim.SGD([weight], lr=0.1)
    with dynexplore.watch(steps=False, check=True) as seen:
        f = torch.compile(lambda x, o: x * o.param_groups[0]["lr"], backend="eager")
        f(torch.ones(2), optimizer)
    assert "Not checked: 1 call whose arguments, closure or globals refer to an optimizer." in seen.notices


def test_large_values_are_sampled(monkeypatch: pytest.MonkeyPatch) -> None:
    """One wrong element between those of the sample is seen by the checksum."""
    monkeypatch.setattr(wrong_operator, "MOST_ELEMENTS", 4)
    right, wrong = torch.ones(8), torch.ones(8)
    wrong[1] = 9.0
    assert wrong_operator._differs([right], [right.clone()]) is None
    assert wrong_operator._differs([right], [wrong]) is not None
    assert wrong_operator._differs([right > 0], [right > 0]) is None


def test_a_script_with_a_wrong_call(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """`watch --check` reports it, and exits with 1."""
    script = tmp_path / "s.py"
    script.write_text(
        "import torch\nf = torch.compile(lambda x: x + 1, backend=lambda graph, inputs: lambda x: (x + 2,))\nf(torch.ones(2))\n"
    )
    assert main(["watch", "--no-steps", str(script), "--check"]) == 1
    assert "Call 1 of <lambda> differs from eager mode: the value differs by 1 at [0]" in capsys.readouterr().out
