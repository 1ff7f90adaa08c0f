"""The same operator twice: given something else, reading another value, or on other sizes. Told once, where it begins."""

from __future__ import annotations

import dataclasses

import pytest

from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from dynexplore.two_engines import calls
from dynexplore.two_engines.operators import unlike_operators
from dynexplore.two_engines.two_captures import TwoCaptures

pytestmark = pytest.mark.plain("graphs that are made up, compared without any engine")

CODE = ev.CodeView(1, "f", "model.py", 1, "def f(x):\n    return x\n", ())


def node(text: str, result: str = "float32 [2, 4] cpu", *, keywords: str = "{}") -> ev.NodeAdded:
    """`"b = torch.relu(a)"`, `"b = .view(a, 4)"`, or `"a <- x"`, an input."""
    name, _, made = text.partition(" ")
    dtype, shape, device = (result.partition(" ")[0], result.partition(" ")[2].rpartition(" ")[0], result.rpartition(" ")[2])
    facts = {"frame": 1, "graph": "g", "name": name, "dtype": dtype, "shape": shape, "device": device}
    if made.startswith("<- "):
        return ev.NodeAdded(**facts, op="placeholder", target=made[3:], args="()", kwargs="{}")
    target, _, inner = made[2:].partition("(")
    names = tuple(dict.fromkeys(word for word in calls._TOKEN.findall(inner) if word in "abcdefgh"))
    op = "call_method" if target.startswith(".") else "call_function"
    return ev.NodeAdded(**facts, op=op, target=target.removeprefix("."), args=f"({inner}", kwargs=keywords, inputs=names)


X, Y = node("a <- x"), node("b <- y")


def capture(*graphs: tuple[ev.NodeAdded, ...], engine: str = "dynexplore") -> Recording:
    """A recording of `f` with these graphs, each of a frame of its own."""
    recording = Recording(engine=engine, title="f")
    for frame, nodes in enumerate(graphs, 1):
        recording.record(ev.FrameEntered(frame=frame, parent=None, code=CODE))
        recording.record(ev.AttemptStarted(frame=frame, attempt=1))
        for one in nodes:
            recording.record(dataclasses.replace(one, frame=frame, attempt=1))
        operators = sum(one.op.startswith("call_") for one in nodes)
        names = tuple(one.name for one in nodes)
        recording.record(
            ev.SubgraphCompiled(
                frame=frame, attempt=1, graph="g", backend="eager", node_count=len(nodes), op_count=operators, nodes=names
            )
        )
    return recording


def said(theirs: tuple[ev.NodeAdded, ...], ours: tuple[ev.NodeAdded, ...]) -> list[str]:
    """The differences of two graphs, in words."""
    return [one.message for one in unlike_operators(capture(theirs, engine="torch.compile"), capture(ours))]


def test_names_of_nodes_and_the_order_of_keywords_say_nothing() -> None:
    """Each engine names what it makes in its own way; the values are followed."""
    theirs = (X, Y, node("c = torch.cat([a, b],)", keywords="{'dim': 1, 'out': None}"), node("d = operator.sub(c, a)"))
    ours = (
        node("e <- args_0"), node("f <- args_1"),
        node("g = torch.cat([e, f],)", keywords="{'out': None, 'dim': 1}"), node("h = operator.sub(g, e)"),
    )  # fmt: skip
    assert said(theirs, ours) == []


@pytest.mark.parametrize(
    ("theirs", "ours", "told"),
    [
        ("operator.mul(a, 2)", "operator.mul(a, 3)", "torch.compile calls operator.mul with (a, 2), dynexplore with (a, 3)"),
        ("torch.cat([a, b],)", "torch.cat((a, b),)", "torch.compile calls torch.cat with ([a, b]), dynexplore with ((a, b))"),
        (".view(a, b)", ".view(a, 8)", "torch.compile calls .view with (a, b), dynexplore with (a, 8)"),
        (".add('a', b)", ".add('b', b)", "torch.compile calls .add with ('a', b), dynexplore with ('b', b)"),
        ("operator.sub(a, b)", "operator.sub(b, a)", "operator.sub reads `x` in torch.compile, `y` in dynexplore"),
        ("operator.sub(a, a)", "operator.sub(a, b)", "operator.sub reads `x` in torch.compile, `y` in dynexplore"),
    ],
    ids=["constant", "list or tuple", "value or constant", "text", "the other way round", "one twice"],
)
def test_other_arguments_are_told(theirs: str, ours: str, told: str) -> None:
    """By the form of the arguments, the constants in them, and which values they are."""
    assert told in said((X, Y, node(f"c = {theirs}")), (X, Y, node(f"c = {ours}")))


