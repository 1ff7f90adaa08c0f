"""recording/shown.py: answers of a recording are the tuples and strings that they were, and print well."""

from __future__ import annotations

import copy
import pickle

import pytest

from dynexplore.recording.recording import Recording
from dynexplore.recording.shown import Printed, Shown
from sample_recordings import toy

pytestmark = pytest.mark.plain("recordings written by hand: dead data, asked and printed")


def test_it_is_a_tuple() -> None:
    """Equal to a tuple of the same records, sliced as one, copied and pickled with its noun."""
    breaks = toy().breaks
    assert breaks == tuple(breaks) and isinstance(breaks[:1], tuple) and hash(breaks) == hash(tuple(breaks))
    for made in (copy.copy(breaks), copy.deepcopy(breaks), pickle.loads(pickle.dumps(breaks))):
        assert made == breaks and made.noun == "graph break" and repr(made) == repr(breaks)


def test_nothing_is_said_so() -> None:
    """No record is a sentence and not an empty pair of brackets."""
    assert repr(Recording().guards) == "no guards" and "<p>no guards</p>" in Shown("guard")._repr_html_()


def test_a_text_is_its_lines() -> None:
    """What a session shows of a text of several lines is the lines; markup in it is text in HTML."""
    assert repr(Printed("a <b>\nc")) == "a <b>\nc" == str(Printed("a <b>\nc"))
    assert "<pre>a &lt;b&gt;\nc</pre>" in Printed("a <b>\nc")._repr_html_()
