"""docs/glossary.md and the explorer: a word means the same in both."""

from __future__ import annotations

import re

import pytest

from source_tree import ROOT

EXPLORER = ROOT / "dynexplore/widgets/static/explorer"


def meanings() -> dict[str, str]:
    """Each term of the glossary with its first sentence, as plain text."""
    text = (ROOT / "docs/glossary.md").read_text(encoding="utf-8")
    terms = re.findall(r"^### (.*?)\n\n(.*?)(?=\n\n|\Z)", text, re.M | re.S)
    plain = {term: re.sub(r"\[([^\]]+)\]\([^)]*\)|`", r"\1", " ".join(words.split())) for term, words in terms}
    return {term: re.split(r"(?<=\.) ", words)[0] for term, words in plain.items()}


@pytest.mark.plain("compares two texts")
def test_what_a_pane_or_a_badge_says_of_its_term_is_the_glossarys_first_sentence() -> None:
    """Each term of glossary.js is one of the glossary, with its sentence; each key is one of a pane, or a kind of badge."""
    told = re.findall(r'^  "?([\w-]+)"?: \["([^"]+)", "(.*)"\],$', (EXPLORER / "glossary.js").read_text(encoding="utf-8"), re.M)
    panes = "".join(path.read_text(encoding="utf-8") for path in (EXPLORER / "panes").glob("*.js"))
    kinds = re.findall(r"^  (\w+): \[", (EXPLORER / "kinds.js").read_text(encoding="utf-8"), re.M)
    assert len(told) >= 10 and {"recompile", "break", "hit"} <= {key for key, *_ in told}
    for key, term, meaning in told:
        assert f'key: "{key}"' in panes or key in kinds
        assert meaning.replace(r"\"", '"') == meanings()[term]
