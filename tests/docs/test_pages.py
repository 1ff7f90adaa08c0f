"""The guide runs: every block of every page, and what the pages say is printed is printed."""

from __future__ import annotations

import doctest
import io
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import dynexplore
from doc_pages import Block, is_as_said, read, run

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
GENERATED = ("what-breaks.md", "graph-breaks.md", "backend-eligibility.md")  # each has a test of its own
REGISTRY = DOCS / "breaks"  # generated, too: test_break_pages.py
PAGES = sorted(
    page for page in DOCS.rglob("*.md") if "_build" not in page.parts and page.name not in GENERATED and page.parent != REGISTRY
)


@pytest.mark.lenses  # pages run in processes of their own, and compare with torch.compile where they say so
@pytest.mark.parametrize("page", [page for page in PAGES if read(page)], ids=lambda page: str(page.relative_to(DOCS)))
def test_every_block_runs_and_prints_what_the_page_says(page: Path, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """From top to bottom, in an empty folder. `--update-golden` writes what is printed into the page."""
    blocks = [block for block in read(page) if block.excuse is None]
    printed = run(blocks, tmp_path)
    if request.config.getoption("--update-golden"):
        update(page, blocks, printed)
        return
    for block, output in zip(blocks, printed, strict=True):
        if block.says is not None:
            assert is_as_said(block.says, output), f"{page.name}:{block.line} prints\n{output}\nand says\n{block.says}"


def update(page: Path, blocks: list[Block], printed: list[str]) -> None:
    """Put what was printed where the page says something else."""
    text = page.read_text(encoding="utf-8")
    for block, output in zip(blocks, printed, strict=True):
        if block.says is not None and not is_as_said(block.says, output):
            before = f"```{block.kind}\n{block.text}```"
            start = text.index(before) + len(before)
            text = text[:start] + text[start:].replace(f"```text\n{block.says}```", f"```text\n{output.strip()}\n```", 1)
    page.write_text(text, encoding="utf-8")


@pytest.mark.plain("reads a page")
def test_a_fence_with_a_directive_does_not_hide_the_block_behind_it(tmp_path: Path) -> None:
    """What stands behind a frame of the gallery is a program of the page like any other."""
    page = tmp_path / "page.md"
    page.write_text("```{explorer} toy\nWords.\n```\n\n```python\nprint(1)\n```\n\n```text\n1\n```\n", encoding="utf-8")
    assert read(page) == [Block("python", "print(1)\n", 5, "1\n")]


def test_what_is_not_run_has_a_reason() -> None:
    """Few blocks are for reading only, and each says why."""
    excused = [(page.name, block.excuse) for page in PAGES for block in read(page) if block.excuse is not None]
    assert all(len(reason) > 10 for _, reason in excused)
    assert len(excused) <= 12, excused


def test_the_faq_answers_with_a_command() -> None:
    """Each question is followed by a block to run."""
    for question in re.split(r"^## ", (DOCS / "faq.md").read_text(encoding="utf-8"), flags=re.M)[1:]:
        assert re.search(r"^```(python|ipython|console)$", question, re.M), question.splitlines()[0]


@pytest.mark.plain("the form of a page; its blocks are run above")
def test_each_question_of_check_yourself_has_a_folded_answer_with_a_proof() -> None:
    """Ten about the first five tutorials, two about each of the others: what is folded holds a program with what it prints, and a
    link to the section that it is about."""
    questions = re.split(r"^## \d+\. ", (DOCS / "check-yourself.md").read_text(encoding="utf-8"), flags=re.M)[1:]
    about = ["0[1-5]"] * 10 + [f"{number:02}" for number in range(6, 13) for _ in range(2)]
    for question, tutorial in zip(questions, about, strict=True):
        answer = question.partition("<details>\n<summary>Answer</summary>\n\n")[2].partition("\n\n</details>")[0]
        assert re.search(r"^```python\n.*?^```\n\n```text$", answer, re.M | re.S), question.splitlines()[0]
        assert re.search(rf"notebooks/{tutorial}_\w+\.ipynb#\d", answer), question.splitlines()[0]


@pytest.mark.plain("the form of a page")
def test_the_glossary_has_two_sentences_for_each_term() -> None:
    """As its first lines say."""
    terms = re.split(r"^### ", (DOCS / "glossary.md").read_text(encoding="utf-8"), flags=re.M)[1:]
    assert len(terms) > 30
    for term in terms:
        words = re.split(r"^## ", term.partition("\n\n")[2], flags=re.M)[0]
        assert len(re.findall(r"[.?!](?:\s|$)", words)) == 2, term


def test_the_reference_has_every_public_name() -> None:
    """Each name of the front door is in the reference."""
    text = (DOCS / "reference" / "api.md").read_text(encoding="utf-8")
    missing = [name for name in dynexplore.__all__ if f"dynexplore.{name}\n" not in text]
    assert missing == []


def test_every_page_is_in_the_table_of_contents() -> None:
    """A page that nothing leads to is not read: each stands in a table of contents."""
    listed = " ".join(page.read_text(encoding="utf-8") for page in [DOCS / "index.md", *DOCS.rglob("index.md")])
    lost = [page.name for page in PAGES if page.name != "index.md" and page.stem not in listed]
    assert lost == []


def test_links_between_pages_lead_somewhere() -> None:
    """Relative links of pages name files that exist; anchors are checked when the site is built."""
    for page in PAGES:
        for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)]*)?\)", page.read_text(encoding="utf-8")):
            if not target.startswith(("http://", "https://")):
                assert (page.parent / target).exists(), f"{page.relative_to(ROOT)}: {target}"


@pytest.mark.lenses  # compare's example asks torch.fx, in a process of its own
@pytest.mark.parametrize("name", dynexplore.__all__)
def test_examples_of_public_names_run(name: str) -> None:
    """The examples in the docstrings of public functions and classes give what they say, as the reference shows them."""
    public = {known: getattr(dynexplore, known) for known in dynexplore.__all__}
    finder = doctest.DocTestFinder(exclude_empty=True)
    runner = doctest.DocTestRunner(optionflags=doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE)
    module = sys.modules.get(getattr(public[name], "__module__", ""), torch)
    said = io.StringIO()
    for test in finder.find(public[name], name, module=module, globs={**public, "torch": torch, **vars(module)}):
        runner.run(test, out=said.write)
    assert runner.failures == 0, said.getvalue()


def test_docstrings_become_what_sphinx_reads() -> None:
    """Code in backticks, stars in prose, and examples: as the reference needs them."""
    program = (
        "from docstrings import rewritten\n"
        "assert rewritten(['Takes `*args` and 2*3.']) == ['Takes ``*args`` and 2\\\\*3.']\n"
        "assert rewritten(['Args: a: one, b: two. b: `b`'], ['a', 'b']) == [':param a: one, b: two.', ':param b: ``b``']\n"
        "assert rewritten(['Text.', '>>> f(*a)', '`x`']) == ['Text.', '', '>>> f(*a)', '`x`']\n"
    )
    subprocess.run([sys.executable, "-c", program], cwd=DOCS, check=True)
