"""One graph that ends in a callee is shown as one break, in the callee, with the calls that led there."""

from __future__ import annotations

import re
from pathlib import Path

import torch

import dynexplore
from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from dynexplore.views import annotated, text
from dynexplore.views.explorer_data import explorer_data
from dynexplore.views.headline import headline
from dynexplore.views.names import chain_words, frame_name
from dynexplore.views.timeline import Timeline


def attention(x):
    x = x * 2
    print("inside")
    return x + 1


def model(x):
    x = x - 1
    y = attention(x)
    return y * x


def train(x):
    x = x * 3
    y = model(x)
    return y.sum()


def line_of(part: str) -> int:
    return next(number for number, line in enumerate(Path(__file__).read_text().splitlines(), 1) if line.strip() == part)


AT = [line_of("y = model(x)"), line_of("y = attention(x)"), line_of('print("inside")')]
CHAIN = " > ".join(f"test_nested_breaks.py:{line}" for line in AT)


def recorded() -> Recording:
    with dynexplore.config.patch(nested_graph_breaks=True):
        return dynexplore.explain(train, torch.ones(3)).recording


def inner(x):
    y = x + 1
    print("first")
    z = y * 2
    print("second")
    return z - 1


def outer(x):
    return inner(x * 3) + 1


def test_the_moment_of_a_break_is_in_the_callee() -> None:
    """Its code, its line, and its locals, also where the callee runs nothing before it breaks again; the calls lead back."""
    with dynexplore.config.patch(nested_graph_breaks=True):
        recording = dynexplore.explain(outer, torch.ones(3)).recording
    states = Timeline(recording).steps_of_break()
    lines = [line_of('print("first")'), line_of('print("second")')]
    assert [(state.code.qualname, state.line) for state in states if state.code] == [("inner", line) for line in lines]
    assert all(state.calls for state in states) and dict(states[0].locals)["y"].text.startswith("float32[3]")
    assert dict(states[1].locals)["z"].text.startswith("float32[3]")
    opens = explorer_data(recording)["overview"]["rows"][0]["place"]
    frame = next(frame for frame in explorer_data(recording)["frames"] if frame["id"] == opens[0])
    assert explorer_data(recording)["codes"][str(frame["states"][opens[1]]["code"])]["name"] == "inner"


def test_a_callee_that_is_entered_stands_at_its_first_line() -> None:
    """Not at the line that the instruction of its caller would have in it."""
    data = explorer_data(recorded())
    states = [state for frame in data["frames"] for state in frame["states"] if state.get("kind") == "InlineEntered"]
    assert states and all(state["offset"] == -1 and state["line"] == data["codes"][str(state["code"])]["first"] for state in states)


def test_the_break_is_one_and_has_its_chain() -> None:
    """Headline, report and tree of frames name the line of the callee and the calls."""
    recording = recorded()
    (broke,) = recording.breaks
    assert broke.nested and chain_words(broke.user_stack) == CHAIN
    assert f"at test_nested_breaks.py:{AT[2]} in attention ({CHAIN})" in " ".join(str(headline(recording)).split())
    explanation = text.explanation(recording)
    assert explanation.count("printing or logging (function: print)") == 1
    assert f"called at {CHAIN.rpartition(' > ')[0]}" in explanation
    first, second = recording.frames
    assert not first.chain and chain_words(second.chain) == CHAIN
    assert f"resumes at {CHAIN}" in text.frames(recording)


def test_the_line_of_the_callee_is_marked() -> None:
    """The annotated source says the cause where it stands, and where it was called that it is in there."""
    recording = recorded()
    lines = annotated.annotated(recording).splitlines()
    marked = [line for line in lines if "printing or logging" in line]
    assert len(marked) == 1
    assert sum("breaks the graph at line" in line for line in lines) == 2  # the two calls that lead there


def test_no_name_of_the_engine_is_shown() -> None:
    """Parameters of the rest are called after the functions that they belong to."""
    recording = recorded()
    shown = f"{text.explanation(recording)}{text.frames(recording)}{explorer_data(recording)}"
    assert "attention:x" in shown and not re.search(r"\b\d\.(x|function|___stack)", shown)


class Prints(torch.nn.Module):
    def forward(self, x):
        x = x * 2
        print("in a module")
        return x + 1


def test_a_module_is_named_by_its_forward() -> None:
    """The wrapper around it only forwards the call: a break does not nest in it, and the explorer shows all parts."""
    with dynexplore.config.patch(nested_graph_breaks=True):
        recording = dynexplore.explain(Prints(), torch.ones(3)).recording
    line = line_of('print("in a module")')
    rest = f"Prints.forward, from line {line} on"
    assert [frame_name(recording, one) for one in recording.frames] == ["Prints.forward", "Prints.forward", rest, "Prints"]
    assert not any(broke.nested for broke in recording.breaks)
    assert all(frame["python"] for frame in explorer_data(recording)["frames"])


def test_a_break_in_the_frame_itself_has_no_chain() -> None:
    """Without a callee nothing is said of calls."""
    recording = dynexplore.explain(attention, torch.ones(3)).recording
    (broke,) = recording.breaks
    assert not broke.nested and all(isinstance(entered, ev.FrameEntered) and not entered.chain for entered in recording.frames)