def test_keywords_are_arguments() -> None:
    """They are written as in a call."""
    theirs, ours = (node("c = torch.sum(a,)", keywords=f"{{'dim': {dim}}}") for dim in (0, 1))
    assert said((X, theirs), (X, ours)) == ["torch.compile calls torch.sum with (a, dim=0), dynexplore with (a, dim=1)"]


@pytest.mark.parametrize("other", ["float64 [2, 4] cpu", "float32 [4, 2] cpu", "float32 [s0, 4] cpu", "float32 [2, 4] meta"])
def test_another_result_is_told_once(other: str) -> None:
    """What follows from it has another result, too, and is no news; neither is what is made of it in the end."""
    rest = "c = torch.relu(b)", "d = .neg(c)"
    theirs = (X, node("b = .new(a)"), *map(node, rest), node("e = .sum(d)", "float32 [] cpu"))
    ours = (X, node("b = .new(a)", other), *(node(one, other) for one in rest), node("e = .sum(d)", "float32 [] cpu"))
    made = calls.result(node("b = .new(a)", other))
    assert said(theirs, ours) == [f".new makes float32[2, 4] cpu in torch.compile, {made} in dynexplore"]


def test_an_input_of_other_sizes_is_told_where_it_is_first_read() -> None:
    """Once; a symbol bears another name on each side, and the order of its sum depends on that."""
    body = (node("b = torch.relu(a)"), node("c = torch.tanh(a)"))
    varying = [node("a <- x", f"float32 [{sizes}] cpu") for sizes in ("s0, 4", "s77, 4", "s1 + s2, 4", "s9 + s8, 4")]
    assert said((varying[0], *body), (varying[1], *body)) == said((varying[2], *body), (varying[3], *body)) == []
    told = "torch.compile takes `x` as float32[s0, 4] cpu, dynexplore as float32[2, 4] cpu"
    assert said((varying[0], *body), (X, *body)) == [told]


def test_what_only_one_has_is_told_once() -> None:
    """The operators behind it read another value, which follows from it."""
    theirs = (X, node("b = torch.relu(a)"), node("c = torch.tanh(b)"))
    ours = (X, node("b = torch.relu(a)"), node("d = .clone(b)"), node("c = torch.tanh(d)"))
    assert said(theirs, ours) == ["dynexplore puts .clone into a graph, torch.compile does not"]


def test_a_value_that_an_operator_hands_back_bears_either_name() -> None:
    """In place, or converted to what it is already; a conversion that makes another tensor is no such thing."""
    theirs = (X, node("b = .neg(a)"), node("c = .mul_(b, 2)"), node("d = .to(c, torch.float32)"), node("e = .sum(d)"))
    ours = (X, node("b = .neg(a)"), node("c = .mul_(b, 2)"), node("d = .to(b, torch.float32)"), node("e = .sum(b)"))
    assert said(theirs, ours) == []
    wider = [(X, node("d = .to(a, torch.float64)", "float64 [2, 4] cpu"), node(last)) for last in ("e = .sum(d)", "e = .sum(a)")]
    assert said(*wider) == [".sum reads `d` in torch.compile, `x` in dynexplore"]


def test_a_graph_that_ends_elsewhere_makes_no_other_values() -> None:
    """What is a result on one side is an input of the next graph on the other."""
    first, second = node("c = operator.mul(a, b)"), node("d = operator.sub(c, a)")
    theirs = capture((X, Y, first, second), engine="torch.compile")
    ours = capture((X, Y, first), (X, node("c <- y_1"), second))
    assert [*unlike_operators(theirs, ours)] == []


def test_arguments_that_were_cut_are_compared_by_the_values_that_they_read() -> None:
    """A record keeps so many letters; where names have other lengths, other parts are left."""
    theirs, ours = (X, Y, node("c = torch.cat([a, ...b],)")), (X, Y, node("c = torch.cat([a...],)"))
    assert said(theirs, (X, Y, dataclasses.replace(ours[2], inputs=("a", "b")))) == []
    assert said(theirs, ours) == ["torch.compile calls torch.cat with ([a, ...b]), dynexplore with ([a...])"]


def test_the_headline_and_the_check_know_it() -> None:
    """The graphs are not the same, though their operators are."""
    theirs, ours = (X, node("b = operator.mul(a, 2)")), (X, node("b = operator.mul(a, 3)"))
    captures = TwoCaptures(capture(theirs, engine="torch.compile"), capture(ours))
    assert not captures.has_same_graphs
    assert captures.headline.lines == (
        "f: torch.compile and dynexplore capture it differently.",
        "torch.compile calls operator.mul with (a, 2), dynexplore with (a, 3).",
    )
    assert captures.causes["operator"] == {"other arguments: operator.mul": 1}
