"""views/dot.py: graphs as DOT text."""

from __future__ import annotations

import html
import re
import shutil
import subprocess
from dataclasses import replace

import pytest

from dynexplore.engine.events import NodeAdded
from dynexplore.views.dot import dot
from sample_recordings import inlined, toy

NASTY = 'a"b\\c\n<script>alert(1)</script>&{}|é\x00'


def node(name: str, *inputs: str, module: str = "", target: str = "t") -> NodeAdded:
    return NodeAdded(frame=1, graph="g", name=name, op="call_function", target=target, inputs=inputs, module=module)


def test_every_node_and_edge_is_there_with_an_id() -> None:
    """Each node has id and class, each use an edge from the node that is read."""
    text = dot(toy().graphs[0].nodes, name="__compiled_fn_0")
    assert text.startswith("digraph __compiled_fn_0 {\n") and text.endswith("\n}")
    for name in ("a", "abs_1", "add", "truediv", "b", "sum_1", "lt", "output"):
        assert re.search(rf'^\t+{name} \[class=\w+ fillcolor="#\w+" id="node-{name}" label=', text, re.MULTILINE)
    edges = set(re.findall(r"(\w+) -> (\w+)", text))
    assert edges == {
        ("a", "abs_1"),
        ("abs_1", "add"),
        ("a", "truediv"),
        ("add", "truediv"),
        ("b", "sum_1"),
        ("sum_1", "lt"),
        ("truediv", "output"),
        ("lt", "output"),
    }
    assert "rankdir=LR" in dot([], horizontal=True)


def test_the_outermost_group_of_a_module_bears_no_name_of_the_engine() -> None:
    """What the engine's wrapper calls `target` is the module itself, to whoever reads a diagram."""
    text = dot([node("a", module="target"), node("b", "a", module="target.target")])
    assert re.findall(r" label=(\w+) style", text) == ["module", "target"]


def test_nodes_are_grouped_by_module() -> None:
    """Nodes of a module stand in a cluster of that module, clusters nest as modules do."""
    text = dot([node("a"), node("b", "a", module="layers.0"), node("c", "b", module="layers.1"), node("d", module="head")])
    opened = [line.strip() for line in text.splitlines() if "subgraph" in line]
    assert opened == [
        f"subgraph {path} {{" for path in ("cluster_layers", '"cluster_layers.0"', '"cluster_layers.1"', "cluster_head")
    ]
    assert text.index('"cluster_layers.0"') < text.index("b [") < text.index('"cluster_layers.1"')
    assert 'id="module-layers.0" label=0' in dot(inlined().graphs[0].nodes)


def test_an_edge_bears_the_shape_of_what_goes_along_it() -> None:
    """A node's dtype and shape stand on the edges to its readers, in its own box only where nobody reads it."""
    nodes = [
        replace(node("x"), dtype="float32", shape="[2, 4]"),
        replace(node("i"), dtype="int64", shape="[3]"),
        replace(node("y", "x"), dtype="bfloat16", shape="[2]"),
        node("two", "y"),
    ]
    text = dot(nodes)
    assert 'x -> y [id="edge-x-y" label="f32[2, 4]"]' in text and 'y -> two [id="edge-y-two" label="bf16[2]"]' in text
    boxes = {line.split()[0]: line for line in text.splitlines() if "fillcolor" in line}
    assert "i64[3]" in boxes["i"] and "f32" not in boxes["x"] and "bf16" not in boxes["y"]


def test_an_edge_between_closed_groups_bears_the_first_shape_and_a_count() -> None:
    """Several tensors go along one edge there."""
    made = [replace(node(name, module="one"), dtype="float32", shape=shape) for name, shape in (("a", "[1]"), ("b", "[2]"))]
    text = dot([*made, node("c", "a", "b", module="two")], closed=["one", "two"])
    assert re.findall(r'label="(f32[^"]*)"', text) == ["f32[1] +1"]


def test_every_text_is_escaped() -> None:
    """Names with quotes, backslashes, line ends, HTML or control characters cannot leave their string."""
    text = dot([node(NASTY, module=NASTY, target=NASTY)], name=NASTY)
    assert "\x00" not in text and 'a\\"b\\\\c' in text
    outside = re.sub(r'"(?:[^"\\]|\\.)*"', "", text)
    assert "script" not in outside and "é" not in outside


def test_only_courier_is_asked_for() -> None:
    """`monospace` gets boxes too narrow, so the font is Courier everywhere."""
    assert set(re.findall(r"fontname=(\w+)", dot(toy().graphs[0].nodes))) == {"Courier"}


def test_a_node_that_is_not_shown_has_no_edge() -> None:
    """Inputs that were removed from the graph do not come back as nodes."""
    assert "->" not in dot([node("b", "gone")])


@pytest.mark.skipif(shutil.which("dot") is None, reason="the dot program is optional")
@pytest.mark.parametrize("name", ["plain", NASTY, "<a> -> b <c>", "a:b", "node", "end\\"])
def test_graphviz_reads_it(name: str) -> None:
    """The `dot` program draws it, and ids and classes survive into the SVG."""
    nodes = [*toy().graphs[0].nodes, node(name, "a", module=f"layers.{name}"), node("last", name)]
    text = dot(nodes, name=name)
    done = subprocess.run(["dot", "-Tsvg"], input=text, capture_output=True, text=True, check=True)
    svg = html.unescape(done.stdout)  # graphviz writes a hyphen as &#45;
    assert 'id="node-abs_1"' in svg and 'class="node call_function"' in svg
    assert svg.count(' class="node ') == len(nodes), "an edge makes no node of its own"


def test_the_pieces_of_a_split_graph_have_borders_of_their_own() -> None:
    """A node of a piece says its number, and has the class and the border of its piece; others are as before."""
    text = dot([node("a"), node("b", "a"), node("c", "b")], piece_of={"a": 1, "b": 2})
    lines = {name: next(line for line in text.splitlines() if line.startswith(f"\t{name} [")) for name in "abc"}
    assert 'class="call_function piece-1"' in lines["a"] and "\\npiece 1" in lines["a"]
    assert 'class="call_function piece-2"' in lines["b"] and "penwidth=2" in lines["b"]
    borders = [re.findall(' color="(#[0-9a-f]+)"', lines[name]) for name in "ab"]
    assert len(borders[0]) == len(borders[1]) == 1 and borders[0] != borders[1]
    assert "piece" not in lines["c"] and "penwidth" not in lines["c"]
