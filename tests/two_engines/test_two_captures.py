"""One call as torch.compile and as this engine capture it: the same, or parted at a place that is named."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch

import dynexplore
from dynexplore.recording.recording import Recording
from dynexplore.two_engines.divergences import Divergence
from dynexplore.two_engines.two_captures import TwoCaptures

pytestmark = pytest.mark.lenses

SCALE = 3


def straight(x: Any, n: Any) -> Any:
    """No reason to differ."""
    y = torch.relu(x) * n
    if n > 1:
        y = y + SCALE
    return y.sum()


def talks(x: Any) -> Any:
    """Breaks in both engines, at the same instruction, in a callee."""
    return helper(x) + 1


def helper(x: Any) -> Any:
    """Talks."""
    y = x * 2
    print("here")
    return y.relu()


def asks_for_a_break(x: Any, n: Any) -> Any:
    """Asks this engine alone for a break."""
    y = torch.relu(x) * n
    dynexplore.graph_break()
    return (y + 1).sum()


def breaks_in_a_loop(x: Any) -> Any:
    """torch.compile leaves a frame with a break in a loop to Python."""
    for _ in range(3):
        x = torch.tanh(x)
        if x.sum() > 100:
            x = x / 2
    return x


def test_what_both_capture_alike_has_no_parting_in_its_graphs() -> None:
    """Same operators, same graphs, and each instruction stands beside the same one."""
    captures = dynexplore.compare_engines(straight, torch.ones(2), 2)
    assert captures.has_same_graphs
    assert [one for one in captures.divergences if one.kind in ("frame", "break", "operator", "step")] == []
    assert all(
        pair.torch_side and pair.engine_side and pair.torch_side.offset == pair.engine_side.offset
        for pair in captures.comparison.pairs
    )
    assert "straight: the same 4 operators in 1 graph from both engines" in str(captures)


def test_a_break_at_the_same_instruction_is_no_parting(capsys: pytest.CaptureFixture[str]) -> None:
    """Frame by frame, both end the graph before the print, in the callee and in its caller; what it prints comes twice."""
    with dynexplore.config.patch(nested_graph_breaks=False):  # as torch.compile's option is by default
        captures = dynexplore.compare_engines(talks, torch.ones(2))
    assert captures.has_same_graphs
    assert [len(one.graphs) for one in captures.recordings.values()] == [3, 3]
    broken = [
        pair
        for pair in captures.comparison.pairs
        if pair.torch_side and pair.engine_side and pair.torch_side.graph_break and pair.engine_side.graph_break
    ]
    assert [pair.any.function for pair in broken] == ["talks", "helper"]
    assert capsys.readouterr().out.count("here") == 2


def test_the_first_break_that_only_one_has_is_the_headline() -> None:
    """The sentence names the place, the break and what the other engine does; both sides are shown there."""
    captures = dynexplore.compare_engines(asks_for_a_break, torch.ones(2), 2)
    first = captures.first
    assert first is not None
    assert (first.kind, first.where.split(" in ")[1]) == ("break", "asks_for_a_break")
    assert first.message.startswith("dynexplore ends the graph here (DX208")
    assert first.message.endswith("torch.compile continues")
    pair = captures.comparison.pairs[first.at]
    assert pair.torch_side is not None
    assert pair.engine_side is not None
    assert pair.engine_side.graph_break is not None
    assert (pair.torch_side.offset, pair.torch_side.line) == (pair.engine_side.offset, pair.engine_side.line)
    assert captures.headline.lines[1].startswith(first.where)
    assert captures.causes["break"] == {first.cause: 1}


def test_a_frame_that_only_one_gives_up_says_why() -> None:
    """What torch.compile runs as plain Python is told with its reason."""
    captures = dynexplore.compare_engines(breaks_in_a_loop, torch.ones(2))
    assert not captures.has_same_graphs
    assert "torch.compile runs breaks_in_a_loop as plain Python" in [one.message.partition(" (")[0] for one in captures.divergences]


def reshaped(x: Any) -> Any:
    """Asks for a size."""
    return x.view(x.shape[0] * 2, -1) + 1


def writes_in_place(x: Any) -> Any:
    """Operators that hand back the tensor that they are given: torch.compile reads their results, this engine the tensor."""
    y = (x + 1).mul_(3)
    y += 1
    z = torch.nn.functional.dropout(torch.relu_(y), 0.5, training=False)
    return z.to(z.dtype).contiguous() * y + x


@pytest.mark.parametrize("is_dynamic", [False, True])
def test_the_same_operator_on_other_sizes_is_a_difference(is_dynamic: bool) -> None:
    """Where torch.compile lets a size vary it multiplies it in the graph, and gives the product to the operator behind it."""
    captures = dynexplore.compare_engines(torch.compile(reshaped, backend="eager", dynamic=is_dynamic), torch.ones(2, 4))
    assert captures.has_same_graphs is not is_dynamic
    said = [one.message for one in captures.divergences if one.kind == "operator"]
    assert [what.partition(" with (")[0] for what in said] == (
        ["torch.compile puts operator.mul into a graph, dynexplore does not", "torch.compile calls .view"] if is_dynamic else []
    )
    assert all("dynexplore with (x, 4, -1)" in what for what in said[1:])


def test_a_tensor_that_is_handed_back_is_the_same_value() -> None:
    """Changed in place, converted to what it is already, or dropped out of nothing: either name stands for it."""
    assert dynexplore.compare_engines(writes_in_place, torch.ones(2)).has_same_graphs


def test_the_call_starts_twice_from_the_same_state() -> None:
    """Arguments and modules are as before, after both calls; an exception of the call is the caller's, and leaves them so, too."""
    counts = torch.zeros(2)

    def counted(x: Any) -> Any:
        x += 1
        if x.shape[0] == 3:
            raise LookupError("three")
        return x * 2

    assert dynexplore.compare_engines(counted, counts).has_same_graphs
    assert counts.tolist() == [0.0, 0.0]
    with pytest.raises(LookupError, match="three"):
        dynexplore.compare_engines(counted, torch.zeros(3))
    with pytest.raises(TypeError, match="takes a function"):
        dynexplore.compare_engines(3, counts)  # type: ignore[arg-type]


