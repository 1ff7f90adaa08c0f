"""views/svg.py: graphs as SVG, by graphviz or in plain layers."""

from __future__ import annotations

import itertools
import re
import shutil
import stat
import subprocess
from pathlib import Path
from xml.etree import ElementTree

import pytest

from dynexplore.engine.events import NodeAdded
from dynexplore.recording.recording import GraphView
from dynexplore.views import svg
from sample_recordings import SAMPLES, toy

NAME = "{http://www.w3.org/2000/svg}"


def ids(document: str, mark: str) -> list[str]:
    """The ids of the nodes or edges in a document."""
    found = (element.get("id", "") for element in ElementTree.fromstring(document).iter())
    return [ident for ident in found if ident.startswith(f"{mark}-")]


@pytest.fixture
def no_dot(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The program is not installed."""
    monkeypatch.setenv("PATH", str(tmp_path))


@pytest.mark.parametrize("name", SAMPLES)
@pytest.mark.usefixtures("no_dot")
def test_without_the_program_every_node_and_edge_is_drawn(name: str) -> None:
    """The plain drawing has the same nodes and edges as the graphs, each node below all that it reads."""
    graphs = SAMPLES[name]().graphs
    document = svg.svg(graphs)
    assert ids(document, "node") == [f"node-{node.name}" for graph in graphs for node in graph.nodes]
    edges = [f"edge-{source}-{node.name}" for graph in graphs for node in graph.nodes for source in dict.fromkeys(node.inputs)]
    assert sorted(ids(document, "edge")) == sorted(edges)
    for graph in graphs:
        body = ElementTree.fromstring(f"<svg {svg.drawing(graph).body}</svg>")
        tops = {group.get("id"): float(group.find("rect").get("y")) for group in body.iter("g")}  # type: ignore[union-attr,arg-type]
        for node in graph.nodes:
            assert all(tops[f"node-{source}"] < tops[f"node-{node.name}"] for source in node.inputs)


@pytest.mark.usefixtures("no_dot")
def test_an_edge_bears_the_shape_of_what_goes_along_it() -> None:
    """The plain drawing has the same texts on its edges as graphviz's."""
    body = svg.drawing(toy().graphs[0]).body
    flows = re.findall(r'<text class="flow"[^>]*>([^<]*)</text>', body)
    assert flows.count("f32[10]") == 6 and flows.count("f32[]") == 1 and flows.count("bool[]") == 1


@pytest.mark.usefixtures("no_dot")
def test_boxes_do_not_touch() -> None:
    """Wide nodes of one layer stand beside each other."""
    nodes = [NodeAdded(frame=1, graph="g", name=f"x{i}" * 9, op="placeholder", target="x" * 30) for i in range(12)]
    body = svg.drawing(GraphView("g", 1, 1, tuple(nodes), None)).body
    spans = sorted(
        (float(x), float(x) + float(width)) for x, width in re.findall(r'<rect x="([\d.]+)" y="4" width="([\d.]+)"', body)
    )
    assert len(spans) == 12 and all(left[1] < right[0] for left, right in itertools.pairwise(spans))


def test_with_the_program_the_ids_are_kept() -> None:
    """graphviz draws the graphs, with the ids of dot.py."""
    graphs = toy().graphs
    assert set(ids(svg.svg(graphs), "node")) == {f"node-{node.name}" for graph in graphs for node in graph.nodes}


def test_a_program_that_fails_is_as_good_as_none(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A `dot` that crashes, or writes nonsense, is no error."""
    for script in ("#!/bin/sh\nexit 3\n", "#!/bin/sh\ncat >/dev/null; echo no picture\n"):
        program = tmp_path / "dot"
        program.write_text(script)
        program.chmod(program.stat().st_mode | stat.S_IXUSR)
        monkeypatch.setenv("PATH", f"{tmp_path}:/bin:/usr/bin")
        assert 'class="plain"' in svg.svg(toy().graphs)


@pytest.mark.usefixtures("no_dot")
def test_names_stay_text() -> None:
    """Names that look like markup are escaped."""
    node = NodeAdded(frame=1, graph="<b>", name="<i x='", op="call_function", target="</svg>&\x00")
    document = svg.svg([GraphView("<b>", 1, 1, (node,), None)], note="a --> b & c")
    assert ids(document, "node") == ["node-<i x='"]
    assert next(ElementTree.fromstring(document).iter(f"{NAME}desc")).text == "a --> b & c"


def test_inputs_bear_the_names_of_the_program(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """With the program and without it a parameter is what the program calls it; no box says its name twice."""
    node = NodeAdded(frame=1, graph="g", name="target_layer_weight", op="placeholder", target="target_layer_weight")
    names = {node.name: "layer.weight"}
    by_program = svg.drawing(GraphView("g", 1, 1, (node,), None), (), names)
    monkeypatch.setenv("PATH", str(tmp_path))
    for drawn in (by_program, svg.drawing(GraphView("g", 1, 1, (node,), None), (), names)):
        texts = re.findall(r">([^<>]+)</(?:text|tspan)>", drawn.body)
        assert texts == ["layer.weight", "placeholder"]


def test_many_graphs_are_drawn_by_one_run_of_the_program(monkeypatch: pytest.MonkeyPatch) -> None:
    """Starting it is most of what a small graph costs; each drawing is the one that the graph has alone."""
    graphs = list(toy().graphs)
    alone = [svg.drawing(graph) for graph in graphs]
    runs: list[object] = []
    run = subprocess.run
    monkeypatch.setattr(svg.subprocess, "run", lambda *args, **more: (runs.append(args), run(*args, **more))[1])
    assert len(graphs) > 1 and svg.drawings([(graph, (), {}) for graph in graphs]) == alone
    assert len(runs) == (1 if shutil.which("dot") else 0)
    assert svg.drawings([]) == []
