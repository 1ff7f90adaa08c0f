"""Serializable views of code objects: location, source lines, rows with source positions, canonical steps and roles.

The idea: events show code but hold no code object, which would keep the user's code alive. One function makes the record of any
code object: of a user's function (with the canonical steps that each row is lowered to), of modified code (with the role of each
row and the original instruction it comes from) and of a resume function (also with the code that it resumes). The record is cached
per code object, and is only made while a recording is active.

In:  a code object.
Out: `code_view(code)`, an events.CodeView; `keep_source(code)` before the file is edited; `step_text(step)` for single steps.

PyTorch's counterpart: `format_bytecode` in torch/_dynamo/utils.py, which returns text.
"""

from __future__ import annotations

import functools
import itertools
import linecache
import weakref
from types import CodeType
from typing import Any

from dynexplore.engine.bytecode import Instruction, ParsedCode, Step, name_of_code, read
from dynexplore.engine.bytecode.listing import offset_of, operand_text
from dynexplore.engine.display_paths import shown_file
from dynexplore.engine.events import CodeView, ListingRow, StepView, safe_repr
from dynexplore.engine.translate.resume import original_of

_ids = itertools.count(1)
#: id of a code object -> (the code object, its record): ids are reused, so the weak reference checks that it is alive
_views: dict[int, tuple[weakref.ref[CodeType], CodeView]] = {}
#: the same for code whose record is made later: the lines of its file, as they were
_lines: dict[int, tuple[weakref.ref[CodeType], list[str]]] = {}


def code_view(code: CodeType) -> CodeView:
    """The record of a code object; the same record for the same code object.

    >>> view = code_view(code_view.__code__)
    >>> view.qualname, view.rows[-1].op, view.source.splitlines()[0]
    ('code_view', 'RETURN_VALUE', 'def code_view(code: CodeType) -> CodeView:')
    """
    key = id(code)
    cached = _views.get(key)
    if cached is None or cached[0]() is not code:
        cached = _views[key] = (weakref.ref(code, functools.partial(_views.pop, key)), _make(code))
    return cached[1]


def bare_view(code: CodeType) -> CodeView:
    """A record of code that cannot be read: name and location, without source and rows.

    >>> bare_view(bare_view.__code__).qualname, bare_view(bare_view.__code__).rows
    ('bare_view', ())
    """
    return CodeView(next(_ids), name_of_code(code), shown_file(code.co_filename), code.co_firstlineno, "", ())


def keep_source(code: CodeType) -> None:
    """Save the current source of a code object for a record that is made later, when the file may have been edited.

    >>> keep_source(keep_source.__code__)
    >>> code_view(keep_source.__code__).source.splitlines()[0]
    'def keep_source(code: CodeType) -> None:'
    """
    key = id(code)
    cached = _views.get(key, _lines.get(key))
    if cached is None or cached[0]() is not code:
        _lines[key] = weakref.ref(code, functools.partial(_lines.pop, key)), _lines_of_file(code, None)


def _source(code: CodeType) -> str:
    key = id(code)
    noted_lines = _lines.pop(key, None)
    return source_of(code) if noted_lines is None or noted_lines[0]() is not code else _source_in(noted_lines[1], code)


def _make(code: CodeType) -> CodeView:
    parsed = read(code)
    original = original_of(code)
    return CodeView(
        id=next(_ids),
        # a resume function has the name of the function that it resumes, for tracebacks; views show a distinct name
        qualname=name_of_code(code),
        file=shown_file(code.co_filename),
        first_line=code.co_firstlineno,
        source=_source(code),
        rows=_rows(parsed),
        resumes=-1 if original is None else code_view(original).id,
    )


def _rows(parsed: ParsedCode) -> tuple[ListingRow, ...]:
    targets = {id(instruction.jump_target) for instruction in parsed.instructions if instruction.jump_target is not None}
    steps: dict[int, list[StepView]] = {}
    for step in parsed.steps:
        steps.setdefault(id(step.origin), []).append(StepView(step.index, step.op, step_text(step)))
    return tuple(
        _row(instruction, id(instruction) in targets, tuple(steps.get(id(instruction), ()))) for instruction in parsed.instructions
    )


def _row(instruction: Instruction, is_target: bool, steps: tuple[StepView, ...]) -> ListingRow:
    line, end_line, column, end_column = instruction.position or (None, None, None, None)
    return ListingRow(
        offset=offset_of(instruction),
        op=instruction.opname,
        arg=operand_text(instruction),
        line=line or 0,
        end_line=end_line or 0,
        column=-1 if column is None else column,
        end_column=-1 if end_column is None else end_column,
        target=-1 if instruction.jump_target is None else offset_of(instruction.jump_target),
        is_target=is_target,
        steps=steps,
        role=instruction.role,
        origin=-1 if instruction.origin is None else offset_of(instruction.origin),
    )


def step_text(step: Step) -> str:
    """The operand of a canonical instruction as readable text.

    >>> [f"{step.op} {step_text(step)}" for step in read((lambda x: x + 1).__code__).steps][:3]
    ['LOAD_FAST x', 'LOAD_CONST 1', 'BINARY_OP +']
    """
    if step.target >= 0:
        return f"to step {step.target}"
    if step.arg is None and step.op != "LOAD_CONST":
        return ""
    if step.op == "CALL":
        return _call_text(*step.arg)
    if isinstance(step.arg, CodeType):
        return f"<code {name_of_code(step.arg)}>"
    return step.arg if isinstance(step.arg, str) and step.op != "LOAD_CONST" else safe_repr(step.arg, 80)


def _call_text(count: int, names: tuple[str, ...]) -> str:
    """How many arguments a call has, and the names of the last of them: "1", "3 (dim=, out=)"."""
    return f"{count} ({', '.join(f'{name}=' for name in names)})" if names else str(count)


def source_of(code: CodeType, namespace: dict[str, Any] | None = None) -> str:
    """The source lines of a code object, from its first line to the last line of an instruction; "" if unknown.

    Lines come from `linecache`, which also covers notebook cells and REPLs. `namespace` is the module's globals, which hold the
    loader of a zipped module.
    """
    return _source_in(_lines_of_file(code, namespace), code)


def _lines_of_file(code: CodeType, namespace: dict[str, Any] | None) -> list[str]:
    linecache.checkcache(code.co_filename)  # a module may have been edited and reloaded: cached lines belong to old code
    return linecache.getlines(code.co_filename, namespace)


def _source_in(lines: list[str], code: CodeType) -> str:
    ends = [end for _, end, _, _ in code.co_positions() if end is not None]
    return "".join(lines[code.co_firstlineno - 1 : max(ends, default=code.co_firstlineno)])