def test_every_form_of_it_names_the_first_parting(tmp_path: Path) -> None:
    """Text, HTML of a notebook, JSON and the page say the same; another ending is refused; redacted forms hold no paths."""
    captures = dynexplore.compare_engines(asks_for_a_break, torch.ones(2), 2)
    assert captures.first is not None
    assert captures.first.kind == "break"
    assert captures.first.message in captures._repr_html_()
    assert json.loads(captures.to_json())["partings"][0]["what"] == captures.first.message
    for ending in (".html", ".txt", ".json"):
        captures.save_html(tmp_path / f"two{ending}")
        assert captures.first.where in (tmp_path / f"two{ending}").read_text(encoding="utf-8")
    with pytest.raises(dynexplore.exc.ExportError, match=r"saved only as \.html, \.txt, \.json"):
        captures.save_html(tmp_path / "two.svg")
    assert "left out" in captures.save_html(tmp_path / "two.html", redact=True)
    assert str(Path(__file__).parent) not in (tmp_path / "two.html").read_text(encoding="utf-8")


@pytest.mark.plain("recordings without any capture")
def test_nothing_captured_says_so() -> None:
    """Two empty recordings are a sentence, not an error."""
    nothing = TwoCaptures(Recording(title="f", engine="torch.compile"), Recording(title="f"))
    assert str(nothing.headline) == "f: neither engine captured a graph."
    assert nothing.first is None
    assert nothing.comparison.first_pair == 0


def test_old_names_still_work_and_warn() -> None:
    """`partings` and `what` are the names of earlier releases."""
    captures = dynexplore.compare_engines(straight, torch.ones(2), 2)
    with pytest.warns(DeprecationWarning, match="divergences"):
        assert captures.partings == captures.divergences
    divergence = Divergence("guard", "a cause", "a message")
    with pytest.warns(DeprecationWarning, match="message"):
        assert divergence.what == "a message"
    assert not hasattr(divergence, "anything_else")
