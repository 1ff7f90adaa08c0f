"""Every link that people can click leads somewhere: in Markdown, in notebooks, and in what the tools show as HTML."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
import torch

import dynexplore
from docs.headings import slug
from dynexplore.views import html_text

ROOT = Path(__file__).resolve().parents[2]
FOLDERS = ("docs", "notebooks", "dynexplore", "benchmarks", "examples", "binder")
PAGES = [
    *sorted(ROOT.glob("*.md")),
    *sorted(page for folder in FOLDERS for ending in ("*.md", "*.ipynb") for page in (ROOT / folder).rglob(ending)),
]


def prose(page: Path) -> str:
    """The Markdown of a page, code left out."""
    text = page.read_text(encoding="utf-8")
    if page.suffix == ".ipynb":
        cells = json.loads(text)["cells"]
        text = "\n\n".join("".join(cell["source"]) for cell in cells if cell["cell_type"] == "markdown")
    return re.sub(r"^```.*?^```", "", text, flags=re.M | re.S)


def anchors(page: Path) -> set[str]:
    """The ids that a link into a page may name: headings, and those that are written down."""
    text = prose(page)
    headings = re.findall(r"^#{1,6} +(.+?) *$", text, flags=re.M)
    return {slug(heading) for heading in headings} | set(re.findall(r'id="([^"]+)"', text))


def links(page: Path) -> Iterator[str]:
    """The targets of a page's own links."""
    text = re.sub(r"`[^`\n]*`", "", prose(page))
    yield from re.findall(r"\]\(([^)\s]+)\)", text)
    yield from re.findall(r'(?:href|src)="([^"]+)"', text)


@pytest.mark.parametrize(
    "page", [page for page in PAGES if "_build" not in page.parts], ids=lambda page: str(page.relative_to(ROOT))
)
def test_links_of_a_page_resolve(page: Path) -> None:
    """A relative link names a file of the repository, and its anchor an id of that file."""
    for link in links(page):
        if re.match(r"[a-z]+:", link):
            assert link.startswith("https://"), link
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        assert target.exists(), link
        if anchor and target.suffix in (".md", ".ipynb"):
            assert anchor in anchors(target), f"{link}: {sorted(anchors(target))}"


class Reader(HTMLParser):
    """The ids of a page, and where its links lead."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.ids: list[str] = []
        self.links: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.ids += [value for name, value in attrs if name == "id" and value]
        self.links += [value for name, value in attrs if name in ("href", "src") and value]


def broken(x: Any) -> Any:
    y = x.sin()
    dynexplore.graph_break()
    if y.sum() > 0:
        y = y + 1
    return y


def no_sine(graph: torch.fx.GraphModule, inputs: Any) -> Any:
    assert "sin" not in graph.code
    return graph.forward


SHOWN: dict[str, Callable[[], Any]] = {
    "all_breaks": lambda: dynexplore.all_breaks(broken, torch.ones(3)),
    "diagnose": lambda: dynexplore.diagnose(broken, torch.ones(3), backend="eager"),
    "minify": lambda: dynexplore.minify(broken, torch.ones(3), backend=no_sine),
    "coverage": lambda: dynexplore.coverage(broken, torch.ones(3)),
    "what_if": lambda: dynexplore.explain(broken, torch.ones(3)).session.what_if(),
}


@pytest.mark.parametrize("name", SHOWN)
def test_links_of_what_a_tool_shows_stay_on_its_page(name: str) -> None:
    """What a tool shows may be saved and sent: its links lead to ids of the same page, twice on a page, too."""
    shown = SHOWN[name]()
    reader = Reader(html_text.document(name, shown._repr_html_() + shown._repr_html_()))
    assert all(link.startswith("data:") or link[1:] in reader.ids for link in reader.links), reader.links
    assert len(set(reader.ids)) == len(reader.ids)
    assert bool(reader.links) == (name in ("all_breaks", "minify"))


def test_a_break_links_to_its_entry_of_the_docs() -> None:
    """The entry stands on the page, with why, how to fix it and an example: where there is no site, too."""
    page = dynexplore.all_breaks(broken, torch.ones(3))._repr_html_()
    reader = Reader(page)
    assert sorted(link.rpartition("-")[2] for link in reader.links) == ["dx104", "dx208"]
    assert "Use torch.where" in page and "(fundamental)" in page
