"""engine/events.py: records are plain, frozen, complete and cheap to make."""

from __future__ import annotations

import dataclasses
import typing

import pytest

from dynexplore.engine import events as ev

pytestmark = pytest.mark.plain("records made by hand")

RECORDS = [*ev.EVENTS.values(), *ev.PIECES.values()]


@pytest.mark.parametrize("cls", RECORDS, ids=lambda cls: cls.__name__)
def test_a_record_is_frozen_and_has_no_dict(cls: type) -> None:
    """Every record is a frozen dataclass with slots: nothing can be changed or hung onto it later."""
    for name in (field.name for field in dataclasses.fields(cls)):
        with pytest.raises(dataclasses.FrozenInstanceError):
            setattr(object.__new__(cls), name, 1)
    assert "__dict__" not in dir(cls)


@pytest.mark.parametrize("cls", RECORDS, ids=lambda cls: cls.__name__)
def test_the_fields_of_a_record_are_plain_data(cls: type) -> None:
    """A field is a str, int, bool, float, None, a nested record, or a tuple of such: no live objects, no dicts."""
    plain = {str, int, bool, float, type(None), Ellipsis, *ev.PIECES.values()}

    def check(hint: object) -> None:
        parts = typing.get_args(hint)
        if parts:
            assert typing.get_origin(hint) is not list and typing.get_origin(hint) is not dict
            for part in parts:
                check(part)
        else:
            assert hint in plain, f"{cls.__name__}: {hint}"

    for hint in typing.get_type_hints(cls).values():
        check(hint)


def test_every_event_is_in_the_registry() -> None:
    """The registry holds each leaf class by name, and no base class."""
    leaves = {cls for cls in vars(ev).values() if isinstance(cls, type) and issubclass(cls, ev.Event)}
    assert set(ev.EVENTS.values()) == leaves - {ev.Event, ev.InstructionEvent}
    assert all(cls.__name__ == name for name, cls in ev.EVENTS.items())


@pytest.mark.parametrize("cls", list(ev.EVENTS.values()), ids=lambda cls: cls.__name__)
def test_every_event_says_where_it_belongs(cls: type) -> None:
    """Each event has frame and attempt, and what an instruction causes has offset and inline as well."""
    names = {field.name for field in dataclasses.fields(cls)}
    assert {"frame", "attempt"} <= names
    assert issubclass(cls, ev.InstructionEvent) == ("offset" in names)


def test_a_huge_text_is_cut() -> None:
    """clip keeps beginning and end, and never gives more than the limit."""
    assert ev.clip("short") == "short"
    assert len(ev.clip("x" * 100_000_000, 240)) == 240
    assert ev.clip("0123456789" * 3, 10) == "012345...9"


def test_a_repr_that_raises_is_text() -> None:
    """A value whose repr raises is shown by its type and the exception."""

    class Broken:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    assert ev.safe_repr(Broken()) == "<Broken: its repr raised RuntimeError>"


def test_numbers_that_are_not_finite_are_text() -> None:
    """NaN and infinities become text, because JSON has none."""
    assert [ev.number(value) for value in (1.0, float("nan"), float("-inf"))] == [1.0, "nan", "-inf"]


def test_a_report_without_a_place_still_reads() -> None:
    """A break whose user stack and source are unknown has a report of title and reason only."""
    broke = ev.GraphBroke(frame=1, kind="DX999", title="something", reason="something")
    assert broke.report() == ("Graph break DX999: something\n  more  docs/graph-breaks.md#dx999        (not supported yet)")


@pytest.mark.parametrize(
    "word", ["/a/long/path/to/a/file.py:12", "`x = x.where(x > 2, x / 2)`", "In [5]:11", "dynexplore.minify(f, ..., backend=b)"]
)
def test_what_is_one_word_is_never_cut(word: str) -> None:
    """Sentences are wrapped between words; a path, code, a place in a notebook and a call are one word, whatever the width."""
    said = f"first some words, then {word} and more words"
    for width in range(1, len(said) + 1):
        lines = ev.wrapped(said, 4, width).split("\n")
        assert " ".join(line.strip() for line in lines) == said and any(word in line for line in lines)
        assert all(line.startswith("    ") for line in lines[1:])
    assert ev.wrapped(said, 4, 0) == said


@pytest.mark.parametrize(
    ("code", "column", "end", "marks"),
    [
        ("    y = x", 8, 9, "            y = x\n                ^"),
        ("\té = x", 1, 3, "            é = x\n            ^"),
        ("    s = '漢' + x", 16, 17, "            s = '漢' + x\n                      ^"),
        ("    y = x", 8, 99, "            y = x\n                ^"),
        ("    y = x", -1, -1, "            y = x"),
        ("    y = x", 0, 9, "            y = x"),
        ("", 3, 4, ""),
    ],
)
def test_the_code_of_a_break_is_underlined(code: str, column: int, end: int, marks: str) -> None:
    """The columns are bytes of the line; the marks stand under the characters, or are left out when unknown."""
    place = ev.UserFrame("f.py", 1, "f", code, column, end)
    broke = ev.GraphBroke(frame=1, kind="DX999", title="t", reason="t", user_stack=(place,))
    assert broke.report().splitlines()[2:-1] == marks.splitlines()


def test_texts_hold_no_addresses() -> None:
    """A default repr is shown without its memory address, so that the same program gives the same text."""
    assert ev.safe_repr(object()) == "<object object>"
    assert ev.without_addresses("no address at 0") == "no address at 0"
