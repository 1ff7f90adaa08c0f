"""The graph-break inspector: everything known about a break, collected for a person who wants to remove it.

The idea: the facts about a break are spread over many records: the report, the symbolic stack and locals before the
instruction, the resume functions, and the frames in which these ran, with their real arguments. Here they are combined, and
each resume function is aligned with the instructions that it continues.

In: a Recording. Out: `inspection_data(recording)`: break key -> its parts, for the browser; `inspection(recording, broke)` as
text. PyTorch's counterpart: none.
"""

from __future__ import annotations

from typing import Any

from dynexplore.engine import events as ev
from dynexplore.recording.recording import Recording
from dynexplore.views import links, text
from dynexplore.views.names import goes_on

Plain = dict[str, Any]


def inspection_data(recording: Recording) -> dict[str, Plain]:
    """Every break by its link key: reason, location, stack, arguments of the resume functions, their code aligned with the
    original.
    """
    return {
        links.break_key(position): _break(recording, event)
        for position, event in recording.besides_steps
        if isinstance(event, ev.GraphBroke)
    }


def inspection(recording: Recording, broke: ev.GraphBroke) -> str:
    """The same as text: the report, stack and locals, and for each resume function its arguments and its code."""
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
    """An entry of the user stack: its line, and the first and last column of the expression (0, 0: unknown)."""
    begin, end = ev.letters(frame.code, frame.column), ev.letters(frame.code, frame.end_column)
    has_columns = 0 <= frame.column < frame.end_column and bool(frame.code.strip())
    return {"place": frame.place, "code": frame.code, "from": begin if has_columns else 0, "to": end if has_columns else 0}


def _value(view: ev.ValueView) -> str:
    origin = view.node or view.source
    return f"{origin}: {view.text}" if origin and origin != view.text else view.text


# -- resume functions --------------------------------------------------------------------------------------------


def _resume(recording: Recording, resume: ev.ResumeFunctionCreated) -> Plain:
    """A resume function: its rows are those of its frame, the rows that it continues are those of code object `code`; the browser
    aligns them.
    """
    received = [{"name": name, "value": value} for name, value in _received(recording, resume)]
    where = goes_on(resume.code, resume.offset)
    return {"name": resume.name, "where": where, "offset": resume.offset, "code": resume.code.resumes, "received": received}


def _continued(recording: Recording, resume: ev.ResumeFunctionCreated) -> ev.CodeView | None:
    return recording.codes.get(resume.code.resumes)


def _received(recording: Recording, resume: ev.ResumeFunctionCreated) -> list[tuple[str, str]]:
    """Each parameter, and its value when the function ran for the first time ("" if it never ran, or was not recorded)."""
    ran = next((entered for entered in recording.frames if entered.code.id == resume.code.id), None)
    values = {name: view.text for name, view in ran.arguments} if ran is not None else {}
    return [(name, values.get(name, "")) for name in resume.parameters]


def _aligned_rows(recording: Recording, resume: ev.ResumeFunctionCreated) -> list[tuple[str, str, str, str, str]]:
    """The rows of the resume function, each with the original row that it continues.

    [original offset, original instruction, offset, instruction, role]. Rows before the resume point are omitted: they are
    reachable only by a backward jump.
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
