"""engine/graph_breaks.py: the table is well-formed, the message block is the designed one, the docs are up to date."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from dynexplore.engine.events import UserFrame, ValueView
from dynexplore.engine.graph_breaks import KINDS, THEMES, GraphBreak, Kind, docs_page, unsupported

pytestmark = pytest.mark.plain("the table of kinds and its words")

DOCS = Path(__file__).parents[2] / "docs" / "graph-breaks.md"


def broken_at_an_if() -> GraphBreak:
    found = GraphBreak("DX104")
    found.user_stack = (UserFrame("model.py", 12, "forward", "        if x.sum() > 0:", 11, 22),)
    return found


def test_the_message_is_the_designed_one() -> None:
    """Title, place, underlined code, why, fix, then, more: line by line as people read it."""
    then = "3 operations compiled before it; the rest continues in two resume functions."
    assert broken_at_an_if().render(then) == "\n".join(
        [
            "Graph break DX104: `if` on a tensor value",
            "  at    model.py:12 in forward",
            "            if x.sum() > 0:",
            "               ^^^^^^^^^^^",
            "  why   The branch depends on data that exists only when the graph runs.",
            "  fix   Use torch.where, or move the `if` out of the compiled function.",
            "  then  3 operations compiled before it; the rest continues in two resume functions.",
            "  more  docs/graph-breaks.md#dx104        (fundamental)",
        ]
    )


def test_the_whole_user_stack_and_the_facts_are_told() -> None:
    """Callers stand below the place, innermost first, and run-time facts in a line of their own."""
    found = GraphBreak("DX201", function="math.gamma")
    found.user_stack = tuple(UserFrame(f"{name}.py", 1, name) for name in ("outer", "middle", "inner"))
    lines = found.render().splitlines()
    assert lines[:5] == [
        "Graph break DX201: a call to an unsupported C function",
        "  at    inner.py:1 in inner",
        "  from  middle.py:1 in middle",
        "  from  outer.py:1 in outer",
        "  facts function: math.gamma",
    ]


def test_the_reason_is_one_line_with_the_facts() -> None:
    """The reason names the facts, in one line, however long or odd they are."""
    assert GraphBreak("DX205", function="len", type="Foo\nBar").reason == (
        "a builtin called with unsupported arguments (function: len, type: Foo Bar)"
    )
    assert len(GraphBreak("DX205", text="x" * 10**6).reason) < 300

    class Broken:
        def __str__(self) -> str:
            raise RuntimeError("no")

    assert "its str raised RuntimeError" in GraphBreak("DX302", value=Broken()).reason


def test_unsupported_raises_the_break() -> None:
    """unsupported(kind, **facts) raises a GraphBreak of that kind, whose text is its reason."""
    with pytest.raises(GraphBreak, match=r"attribute: T\.x") as caught:
        unsupported("DX303", attribute="T.x")
    assert caught.value.kind is KINDS["DX303"]
    assert caught.value.facts == {"attribute": "T.x"}


def test_an_unknown_kind_is_a_mistake_in_the_engine() -> None:
    """An id that is not in the table is a KeyError that says where kinds live."""
    with pytest.raises(KeyError, match=r"no graph-break kind 'DX999'.*graph_breaks\.py"):
        GraphBreak("DX999")


def test_the_event_carries_all_that_views_need() -> None:
    """The record of a break holds kind, texts, facts, user stack and whatever place the translator adds."""
    stack = (ValueView(1, "TensorVariable", "bool[] cpu"),)
    event = broken_at_an_if().event(frame=3, attempt=2, offset=30, stack=stack, operations=3)
    assert (event.frame, event.attempt, event.offset, event.stack) == (3, 2, 30, stack)
    assert (event.kind, event.title, event.fundamental) == ("DX104", "`if` on a tensor value", True)
    assert event.report() == broken_at_an_if().render()


@pytest.mark.parametrize("kind", KINDS.values(), ids=lambda kind: kind.id)
def test_a_kind_is_well_formed(kind: Kind) -> None:
    """An id of a known theme; a title without run-time text or full stop; sentences for why and fix."""
    assert re.fullmatch(r"DX[1-5]\d\d", kind.id) and kind.id[:3] in THEMES
    assert not kind.title.endswith(".") and "{" not in kind.title and "\n" not in kind.title
    assert kind.why.endswith(".") and kind.fix.endswith(".")
    assert kind.title[0].islower() or kind.title[0] in "`P" or kind.title.startswith(("Python", "TorchF"))


def test_titles_are_told_apart() -> None:
    """No two kinds share a title, so that a reason names its kind."""
    assert len({kind.title for kind in KINDS.values()}) == len(KINDS)
    assert list(KINDS) == sorted(KINDS)


def test_a_missing_rule_is_never_fundamental() -> None:
    """CONTRIBUTING.md names the kinds behind which a row of a table of rules is missing: they are "not supported yet"."""
    section = (DOCS.parents[1] / "CONTRIBUTING.md").read_text().partition("## Adding a rule for a C function\n")[2]
    missing = re.findall(r"DX\d{3}", section.partition("\n| ")[0])
    assert missing == ["DX201", "DX204", "DX205", "DX213", "DX218", "DX411"]
    assert {KINDS[kind].status for kind in missing} == {"not supported yet"}


def test_no_advice_names_a_file_of_the_engine() -> None:
    """Nobody mends a program by editing what they installed: no file, folder or table of rules of this package is advice."""
    inside = re.compile(r"\.py\b|dynexplore/|CONTRIBUTING|@builtin|@rule|@attribute|add a rule")
    texts = {f"{kind.id} {part}": getattr(kind, part) for kind in KINDS.values() for part in ("title", "why", "fix")}
    assert not [where for where, text in texts.items() if inside.search(text)]


def test_the_docs_page_is_up_to_date() -> None:
    """docs/graph-breaks.md is what `python -m dynexplore.engine.graph_breaks` prints."""
    assert DOCS.read_text() == docs_page()


def test_the_docs_page_has_every_kind_under_its_anchor() -> None:
    """The anchor that a message points to exists in the page."""
    page = docs_page()
    for kind in KINDS.values():
        assert f'<a id="{kind.id.lower()}"></a>' in page and f"### {kind.id}: {kind.title}" in page


def test_known_differences_of_a_kind_have_an_anchor() -> None:
    """Each id that a row names is an entry of docs/differences.md, and the docs of the kind link to it."""
    entries, page = (DOCS.parent / "differences.md").read_text(), docs_page()
    names = {name for kind in KINDS.values() for name in kind.differences}
    assert "DIFF19" in names
    for name in names:
        assert f'<a id="{name.lower()}"></a>**{name} ' in entries
        assert f"[{name}](differences.md#{name.lower()})" in page
