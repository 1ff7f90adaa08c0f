"""The gallery of the site: each program stands on a page under its question, and what the pages say of it is true."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import dynexplore
from docs.accessible import accessible
from docs.headings import slug

ROOT = Path(__file__).resolve().parents[2]
GALLERY, EXAMPLES = ROOT / "docs" / "gallery", ROOT / "examples"
PROGRAMS = sorted(path.stem for path in EXAMPLES.glob("*.py") if "print(shown)" in path.read_text(encoding="utf-8"))
PAGES = [page for page in sorted(GALLERY.glob("*.md")) if page.name != "index.md"]
EXPLORER = re.compile(r"^```\{explorer\} (\w+)\n(.+?)\n```$", re.M | re.S)


def shown_by(name: str) -> Any:
    """What a program of the gallery leaves in `shown`, run as a script."""
    dynexplore.reset()
    path = EXAMPLES / f"{name}.py"
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(path.read_text(encoding="utf-8"), str(path), "exec"), names)
    return names["shown"]


# name -> graphs, breaks and operators, as the pages tell them
SAID = {
    "split": (2, 1, 7),
    "loop": (2, 2, 6),
    "callee": (2, 1, 6),
    "sizes": (2, 0, 10),
    "attribute": (3, 0, 6),
    "decoder": (1, 0, 78),
    "unet": (1, 0, 24),
    "recommender": (1, 0, 23),
    "training_step": (2, 3, 8),
    "memory": (1, 0, 14),
}


@pytest.mark.parametrize("name", SAID)
def test_a_program_gives_what_its_page_says(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Graphs, breaks and operators; as a script it prints the explanation, and its docstring asks a question."""
    explanation = shown_by(name)
    assert capsys.readouterr().out.rstrip().endswith(str(explanation))
    assert (EXAMPLES / f"{name}.py").read_text(encoding="utf-8").partition("\n")[0].endswith("?")
    assert (explanation.graph_count, explanation.graph_break_count, explanation.op_count) == SAID[name]


def test_five_batches_compile_twice() -> None:
    """The first compiles, the third compiles again with a symbol, and all others are served from the cache."""
    assert shown_by("sizes").outcomes == ["compile", "hit", "recompile", "hit", "hit"]


@pytest.mark.plain("pages, and the files that they name")
def test_each_program_is_on_a_page_and_each_explorer_is_a_program() -> None:
    """No explorer without its program, no program that nobody sees; each frame has words for those who do not see it."""
    on_pages = {name: words for page in PAGES for name, words in EXPLORER.findall(page.read_text(encoding="utf-8"))}
    assert sorted(on_pages) == PROGRAMS and len(PROGRAMS) == 12
    assert all(words.startswith("The explorer for ") and words.endswith(".") for words in on_pages.values())
    first_page = (GALLERY.parent / "index.md").read_text(encoding="utf-8")
    assert [name for name, _ in EXPLORER.findall(first_page)] == ["split"]


@pytest.mark.plain("pages and their headings")
def test_the_index_leads_to_each_question() -> None:
    """Its table has a row for each heading that asks something."""
    index = (GALLERY / "index.md").read_text(encoding="utf-8")
    texts = {page.name: page.read_text(encoding="utf-8") for page in PAGES}
    headings = {f"{name}#{slug(heading)}" for name, text in texts.items() for heading in re.findall(r"^## (.+)$", text, re.M)}
    assert set(re.findall(r"\]\(([\w.]+#[^)]+)\) \|$", index, re.M)) == headings and len(headings) == 12
    assert sorted(re.findall(r"^\| \{thumbnail\}`(\w+)` \|", index, re.M)) == PROGRAMS


@pytest.mark.plain("a change of HTML texts")
def test_code_and_captions_are_within_reach() -> None:
    """Code that scrolls has a place in the order of the tab key; a caption that is a heading has a level."""
    assert accessible("<pre>x</pre>") == '<pre tabindex="0">x</pre>'
    assert accessible('<p role="heading">Guide</p>') == '<p role="heading" aria-level="2">Guide</p>'


@pytest.mark.plain("pages, and the files that they name")
@pytest.mark.parametrize("page", ["first-steps", "explorer", "breaks", "guards", "training", "inductor", "watching"])
def test_a_page_of_the_guide_shows_what_it_speaks_of(page: str) -> None:
    """It carries a live explorer of a program of the gallery, with words for those who do not see it."""
    text = (GALLERY.parent / "guide" / f"{page}.md").read_text(encoding="utf-8")
    shown = EXPLORER.findall(text)
    assert shown and {name for name, _ in shown} <= set(PROGRAMS)
