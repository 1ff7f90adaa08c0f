"""Records of torch.compile's code objects: modified code, and resume functions aligned with the code that they continue.

The idea: the views show where a resume function continues and which of its instructions are the body of the original, which this
engine knows because it generates both. torch stores neither in a readable form, so both are derived from the instructions: the body
is the part equal to the end of the original, and the target of the jump in front of it is the resume point. If the two cannot be
aligned, the rows have no origin, and their steps are not linked.

In: code objects.
Out: `Codes`: `view_of(code)`, `modified_view(code)`, `described_rows(code)`, created on demand, and `keep(code)` for what they
     need; `resume_codes(code, globals)`.

PyTorch's counterpart: torch/_dynamo/resume_execution.py, which generates resume functions.
"""

from __future__ import annotations

import dataclasses
import types
from collections.abc import Callable, Iterator, Mapping
from typing import Any, cast

from dynexplore.engine import events as ev
from dynexplore.engine.translate.code_views import bare_view, code_view, keep_source
from dynexplore.traces import torch_words
from dynexplore.watching import private_torch
from dynexplore.watching.safe_reads import ABSENT, SafeReads

Rows = Mapping[int, ev.ListingRow]


class Codes:
    """The views of the code objects of one watch, each created once, on demand; `keep` saves what may change later."""

    def __init__(self, looks: SafeReads) -> None:
        self._looks = looks
        # by identity, because equal code objects compare equal; each value holds its code, so that no id is reused
        self._originals: dict[int, tuple[types.CodeType, types.CodeType | None]] = {}
        self._views: dict[int, ev.CodeView] = {}
        self._continued: dict[int, Rows] = {}
        self._own: dict[int, Rows] = {}
        self._written: dict[int, Mapping[int, private_torch.Written]] = {}

    def keep(self, code: types.CodeType) -> types.CodeType | None:
        """Save the current source of some code, and return the code that it continues."""
        entry = self._originals.get(id(code))
        if entry is None:
            original = cast("types.CodeType | None", self._look(private_torch.original_of, code))
            entry = self._originals[id(code)] = code, original
            keep_source(code)
            if original is not None:
                self.keep(original)
        return entry[1]

    def view_of(self, code: types.CodeType) -> ev.CodeView:
        """The record of a compiled function; for a resume function with the origin of its rows."""
        return self._view(code, self._make)

    def modified_view(self, code: types.CodeType) -> ev.CodeView:
        """The record of code that torch.compile generated: which rows call a graph and which call a resume function."""
        return self._view(code, _with_roles)

    def _view(self, code: types.CodeType, make: Callable[[types.CodeType], ev.CodeView]) -> ev.CodeView:
        self.keep(code)
        view = self._views.get(id(code))
        if view is None:
            view = self._views[id(code)] = self._looks(make, code) or bare_view(code)
        return view

    def _make(self, code: types.CodeType) -> ev.CodeView:
        view, original, continued = code_view(code), self.keep(code), self._rows_of_original(code)
        if original is None or continued is None:
            return view
        jump = max((row.offset for row in view.rows if row.offset not in continued and row.target in continued), default=-1)
        rows = tuple(_row(row, continued, jump) for row in view.rows)
        name = torch_words.plain_function(code.co_name)
        qualname = f"{name} (resumed at line {code.co_firstlineno})"
        return dataclasses.replace(view, rows=rows, resumes=code_view(original).id, qualname=qualname)

    def own_rows(self, code: types.CodeType) -> Rows:
        """Offset of an instruction of torch -> the row of the code that it corresponds to."""
        self.keep(code)
        rows = self._own.get(id(code))
        if rows is None:
            rows = self._own[id(code)] = self._look(lambda: private_torch.own_rows(code, code_view(code).rows)) or {}
        return rows

    def described_rows(self, code: types.CodeType) -> Rows:
        """Offset of an instruction of torch -> the row that is shown: for a resume function, that of the code it continues."""
        own, continued = self.own_rows(code), self._rows_of_original(code)
        if continued is None:
            return own
        return {offset: continued[row.offset] for offset, row in own.items() if row.offset in continued}

    def written(self, code: types.CodeType) -> Mapping[int, private_torch.Written]:
        """Offset of an instruction of torch -> its name and operand."""
        self.keep(code)
        words = self._written.get(id(code))
        if words is None:
            words = self._written[id(code)] = self._look(private_torch.written_in, code) or {}
        return words

    def is_resume(self, code: types.CodeType) -> bool:
        """Whether torch generated this code to resume after a graph break."""
        return self.keep(code) is not None

    def _rows_of_original(self, code: types.CodeType) -> Rows | None:
        """Offset in a resume function -> the row of the code that it continues; None for any other code."""
        original = self.keep(code)
        if original is None:
            return None
        if id(code) not in self._continued:
            self._continued[id(code)] = (
                self._look(lambda: private_torch.rows_of_original(code_view(code).rows, original, code_view(original).rows)) or {}
            )
        return self._continued[id(code)]

    def _look(self, look: Callable[..., Any], *args: Any) -> Any:
        """The result of a read, or None if it fails: then rows have no origin, which is visible; a missing name is reported
        elsewhere.
        """
        try:
            return look(*args)
        except ABSENT:
            return None


def _row(row: ev.ListingRow, continued: Rows, jump: int) -> ev.ListingRow:
    if row.offset in continued:
        return dataclasses.replace(row, role="original", origin=continued[row.offset].offset)
    return dataclasses.replace(row, role="resume", origin=continued[row.target].offset if row.offset == jump else -1)


def _with_roles(code: types.CodeType) -> ev.CodeView:
    view = code_view(code)
    role = ""
    rows = []
    for row in view.rows:
        if "__compiled_fn" in row.arg:
            role = "call graph"
        elif "__resume_at" in row.arg:
            role = "resume"
        elif row.op == "RETURN_VALUE":
            role = "return"
        rows.append(dataclasses.replace(row, role=role))
        if role == "call graph" and row.op.startswith("CALL"):
            role = ""
    return dataclasses.replace(view, rows=tuple(rows))


def resume_codes(code: types.CodeType, names: Mapping[str, Any]) -> Iterator[tuple[str, types.CodeType]]:
    """The resume functions that modified code calls: global functions, or closures that it creates from a constant."""
    for name in code.co_names:
        if name.startswith("__resume_at") and isinstance(function := names.get(name), types.FunctionType):
            yield name, function.__code__
    for constant in code.co_consts:
        if isinstance(constant, types.CodeType) and constant.co_name.startswith("torch_dynamo_resume_in"):
            yield constant.co_name, constant
