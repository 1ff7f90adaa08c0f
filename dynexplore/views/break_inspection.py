"""The graph-break inspector: all that is known of a break, put together for a person who wants to remove it.

Which idea lives here: a break is told in many records: the report, the symbolic stack and locals before the instruction, the
resume functions, and the frames in which these ran, whose arguments are what they truly received. Here they stand beside each
other, and each resume function beside the instructions that it continues.

In:  a Recording.
Out: `inspection_data(recording)`: break key -> its parts, for the browser; `inspection(recording, broke)` as text.

PyTorch has no counterpart.
"""

from __future__ import annotations

from typing import Any

from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from dynexplore.views import links, text
from dynexplore.views.names import goes_on

Plain = dict[str, Any]


def inspection_data(recording: Recording) -> dict[str, Plain]:
    """Every break by its link key: reason, place, stack, what the resume functions receive, their code beside the original."""
    return {
        links.break_key(position): _break(recording, event)
        for position, event in recording.besides_steps
        if isinstance(event, ev.GraphBroke)
    }


def inspection(recording: Recording, broke: ev.GraphBroke) -> str:
    """The same as text: the report, stack and locals, and for each resume function what it received and its code."""
    parts = [text.break_details(recording, broke)]
    for resume in recording.of_frame(broke.frame, ev.ResumeFunctionCreated):
        received = ", ".join(f"{name} = {value or '?'}" for name, value in _received(recording, resume))
        table = text.table(("offset", "original", "resume", "instruction", "role"), _aligned_rows(recording, resume))
        parts.append(f"{resume.name} received {received}\n{table}")
    return "\n\n".join(parts)


def _break(recording: Recording, broke: ev.GraphBroke) -> Plain:
    return {
        "kind": broke.kind,
        "title": broke.title,
        "reason": broke.reason,
        "why": broke.why,
        "fix": broke.fix,
        "fundamental": int(broke.fundamental),
        "then": text.what_then(recording, broke),
        "facts": [{"name": name, "text": fact} for name, fact in broke.facts],
        "places": [_place(frame) for frame in reversed(broke.user_stack)],
        "stack": [{"name": str(slot), "kind": view.kind, "value": _value(view)} for slot, view in enumerate(broke.stack)],
        "locals": [{"name": name, "kind": view.kind, "value": _value(view)} for name, view in broke.live_locals],
        "resume": [_resume(recording, resume) for resume in recording.of_frame(broke.frame, ev.ResumeFunctionCreated)],
    }


def _place(frame: ev.UserFrame) -> Plain:
    """A level of the user's stack: its line, and from which to which character it is about (0, 0: unknown)."""
    begin, end = ev.letters(frame.code, frame.column), ev.letters(frame.code, frame.end_column)
    has_columns = 0 <= frame.column < frame.end_column and bool(frame.code.strip())
    return {"place": frame.place, "code": frame.code, "from": begin if has_columns else 0, "to": end if has_columns else 0}


def _value(view: ev.ValueView) -> str:
    origin = view.node or view.source
    return f"{origin}: {view.text}" if origin and origin != view.text else view.text


# -- resume functions --------------------------------------------------------------------------------------------


def _resume(recording: Recording, resume: ev.ResumeFunctionCreated) -> Plain:
    """Its rows stand with its frame, those that it continues with the code object `code`: the browser lays them side by side."""
    received = [{"name": name, "value": value} for name, value in _received(recording, resume)]
    where = goes_on(resume.code, resume.offset)
    return {"name": resume.name, "where": where, "offset": resume.offset, "code": resume.code.resumes, "received": received}


def _continued(recording: Recording, resume: ev.ResumeFunctionCreated) -> ev.CodeView | None:
    return recording.codes.get(resume.code.resumes)


def _received(recording: Recording, resume: ev.ResumeFunctionCreated) -> list[tuple[str, str]]:
    """Each parameter, and what it was when the function ran for the first time ("" where it never ran, or was not seen)."""
    ran = next((entered for entered in recording.frames if entered.code.id == resume.code.id), None)
    values = {name: view.text for name, view in ran.arguments} if ran is not None else {}
    return [(name, values.get(name, "")) for name in resume.parameters]


def _aligned_rows(recording: Recording, resume: ev.ResumeFunctionCreated) -> list[tuple[str, str, str, str, str]]:
    """The resume function from its beginning, each row with the original one that it continues.

    [original offset, original instruction, offset, instruction, role]. What stands before the place where it goes on is left
    out: only a jump back leads there.
    """
    code = _continued(recording, resume)
    originals = {row.offset: row for row in code.rows} if code is not None else {}
    rows = []
    for row in resume.code.rows:
        original = originals.get(row.origin) if row.role == "original" else None
        if row.role == "original" and row.origin < resume.offset:
            continue
        original_cells = (str(original.offset), _instruction(original)) if original is not None else ("", "")
        rows.append((*original_cells, str(row.offset), _instruction(row), "the same" if original is not None else row.role))
    return rows


def _instruction(row: ev.ListingRow) -> str:
    return f"{row.op} {row.arg}".rstrip()
