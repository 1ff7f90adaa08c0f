"""widgets/colours.py: the kinds of pieces of each source line."""

from __future__ import annotations

import re

import pytest

from dynexplore.views.explorer_data import explorer_data
from dynexplore.widgets.colours import MOST_LINES, coloured, pieces
from sample_recordings import SAMPLES

KINDS = {"k": "keyword", "s": "string", "n": "number", "c": "comment", "d": "definition", "a": "decorator", "b": "builtin"}


def counted(pieces_of_line: str) -> list[tuple[int, str]]:
    """How many letters are of which kind."""
    return [(int(count), kind) for count, kind in re.findall(r"(\d+)(\D)", pieces_of_line)]


def spelled(line: str, found: str) -> list[tuple[str, str]]:
    """The pieces of a line that have a kind."""
    at, named = 0, []
    for count, kind in counted(found):
        if kind != ".":
            named.append((line[at : at + count], KINDS[kind]))
        at += count
    return named


@pytest.mark.parametrize(
    ("line", "named"),
    [
        ("def f(x): return x", [("def", "keyword"), ("f", "definition"), ("return", "keyword")]),
        ("@dec  # why", [("@dec", "decorator"), ("# why", "comment")]),
        ("y = 'ä' + f'{x}' if not 1.5 else len(x)", [
            ("'ä'", "string"), ("f'", "string"), ("'", "string"), ("if", "keyword"), ("not", "keyword"),
            ("1.5", "number"), ("else", "keyword"), ("len", "builtin"),
        ]),
        ("x = y", []),
    ],
)  # fmt: skip
def test_kinds(line: str, named: list[tuple[str, str]]) -> None:
    """Words are told apart as a reader expects."""
    assert spelled(line, pieces([line])[0]) == named


def test_a_text_over_several_lines() -> None:
    """Each line has its own pieces, and a line with nothing to colour has none."""
    lines = ['x = """one', "two", '"""', "", "y = x"]
    assert [spelled(line, found) for line, found in zip(lines, pieces(lines), strict=True)] == [
        [('"""one', "string")],
        [("two", "string")],
        [('"""', "string")],
        [],
        [],
    ]


@pytest.mark.parametrize("lines", [["def ("], ["\tx = '"], ["é = 'x' $ ?", "\x00"], [], [""], ["x"] * (MOST_LINES + 1)])
def test_no_source_is_refused(lines: list[str]) -> None:
    """Damaged, empty and very long sources have pieces that fit, or none."""
    found = pieces(lines)
    for line, kinds in zip(lines, found, strict=False):
        assert sum(count for count, _ in counted(kinds)) <= len(line)
    assert len(found) in (0, max(len(lines), 1))


@pytest.mark.parametrize("name", SAMPLES)
def test_every_source_of_a_recording_is_coloured(name: str) -> None:
    """The data has the colours of each code object, and is else as it was."""
    data = explorer_data(SAMPLES[name]())
    shown = coloured(data)
    assert {key: shown[key] for key in data} == data
    assert shown["colours"].keys() == data["codes"].keys()
    assert any(kinds for lines in shown["colours"].values() for kinds in lines)
