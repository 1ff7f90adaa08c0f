"""widgets/explorer.py, widgets/html.py and their assets: what is sent to the browser, and what stands in for it."""

from __future__ import annotations

import base64
import gc
import json
import subprocess
import sys
import weakref
import zlib
from dataclasses import replace
from typing import Any

import pytest

from dynexplore.recording.recording import Recording
from dynexplore.views import first_view
from dynexplore.views.explorer_data import explorer_data
from dynexplore.views.packing import packed
from dynexplore.widgets import explorer_texts, html
from dynexplore.widgets.colours import coloured
from dynexplore.widgets.explorer import Explorer
from dynexplore.widgets.live import CannotAnswer
from sample_recordings import SAMPLES, toy
from source_tree import ROOT

WIDGET = "application/vnd.jupyter.widget-view+json"


@pytest.mark.parametrize("name", SAMPLES)
def test_the_data_is_sent_as_one_text(name: str) -> None:
    """The widget's one trait of its own is the JSON of the recording's data."""
    recording = SAMPLES[name]()
    assert json.loads(Explorer(recording).data) == json.loads(json.dumps(packed(coloured(explorer_data(recording)))))


def test_what_a_notebook_gets() -> None:
    """A widget where one can run, the static page where none can, and one stable line."""
    shown = Explorer(toy())
    data, _ = shown._repr_mimebundle_()
    assert data[WIDGET]["model_id"] == shown.model_id
    assert "Graph break DX104" in data["text/html"] and "<script" not in data["text/html"]
    assert data["text/plain"] == repr(shown) == "Explorer(toy: 38 steps, 2 graphs, 6 guards)"


def test_a_widget_keeps_no_recording_alive() -> None:
    """The kernel's list of widgets holds the explorer for good; its recording goes when nobody else wants it."""
    recording = toy()
    shown, gone = Explorer(recording), weakref.ref(recording)
    del recording
    gc.collect()
    assert gone() is None and shown.data


def test_a_large_recording_is_sent_in_two(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its first view at once, and the whole of it in the same place when it is asked to be complete; then it is let go."""
    monkeypatch.setattr(first_view, "LARGE", 10)
    recording = toy()
    shown, gone = Explorer(recording, later=True), weakref.ref(recording)
    assert json.loads(shown.data)["isFirstView"] and "isFirstView" not in Explorer(recording).data
    shown.complete()
    assert shown.data == Explorer(recording).data
    del recording
    gc.collect()
    assert gone() is None
    shown.complete()  # there is nothing left to do


def test_what_ctrl_c_left_out_is_made_when_the_page_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    """The first view stays, the page is told that nothing follows by itself, and gets all of it when it asks."""
    monkeypatch.setattr(first_view, "LARGE", 10)
    recording = toy()
    shown = Explorer(recording, later=True)
    first = shown.data

    def interrupted(*_: Any) -> str:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(explorer_texts, "spelled", interrupted)
        with pytest.raises(KeyboardInterrupt):
            shown.complete()
        assert shown.data == first and shown.interrupted
        with pytest.raises(CannotAnswer, match="interrupted again"):
            shown.answerers["rest"]({})
    assert shown.answerers["rest"]({}) == ({}, [])
    assert shown.data == Explorer(recording).data and not shown.interrupted


def data_in(page: str) -> str:
    """The JSON that a page holds compressed."""
    letters = page.split('id="recording">')[1].split("</script>")[0]
    assert not set(letters) & set("<&\"'\\")
    return zlib.decompress(base64.b85decode(letters.replace(".", "<").replace(",", "&"))).decode()


def test_data_cannot_leave_its_script() -> None:
    """Text of a recording that looks like the end of a script element stays text, in the title too."""
    recording = toy()
    recording.title = "</script><b>&"
    page = html.page(recording)
    assert page.count("</script>") == 2 and "<b>&" not in page
    assert json.loads(data_in(page))["title"] == "</script><b>&"


def test_a_long_report_is_cut_for_those_without_scripts() -> None:
    """The page of a large recording begins its report and says how much is missing; the data holds all of it."""
    recording = toy()
    guard = recording.guards[-1]
    for at in range(3000):
        recording.record(replace(guard, index=10 + at, source=f"argument_{at}"))
    page = html.page(recording)
    static = page.split("<noscript>")[1].split("</noscript>")[0]
    assert len(static) < 1.5 * html.MOST_STATIC and "more lines: scripts show all of it." in static
    assert "argument_2999" in data_in(page) and "argument_2999" not in static


def test_a_redacted_page_holds_no_path() -> None:
    """`redact` leaves folders out of the data, too, and the page says so."""
    recording = Recording(title="toy")
    entered = toy().frames[0]
    recording.record(replace(entered, code=replace(entered.code, file="/home/someone/example.py")))
    assert "/home/someone" in data_in(html.page(recording))
    page = html.page(recording, redact=True)
    assert "paths were left out" in page and "someone" not in page and "someone" not in data_in(page)


def test_the_page_is_made_without_torch() -> None:
    """A recording becomes an HTML file in a process that imports no torch."""
    code = (
        "import sys; from dynexplore.widgets import html; from dynexplore.recording.recording import Recording;"
        "print(html.page(Recording(title='empty'))); assert 'torch' not in sys.modules"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd=ROOT)
    assert done.returncode == 0 and "empty" in done.stdout, done.stderr


def asked(explorer: Explorer, monkeypatch: pytest.MonkeyPatch, **question: object) -> list[tuple[object, ...]]:
    """What the explorer sends back when the browser asks."""
    sent: list[tuple[object, ...]] = []
    monkeypatch.setattr(explorer, "send", lambda *message: sent.append(message))
    explorer._handle_custom_msg(dict(question), [])
    return sent


def test_questions_are_answered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A question of the browser gets its answer, with its number and buffers."""
    explorer = Explorer(toy(), {"twice": lambda question: ({"value": 2 * question["value"]}, [b"x"])})
    assert asked(explorer, monkeypatch, ask="q:1", about="twice", value=4) == [({"value": 8, "answer": "q:1"}, [b"x"])]
    assert asked(explorer, monkeypatch, about="twice") == []


def test_what_cannot_be_answered_gets_a_sentence(monkeypatch: pytest.MonkeyPatch) -> None:
    """An unknown question, and one that the answerer refuses, come back as one sentence."""

    def refuses(question: dict[str, object]) -> tuple[dict[str, object], list[bytes]]:
        raise CannotAnswer("The function is gone.")

    explorer = Explorer(toy(), {"what_if": refuses})
    assert asked(explorer, monkeypatch, ask=1, about="what_if") == [({"answer": 1, "error": "The function is gone."},)]
    said = "This explorer cannot answer 'other': it has no running kernel."
    assert asked(explorer, monkeypatch, ask=2, about="other") == [({"answer": 2, "error": said},)]
