"""widgets/explorer_texts.py: what an explorer sends is made once for a recording, and again after each change of it."""

from __future__ import annotations

import gc
import json
import re
import weakref
from collections.abc import Callable
from dataclasses import replace

import pytest

from dynexplore.recording.recording import Recording
from dynexplore.views import first_view
from dynexplore.views.explorer_data import explorer_data
from dynexplore.views.packing import packed
from dynexplore.widgets import explorer_texts
from dynexplore.widgets.colours import coloured
from dynexplore.widgets.explorer import Explorer
from sample_recordings import toy


def test_a_recording_that_is_shown_again_is_not_read_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """A second explorer sends the same texts, as its first view and as a whole; only its saved page has anchors of its
    own.
    """
    monkeypatch.setattr(first_view, "LARGE", 10)
    recording = toy()
    first = Explorer(recording, later=True)
    first.complete()
    for name in ("explorer_data", "first_view", "mimebundle", "Timeline", "is_large"):
        monkeypatch.delattr(explorer_texts, name)
    again = Explorer(recording, later=True)
    assert json.loads(again.data)["isFirstView"]
    again.complete()
    assert again.data is first.data is Explorer(recording).data
    old, new = (shown._repr_mimebundle_()[0]["text/html"] for shown in (first, again))
    anchors, others = (set(re.findall(r'"#(dynx\d+)-', text)) for text in (old, new))
    assert len(anchors) == len(others) == 1 and not anchors & others
    assert old.replace(*anchors, *others) == new


def test_each_link_of_a_saved_page_leads_to_its_row() -> None:
    """In the text that is kept the anchors have a prefix of their own: both ends of each link get that of the display."""
    recording = toy()
    pages = [Explorer(recording)._repr_mimebundle_()[0]["text/html"] for _ in range(2)]
    ids = [re.findall(r' id="([^"]*)"', page) for page in pages]
    for page, own in zip(pages, ids, strict=True):
        links = set(re.findall(r'href="#([^"]*)"', page))
        assert links and links <= set(own) and len(own) == len(set(own)) and "\ufffd" not in page
        assert all(re.fullmatch(r"dynx\d+-\d+-[im]\d+", name) for name in own)
    assert not set(ids[0]) & set(ids[1])


def _grows(recording: Recording) -> None:
    recording.record(replace(recording.guards[-1], source="one_more"))


def _is_cut(recording: Recording) -> None:
    recording.max_bytes = 0
    recording.record(recording.guards[-1])


CHANGES: dict[str, Callable[[Recording], None]] = {
    "an event": _grows,
    "an event that is left out": _is_cut,
    "title": lambda recording: setattr(recording, "title", "another title"),
    "versions": lambda recording: setattr(recording, "versions", "Python 9.9, torch 9.9"),
    "engine": lambda recording: setattr(recording, "engine", "torch.compile"),
}


@pytest.mark.parametrize("change", CHANGES)
def test_a_recording_that_changed_is_read_again(change: str) -> None:
    """Whatever the page shows of a recording, a change of it is in the next explorer, and in no earlier one."""
    recording = toy()
    first = Explorer(recording)
    before = first.data
    CHANGES[change](recording)
    again = Explorer(recording)
    assert first.data == before != again.data
    assert json.loads(again.data) == json.loads(json.dumps(packed(coloured(explorer_data(recording)))))


def test_what_is_kept_goes_with_its_recording() -> None:
    """No text keeps a recording alive, without the collector of reference cycles."""
    recording = toy()
    texts = explorer_texts.ExplorerTexts(recording)
    assert texts.whole() and texts.first_view() and texts.static()
    gc.collect()
    gc.disable()
    try:
        gone = weakref.ref(recording)
        del recording, texts
        assert gone() is None
    finally:
        gc.enable()
