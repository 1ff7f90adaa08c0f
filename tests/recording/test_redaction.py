"""recording/redaction.py: what is private is left out, and nothing else."""

from __future__ import annotations

import json

import pytest

from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from dynexplore.recording.redaction import redacted_record

pytestmark = pytest.mark.plain("recordings written by hand: dead data, asked, saved and loaded")


def private_recording() -> Recording:
    r = Recording(title="/home/alice/secret/model.py")
    source = "def f(x):  # the password is hunter2\n    name = 'hunter2'\n    return f'hunter2 {x}' + \"hunter2\"\n"
    code = ev.CodeView(1, "f", "/home/alice/secret/model.py", 1, source, (ev.ListingRow(0, "LOAD_CONST", "'hunter2'"),))
    view = ev.ValueView(1, "ConstantVariable", "'hunter2'", "d['hunter2']")
    frame = ev.UserFrame("C:\\alice\\secret\\model.py", 3, "f", "name = 'hunter2'")
    r.record(ev.FrameEntered(frame=1, parent=None, code=code, arguments=(("x", view),)))
    r.record(ev.GraphBroke(frame=1, kind="DX201", title="t", reason='open("hunter2")', user_stack=(frame,)))
    r.record(ev.EngineFailed(frame=1, error="at /home/alice/secret/engine.py:12: oops", where="/home/alice/e.py"))
    r.record(ev.ValueObserved(frame=1, role="node", name="add", text="hunter2", dtype="float32", first=(42.5,), mean=42.5))
    return r


def test_redaction_leaves_out_what_is_private() -> None:
    """No tensor element, string constant, comment or folder is left; names, shapes and numbers are."""
    text = private_recording().to_json(redact=True)
    for private in ("hunter2", "alice", "secret", "42.5"):
        assert private not in text, private
    for kept in ("model.py", "def f", "return", "LOAD_CONST", "float32", "engine.py:12: oops"):
        assert kept in text, kept
    assert json.loads(text)["redacted"] is True
    assert json.loads(private_recording().to_json())["redacted"] is False


def test_redaction_keeps_the_lines_of_the_source() -> None:
    """Source lines keep their numbers, so that links still hold; the recording itself stays as it was."""
    r = private_recording()
    source = Recording.from_json(r.to_json(redact=True)).frames[0].code.source
    assert len(source.splitlines()) == 3 and "hunter2" in r.to_json()


def test_source_that_is_no_python_is_left_out() -> None:
    """When the source cannot be read as Python, none of it is kept."""
    r = Recording()
    r.record(ev.FrameEntered(frame=1, parent=None, code=ev.CodeView(1, "f", "f.py", 1, "lambda: ('hunter2',", ())))
    assert "hunter2" not in r.to_json(redact=True)


def test_the_line_of_a_failing_backend() -> None:
    """Where a backend raised stays a file and a line, without its folder and without the texts in it."""
    raised = ev.UserFrame("/home/me/chip.py", 12, "chip", 'raise ValueError("secret")  # of mine')
    failed = ev.BackendFailed(frame=1, graph="g", backend="chip", error="ValueError: secret", raised_at=raised, node="relu")
    kept = redacted_record(failed, {})
    assert kept.raised_at == ev.UserFrame("chip.py", 12, "chip", "raise ValueError ('...')") and kept.node == "relu"
    assert "secret" not in str(kept)
