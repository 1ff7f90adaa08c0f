"""What the compiler made, and the pieces of a split graph, on the bare page: shown, switched on and off, in both themes."""

from __future__ import annotations

from dataclasses import replace

import pytest
from playwright.sync_api import expect

from browser.pages import Opened, pane
from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from sample_recordings import toy

NASTY = '<img src=x onerror="document.title=1">'
KERNELS = 'digraph k { "x" [label="x"]; "op0" [label="op0: cos"]; "x" -> "op0" [label="x"]; }'
TEXTS = {
    "joint": "both at once",
    "graph": f"class GraphModule: {NASTY}",
    "diagram": KERNELS,
    "kernels": "void kernel()",
    "times": "1 s",
}


LOWERED = {
    "graph": """def forward(a):
    # File: example.py:10 in toy, code: x
    abs_2: "f32[10]" = torch.ops.aten.abs.default(a)

    # File: example.py:11 in toy, code: if
    sum_2: "f32[]" = torch.ops.aten.sum.default(b)
    return x""",
    "diagram": 'digraph k { "op0" [label="op0: abs_2"]; "op1" [label="op1: sum_2"]; }',
    "ir": "op0: SchedulerNode(ComputedBuffer)\nop0.writes = []\nop1: SchedulerNode(ComputedBuffer)",
    "kernels": """cpp_fused_abs_0 = compile(r'''
void one() {
}
''')

# Topologically Sorted Source Nodes: [sum_1], Original ATen: [aten.sum]
triton_red_fused_sum_1 = compile(r'''
void two() {
}
''')

call()""",
}
"""What a compiler makes of lines 10 and 11 of `toy`: the first kernel tells it by its name, the second by a comment."""


def made_by_a_compiler(texts: dict[str, str] = TEXTS) -> Recording:
    """The sample `toy`, its first graph split in two, with a text of each part."""
    recording = Recording(title="made")
    name = toy().graphs[0].name
    for event in toy():
        if isinstance(event, ev.SubgraphCompiled) and event.graph == name:
            pieces = (
                ev.GraphPiece(1, ("abs_1", "add"), (1,), ("a",), 8),
                ev.GraphPiece(2, ("truediv", "sum_1", "lt"), (0,), ("b",), 4),
            )
            event = replace(event, pieces=pieces)
            for part, text in texts.items():
                stage = "joint" if part == "joint" else "forward"
                language = "dot" if part == "diagram" else "text"
                recording.record(
                    ev.ArtifactEmitted(frame=event.frame, graph=name, stage=stage, part=part, text=text, language=language)
                )
        recording.record(event)
    return recording


def test_each_part_has_a_button_that_shows_and_hides_it(opened: Opened) -> None:
    """Half of them are on show at first; a click changes one, the others stay; text never becomes markup."""
    page = opened(made_by_a_compiler())
    shown = pane(page, "artefacts")
    titles = shown.locator("h4")
    buttons = shown.locator(".dynx-parts button")
    assert buttons.all_inner_texts() == ["joint graph", "forward and backward", "kernel diagram", "kernels", "times"]
    assert titles.all_inner_texts() == ["forward graph", "forward kernels"]
    expect(shown.locator("pre").first).to_have_text(TEXTS["graph"])
    buttons.filter(has_text="times").click()
    buttons.filter(has_text="forward and backward").click()
    expect(titles).to_have_text(["forward kernels", "forward times"])
    expect(buttons.filter(has_text="times")).to_have_attribute("aria-pressed", "true")
    for name in ("kernels", "times"):
        buttons.get_by_text(name, exact=True).or_(shown.get_by_role("button", name=name, exact=True)).first.click()
    expect(shown).to_contain_text("all parts are hidden")
    assert page.title() != "1"


@pytest.mark.parametrize("graphviz", [True, False])
def test_the_kernel_diagram_is_drawn_where_there_is_graphviz(opened: Opened, graphviz: bool) -> None:
    """Else its text is shown."""
    page = opened(made_by_a_compiler(), graphviz=graphviz)
    shown = pane(page, "artefacts")
    shown.get_by_role("button", name="kernel diagram").click()
    if graphviz:
        expect(shown.get_by_role("img", name="forward diagram")).to_contain_text("op0: cos")
    else:
        expect(shown).to_contain_text("digraph k")


def test_a_line_leads_to_its_kernel_and_back(opened: Opened) -> None:
    """One click shows the kernel of the line at hand and each stage before it; a click on a kernel leads to its line."""
    page = opened(made_by_a_compiler(LOWERED))
    page.evaluate("dynexplore.go(dynexplore.frame.states.findLastIndex((state) => dynexplore.lineOf(state) === 11))")
    page.locator(".dynx-source").get_by_role("button", name="Show the compiled code").click()
    chain = page.locator(".dynx-chain")
    expect(chain).to_contain_text("Line 11 became")
    assert chain.get_by_role("button").all_inner_texts() == ["forward graph", "forward kernels"]
    marked = page.locator(".dynx-artefacts .dynx-of-line")
    assert [text.strip().splitlines()[-2:][0].strip() for text in marked.all_inner_texts()][-1] == "}"
    assert "void two" in marked.last.inner_text() and "void one" not in marked.last.inner_text()
    page.get_by_role("button", name="IR", exact=True).click()
    assert chain.get_by_role("button").all_inner_texts() == ["forward graph", "forward ir", "forward kernels"]
    page.locator(".dynx-lowered", has_text="void one").click()
    expect(chain).to_contain_text("Line 10 became")
    assert page.evaluate("dynexplore.lineOf(dynexplore.state)") == 10


def test_without_artefacts_there_is_no_pane(opened: Opened) -> None:
    """It would be empty."""
    assert opened(toy()).locator(".dynx-artefacts").count() == 0


def test_the_pieces_of_a_split_graph_have_numbers_and_colours(opened: Opened) -> None:
    """A line for each piece above the table, a column of numbers in it, the same border for both."""
    page = opened(made_by_a_compiler())
    table = pane(page, "graph", " table").first
    lines = pane(page, "graph", " p.dynx-piece")
    assert [line.split(":")[0] for line in lines.all_inner_texts()] == ["piece 1 of 2", "piece 2 of 2"]
    assert table.locator("th").last.inner_text() == "piece"
    numbers = {
        row.locator("td").nth(1).inner_text(): row.locator("td").last.inner_text() for row in table.locator("tbody tr").all()
    }
    assert numbers["add"] == "1" and numbers["truediv"] == "2" and numbers["a"] == ""
    colour = "element => getComputedStyle(element).borderLeftColor + getComputedStyle(element).borderLeftWidth"
    borders = [line.evaluate(colour) for line in lines.all()]
    cells = {
        name: table.locator("tbody tr").filter(has=page.get_by_text(name, exact=True)).first.locator("td").first for name in numbers
    }
    assert borders[0] != borders[1]
    assert cells["abs_1"].evaluate(colour) == borders[0] and cells["truediv"].evaluate(colour) == borders[1]
