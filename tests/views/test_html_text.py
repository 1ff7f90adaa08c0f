"""views/html_text.py: a recording as static HTML that is well-formed, escaped, linked and needs nothing else."""

from __future__ import annotations

import re
from html.parser import HTMLParser

import pytest

from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from dynexplore.views import html_text, notebook_output
from sample_recordings import ORIGINAL, SAMPLES, inlined, toy

NASTY = "<script>alert('x')</script>\"&\x00</td></style>"

VOID = {"meta", "br", "hr", "img", "link", "input"}


class Reader(HTMLParser):
    """Reads HTML, checks that tags nest, and keeps tags, ids, links and text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: set[str] = set()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.text = ""
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.add(tag)
        if tag not in VOID:
            self.open.append(tag)
        self.ids += [value for name, value in attrs if name == "id" and value]
        self.links += [value for name, value in attrs if name in ("href", "src") and value]

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.text += data


@pytest.mark.parametrize("name", SAMPLES)
def test_the_page_is_well_formed_and_needs_nothing(name: str) -> None:
    """Tags nest, ids are unique, every link leads to an id of the page, nothing is fetched and no script runs."""
    reader = Reader(html_text.page(SAMPLES[name]()))
    assert len(set(reader.ids)) == len(reader.ids)
    assert reader.links and all(link.startswith("#") and link[1:] in reader.ids for link in reader.links)
    assert not reader.tags & {"script", "img", "link", "iframe", "object"}
    assert "url(" not in html_text.STYLE and "@import" not in html_text.STYLE


def test_everything_is_there() -> None:
    """Explanation, source, break report, graph table, guards, both bytecodes with roles, steps and calls."""
    text = Reader(html_text.page(toy())).text
    for part in (
        "2 graphs, 1 graph break, 7 operators",
        "10      x = a / (torch.abs(a) + 1)",
        "Graph break DX104: `if` on a tensor value",
        "__compiled_fn_0: 5 operators",
        "operator.truediv",
        "4 guards",
        "call graph",
        "POP_JUMP_IF_FALSE",
        "attempt 2, to break before 30",
        "recompile",
    ):
        assert part in text, part


def test_nodes_and_guards_link_to_their_instruction() -> None:
    """A node's offset is a link to the row of its instruction; one of an inlined callee names the callee."""
    page = html_text.page(toy())
    assert '<a href="#dynx-1-i28">28</a>' in page and '<tr id="dynx-1-i28">' in page
    assert "6 in inner" in html_text.page(inlined())


def nasty() -> Recording:
    r = Recording(title=NASTY)
    view = ev.ValueView(1, NASTY, NASTY, NASTY, NASTY)
    rows = (ev.ListingRow(0, NASTY, NASTY, 1, 1, 0, 1, role=NASTY),)
    code = ev.CodeView(1, NASTY, NASTY, 1, NASTY, rows)
    at = {"frame": 1, "attempt": 1, "offset": 0}
    r.record(ev.FrameEntered(frame=1, parent=None, code=code, arguments=((NASTY, view),)))
    r.record(ev.AttemptStarted(frame=1, attempt=1))
    r.record(ev.NodeAdded(**at, graph=NASTY, name=NASTY, op=NASTY, target=NASTY, args=NASTY, module=NASTY))
    r.record(ev.GuardInstalled(**at, index=0, scope=NASTY, source=NASTY, kind=NASTY, expected=NASTY, expression=NASTY))
    r.record(ev.InstructionStepped(**at, step=0, op=NASTY, arg=NASTY, stack=(view,), changed=((NASTY, view),)))
    frames = (ev.UserFrame(NASTY, 1, NASTY, NASTY),)
    r.record(ev.GraphBroke(**at, kind=NASTY, title=NASTY, reason=NASTY, why=NASTY, fix=NASTY, user_stack=frames))
    r.record(ev.SubgraphCompiled(frame=1, attempt=1, graph=NASTY, backend=NASTY, node_count=1, op_count=1))
    r.record(ev.CodeEmitted(frame=1, attempt=1, code=code))
    r.record(ev.FrameSkipped(frame=2, function=NASTY, file=NASTY, line=1, reason=NASTY))
    return r


def test_every_text_is_escaped() -> None:
    """Names, values, sources and messages with HTML in them are shown as text."""
    page = html_text.page(nasty(), title=NASTY)
    reader = Reader(page)
    assert "script" not in reader.tags and "\x00" not in page
    assert page.count("</style>") == 1 and reader.text.count("<script>alert('x')</script>\"&\ufffd") > 10


def test_two_fragments_stand_on_one_page() -> None:
    """With a prefix each, the anchors of two fragments differ."""
    both = html_text.fragment(toy(), "one") + html_text.fragment(toy(), "two")
    reader = Reader(both)
    assert len(set(reader.ids)) == len(reader.ids) and "<html" not in both


def test_a_long_table_is_cut_and_says_so() -> None:
    """Past the limit of rows a table ends with the number of rows left out."""
    r = Recording()
    r.record(ev.FrameEntered(frame=1, parent=None, code=ORIGINAL))
    r.record(ev.AttemptStarted(frame=1, attempt=1))
    for _ in range(html_text.MOST_ROWS + 10):
        r.record(ev.InstructionStepped(frame=1, attempt=1, offset=2, step=1, op="NOP"))
    assert "... and 12 more rows" in html_text.page(r)
    left_out = html_text.MOST_ROWS + 12 - notebook_output.MOST_ROWS
    assert f"... and {left_out} more rows" in notebook_output.mimebundle(r)["text/html"]  # a notebook keeps it with each output


def test_an_empty_recording_is_a_page() -> None:
    """Nothing happened, and the page says so."""
    text = Reader(html_text.page(Recording())).text
    assert "0 graphs" in text and "no frame was translated" in text


def test_colours_follow_the_theme() -> None:
    """No colour is fixed: each is a theme variable with a system colour as fallback."""
    assert not re.search(r"#[0-9a-fA-F]{3,6}\b", html_text.STYLE)
    assert "color-scheme: light dark" in html_text.STYLE
